"""Write tools: what a project's developers declare, and nothing that runs.

The decorated function *is* the preview: it looks things up through its context and returns a ``Preview``. What
carries a plan out are further steps of the tool, and none of them is called but by ``gate.py`` with a grant.

    @write_tool(Order, category=Category.MUTATING, permissions=["store.change_order"], reversible=True)
    def change_shipping_address(ctx, order: str, street: str, postal_code: str, city: str) -> Preview:
        "Change where an order that has not shipped yet is delivered."
        found = ctx.get(Order, number=order)
        if found.status == "shipped":
            raise Refused("This order has shipped; its address can't change any more.")
        return Preview(found, shipping_street=street, shipping_postal_code=postal_code, shipping_city=city)

Without a step of its own the change goes through the ModelAdmin's form for just those fields.
"""

from __future__ import annotations

import datetime
import decimal
import hashlib
import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal, TypeVar

from django.db import models
from django.utils.functional import Promise

from ..backends.base import ToolSpec
from ..exceptions import ConfigurationError
from .arguments import Argument, arguments_of, schema_of

F = TypeVar("F", bound=Callable[..., Any])
Step = Literal["preview", "dry_run", "apply", "reserve", "call", "settle", "look_up"]


class Category(StrEnum):
    """What a tool does, and with it how a call of it is carried out."""

    READ_ONLY = "read_only"  # runs at once
    MUTATING = "mutating"  # a person confirms
    DESTRUCTIVE = "destructive"  # irreversible, outside, or money: confirmed, and approved by a second person


@dataclass(frozen=True)
class Effect:
    """A sentence on what else happens. A lazy text with its values is shown in each viewer's language.

    ``Effect(_("A mail goes to %(email)s."), email=customer.email)``
    """

    text: str | Promise
    values: Mapping[str, Any]

    def __init__(self, text: str | Promise, /, **values: Any) -> None:
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "values", values)


def _several(names: Sequence[str]) -> tuple[str, ...]:
    """Return names as a tuple; a single one may stand by itself."""
    return (names,) if isinstance(names, str) else tuple(names)


class Preview:
    """What a call would do: which fields of which record change, and what happens besides.

    Keyword arguments are the record's fields with their new values; ``changes`` takes those whose names
    clash with the other parameters.

    ``effects``: sentences (``Effect`` or plain text) on mails, cascades and the like.
    ``system``: arguments that are not the model's, such as a currency; bound and shown, scalars or records.
    ``amount``: what approval rules add up, a whole number or Decimal.
    ``payload``: what an external tool sends, JSON; stored before the call and sent again as it is.
    ``acting_as``: as whom something goes out, if not as the person herself.
    ``touched``: names of other fields of the record that saving may change.
    ``summary``: what the plan is about, in a few words, where the record's own name does not say it.
    """

    def __init__(
        self,
        record: models.Model,
        /,
        *,
        changes: Mapping[str, Any] | None = None,
        effects: Iterable[Effect | str | Promise] = (),
        system: Mapping[str, Any] | None = None,
        amount: int | decimal.Decimal | None = None,
        payload: Mapping[str, Any] | None = None,
        acting_as: str = "",
        touched: Sequence[str] = (),
        summary: Effect | str | Promise = "",
        **fields: Any,
    ) -> None:
        self.record = record
        self.changes = {**(changes or {}), **fields}
        alone = isinstance(effects, str | Promise | Effect)
        told: Iterable[Any] = (effects,) if alone else effects
        self.effects = tuple(each if isinstance(each, Effect) else Effect(each) for each in told)
        self.system = dict(system or {})
        self.amount = None if amount is None else decimal.Decimal(amount)
        self.payload = None if payload is None else dict(payload)
        self.acting_as = acting_as
        self.touched = _several(touched)
        self.summary = summary if isinstance(summary, Effect) else Effect(summary)


# -- a second person --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What a requester and a target already have in a window: pending, executed and uncertain plans."""

    count: int
    amount: decimal.Decimal


class Approval:
    """A rule that says whether a second person must approve. Subclass it, or use one of those below."""

    def is_needed(self, ctx: Any, preview: Preview, usage: Callable[[datetime.timedelta], Usage]) -> bool:
        """Tell whether a plan needs approval; ``usage(window)`` counts what was before. An exception is a yes."""
        raise NotImplementedError

    def describe(self) -> str:
        """Return what is bound to the plan: a stable text, which changes when the rule does."""
        return type(self).__qualname__


