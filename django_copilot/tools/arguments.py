"""Arguments of write tools: their schema from a function's signature, and the strict check of what a model sent."""

from __future__ import annotations

import datetime
import decimal
import enum
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from ..exceptions import CallError, ConfigurationError

MAX_TEXT = 2_000
MAX_ITEMS = 100
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,6})?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
# What only a person and the server say; no model is asked for it, whatever a tool would do with the answer.
NEVER = frozenset(
    {
        "confirm",
        "confirmed",
        "confirmed_by",
        "approve",
        "approved",
        "approved_by",
        "approver",
        "actor",
        "grant",
        "idempotency_key",
    }
)


@dataclass(frozen=True, kw_only=True)
class Arg:
    """More on an argument: ``amount_cents: Annotated[int, Arg(min=1)]``."""

    description: str = ""
    min: int | None = None
    max: int | None = None
    max_length: int = MAX_TEXT


@dataclass(frozen=True, kw_only=True)
class Argument:
    """One argument that the model gives. ``kind`` is a type, or a tuple of the texts allowed."""

    name: str
    kind: Any
    many: bool = False
    required: bool = True
    default: Any = None
    arg: Arg = Arg()


_KINDS: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    decimal.Decimal: {"type": "string"},
    datetime.date: {"type": "string", "format": "date"},
}


