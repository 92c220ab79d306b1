"""Cut a sentence into tokens and compare words regardless of case, diacritics and endings."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

Kind = Literal["word", "number", "date", "time", "quoted", "json", "possessive", "mark"]

_LONGEST = 8_000  # characters of a message that are read
_JSON_ATTEMPTS = 20  # brackets that may turn out not to be JSON before the rest is read as marks
_STRAIGHT = str.maketrans({"„": '"', "“": '"', "”": '"', "«": '"', "»": '"'})
_LETTERS = str.maketrans({"ł": "l", "đ": "d", "ø": "o", "æ": "ae", "œ": "oe", "ı": "i"})

_TOKEN = re.compile(
    r"""
      (?P<quoted> "[^"]*" | [„“][^„”"“]*[”"“] | «[^»]*» | ‘[^’]*’ | (?<!\w)'[^']+'(?!\w) | `[^`]+` )
    | (?P<email>  [\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64})+ )
    | (?P<date>   (?<![\w]) (?: [0-9]{4}-[0-9]{2}-[0-9]{2} (?=\D|$) | [0-9]{1,2}[./][0-9]{1,2}[./][0-9]{4} (?!\w) ) )
    | (?P<t>      (?<=[0-9])[Tt](?=[0-9]{2}:[0-9]{2}) )
    | (?P<time>   (?<![\w:]) [0-9]{1,2}:[0-9]{2}(?::[0-9]{2})? (?![\w:]) | (?<=[0-9][Tt])[0-9]{2}:[0-9]{2}(?::[0-9]{2})? )
    | (?P<number> (?: (?<![\w.,])[-+](?=[0-9]) )?
                  (?<!\w) (?: [0-9]{1,3}(?:[ \u00a0\u202f'][0-9]{3})+(?![0-9]) | [0-9]+ ) (?:[.,][0-9]+)* (?!\w|-\w) )
    | (?P<possessive> (?<=\w)['’]s\b )
    | (?P<word>   \w+(?:[-_’]\w+)* )
    | (?P<mark>   -> | \S )
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, kw_only=True)
class Token:
    """A piece of a sentence. ``text`` is without quotation marks, ``start`` and ``end`` are with them."""

    kind: Kind
    text: str
    folded: str
    start: int
    end: int
    index: int


@lru_cache(maxsize=4096)
def fold(text: str) -> str:
    """Return text in lower case and without diacritics."""
    plain = unicodedata.normalize("NFKD", text.casefold().translate(_LETTERS))
    return "".join(letter for letter in plain if not unicodedata.combining(letter))


def tokenise(text: str) -> list[Token]:
    """Cut text into tokens; quoted text, JSON, dates and numbers are one token each."""
    text = text[:_LONGEST]
    found: list[Token] = []
    at = failures = 0

    def add(kind: Kind, start: int, end: int, inner: str) -> None:
        folded = fold(inner) if len(inner) < 200 else inner.lower()
        found.append(Token(kind=kind, text=inner, folded=folded, start=start, end=end, index=len(found)))

    while match := _TOKEN.search(text, at):
        start, at = match.span()
        if match[0] in "{[" and failures < _JSON_ATTEMPTS:
            end = _json_end(text, start)
            if end:
                add("json", start, end, text[start:end])
                at = end
                continue
            failures += 1
        group = match.lastgroup or "mark"
        if group == "quoted":
            add("quoted", start, at, match[0][1:-1].strip())
        elif group == "email":
            add("word", start, at, match[0])
        elif group in ("date", "time", "number", "possessive", "word"):
            add(group, start, at, match[0])  # type: ignore[arg-type]
        elif group == "mark":
            add("mark", start, at, match[0])
    return found


def read_json(text: str) -> object:
    """Return what JSON text says, also when its quotation marks are typographic. Raises ValueError."""
    for written in (text, text.translate(_STRAIGHT)):
        try:
            return json.loads(written, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            continue
    raise ValueError("not JSON")


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _json_end(text: str, start: int) -> int:
    decoder = json.JSONDecoder(parse_constant=_no_constant)
    for written in (text, text.translate(_STRAIGHT)):
        try:
            return decoder.raw_decode(written, start)[1]
        except (ValueError, RecursionError):
            continue
    return 0


def written(tokens: Sequence[Token], source: str) -> str:
    """Return what the tokens say as it was typed; where words between them were taken out, one space."""
    parts: list[str] = []
    previous: Token | None = None
    for token in tokens:
        if previous is not None and token.index == previous.index + 1:
            parts.append(source[previous.end : token.start])
        elif previous is not None:
            parts.append(" ")
        parts.append(token.text if token.kind == "quoted" else source[token.start : token.end])
        previous = token
    return "".join(parts).strip()


# Words whose stem changes: the others are met by comparing beginnings.
_IRREGULAR = {
    fold(word): fold(base)
    for base, forms in {
        "miasto": "mieście",
        "data": "dacie",
        "kwota": "kwocie",
        "имя": "имени именем имена имён",
        "people": "person",
    }.items()
    for word in forms.split()
}


def _english(word: str) -> str:
    for ending, instead in (("ies", "y"), ("sses", "ss"), ("shes", "sh"), ("ches", "ch"), ("xes", "x")):
        if word.endswith(ending) and len(word) > len(ending) + 1:
            return word[: -len(ending)] + instead
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else word


@lru_cache(maxsize=16384)
def same_word(said: str, known: str, language: str) -> bool:
    """Tell whether two folded words are forms of one word of the language."""
    if said == known:
        return True
    if language == "en":
        return _english(said) == _english(known)
    said, known = _IRREGULAR.get(said, said), _IRREGULAR.get(known, known)
    if said == known:
        return True
    shared = 0
    for one, other in zip(said, known, strict=False):
        if one != other:
            break
        shared += 1
    if shared < 3 or len(said) - shared > 3 or len(known) - shared > 3:
        return False
    longest = max(len(said), len(known))
    return shared == min(len(said), len(known)) or shared >= 0.6 * longest


def same_text(said: str, known: str, *, language: str = "", endings: bool = False) -> bool:
    """Tell whether two texts are equal but for case and diacritics, and for endings where asked."""
    one, other = fold(said).split(), fold(known).split()
    if one == other:
        return True
    if not endings or len(one) != len(other):
        return False
    return all(same_word(a, b, language) for a, b in zip(one, other, strict=True))
