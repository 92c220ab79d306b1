"""What the offline backend says, in the language the person wrote in.

That language may differ from the one the admin is shown in, so these texts do not go through the message
catalogues. Counted nouns are always "record": a model has no genitive plural to offer.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..base import ModelReply
from .words import Intent, Language

TEXTS: Mapping[Language, Mapping[str, str]] = {
    "en": {
        "intro": "This is the offline demonstration: no model is asked. I understand simple sentences.",
        "offer": "Here you can use:",
        "example": "For example: “Show the latest {nouns}”.",
        "nothing_offered": "There is nothing that you may use here.",
        "not_allowed": "You may not do that here ({verb}: {nouns}).",
        "unknown_noun": "I found nothing called “{words}” that you may use here.",
        "nothing_so_called": "There is nothing of that name here that you may {verb}.",
        "unread": "I did not understand “{words}”, so I did nothing.",
        "search_by": "You can search {nouns} by: {fields}.",
        "fill_in": "You can fill in: {fields}.",
        "bad_value": "I can't read “{text}” as {field}.",
        "bad_date": "Write the date as year-month-day, for example 2026-12-01.",
        "choices": "Possible values: {choices}.",
        "none": "I found nothing: {nouns}.",
        "searched": "Searched for: {conditions}.",
        "more": "There are more.",
        "no_more": "There are no more ({nouns}).",
        "error": "That did not work: {message}",
        "error_not_found": "There is no such record that you may see here.",
        "error_not_allowed": "You may not do that with this record.",
        "error_not_available": "That page can't be opened from here.",
        "error_not_fillable": "You can't fill that in on this record.",
        "several_related": "Several records are called “{text}”. Which one is meant for {field}?",
        "no_record": "I found no record called “{text}” ({nouns}).",
        "no_related": "I found no “{text}” for {field}.",
        "which_target": "Which record is meant ({nouns})? Give its id or its name.",
        "several": "Several records are called “{text}” ({nouns}). Which one is meant?",
        "similar": "I found no record called exactly “{text}” ({nouns}). Is it one of these?",
        "which_related": "I found no {what}. What is meant? You can also leave it out.",
        "leave_out": "Leave it out",
        "ready": "The page is ready.",
        "not_here": "That can't be asked here ({verb}: {nouns}).",
        "history": "The history is in the table: who changed what, and when.",
        "no_action": "There is no such action for {nouns} here.",
        "shown_only": "Only you see this in the table; it was not sent to me: {fields}.",
        "which_row": "Several records were shown. Which one? For example: “the second one”.",
        "unclear_before": "I don't know what to go on with. Say the whole question again, please.",
        "there_are": "There are {count} {nouns}.",
        "there_is": "There is 1 {noun}.",
        "more_than": "There are more than {count} {nouns}.",
        "period": "{field}: {ends}.",
        "from": "from {value}",
        "before": "before {value}",
        "after": "after {value}",
        "up_to": "up to {value}",
        "more_groups": "There are more groups; these come first.",
        "no_groups": "There is nothing to add up: {nouns}.",
        "nothing_named": "none",
        "op_count": "count",
        "op_sum": "sum",
        "op_avg": "average",
        "op_min": "lowest",
        "op_max": "highest",
        "tool_executed": "Done: you confirmed it.",
        "tool_rejected": "All right, I leave it.",
        "tool_uncertain": "Nobody knows yet whether it was done. It can be tried again on its page.",
        "tool_other": "It was not done.",
        "tool_missing": "I also need: {names}.",
        "tool_offer": "Or write the name of a task and what it needs, for example:",
    },
    "pl": {
        "intro": "To jest pokaz bez sieci: żaden model nie jest pytany. Rozumiem proste zdania.",
        "offer": "Tutaj możesz użyć:",
        "example": "Na przykład: „Pokaż ostatnie {nouns}”.",
        "nothing_offered": "Nie ma tu nic, czego możesz użyć.",
        "not_allowed": "Nie wolno ci tutaj tego zrobić ({verb}: {nouns}).",
        "unknown_noun": "Nie mam niczego o nazwie „{words}”, czego możesz tu użyć.",
        "nothing_so_called": "Nie ma tu niczego o takiej nazwie, co możesz {verb}.",
        "unread": "Nie rozumiem słów „{words}”, więc nic nie zostało zrobione.",
        "search_by": "Możesz szukać ({nouns}) według: {fields}.",
        "fill_in": "Możesz wypełnić: {fields}.",
        "bad_value": "Nie umiem odczytać „{text}” jako wartości pola {field}.",
        "bad_date": "Napisz datę jako rok-miesiąc-dzień, na przykład 2026-12-01.",
        "choices": "Możliwe wartości: {choices}.",
        "none": "Nic nie ma: {nouns}.",
        "searched": "Szukano: {conditions}.",
        "more": "Jest ich więcej.",
        "no_more": "Więcej nie ma ({nouns}).",
        "error": "To się nie udało: {message}",
        "error_not_found": "Nie ma tu takiego rekordu, który możesz zobaczyć.",
        "error_not_allowed": "Nie wolno ci tego zrobić z tym rekordem.",
        "error_not_available": "Tej strony nie można stąd otworzyć.",
        "error_not_fillable": "Nie możesz tego wypełnić w tym rekordzie.",
        "several_related": "Jest kilka rekordów „{text}”. Który wpisać w pole {field}?",
        "no_record": "Nie ma rekordu „{text}” ({nouns}).",
        "no_related": "Nie ma „{text}” dla pola {field}.",
        "which_target": "O który rekord chodzi ({nouns})? Podaj jego id albo nazwę.",
        "several": "Jest kilka rekordów „{text}” ({nouns}). O który chodzi?",
        "similar": "Nie ma rekordu dokładnie „{text}” ({nouns}). Czy to jeden z tych?",
        "which_related": "Nie ma tu: {what}. Co wpisać? Można to też pominąć.",
        "leave_out": "Pomiń to",
        "ready": "Strona jest gotowa.",
        "not_here": "O to nie można tu zapytać ({verb}: {nouns}).",
        "history": "Historia jest w tabeli: kto co zmienił i kiedy.",
        "no_action": "Nie ma tu takiej akcji ({nouns}).",
        "shown_only": "To widzisz w tabeli tylko ty, do mnie nie zostało wysłane: {fields}.",
        "which_row": "Pokazano kilka rekordów. O który chodzi? Na przykład: „drugi”.",
        "unclear_before": "Nie wiem, do czego to się odnosi. Powtórz proszę całe pytanie.",
        "there_are": "Znaleziono ({nouns}): {count}.",
        "there_is": "Znaleziono ({noun}): 1.",
        "more_than": "Znaleziono ({nouns}): więcej niż {count}.",
        "period": "{field}: {ends}.",
        "from": "od {value}",
        "before": "przed {value}",
        "after": "po {value}",
        "up_to": "do {value}",
        "more_groups": "Grup jest więcej; te są pierwsze.",
        "no_groups": "Nie ma czego zsumować: {nouns}.",
        "nothing_named": "brak",
        "op_count": "liczba",
        "op_sum": "suma",
        "op_avg": "średnia",
        "op_min": "najmniej",
        "op_max": "najwięcej",
        "tool_executed": "Zrobione: potwierdzono.",
        "tool_rejected": "Dobrze, zostawiam to.",
        "tool_uncertain": "Jeszcze nie wiadomo, czy to zrobiono. Na stronie tej propozycji można spróbować ponownie.",
        "tool_other": "Nie zrobiono tego.",
        "tool_missing": "Potrzebuję jeszcze: {names}.",
        "tool_offer": "Możesz też napisać nazwę zadania i to, czego wymaga, na przykład:",
    },
    "ru": {
        "intro": "Это показ без сети: никакая модель не спрашивается. Я понимаю простые предложения.",
        "offer": "Здесь можно использовать:",
        "example": "Например: «Покажи последние {nouns}».",
        "nothing_offered": "Здесь нет ничего, чем вы можете пользоваться.",
        "not_allowed": "Здесь вам нельзя это делать ({verb}: {nouns}).",
        "unknown_noun": "Я не знаю ничего с названием «{words}», чем вы можете здесь пользоваться.",
        "nothing_so_called": "Здесь нет ничего с таким названием, что вам можно {verb}.",
        "unread": "Я не понимаю слова «{words}», поэтому ничего не сделано.",
        "search_by": "Можно искать ({nouns}) по полям: {fields}.",
        "fill_in": "Можно заполнить: {fields}.",
        "bad_value": "Я не могу прочитать «{text}» как значение поля {field}.",
        "bad_date": "Напишите дату как год-месяц-день, например 2026-12-01.",
        "choices": "Возможные значения: {choices}.",
        "none": "Ничего нет: {nouns}.",
        "searched": "Искали: {conditions}.",
        "more": "Есть ещё.",
        "no_more": "Больше нет ({nouns}).",
        "error": "Не получилось: {message}",
        "error_not_found": "Здесь нет такой записи, которую вам можно видеть.",
        "error_not_allowed": "Вам нельзя это делать с этой записью.",
        "error_not_available": "Эту страницу отсюда открыть нельзя.",
        "error_not_fillable": "Вам нельзя заполнить это в этой записи.",
        "several_related": "Есть несколько записей «{text}». Какую указать в поле {field}?",
        "no_record": "Нет записи «{text}» ({nouns}).",
        "no_related": "Нет «{text}» для поля {field}.",
        "which_target": "Какая запись имеется в виду ({nouns})? Назовите её id или имя.",
        "several": "Есть несколько записей «{text}» ({nouns}). Какая имеется в виду?",
        "similar": "Нет записи точно «{text}» ({nouns}). Это одна из этих?",
        "which_related": "Здесь нет: {what}. Что указать? Это можно и пропустить.",
        "leave_out": "Пропустить это",
        "ready": "Страница готова.",
        "not_here": "Об этом здесь нельзя спросить ({verb}: {nouns}).",
        "history": "История в таблице: кто, что и когда изменил.",
        "no_action": "Здесь нет такого действия ({nouns}).",
        "shown_only": "Это видите в таблице только вы, мне это не отправлено: {fields}.",
        "which_row": "Показано несколько записей. Какая имеется в виду? Например: «вторая».",
        "unclear_before": "Я не знаю, к чему это относится. Повторите, пожалуйста, вопрос целиком.",
        "there_are": "Найдено ({nouns}): {count}.",
        "there_is": "Найдено ({noun}): 1.",
        "more_than": "Найдено ({nouns}): больше {count}.",
        "period": "{field}: {ends}.",
        "from": "с {value}",
        "before": "до {value}",
        "after": "после {value}",
        "up_to": "по {value}",
        "more_groups": "Групп больше; это первые.",
        "no_groups": "Складывать нечего: {nouns}.",
        "nothing_named": "пусто",
        "op_count": "количество",
        "op_sum": "сумма",
        "op_avg": "среднее",
        "op_min": "наименьшее",
        "op_max": "наибольшее",
        "tool_executed": "Готово: вы подтвердили.",
        "tool_rejected": "Хорошо, оставляю как есть.",
        "tool_uncertain": "Пока неизвестно, сделано ли это. На странице предложения можно попробовать ещё раз.",
        "tool_other": "Это не сделано.",
        "tool_missing": "Мне нужно ещё: {names}.",
        "tool_offer": "Или напишите название задачи и то, что для неё нужно, например:",
    },
}

VERB_NAMES: Mapping[Language, Mapping[Intent, str]] = {
    "en": {
        "query": "show",
        "create": "add",
        "change": "change",
        "delete": "delete",
        "count": "count",
        "summary": "add up",
        "history": "history",
        "list": "list",
    },
    "pl": {
        "query": "pokazać",
        "create": "dodać",
        "change": "zmienić",
        "delete": "usunąć",
        "count": "policzyć",
        "summary": "zsumować",
        "history": "historia",
        "list": "lista",
    },
    "ru": {
        "query": "показать",
        "create": "добавить",
        "change": "изменить",
        "delete": "удалить",
        "count": "сосчитать",
        "summary": "сложить",
        "history": "история",
        "list": "список",
    },
}

_RECORDS: Mapping[Language, tuple[str, ...]] = {
    "en": ("record", "records"),
    "pl": ("rekord", "rekordy", "rekordów"),
    "ru": ("запись", "записи", "записей"),
}


def say(language: Language, key: str, **values: object) -> str:
    """Return a text of the tables, filled in."""
    return TEXTS[language][key].format(**values)


def plural(language: Language, count: int) -> int:
    """Return which plural form a count takes: an index into a language's forms."""
    if language == "en":
        return 0 if count == 1 else 1
    few = count % 10 in (2, 3, 4) and count % 100 not in (12, 13, 14)
    one = count == 1 if language == "pl" else count % 10 == 1 and count % 100 != 11
    return 0 if one else 1 if few else 2


def counted(language: Language, count: int, *, noun: str, nouns: str) -> str:
    """Return a sentence that says how many records there are; ``noun`` and ``nouns`` name them."""
    if language == "en":
        return f"Here is 1 {noun}." if count == 1 else f"Here are {count} {nouns}."
    return f"{capital(nouns)}: {count} {_RECORDS[language][plural(language, count)]}."


def quoted(language: Language, text: str) -> str:
    """Return text in the language's quotation marks."""
    opening, closing = {"en": ("“", "”"), "pl": ("„", "”"), "ru": ("«", "»")}[language]
    return f"{opening}{text}{closing}"


def capital(text: str) -> str:
    """Return text with its first letter as a capital."""
    return text[:1].upper() + text[1:]


def text_reply(*lines: str) -> ModelReply:
    """Return a reply that says lines, without empty ones."""
    text = "\n".join(line for line in lines if line)
    # What can't be stored or sent as UTF-8 is not repeated.
    return ModelReply(text=text.encode("utf-8", "replace").decode("utf-8"), model="offline")
