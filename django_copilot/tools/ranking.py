"""Which entities' tools are sent with a request, when there are more than fit.

Names are compared first, which costs no rights and no form class; rights are then asked in that order until
enough entities are found. Words are compared by their beginnings, so that endings of a language with cases
do not matter.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from django.utils.translation import get_language

from ..access import Access, EntityAccess
from ..conf import get_settings
from ..declaration import Entity

_WORD = re.compile(r"[^\W_]+")
FOUND_LIMIT = 5
SHARED = 3  # letters at the beginning, at least, of words that are alike


def _fold(text: str) -> list[str]:
    plain = unicodedata.normalize("NFKD", text.casefold())
    return _WORD.findall("".join(c for c in plain if not unicodedata.combining(c)).replace("ł", "l"))


def _alike(word: str, other: str) -> float:
    """Return how well two words agree: 1 the same, less for a shared beginning, 0 for none."""
    if word == other:
        return 1.0
    shared = 0
    for a, b in zip(word, other, strict=False):
        if a != b:
            break
        shared += 1
    longest = max(len(word), len(other))
    return shared / longest if shared >= SHARED and shared >= 0.6 * longest - 0.5 else 0.0


@lru_cache(maxsize=4096)
def _names_of(entity: Entity, language: str | None) -> frozenset[str]:
    """Return the words of an entity's names in the language in force."""
    meta = entity.model._meta
    names = entity.name, str(meta.verbose_name), str(meta.verbose_name_plural)
    return frozenset(word for name in names for word in _fold(name))


def _by_beginning(words: Sequence[str]) -> dict[str, Counter[str]]:
    """Return the words with how often each occurs, by the letters that alike words must share."""
    grouped: dict[str, Counter[str]] = {}
    for word in words:
        grouped.setdefault(word[:SHARED], Counter())[word] += 1
    return grouped


def _score(entity: Entity, words: Mapping[str, Counter[str]], language: str | None) -> float:
    best: dict[str, float] = {}
    for name in _names_of(entity, language):
        for word, count in words.get(name[:SHARED], {}).items():
            best[word] = max(best.get(word, 0.0), _alike(word, name) * count)
    return sum(best.values())


def choose(
    access: Access, message: str, *, page: str = "", recent: Collection[str] = ()
) -> list[EntityAccess]:
    """Return the entities whose tools are offered, at most MAX_ENTITIES, in the site's own order.

    ``page`` is the entity of the page the person is on; ``recent`` are labels that the conversation spoke of.
    """
    most = get_settings().MAX_ENTITIES
    candidates = list(access.declared())
    if len(candidates) > most:
        words, language = _by_beginning(_fold(message)[:200]), get_language()
        scores = {
            each.name: (each.name == page) * 1.5
            + (each.label in recent) * 0.75
            + _score(each, words, language)
            for each in candidates
        }
        candidates.sort(key=lambda each: -scores[each.name])
    names: set[str] = set()
    for each in candidates:
        if access.of(each).is_usable:
            names.add(each.name)
            if len(names) == most:
                break
    return access.named(names)


def has_more(access: Access, chosen: Sequence[EntityAccess]) -> bool:
    """Tell whether there may be usable entities besides the chosen ones."""
    names = {each.name for each in chosen}
    return len(chosen) >= get_settings().MAX_ENTITIES and any(
        each.is_usable for each in access.all() if each.name not in names
    )


def find(access: Access, text: str) -> list[EntityAccess]:
    """Return usable entities whose names agree with the words, best first."""
    words, language = _by_beginning(_fold(text)[:50]), get_language()
    scored = sorted(
        ((_score(each, words, language), each) for each in access.declared()), key=lambda pair: -pair[0]
    )
    found: list[EntityAccess] = []
    for score, each in scored:
        if score <= 0 or len(found) == FOUND_LIMIT:
            break
        if access.of(each).is_usable:
            found.append(access.of(each))
    return found