class Always(Approval):
    """Every plan needs a second person."""

    def is_needed(self, ctx: Any, preview: Preview, usage: Callable[[datetime.timedelta], Usage]) -> bool:
        """Return yes."""
        return True


class Never(Approval):
    """No plan needs a second person."""

    def is_needed(self, ctx: Any, preview: Preview, usage: Callable[[datetime.timedelta], Usage]) -> bool:
        """Return no."""
        return False


@dataclass(frozen=True)
class Above(Approval):
    """Needed once the amounts of this requester or this target in a window, this one included, exceed a limit."""

    limit: int | decimal.Decimal
    window: datetime.timedelta = datetime.timedelta(days=1)

    def is_needed(self, ctx: Any, preview: Preview, usage: Callable[[datetime.timedelta], Usage]) -> bool:
        """Tell whether the sum is over the limit. A preview without an amount always is."""
        return preview.amount is None or preview.amount + usage(self.window).amount > self.limit

    def describe(self) -> str:
        """Return limit and window."""
        return f"above {self.limit} in {int(self.window.total_seconds())} s"


# -- the tool ---------------------------------------------------------------------------------------------


@dataclass(eq=False, kw_only=True)
class WriteTool:
    """A declared tool. Its public methods register steps; only ``gate.py`` takes one out with ``step``."""

    name: str
    model: type[models.Model]
    category: Category
    description: str
    title: str | Promise
    permissions: tuple[str, ...]
    verb: str
    reversible: bool
    approval: Approval
    approve_permissions: tuple[str, ...]
    confirm_within: datetime.timedelta | None
    approve_within: datetime.timedelta | None
    keys_kept: datetime.timedelta
    revision: str
    where: str
    arguments: Mapping[str, Argument]
    problems: tuple[str, ...] = ()  # of the declaration, reported by a system check
    _steps: dict[str, Callable[..., Any]] = field(default_factory=dict, repr=False)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse to be called: a tool runs through the gate."""
        raise TypeError(
            f"{self.name} is a write tool: it runs from a model's call, and after a confirmation."
        )

    def step(self, name: Step) -> Callable[..., Any] | None:
        """Return the function of a step, or None. For ``gate.py`` alone."""
        return self._steps.get(name)

    def _register(self, name: Step, function: F) -> F:
        self._steps[name] = function
        return function

    def dry_run(self, function: F) -> F:
        """Register ``f(preview) -> effects``, asked once when the plan is made. It may call out."""
        return self._register("dry_run", function)

    def apply(self, function: F) -> F:
        """Register ``f(ctx, preview, grant)``, which does the change in our transaction and may return a dict."""
        return self._register("apply", function)

    def reserve(self, function: F) -> F:
        """Register ``f(ctx, preview, grant)`` of an external tool, run in the transaction that claims the plan."""
        return self._register("reserve", function)

    def call(self, function: F) -> F:
        """Register ``f(payload, key) -> result`` of an external tool: the call itself, outside any transaction.

        Returns a dict. Raises CallFailed when it is known that nothing was done; whatever else it raises
        means that nobody knows.
        """
        return self._register("call", function)

    def settle(self, function: F) -> F:
        """Register ``f(grant, succeeded, result)`` of an external tool: it records how the call ended."""
        return self._register("settle", function)

    def look_up(self, function: F) -> F:
        """Register ``f(payload, key) -> result`` of an external tool: it asks what became of a key.

        Returns the result, or None when the other side never got the key. Raises CallFailed as ``call`` does.
        """
        return self._register("look_up", function)

    @property
    def is_external(self) -> bool:
        """Tell whether carrying it out means asking another system."""
        return "call" in self._steps

    def has_step(self, name: Step) -> bool:
        """Tell whether a step was registered."""
        return name in self._steps

    def accepts(self, name: Step, count: int) -> bool:
        """Tell whether a step can be called with so many arguments; one that there is not can."""
        function = self._steps.get(name)
        if function is None:
            return True
        try:
            inspect.signature(function).bind(*range(count))
        except TypeError:
            return False
        return True

    @cached_property
    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the model's arguments."""
        return schema_of(self.arguments)

    @cached_property
    def spec(self) -> ToolSpec:
        """Return what a model is told."""
        return ToolSpec(
            name=self.name,
            kind="write",
            description=self.description,
            parameters=self.schema,
            model=self.model._meta.label,
        )

    @property
    def version(self) -> str:
        """Return a hash of everything that the tool was declared as: a plan made with another one is refused."""
        declared = [
            self.name,
            self.description,
            self.schema,
            {each.name: each.arg.max_length for each in self.arguments.values()},
            self.model._meta.label_lower,
            str(self.category),
            self.verb,
            sorted(self.permissions),
            self.reversible,
            sorted(self._steps),
            self.revision,
        ]
        return hashlib.sha256(json.dumps(declared, sort_keys=True).encode()).hexdigest()


