"""What a hostile model asks of the tools that read: queries, counts, sums, histories, lists of the admin.

Every name and every lookup that Django knows stands where one is taken, and every reference where an id is.
"""

from __future__ import annotations

from typing import Any

from .words import LOOKUPS, Words

READS = ("query_{}", "count_{}", "summarise_{}", "history_{}", "open_{}_list")
OPS = ("count", "sum", "avg", "min", "max")
RANGE = ("gte", "gt", "lte", "lt")


class Questions(Words):
    """Calls of the tools that read, each chosen by ``rng``."""

    def query(self) -> tuple[str, Any]:
        """Return a query."""
        rng, entity = self.rng, self._entity()
        arguments: dict[str, Any] = {}
        alone = rng.random()  # nothing else that would spoil the call
        if alone < 0.18:
            name = "order_by" if alone < 0.08 else "search" if alone < 0.14 else "after"
            made = {"order_by": self.order, "search": self.search, "after": self.key}[name](entity)
            return f"query_{entity}", {name: made}
        if rng.random() < 0.5:
            arguments["fields"] = self._names(entity) if rng.random() < 0.9 else self.value()
            extras = self.known.extras.get(entity)
            if extras and isinstance(arguments["fields"], list) and rng.random() < 0.4:
                arguments["fields"].append(rng.choice(extras))
        if rng.random() < 0.5:
            arguments["limit"] = rng.choice((1, 3, 50, 51, 10_000, 0, -1, True, 1.5, "5", None, 2**70))
        self._narrowed(entity, arguments)
        if rng.random() < 0.12:
            arguments["order_by"] = self.order(entity)
        if rng.random() < 0.08:
            arguments["after"] = self.key(entity) if rng.random() < 0.6 else self.value()
        return f"query_{entity}", arguments

    def probe(self) -> tuple[str, Any]:
        """Return a call that nothing spoils, of a tool that reads: what it is answered is what two databases differ in."""
        rng = self.rng
        entity = rng.choice(self.known.wide or self.known.declared)
        listed = list(self.known.listed.get(entity) or ("id",))
        ordered = [
            name for name in listed if self._type(entity, name) in ("number", "date", "choice", "other")
        ]
        ranged = [name for name in listed if self._type(entity, name) in ("number", "date")]
        held = [each for name in listed for each in self.known.values.get((entity, name)) or ()]
        name = rng.choice(ordered or ["id"])
        sign = rng.choice(("", "-"))
        made: list[tuple[str, dict[str, Any]]] = [
            (f"query_{entity}", {"order_by": [f"{sign}{name}"], "limit": rng.choice((1, 5, 50))}),
            (
                f"query_{entity}",
                {"search": str(rng.choice(held or ["a"]))[: rng.choice((1, 3, 12))], "limit": 50},
            ),
            (f"query_{entity}", {"filters": {"id": str(rng.choice(self.known.keys.get(entity) or ("1",)))}}),
            (
                f"query_{entity}",
                {"after": str(rng.choice(self.known.keys.get(entity) or ("1",))), "limit": 5},
            ),
            (f"count_{entity}", {}),
            (f"count_{entity}", {"search": str(rng.choice(held or ["a"]))[:2]}),
            (f"summarise_{entity}", self.ordinary_summary(entity)),
            (f"history_{entity}", {"id": str(rng.choice(self.known.keys.get(entity) or ("1",)))}),
            (f"open_{entity}_list", {"ids": [self.reference()]}),
        ]
        for name in ranged:
            value = rng.choice(self.known.values.get((entity, name)) or [0])
            made.append((f"count_{entity}", {"filters": {name: {rng.choice(RANGE): value}}}))
            made.append((f"query_{entity}", {"filters": {name: {rng.choice(RANGE): value}}, "limit": 50}))
        return rng.choice(made)

    def count(self) -> tuple[str, Any]:
        """Return a count."""
        entity, arguments = self._entity(), dict[str, Any]()
        self._narrowed(entity, arguments)
        return f"count_{entity}", arguments

    def summary(self) -> tuple[str, Any]:
        """Return a summary, one that its fields fit or any."""
        rng, entity = self.rng, self._entity()
        if rng.random() < 0.3:
            return f"summarise_{entity}", self.ordinary_summary(entity)
        arguments: dict[str, Any] = {"measures": [self._measure(entity) for _ in range(self._few(9))]}
        if rng.random() < 0.6:
            arguments["by"] = self._names(entity)[: self._few(4)] if rng.random() < 0.9 else self.value()
        by = arguments.get("by")
        dated = isinstance(by, list) and any(self._type(entity, name) == "date" for name in by)
        if dated or rng.random() < 0.1:
            odd = ("year", "hour", "", 1, "day; --")
            arguments["every"] = rng.choice(("day", "week", "month", *(odd if rng.random() < 0.3 else ())))
        self._narrowed(entity, arguments)
        if rng.random() < 0.05:
            arguments["measures"] = self.value()
        return f"summarise_{entity}", arguments

    def ordinary_summary(self, entity: str) -> dict[str, Any]:
        """Return a summary that the types of its fields allow; whether she may read them is another question."""
        rng = self.rng
        listed = self.known.listed.get(entity) or ("id",)
        numbers = [
            name for name in self.known.fields.get(entity) or () if self._type(entity, name) == "number"
        ]
        measures: list[Any] = [{"op": "count"}]
        if numbers and rng.random() < 0.6:
            measures.append({"op": rng.choice(OPS), "field": rng.choice(numbers)})
        by = rng.choice(listed)
        dated = {"every": rng.choice(("day", "week", "month"))} if self._type(entity, by) == "date" else {}
        return {"measures": measures, "by": [by], **dated}

    def history(self) -> tuple[str, Any]:
        """Return the question who has changed a record."""
        entity = self._entity()
        return f"history_{entity}", {"id": self.key(entity) if self.rng.random() < 0.95 else self.value()}

    def opened_list(self) -> tuple[str, Any]:
        """Return the wish to see the admin's list with rows ticked and an action chosen."""
        rng, entity = self.rng, self._entity()
        arguments: dict[str, Any] = {}
        if rng.random() < 0.6:
            many = rng.choice((1, 1, 2, 3, 101))
            arguments["ids"] = (
                [self.key(entity) for _ in range(many)] if rng.random() < 0.95 else self.value()
            )
        if rng.random() < (0.15 if "ids" in arguments else 0.8):
            arguments["filters"] = self.filters(entity)
        if rng.random() < 0.5:
            own = self.known.extras.get(entity) or ("delete_selected",)
            arguments["action"] = rng.choice((*own, *own, "delete_selected", "__all__", "", self.name()))
        return f"open_{entity}_list", arguments

    # -- their arguments -----------------------------------------------------------------------------------

    def _narrowed(self, entity: str, arguments: dict[str, Any]) -> None:
        if self.rng.random() < 0.5:
            arguments["filters"] = self.filters(entity) if self.rng.random() < 0.93 else self.value()
        if self.rng.random() < 0.15:
            arguments["search"] = self.search(entity) if self.rng.random() < 0.93 else self.value()

    def filters(self, entity: str) -> dict[str, Any]:
        """Return filters: plain values, lookups of every name, nested ones, references and handles."""
        rng = self.rng
        filters: dict[str, Any] = {}
        for name in self._names(entity)[: rng.randrange(1, 4)]:
            filters[str(name)] = self._filter(entity, str(name))
        if rng.random() < 0.2:
            filters["id"] = self.key(entity)
        if rng.random() < 0.12:
            name = rng.choice(self.known.shown.get(entity) or ("email",))
            filters[name] = self.handle() if rng.random() < 0.8 else self._filter(entity, name)
        return filters

    def _filter(self, entity: str, name: str) -> Any:
        rng = self.rng
        held = self.known.values.get((entity, name)) or ()

        def one() -> Any:
            return rng.choice(held) if held and rng.random() < 0.7 else self.value()

        kind = rng.random()
        if kind < 0.45:
            return one()
        if kind < 0.55 or (self._type(entity, name) == "date" and kind < 0.75):
            made = {
                each: self.when() if rng.random() < 0.6 else one() for each in rng.sample(RANGE, self._few(3))
            }
            return made if rng.random() < 0.7 else self.when()
        if kind < 0.68:
            return {each: one() for each in rng.sample(RANGE, self._few(4))}
        if kind < 0.8:
            return {"in": [one() for _ in range(rng.choice((0, 1, 2, 5, 100, 101)))]}
        if kind < 0.805:
            return {"in": list(range(10_000))}
        if kind < 0.87:
            return {"isnull": rng.choice((True, False, True, False, 1, "true", None))}
        if kind < 0.92:
            return {rng.choice(LOOKUPS): one()}
        if kind < 0.96:
            return {rng.choice(LOOKUPS): one(), rng.choice(LOOKUPS): one()}
        return rng.choice(({name: {"in": [one()]}}, {"in": [{"in": [one()]}]}, {"gte": {"gte": one()}}, {}))

    def search(self, entity: str) -> str:
        """Return a text to search for: words of hidden values, patterns of every language, far too long ones."""
        rng = self.rng
        held = [
            each for (name, _field), values in self.known.values.items() if name == entity for each in values
        ]
        word = str(rng.choice(held or ["x"]))
        return str(
            rng.choice(
                (
                    lambda: word,
                    lambda: word[:2],
                    lambda: word[: rng.randrange(1, 9)],
                    lambda: rng.choice(("%", "_", "%a%", "\\", "^a", "=a", "@a", ".*", "(a|b)*$", "[", "*")),
                    lambda: rng.choice(
                        ('"', "'", '"a b', "'a\" b", '""', "a\x00b", "\ud800", "\u202ea", " ", "1")
                    ),
                    lambda: rng.choice(self.known.relations or ("customer__email",)),
                    lambda: f"{self.name()}:{word}",
                    self.handle,
                    self.reference,
                    lambda: " ".join(f"{word[:1]}{at}" for at in range(rng.choice((8, 9, 2_000)))),
                    lambda: word * 200,
                    lambda: "a" * 10_000,
                    lambda: rng.choice(self.known.texts),
                )
            )()
        )

    def order(self, entity: str) -> Any:
        """Return fields to order by, and what is none."""
        rng = self.rng

        def one() -> str:
            name = str(rng.choice(self._names(entity)))
            return rng.choice(
                (name, f"-{name}", f"--{name}", f"+{name}", "?", "-?", "pk", "-pk", "id", "", "-", name)
            )

        any_field = str(rng.choice(self.known.fields.get(entity) or ("id",)))
        return rng.choice(
            (
                lambda: [any_field],
                lambda: [f"-{any_field}"],
                lambda: [one()],
                lambda: [one(), one()],
                lambda: [one()] * 2,
                lambda: [one() for _ in range(100)],
                lambda: [rng.choice(self.known.relations or ("a__b",))],
                one,
                self.value,
            )
        )()

    def _measure(self, entity: str) -> Any:
        rng = self.rng
        chance = rng.random()
        if chance < 0.3:
            return {"op": "count"}
        numbers = [
            name for name in self.known.listed.get(entity) or () if self._type(entity, name) == "number"
        ]
        if numbers and chance < 0.6:
            return {"op": rng.choice(OPS), "field": rng.choice(numbers)}
        if chance < 0.95:
            return {
                "op": rng.choice((*OPS, "stddev", "array_agg", 1)),
                "field": rng.choice(self._names(entity)),
            }
        return self.value()

    def _few(self, most: int) -> int:
        """Return one for the most part, and by chance up to so many."""
        return 1 if self.rng.random() < 0.7 else self.rng.randrange(1, most + 1)

    def _type(self, entity: str, name: Any) -> str:
        return self.known.types.get((entity, str(name)), "")