def arguments_of(function: Callable[..., Any]) -> dict[str, Argument]:
    """Return the arguments of a tool's function after its context. Raises ConfigurationError."""
    where = f"{function.__module__}.{function.__qualname__}"
    parameters = list(inspect.signature(function).parameters.values())
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as error:
        raise ConfigurationError(f"{where}: its annotations can't be read: {error}.") from error
    if not parameters or _is_argument(hints.get(parameters[0].name)):
        raise ConfigurationError(f"{where} takes no context: its first parameter must be ctx.")
    found: dict[str, Argument] = {}
    for parameter in parameters[1:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ConfigurationError(f"{where}: every argument must be named, {parameter} is not.")
        if parameter.name in NEVER:
            raise ConfigurationError(f"{where}: {parameter.name} is never the model's to say.")
        if parameter.name not in hints:
            raise ConfigurationError(f"{where}: {parameter.name} needs an annotation.")
        found[parameter.name] = _argument(where, parameter, hints[parameter.name])
    return found


def _is_argument(hint: Any) -> bool:
    """Tell whether a first parameter is annotated as what a model sends, so that the context was forgotten."""
    bare = typing.get_args(hint)[0] if typing.get_origin(hint) is Annotated else hint
    return (isinstance(bare, type) and bare in _KINDS) or typing.get_origin(bare) in (Literal, list)


def _argument(where: str, parameter: inspect.Parameter, hint: Any) -> Argument:
    arg = Arg()
    optional = False
    if typing.get_origin(hint) is Annotated:
        hint, *extras = typing.get_args(hint)
        arg = next((each for each in extras if isinstance(each, Arg)), arg)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        rest = [each for each in typing.get_args(hint) if each is not type(None)]
        optional = len(rest) < len(typing.get_args(hint))
        hint = rest[0] if len(rest) == 1 else hint
    many = typing.get_origin(hint) is list
    if many and len(typing.get_args(hint)) == 1:
        (hint,) = typing.get_args(hint)
    kind: Any = hint
    if typing.get_origin(hint) is Literal:
        kind = typing.get_args(hint)
    elif isinstance(hint, type) and issubclass(hint, enum.Enum):
        kind = tuple(each.value for each in hint)
    if isinstance(kind, tuple):
        if not kind or not all(isinstance(each, str) for each in kind):
            raise ConfigurationError(f"{where}: {parameter.name} may choose among texts only.")
    elif not isinstance(kind, type) or kind not in _KINDS:
        raise ConfigurationError(
            f"{where}: {parameter.name} must be a str, int, bool, Decimal, date, a Literal or Enum of texts, "
            f"or a list of one of those, not {hint!r}."
        )
    required = parameter.default is parameter.empty
    if required and optional:
        raise ConfigurationError(f"{where}: {parameter.name} may be left out, so it needs a default.")
    default = None if required else parameter.default
    return Argument(name=parameter.name, kind=kind, many=many, required=required, default=default, arg=arg)


def schema_of(arguments: Mapping[str, Argument]) -> dict[str, Any]:
    """Return the JSON schema of the arguments. Lengths are not in it: a model can't count, and they are checked."""
    required = [each.name for each in arguments.values() if each.required]
    return {
        "type": "object",
        "additionalProperties": False,
        **({"required": required} if required else {}),
        "properties": {each.name: _schema(each) for each in arguments.values()},
    }


def _schema(argument: Argument) -> dict[str, Any]:
    kind, arg = argument.kind, argument.arg
    schema: dict[str, Any] = (
        {"type": "string", "enum": list(kind)} if isinstance(kind, tuple) else dict(_KINDS[kind])
    )
    if arg.min is not None:
        schema["minimum"] = arg.min
    if arg.max is not None:
        schema["maximum"] = arg.max
    if argument.many:
        schema = {"type": "array", "items": schema}
    if arg.description:
        schema["description"] = arg.description
    return schema


def clean_arguments(arguments: Mapping[str, Argument], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the typed arguments of a call. Raises CallError: unknown, missing, or not of the declared type."""
    unknown = [name for name in given if name not in arguments]
    if unknown:
        raise CallError(
            f"This tool takes only: {', '.join(arguments) or 'nothing'}.",
            code="unknown_argument",
            arguments=[name[:60] for name in unknown[:5]],
        )
    missing = [
        each.name for each in arguments.values() if each.required and given.get(each.name) in (None, "", [])
    ]
    if missing:
        raise CallError(
            "Required values are missing. Ask the person for them; do not guess.",
            code="clarification_required",
            missing=missing,
        )
    cleaned: dict[str, Any] = {}
    for name, value in given.items():
        argument = arguments[name]
        if value is None:
            continue
        if argument.many:
            if not isinstance(value, list) or len(value) > MAX_ITEMS:
                raise _wrong(name, f"expected a list of at most {MAX_ITEMS}")
            cleaned[name] = [_clean(argument, each) for each in value]
        else:
            cleaned[name] = _clean(argument, value)
    return cleaned


def _clean(argument: Argument, value: Any) -> Any:
    name, kind, arg = argument.name, argument.kind, argument.arg
    if isinstance(kind, tuple):
        if not isinstance(value, str) or value not in kind:
            raise _wrong(name, f"expected one of {', '.join(map(repr, kind))[:500]}")
        return value
    if kind is str:
        if not isinstance(value, str):
            raise _wrong(name, "expected text")
        value = value.strip()
        if len(value) > arg.max_length:
            raise _wrong(name, f"at most {arg.max_length} characters")
        if argument.required and not value:
            raise _wrong(name, "must not be empty")
        return value
    if kind is bool:
        if not isinstance(value, bool):
            raise _wrong(name, "expected true or false")
        return value
    if kind is int:
        if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
            raise _wrong(name, "expected a whole number")
        return _within(argument, value)
    if kind is decimal.Decimal:
        if not isinstance(value, str) or not _DECIMAL.fullmatch(value):
            raise _wrong(name, "expected a plain decimal number as text, like 1234.50")
        return _within(argument, decimal.Decimal(value))
    try:
        return datetime.date.fromisoformat(value if _DATE.fullmatch(value) else "")
    except (ValueError, TypeError):
        raise _wrong(name, "expected a date like 2026-12-31") from None


def _within(argument: Argument, value: Any) -> Any:
    arg = argument.arg
    if arg.min is not None and value < arg.min:
        raise _wrong(argument.name, f"at least {arg.min}")
    if arg.max is not None and value > arg.max:
        raise _wrong(argument.name, f"at most {arg.max}")
    return value


def _wrong(name: str, why: str) -> CallError:
    return CallError(f"{name}: {why}.", code="invalid_argument", argument=name)


def to_stored(cleaned: Mapping[str, Any]) -> dict[str, Any]:
    """Return cleaned arguments as JSON that ``from_stored`` reads back."""
    return {
        name: [_text(each) for each in value] if isinstance(value, list) else _text(value)
        for name, value in cleaned.items()
    }


def _text(value: Any) -> Any:
    return value if isinstance(value, str | int | bool) else str(value)


def from_stored(arguments: Mapping[str, Argument], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the typed arguments of stored ones. Raises CallError when the tool takes others by now."""
    return clean_arguments(arguments, stored)