_registry: dict[str, WriteTool] = {}
_twice: list[WriteTool] = []


def all_tools() -> Mapping[str, WriteTool]:
    """Return the declared tools by name, in the order of declaration."""
    return _registry


def declared_twice() -> Sequence[WriteTool]:
    """Return tools whose name another one had before, for the system check; they can't be used."""
    return _twice


def write_tool(
    model: type[models.Model],
    *,
    category: Category | str | None = None,
    permissions: Sequence[str] = (),
    verb: Literal["view", "add", "change", "delete"] | None = None,
    reversible: bool = False,
    approval: Approval | None = None,
    approve_permissions: Sequence[str] = (),
    confirm_within: datetime.timedelta | None = None,
    approve_within: datetime.timedelta | None = None,
    keys_kept: datetime.timedelta = datetime.timedelta(hours=24),
    name: str = "",
    title: str | Promise = "",
    revision: str = "1",
) -> Callable[[Callable[..., Any]], WriteTool]:
    """Declare a tool that acts on records of a model. The decorated function is its preview.

    ``category`` unset is mutating. ``permissions`` are asked besides those on the record; ``verb`` is the
    ModelAdmin permission that a record looked up with ``ctx.get`` needs (view for read-only tools, else
    change). ``approval`` unset means: always for destructive tools, never for others. Who approves needs
    ``django_copilot.approve_plan`` and ``approve_permissions``. ``confirm_within`` and ``approve_within``
    default to PLAN_SECONDS and APPROVE_SECONDS. ``keys_kept`` is how long the other system of an external
    tool knows a key. ``title`` names the tool towards people, ``revision`` is changed by hand when a tool
    means something else now although its declaration looks the same.

    The docstring goes to the model. Mistakes are reported by ``manage.py check``.
    """

    if not (isinstance(model, type) and issubclass(model, models.Model)):
        raise TypeError(f"write_tool needs a model, as in @write_tool(Order), not {model!r}.")

    def declare(function: Callable[..., Any]) -> WriteTool:
        chosen = Category.MUTATING if category is None else category
        problems: list[str] = []
        try:
            chosen = Category(chosen)
        except ValueError:
            problems.append(f"category: {category!r} is no Category.")
            chosen = Category.DESTRUCTIVE  # the strictest, until it is mended
        try:
            arguments = arguments_of(function)
        except ConfigurationError as error:
            arguments = {}
            problems.append(str(error))
        own_name = name or function.__name__
        made = WriteTool(
            name=own_name,
            model=model,
            category=chosen,
            description=inspect.getdoc(function) or "",
            title=title or own_name.replace("_", " ").capitalize(),
            permissions=_several(permissions),
            verb=verb or ("view" if chosen is Category.READ_ONLY else "change"),
            reversible=reversible,
            approval=approval or (Always() if chosen is Category.DESTRUCTIVE else Never()),
            approve_permissions=_several(approve_permissions),
            confirm_within=confirm_within,
            approve_within=approve_within,
            keys_kept=keys_kept,
            revision=revision,
            where=f"{function.__module__}.{function.__qualname__}",
            arguments=arguments,
            problems=tuple(problems),
        )
        made._register("preview", function)
        if own_name in _registry and _registry[own_name].where != made.where:
            _twice.append(made)
        else:
            _registry[own_name] = made
        return made

    return declare
