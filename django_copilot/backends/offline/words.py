"""The words the offline backend knows in each language, as tables to read and to add to.

Words are folded when the tables are loaded: lower case, no diacritics. A word with ``*`` at its end stands
for every word that starts so, which is how Polish and Russian endings are met. Nouns are not here: they
come from the models.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from .tokens import Token, fold

Language = Literal["en", "pl", "ru"]
Intent = Literal["query", "create", "change", "delete"]

LANGUAGES: tuple[Language, ...] = ("en", "pl", "ru")


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
            "wyszukaj poszukaj podaj daj zobacz zobaczyć jakie które"
        ),
        "create": Words("dodaj dodać utwórz utworzyć stwórz stworzyć załóż założyć wprowadź nowy nowa nowe"),
        "change": Words("zmień zmienić ustaw ustawić zaktualiz* edytuj* popraw* zmodyfik* otwórz oznacz"),
        "delete": Words("usuń usunąć skasuj skasować wykasuj wykasować"),
    },
    "ru": {
        "query": Words(
            "покажи* показать показывай выведи* вывести отобрази* список найди* найти ищи поищи* искать "
            "дай дайте какие какой"
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
        "list records entries store up some now kindly thanks thank hi hello"
    ),
    "pl": Words(
        "i oraz a z ze w we o od dla do na mi nam mój moje proszę gdzie który która których którzy które "
        "ma mają mieć jest są się to ten tego czy możesz chcę chciałbym listę lista rekordy teraz dzięki "
        "dziękuję mnie u"
    ),
    "ru": Words(
        "и а с со в во о от для до на из к мне нам мой мои пожалуйста где который которая которых которые "
        "есть это этот у ли можешь можете хочу список записи сейчас спасибо мной"
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

# Fields that tell one record from another, best first, and fields that tell a place.
NAME_FIELDS = ("title", "name", "label", "number", "code", "sku", "slug", "email", "username", "reference")
PLACE_FIELDS = ("city", "town", "place", "country")


def is_plain(token: Token) -> bool:
    """Tell whether a token carries no meaning in any of the languages."""
    if token.kind in ("mark", "possessive"):
        return True
    return token.kind == "word" and any(token.folded in PLAIN[language] for language in LANGUAGES)


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


def small_number(token: Token) -> int | None:
    """Return the count that a token writes in digits or as a word, 1 to 999."""
    if token.kind == "number" and token.text.isdecimal() and len(token.text) <= 3:
        return int(token.text) or None
    return next((n for n, words in enumerate(NUMBERS) if token.folded in words), None)
