"""What a model is told before it answers: the history, the tools that this person is offered, the context.

Nothing is stored here and no model is asked, so that a request can be made to be looked at, too.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from django.contrib.admin import AdminSite
from django.utils.crypto import salted_hmac

from .. import prompt
from ..access import Access
from ..backends import ModelMessage, ModelRequest, ToolSpec
from ..models import Conversation, Message, Turn
from ..references import References
from ..scope import Scope, enter_scope
from ..tools import ranking
from ..tools.further import further_specs
from ..tools.offered import write_specs
from ..tools.schema import ASK_USER, FIND_ENTITIES, specs_for
from . import store

MOST_FOUND = 2 * ranking.FOUND_LIMIT  # entities offered besides those that were chosen


class Briefing:
    """What the model of one turn is told besides the turn itself, with the rights of the moment it was made."""

    def __init__(
        self, site: AdminSite, scope: Scope, user_pk: Any, message: str, page: dict[str, Any] | None
    ) -> None:
        self.site, self.scope, self.user_pk, self.message, self.page = site, scope, user_pk, message, page
        self.offered: list[str] = []  # entities whose tools are sent, by name
        self.looked_for: list[str] = []  # entities that the model has found, the latest last
        self.found: set[str] = set()  # those of the last time
        self.inherited: dict[str, set[str]] = {}  # what earlier answers in the request spoke of
        self.references = References()
        self.history: tuple[ModelMessage, ...] = ()
        self.tools: tuple[ToolSpec, ...] = ()
        self.context = ""

    def prepare(
        self,
        conversation: Conversation | None,
        *,
        before: Turn | None = None,
        shown: Iterable[Sequence[Any]] = (),
    ) -> None:
        """Read the history and choose the tools, with the rights of this moment.

        ``shown`` is what the running turn has shown already, as stored.
        Raises HistoryUnreadable, ScopeUnavailable, Refused.
        """
        earlier = store.history(conversation, before=before) if conversation is not None else []
        self.references = store.references_of(conversation, earlier, shown)
        with enter_scope(self.scope, self.user_pk) as request:
            access = Access(self.site, request)
            access.check_person()
            earlier = [each for each in earlier if not store.is_withheld(each, access)]
            self.history = tuple(
                ModelMessage(
                    role="user" if each.role == Message.Role.USER else "assistant",
                    text=each.text + store.reference_lines(each, access),
                )
                for each in earlier
            )
            for each in earlier:
                self.inherit(each.mentions)
            chosen = ranking.choose(
                access, self.message, page=(self.page or {}).get("entity", ""), recent=self.inherited
            )
            self.offered = list(dict.fromkeys([*self.offered, *(each.name for each in chosen)]))
            self.tools = self._tools(access)
            on_page = access.entity(self.page["entity"]) if self.page and "id" in self.page else None
            if on_page is not None:  # the model is told of a record, and may tell it in its own words
                self.inherit({on_page.entity.label: (), **on_page.told_by_ids})
            self.context = prompt.context(language=self.scope.language, page=self.page)

    def inherit(self, told: Mapping[str, Iterable[str]]) -> None:
        """Remember what else than this turn's calls the model is told of."""
        for label, fields in told.items():
            self.inherited.setdefault(label, set()).update(fields)

    def offer(self, names: Collection[str]) -> None:
        """Offer the tools of further entities, which the model has looked for. Raises ScopeUnavailable.

        Those that it looked for last are told of with all their tools; of the ones before, a few are kept.
        """
        first = [name for name in self.offered if name not in self.looked_for]
        new = [name for name in names if name not in first]
        self.looked_for = [*(each for each in self.looked_for if each not in new), *new][-MOST_FOUND:]
        self.offered = [*first, *self.looked_for]
        self.found = {*names}
        with enter_scope(self.scope, self.user_pk) as request:
            self.tools = self._tools(Access(self.site, request))

    def _tools(self, access: Access) -> tuple[ToolSpec, ...]:
        """Return the tools of the offered entities and those that belong to none, in a stable order."""
        chosen = [each for each in access.named(self.offered) if each.is_usable]
        specs = [spec for each in chosen for spec in specs_for(each)]
        further, more = further_specs(
            access,
            chosen,
            {spec.name: spec for spec in specs},
            self.message,
            page=(self.page or {}).get("entity", ""),
            recent=self.inherited,
            found=self.found,
        )
        specs = [further.pop(spec.name, spec) for spec in specs]
        specs += further.values()
        specs += write_specs(access, self.message, offered=self.offered)
        specs.append(ASK_USER)
        if more or ranking.has_more(access, chosen):
            specs.append(FIND_ENTITIES)
        return tuple(specs)

    def request(self, messages: Iterable[ModelMessage] = ()) -> ModelRequest:
        """Return what the model is asked with; ``messages`` are those of the turn after the person's own."""
        return ModelRequest(
            system=prompt.SYSTEM,
            tools=self.tools,
            messages=(*self.history, ModelMessage(role="user", text=self.message), *messages),
            context=self.context,
            person=salted_hmac(
                "django_copilot.person",
                json.dumps([str(self.user_pk), self.scope.site, self.scope.key]),
                algorithm="sha256",
            ).hexdigest()[:32],
        )
