"""Which entities' tools are sent with a request, when there are more than fit.

Names are compared first, which costs no rights and no form class; rights are then asked in that order until
enough entities are found. Words are compared by their beginnings, so that endings of a language with cases
do not matter.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
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


@lru_cache(maxsize=32)
def _names_of(entities: tuple[Entity, ...], language: str | None) -> dict[str, list[tuple[str, Entity]]]:
    """Return each word of the entities' names in the language in force, by its beginning."""
    found: dict[str, list[tuple[str, Entity]]] = {}
    for entity in entities:
        meta = entity.model._meta
        names = entity.name, str(meta.verbose_name), str(meta.verbose_name_plural)
        for word in {word: None for name in names for word in _fold(name)}:
            found.setdefault(word[:SHARED], []).append((word, entity))
    return found


def _scores(entities: tuple[Entity, ...], words: Sequence[str]) -> dict[Entity, float]:
    """Return how well names agree with the words: for each word the best of an entity's names, added up."""
    names = _names_of(entities, get_language())
    scores: dict[Entity, float] = defaultdict(float)
    for word, count in Counter(words).items():
        best: dict[Entity, float] = {}
        for name, entity in names.get(word[:SHARED], ()):
            best[entity] = max(best.get(entity, 0.0), _alike(word, name))
        for entity, agreement in best.items():
            scores[entity] += agreement * count
    return defaultdict(float, {entity: round(score, 6) for entity, score in scores.items()})  # equal is equal


def agreement(names: Mapping[str, str], message: str) -> dict[str, float]:
    """Return how well each text agrees with a message, by the texts' keys."""
    words = Counter(_fold(message)[:200])
    return {
        key: sum(
            count * max((_alike(word, each) for each in _fold(text)), default=0.0)
            for word, count in words.items()
        )
        for key, text in names.items()
    }


def said_of(entities: Sequence[Entity], message: str) -> dict[str, float]:
    """Return how well the names of entities agree with a message, by name in tools."""
    scores = _scores(tuple(entities), _fold(message)[:200])
    return {each.name: scores[each] for each in entities}


def choose(
    access: Access, message: str, *, page: str = "", recent: Collection[str] = ()
) -> list[EntityAccess]:
    """Return the entities whose tools are offered, at most MAX_ENTITIES, in the site's own order.

    ``page`` is the entity of the page the person is on; ``recent`` are labels that the conversation spoke of.
    """
    most = get_settings().MAX_ENTITIES
    candidates = tuple(access.declared())
    ranked: Sequence[Entity] = candidates
    if len(candidates) > most:
        scores = _scores(candidates, _fold(message)[:200])
        for each in candidates:
            if each.name == page or each.label in recent:
                scores[each] += (each.name == page) * 1.5 + (each.label in recent) * 0.75
        ranked = sorted(candidates, key=lambda each: -scores[each])
    names: set[str] = set()
    for each in ranked:
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
    candidates = tuple(access.declared())
    scores = _scores(candidates, _fold(text)[:50])
    found: list[EntityAccess] = []
    for each in sorted((each for each in candidates if scores[each] > 0), key=lambda each: -scores[each]):
        if len(found) == FOUND_LIMIT:
            break
        if access.of(each).is_usable:
            found.append(access.of(each))
    return found
