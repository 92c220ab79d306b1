"""Names of entities, fields and choices in every language, taken from the models behind the tools."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from django.apps import apps
from django.db import models
from django.utils import translation

from ..base import ToolSpec
from .tokens import Token, fold, same_word
from .words import FORMS, LANGUAGES, NAME_FIELDS, PLACE_FIELDS, PLAIN, Intent, Language

Model = type[models.Model]
FindModel = Callable[[str], Model | None]
FieldKind = Literal[
    "text",
    "choice",
    "boolean",
    "integer",
    "decimal",
    "float",
    "datetime",
    "date",
    "time",
    "json",
    "one",
    "many",
]

_KINDS: tuple[tuple[type[Any], FieldKind], ...] = (  # the first that fits: a date-time field is a date field
    (models.ManyToManyField, "many"),
    (models.ForeignKey, "one"),
    (models.BooleanField, "boolean"),
    (models.DecimalField, "decimal"),
    (models.FloatField, "float"),
    (models.IntegerField, "integer"),
    (models.DateTimeField, "datetime"),
    (models.DateField, "date"),
    (models.TimeField, "time"),
    (models.JSONField, "json"),
)
_TYPES: Mapping[str, FieldKind] = {
    "boolean": "boolean",
    "integer": "integer",
    "number": "float",
    "array": "many",
    "object": "json",
    "string": "text",
}
_FORMATS: Mapping[str, FieldKind] = {"date-time": "datetime", "date": "date", "time": "time"}


@dataclass(frozen=True, kw_only=True)
class Phrase:
    """A name as folded words, and the language whose endings it may take."""

    words: tuple[str, ...]
    language: Language

    def length_at(self, tokens: Sequence[Token], at: int) -> int:
        """Return how many tokens from ``at`` on are this name, 0 if they are not."""
        if at + len(self.words) > len(tokens):
            return 0
        for offset, known in enumerate(self.words):
            token = tokens[at + offset]
            if token.kind != "word" or not same_word(token.folded.replace("-", ""), known, self.language):
                return 0
        return len(self.words)

    def exact_at(self, tokens: Sequence[Token], at: int) -> bool:
        """Tell whether the tokens are this name without any ending."""
        return all(tokens[at + n].folded.replace("-", "") == word for n, word in enumerate(self.words))


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One value of a field with choices."""

    value: Any
    phrases: tuple[Phrase, ...]
    labels: Mapping[Language, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Field:
    """A field that a sentence may name. ``usable`` is false where the tool at hand does not take it."""

    name: str
    kind: FieldKind
    usable: bool
    phrases: tuple[Phrase, ...]
    labels: Mapping[Language, str]
    related: Model | None = None
    choices: tuple[Choice, ...] = ()
    places: int | None = None  # after the decimal point

    def label(self, language: Language) -> str:
        """Return what the field is called in a language."""
        return self.labels.get(language) or self.name


@dataclass(kw_only=True)
class Entity:
    """What a request offers for one entity."""

    name: str
    model_path: str
    model: Model | None
    tools: dict[str, ToolSpec] = field(default_factory=dict)
    phrases: tuple[Phrase, ...] = ()
    singular: Mapping[Language, str] = field(default_factory=dict)
    plural: Mapping[Language, str] = field(default_factory=dict)

    def tool(self, intent: Intent) -> ToolSpec | None:
        """Return the tool that does what is wanted, or None where this person has none."""
        if intent not in ("create", "change"):
            return self.tools.get(intent)
        form = self.tools.get("form")
        if form is None:
            return None
        if intent == "create":
            return None if "id" in form.parameters.get("required", ()) else form
        return form if "id" in _properties(form.parameters) else None

    def schemas(self, intent: Intent) -> Mapping[str, Any]:
        """Return the schemas of the fields that can be given for an intent."""
        reads = intent not in FORMS
        spec = self.tools.get("query" if reads else "form")
        if spec is None:
            return {}
        return _properties(_properties(spec.parameters).get("filters" if reads else "fields"))

    @property
    def is_wide(self) -> bool:
        """Tell whether the query at hand takes more than plain values."""
        spec = self.tools.get("query")
        return spec is not None and "after" in _properties(spec.parameters)

    @property
    def is_searched(self) -> bool:
        """Tell whether the query at hand takes a text to search for."""
        spec = self.tools.get("query")
        return spec is not None and "search" in _properties(spec.parameters)

    def loose(self) -> frozenset[str]:
        """Return the names of the filters that take more than a plain value, as far as it is told."""
        plain = {"type", "enum"}
        told = self.schemas("query") if self.is_wide else {}
        return frozenset(name for name, schema in told.items() if not plain & {*schema})

    def actions(self) -> tuple[str, ...]:
        """Return the names of the actions that can be chosen in the entity's list."""
        spec = self.tools.get("list")
        chosen = _properties(spec.parameters).get("action") if spec is not None else None
        return tuple((chosen or {}).get("enum", ()))

    def columns(self) -> frozenset[str]:
        """Return the names of the fields a query can be asked for."""
        spec = self.tools.get("query")
        items = (_properties(spec.parameters).get("fields") or {}).get("items") if spec else None
        # Where no names are told, they are those of the filters.
        return frozenset((items or {}).get("enum", ()) or {*self.schemas("query")} - {"id"})

    def fields(self, intent: Intent) -> tuple[Field, ...]:
        """Return every field a sentence may name, usable for the intent or not."""
        return _fields(self.model, self.schemas(intent))

    def name_fields(self) -> tuple[Field, ...]:
        """Return the text fields that tell records apart and can be searched by, best first."""
        texts = [one for one in self.fields("query") if one.usable and one.kind == "text"]
        known = [one for name in NAME_FIELDS for one in texts if one.name == name]
        return tuple(known or texts[:1])

    def place_fields(self) -> tuple[Field, ...]:
        """Return the text fields that hold a place and can be searched by, best first."""
        texts = [one for one in self.fields("query") if one.usable and one.kind == "text"]
        return tuple(one for place in PLACE_FIELDS for one in texts if place in one.name.split("_"))


def find_model(path: str) -> Model | None:
    """Return the model that ``"app_label.ModelName"`` names, None if there is none."""
    try:
        return apps.get_model(path)
    except (LookupError, ValueError):
        return None


def entities_of(tools: Iterable[ToolSpec], *, find: FindModel = find_model) -> list[Entity]:
    """Return the entities that the tools of a request are for, in the order of the tools."""
    found: dict[str, Entity] = {}
    for spec in tools:
        name = _entity_name(spec)
        if name is None:
            continue
        if name not in found:
            found[name] = _entity(name, spec.model, find(spec.model) if spec.model else None)
        found[name].tools.setdefault(spec.kind, spec)
    return list(found.values())


def longest_at(tokens: Sequence[Token], at: int, phrases: Iterable[Phrase]) -> tuple[int, bool]:
    """Return the length of the longest name at a place, 0 if none, and whether it is there unchanged."""
    best = (0, False)
    for phrase in phrases:
        length = phrase.length_at(tokens, at)
        if length:
            best = max(best, (length, phrase.exact_at(tokens, at)))
    return best


def field_at(tokens: Sequence[Token], at: int, fields: Iterable[Field]) -> tuple[Field, int] | None:
    """Return the field whose name stands at a place, and the name's length in tokens."""
    best: tuple[tuple[int, bool, bool], Field] | None = None
    for one in fields:
        length, exact = longest_at(tokens, at, one.phrases)
        if length and (best is None or (length, exact, one.usable) > best[0]):
            best = (length, exact, one.usable), one
    return None if best is None else (best[1], best[0][0])


def _entity_name(spec: ToolSpec) -> str | None:
    for kind, start, end in (
        ("query", "query_", ""),
        ("form", "open_", "_form"),
        ("delete", "confirm_delete_", ""),
        ("count", "count_", ""),
        ("summary", "summarise_", ""),
        ("history", "history_", ""),
        ("list", "open_", "_list"),
    ):
        if spec.kind == kind:
            return spec.name.removeprefix(start).removesuffix(end)
    return None


def _entity(name: str, path: str, model: Model | None) -> Entity:
    spoken = name.replace("_", " ")
    singular: dict[Language, str] = dict.fromkeys(LANGUAGES, spoken)
    plural: dict[Language, str] = dict.fromkeys(LANGUAGES, spoken)
    extra: list[tuple[Language, str]] = [("en", spoken), ("en", name)]
    if model is not None:
        meta = model._meta
        for language in LANGUAGES:
            with translation.override(language):
                singular[language] = str(meta.verbose_name)
                plural[language] = str(meta.verbose_name_plural)
        extra.append(("en", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", meta.object_name or "")))
        # The app's name in front tells two entities of one name apart.
        extra.append(("en", f"{meta.app_label} {meta.model_name}"))
    return Entity(
        name=name,
        model_path=path,
        model=model,
        phrases=_phrases([*singular.items(), *plural.items(), *extra]),
        singular=singular,
        plural=plural,
    )


def _phrases(names: Iterable[tuple[Language, str]]) -> tuple[Phrase, ...]:
    found: dict[Phrase, None] = {}
    for language, name in names:
        words = tuple(word.replace("-", "") for word in re.findall(r"\w+(?:-\w+)*", fold(name)))
        if words:
            found[Phrase(words=words, language=language)] = None
    return tuple(found)


def _fields(model: Model | None, schemas: Mapping[str, Any]) -> tuple[Field, ...]:
    found: list[Field] = []
    seen = {"id"}
    if model is not None:
        for one in model._meta.get_fields():
            if isinstance(one, models.Field) and not one.auto_created and not one.primary_key:
                seen.add(one.name)
                found.append(_model_field(one, schemas.get(one.name)))
    for name, schema in schemas.items():
        if name not in seen:
            found.append(_schema_field(name, schema))
    return _with_short_names(found)


def _with_short_names(fields: Sequence[Field]) -> tuple[Field, ...]:
    """Let "city" be the "shipping city" where no other field is called so in full or in short."""
    short = {one.name: {p for phrase in one.phrases if (p := _short(phrase))} for one in fields}
    owners: dict[Phrase, set[str]] = {}
    for one in fields:
        for phrase in {*one.phrases, *short[one.name]}:
            owners.setdefault(phrase, set()).add(one.name)
    return tuple(
        replace(one, phrases=(*one.phrases, *(p for p in short[one.name] if owners[p] == {one.name})))
        for one in fields
    )


def _short(phrase: Phrase) -> Phrase | None:
    """Return a name without its qualifier: the first word in English or if it is cut short, else the last one."""
    if len(phrase.words) < 2:
        return None
    first = phrase.language == "en" or len(phrase.words[0]) < 3
    words = phrase.words[1:] if first else phrase.words[:-1]
    if any(word in PLAIN[language] for word in words for language in LANGUAGES) or len(words[0]) < 3:
        return None
    return Phrase(words=words, language=phrase.language)


def _model_field(one: models.Field[Any, Any], schema: Mapping[str, Any] | None) -> Field:
    labels: dict[Language, str] = {}
    said: dict[Any, list[tuple[Language, str]]] = {}
    for language in LANGUAGES:
        with translation.override(language):
            labels[language] = str(one.verbose_name)
            for value, label in one.flatchoices:
                said.setdefault(value, [("en", str(value))]).append((language, str(label)))
    kind: FieldKind = next((kind for base, kind in _KINDS if isinstance(one, base)), "text")
    allowed = (schema or {}).get("enum")
    if kind not in ("one", "many") and (said or allowed):
        kind = "choice"
        for value in allowed or ():
            if not any(str(value) == str(known) for known in said):
                said[value] = [("en", str(value))]
    choices = [
        Choice(value=value, phrases=_phrases(names), labels=dict(names[1:]))
        for value, names in said.items()
        if value not in (None, "") and (allowed is None or any(str(value) == str(known) for known in allowed))
    ]
    return Field(
        name=one.name,
        kind=kind,
        usable=schema is not None,
        phrases=_phrases([*labels.items(), ("en", one.name), ("en", one.name.replace("_", " "))]),
        labels=labels,
        related=one.related_model if isinstance(one.related_model, type) else None,
        choices=tuple(choices),
        places=getattr(one, "decimal_places", None),
    )


def _schema_field(name: str, schema: Mapping[str, Any]) -> Field:
    described = str(schema.get("description", ""))
    kind: FieldKind = _TYPES.get(str(schema.get("type", "")), "json")
    if kind == "text":
        kind = _FORMATS.get(str(schema.get("format", "")), "decimal" if "decimal" in described else "text")
    choices = [
        Choice(value=value, phrases=_phrases([("en", str(value))])) for value in schema.get("enum") or ()
    ]
    spoken = name.replace("_", " ")
    return Field(
        name=name,
        kind="choice" if choices else kind,
        usable=True,
        phrases=_phrases([("en", name), ("en", spoken)]),
        labels=dict.fromkeys(LANGUAGES, spoken),
        choices=tuple(choices),
    )


def _properties(schema: Any) -> Mapping[str, Any]:
    found = schema.get("properties") if isinstance(schema, Mapping) else None
    return found if isinstance(found, Mapping) else {}
