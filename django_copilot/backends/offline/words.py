"""The words the offline backend knows in each language, as tables to read and to add to.

Words are folded when the tables are loaded: lower case, no diacritics. A word with ``*`` at its end stands
for every word that starts so, which is how Polish and Russian endings are met. Nouns are not here: they
come from the models.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal

from .tokens import Token, fold

Language = Literal["en", "pl", "ru"]
Intent = Literal["query", "create", "change", "delete", "count", "summary", "history", "list"]

LANGUAGES: tuple[Language, ...] = ("en", "pl", "ru")
FORMS: tuple[Intent, ...] = ("create", "change", "delete")  # the others only read, or open a list


class Words:
    """A set of words, some of them given by their beginning."""

    def __init__(self, text: str) -> None:
        folded = [fold(word) for word in text.split()]
        self.whole = frozenset(word for word in folded if not word.endswith("*"))
        self.starts = tuple(word[:-1] for word in folded if word.endswith("*"))

    def __contains__(self, word: str) -> bool:
        return word in self.whole or bool(self.starts and word.startswith(self.starts))


VERBS: Mapping[Language, Mapping[Intent, Words]] = {
    "en": {
        "query": Words("show list display find get give see view search look which what"),
        "create": Words("create add new insert register"),
        "change": Words("change set update modify edit rename correct open mark"),
        "delete": Words("delete remove erase"),
    },
    "pl": {
        "query": Words(
            "pokaż pokazać pokazuj wyświetl* wypisz wypisać lista listę znajdź znaleźć szukaj szukam "
            "wyszukaj poszukaj podaj daj zobacz zobaczyć jakie które jaki jaka"
        ),
        "create": Words("dodaj dodać utwórz utworzyć stwórz stworzyć załóż założyć wprowadź nowy nowa nowe"),
        "change": Words("zmień zmienić ustaw ustawić zaktualiz* edytuj* popraw* zmodyfik* otwórz oznacz"),
        "delete": Words("usuń usunąć skasuj skasować wykasuj wykasować"),
    },
    "ru": {
        "query": Words(
            "покажи* показать показывай выведи* вывести отобрази* список найди* найти ищи поищи* искать "
            "дай дайте какие какой какая какое"
        ),
        "create": Words("создай* создать добавь* добавить заведи* завести новый новая новое новую"),
        "change": Words(
            "измени* изменить поменяй* поменять смени* обнови* установи* исправь* исправить "
            "отредактируй* редактир* задай* открой* открыть отметь*"
        ),
        "delete": Words("удали* удалить сотри* стереть убери* убрать"),
    },
}

# Words that carry no meaning of their own here.
PLAIN: Mapping[Language, Words] = {
    "en": Words(
        "a an the of for me us my our please with where whose that who is are was be has have having and "
        "or in on at by from to as this these those it its there can could you would i want like need do "
        "list records entries store up some now kindly thanks thank hi hello we did do does been were still currently but"
    ),
    "pl": Words(
        "i oraz a z ze w we o od dla do na mi nam mój moje proszę gdzie który która których którzy które "
        "ma mają mieć jest są się to ten tego czy możesz chcę chciałbym listę lista rekordy teraz dzięki "
        "dziękuję mnie u mamy było była były obecnie jeszcze nas ale lecz"
    ),
    "ru": Words(
        "и а с со в во о от для до на из к мне нам мой мои пожалуйста где который которая которых которые "
        "есть это этот у ли можешь можете хочу список записи сейчас спасибо мной нас было были но"
    ),
}
LATEST = Words(
    "top latest last newest recent recently new first most ostatni* najnowsz* nowy nowa nowe nowych najświeższ* "
    "последн* новейш* новые новых новый новую недавн*"
)
ALL = Words("all every any wszystk* każd* все всех каждый")
# Between the name of a field and its value.
BECOMES = Words("to is as be = : - – — of na jest to wynosi równe równa на равно равна равен как это")
IS = Words("is be equals jest wynosi равно равна равен это")
JOINS = Words("and with for of in on from i oraz z ze dla w we o u и с со для у в")
POLITE = Words("please thanks proszę dziękuję пожалуйста спасибо")
CHANGES_TO = Words("to na на as jako как = : , ; ->")
# Where unquoted text of a condition ends.
CONDITION = Words("with where whose and from in z ze w we oraz i gdzie с со из в во и где у")
PLACE = Words("from in z ze w we из в во")
FROM = Words("from z ze с со из")
AND = Words("and i oraz a и , ; &")
INTO = Words("to into do na для к в")
RENAME = Words("rename")
ID_MARKS = Words("id # № no nr numer number номер ид identyfikator*")
NAMING = Words("called named name title nazwie nazwa nazwany nazwana tytule названием именем назван*")
BEFORE_MARKS = Words("with of o z ze pod с со под")
LIMIT = Words("limit")

YES = Words("yes true on y tak prawda да истина верно 1")
NO = Words("no false off n not nie fałsz нет ложь неверно 0")
LEAVE = Words("leave skip omit it them out pomiń pomijam to пропусти* это")

TODAY = Words("today dziś dzisiaj сегодня")
TOMORROW = Words("tomorrow jutro завтра")
MONTHS: tuple[Words, ...] = (
    Words("jan* stycz* янв*"),
    Words("feb* lut* фев*"),
    Words("march mar marc* marz* март*"),
    Words("apr* kwie* апр*"),
    Words("may maj* май* мая мае"),
    Words("jun* czerw* июн*"),
    Words("jul* lip* июл*"),
    Words("aug* sierp* авг*"),
    Words("sep* wrze* сент*"),
    Words("oct* paźdz* окт*"),
    Words("nov* listop* ноя*"),
    Words("dec* grud* дек*"),
)
NUMBERS: tuple[Words, ...] = (
    Words(""),
    Words("one jeden jedno jedną jedna один одну одно"),
    Words("two dwa dwie dwóch два две двух"),
    Words("three trzy trzech три трех"),
    Words("four cztery czterech четыре четырех"),
    Words("five pięć pięciu пять пяти"),
    Words("six sześć sześciu шесть шести"),
    Words("seven siedem siedmiu семь семи"),
    Words("eight osiem ośmiu восемь восьми"),
    Words("nine dziewięć dziewięciu девять девяти"),
    Words("ten dziesięć dziesięciu десять десяти"),
)

# -- what is asked for beyond exact filters ----------------------------------------------------------------

# Sequences of words are written with "_" between them; each part may end with "*".
COUNT = (
    "how_many",
    "number_of",
    "count",
    "ile",
    "ilu",
    "liczba",
    "liczbę",
    "policz",
    "сколько",
    "количество",
    "посчитай*",
    "число",
)
HISTORY = (
    *("who_changed", "who_edited", "who_modified", "who_updated", "what_changed", "history_of", "history"),
    *("kto_zmieni*", "kto_edytow*", "kto_poprawi*", "kto_modyfik*", "co_zmieni*", "histori*"),
    *("кто_измен*", "кто_менял*", "кто_поменя*", "кто_редактир*", "что_измен*", "истори*"),
)
OPEN = Words("open otwórz otworzyć открой* открыть")
A_LIST = Words("list listę lista список")
MARK = Words("mark tick select oznacz zaznacz отметь* пометь* выдели*")
AS = Words("as jako как")

AT_LEAST = (
    "at_least",
    "no_less_than",
    "since",
    "starting_from",
    "starting",
    "co_najmniej",
    "przynajmniej",
    "od",
    "począwszy_od",
)
AT_LEAST_TOO = ("с", "со", "начиная_с", "не_меньше", "не_менее", "минимум", "от")
MORE = (
    *(
        "over",
        "above",
        "more_than",
        "greater_than",
        "higher_than",
        "later_than",
        "dearer_than",
        "more_expensive_than",
        "after",
        ">",
    ),
    *(
        "powyżej",
        "ponad",
        "więcej_niż",
        "większ*_niż",
        "wyższ*_niż",
        "drożs*_niż",
        "drożs*_od",
        "późniejsz*_niż",
        "po",
    ),
    *("больше", "более", "свыше", "выше", "дороже", "позже", "после"),
)
LESS = (
    *("under", "below", "less_than", "lower_than", "cheaper_than", "earlier_than", "before", "<"),
    *(
        "poniżej",
        "mniej_niż",
        "mniejsz*_niż",
        "niższ*_niż",
        "tańs*_niż",
        "tańs*_od",
        "wcześniejsz*_niż",
        "przed",
    ),
    *("меньше", "менее", "ниже", "дешевле", "раньше", "перед"),
)
AT_MOST = (
    *("until", "till", "up_to", "at_most", "no_more_than", "through"),
    *("do", "najwyżej", "co_najwyżej", "maksymalnie", "nie_więcej_niż"),
    *("до", "не_больше", "не_более", "максимум", "по"),
)
DATES_ONLY = ("po", "с", "со", "по")  # too short and too common to lead to a plain number by themselves
BETWEEN = ("between", "from", "między", "pomiędzy", "od", "между", "с", "со", "от")
BETWEEN_AND = ("and", "to", "until", "till", "a", "i", "do", "и", "по", "до")
DURING = Words("in from of on during for within z ze w we na za podczas przez за в во на из от")
PLACED = Words(
    "place placed made created added ordered złożon* złożył* złożono utworzon* dodan* zrobion* zrobił* "
    "оформлен* оформил* сделан* сделал* создан* добавлен*"
)
COSTS = Words("cost costs costing priced kosztuj* kosztował* стоит стоят стоимост* ценой")
FILLERS = Words("the than niż od чем")

WITHOUT = ("without", "with_no", "missing", "bez", "без")
NOT = Words("not except nie oprócz poza кроме не")
EITHER = Words("or and lub albo i oraz bądź или либо и , /")

SORTED = (
    "sorted_by",
    "sort_by",
    "ordered_by",
    "sortowan*",
    "posortow*",
    "sortuj*",
    "uporządkow*",
    "отсортир*",
    "сортир*",
    "упорядоч*",
)
SORT_BY = Words("by według wg po по")
DESCENDING = Words("descending desc malejąc* убыванию убывающ*")
ASCENDING = Words("ascending asc rosnąc* возрастанию возрастающ*")
NEWEST = (
    "newest",
    "latest",
    "most_recent",
    "recent",
    "last",
    "najnowsz*",
    "ostatni*",
    "новейш*",
    "последн*",
    "самы*_новы*",
    "самых_новых",
    "недавн*",
)
OLDEST = ("oldest", "earliest", "najstarsz*", "старейш*", "самы*_стары*", "самых_старых")
DEAREST = ("most_expensive", "dearest", "priciest", "najdroższ*", "самы*_дорог*", "самую_дорог*")
CHEAPEST = ("cheapest", "least_expensive", "najtańsz*", "самы*_дешев*", "самую_дешев*")

SUMS: Mapping[str, tuple[str, ...]] = {
    "sum": ("sum", "total", "suma", "sumę", "sumy", "łączn*", "сумма", "сумму", "суммарн*", "общ*"),
    "avg": ("average", "mean", "średni*", "средн*"),
    "min": (
        "minimum",
        "lowest",
        "smallest",
        "najniższ*",
        "najmniejsz*",
        "минимальн*",
        "наименьш*",
        "самая_низкая",
    ),
    "max": (
        "maximum",
        "highest",
        "largest",
        "biggest",
        "najwyższ*",
        "największ*",
        "максимальн*",
        "наибольш*",
        "самая_высокая",
    ),
}
BY = (
    "by",
    "per",
    "for_each",
    "in_each",
    "for_every",
    "według",
    "wg",
    "po",
    "na",
    "dla_każde*",
    "w_każdy*",
    "co",
    "по",
    "на_каждый",
    "на_каждую",
    "за_каждый",
    "за_каждую",
    "в_каждом",
    "в_каждой",
    "для_кажд*",
)
EVERY: Mapping[str, Words] = {
    "day": Words("daily dziennie ежедневно"),
    "week": Words("weekly tygodniowo еженедельно"),
    "month": Words("monthly miesięcznie ежемесячно помесячно"),
}

ORDINALS: tuple[Words, ...] = (
    Words("first 1st pierwsz* перв*"),
    Words("second 2nd drugi* drugą drugą druga второй второго вторую вторая второе втором"),
    Words("third 3rd trzeci* третий третьего третью третья третье третьем"),
    Words(
        "fourth 4th czwarty czwarte czwarta czwartego czwartą czwartej четвертый четвертого четвертую четвертая четвертое"
    ),
    Words("fifth 5th piąty piąte piąta piątego piątą piątej пятый пятого пятую пятая пятое"),
    Words("sixth 6th szóst* шестой шестого шестую шестая шестое"),
    Words("seventh 7th siódm* седьм*"),
    Words("eighth 8th ósm* восьмой восьмого восьмую восьмая восьмое"),
    Words("ninth 9th dziewiąt* девятый девятого девятую девятая девятое"),
    Words("tenth 10th dziesiąt* десятый десятого десятую десятая десятое"),
)
LAST_ONE = Words(
    "last ostatni ostatnie ostatnia ostatniego ostatnią последний последнюю последнее последняя последнего"
)
THIS_ONE = Words("it its him his her hers tego tej jego jej tę go его ее ей ему этого этой него нее ней нему")
THEM = Words("they them these ich их")
ONE = Words("one ones")
MORE_ROWS = (
    *("more", "next", "next_page", "show_more", "show_me_more", "the_next_page", "the_next_ones", "go_on"),
    *(
        "dalej",
        "więcej",
        "następne",
        "następna_strona",
        "pokaż_więcej",
        "kolejne",
        "pokaż_następne",
        "jeszcze",
    ),
    *("еще", "дальше", "следующие", "следующая_страница", "покажи_еще", "покажи_следующие", "далее"),
)

# Fields that tell one record from another, best first, and fields that tell a place.
NAME_FIELDS = ("title", "name", "label", "number", "code", "sku", "slug", "email", "username", "reference")
PLACE_FIELDS = ("city", "town", "place", "country")


def is_plain(token: Token) -> bool:
    """Tell whether a token carries no meaning in any of the languages."""
    if token.kind in ("mark", "possessive"):
        return True
    return token.kind == "word" and is_plain_word(token.folded)


def is_plain_word(folded: str) -> bool:
    """Tell whether a folded word carries no meaning in any of the languages."""
    return any(folded in PLAIN[language] for language in LANGUAGES)


def verb_at(token: Token) -> tuple[Intent, Language] | None:
    """Return what a token asks for and in which language, if it is a verb of the tables."""
    if token.kind != "word":
        return None
    for language, intents in VERBS.items():
        for intent, words in intents.items():
            if token.folded in words:
                return intent, language
    return None


def language_of(
    tokens: Iterable[Token], *, fallback: Language = "en", nouns: Iterable[Language] = ()
) -> Language:
    """Return the language a sentence is written in.

    Its verbs and small words decide, then the ``nouns`` recognised in it, then its letters: names of
    people and places in a sentence may be of any language.
    """
    words = [token for token in tokens if token.kind == "word"]
    scores: dict[Language, int] = dict.fromkeys(LANGUAGES, 0)
    for token in words:
        verb = verb_at(token)
        if verb:
            scores[verb[1]] += 3
        for language in LANGUAGES:
            scores[language] += token.folded in PLAIN[language]
    for noun in nouns:
        scores[noun] += 2
    best = max(scores.values())
    leaders = [language for language in LANGUAGES if scores[language] == best]
    if len(leaders) == 1:
        return leaders[0]
    letters = "".join(token.text.lower() for token in words)
    cyrillic = sum("\u0400" <= letter <= "\u04ff" for letter in letters)
    if cyrillic * 2 > len(letters):
        return "ru"
    if any(letter in "ąćęłńóśźż" for letter in letters) and "pl" in leaders:
        return "pl"
    return fallback if fallback in leaders else leaders[0]


def said_at(tokens: Sequence[Token], at: int, sequences: Iterable[str]) -> int:
    """Return the length of the longest of the sequences of words that stands at a place, 0 if none does."""
    best = 0
    for parts in map(_parts, sequences):
        if len(parts) > best and at + len(parts) <= len(tokens):
            here = tokens[at : at + len(parts)]
            if all(
                token.folded.startswith(part) if start else token.folded == part
                for token, (part, start) in zip(here, parts, strict=True)
            ):
                best = len(parts)
    return best


@lru_cache
def fold_words(words: tuple[str, ...]) -> frozenset[str]:
    """Return words folded, to compare a token's with."""
    return frozenset(map(fold, words))


@lru_cache(maxsize=1024)
def _parts(sequence: str) -> tuple[tuple[str, bool], ...]:
    return tuple((fold(part.removesuffix("*")), part.endswith("*")) for part in sequence.split("_"))


def small_number(token: Token) -> int | None:
    """Return the count that a token writes in digits or as a word, 1 to 999."""
    if token.kind == "number" and token.text.isdecimal() and len(token.text) <= 3:
        return int(token.text) or None
    return next((n for n, words in enumerate(NUMBERS) if token.folded in words), None)
