"""The ``openai`` backend with worked turns before the conversation: a small model calls no tool without them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from django_copilot.backends.base import ModelMessage, ModelReply, ModelRequest, ToolCall
from django_copilot.backends.openai import OpenAIBackend
from django_copilot.exceptions import BackendError

# What a person says, and the call that is right for it. Only those of tools that she has are shown.
WORKED: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    ("Show three products", "query_product", {"limit": 3}),
    ("Delete the product 12", "confirm_delete_product", {"id": "12"}),
    ("Which orders are paid?", "query_order", {"filters": {"status": "paid"}}),
    ("Delete the order 31", "confirm_delete_order", {"id": "31"}),
    ("Pokaż klientów z Krakowa", "query_customer", {"filters": {"city": "Kraków"}}),
    ("Change the city of order 18 to Gdynia", "open_order_form", {"id": "18", "fields": {"shipping_city": "Gdynia"}}),
    ("Refund 5.00 of order SO-0000044, it was late", "refund_payment", {"order": "SO-0000044", "amount_cents": 500, "reason": "Late"}),
    ("Archive the product 9", "open_product_form", {"id": "9", "fields": {"status": "archived"}}),
    ("Покажи платежи", "query_payment", {"limit": 5}),
    ("Usuń kategorię 4", "confirm_delete_category", {"id": "4"}),
    ("Add a customer Jan Nowak", "open_customer_form", {"fields": {"name": "Jan Nowak"}}),
    ("Send order SO-0000051 to Długa 3, 80-001 Gdańsk", "change_shipping_address", {"order": "SO-0000051", "street": "Długa 3", "postal_code": "80-001", "city": "Gdańsk"}),
    ("Удали клиента 23", "confirm_delete_customer", {"id": "23"}),
    ("List the categories", "query_category", {}),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request to the model, and its answer or the code of what went wrong."""

    request: ModelRequest
    reply: ModelReply | None = None
    code: str = ""


class TutoredBackend(OpenAIBackend):
    """Ask the model with worked turns first, and keep what it was asked and answered in ``asked``."""

    asked: ClassVar[list[Asked]] = []

    def complete(self, request: ModelRequest) -> ModelReply:
        # The date and the page come first: in the last message the model only repeats them.
        context = ModelMessage(role="user", text=request.context)
        tutored = replace(request, messages=(context, *worked_turns(request), *request.messages), context="")
        try:
            reply = super().complete(tutored)
        except BackendError as error:
            self.asked.append(Asked(request=request, code=error.code))
            raise
        self.asked.append(Asked(request=request, reply=reply))
        return reply


def worked_turns(request: ModelRequest) -> Iterator[ModelMessage]:
    """Yield turns in which the tools of a request are called as they should be, and what follows a result."""
    offered = {tool.name for tool in request.tools}
    for number, (said, name, arguments) in enumerate(WORKED):
        if name not in offered:
            continue
        ident = f"worked_{number}"
        call = ToolCall(id=ident, name=name, arguments=json.dumps(arguments, ensure_ascii=False))
        yield ModelMessage(role="user", text=said)
        yield ModelMessage(role="assistant", calls=(call,))
        if name.startswith("query_"):
            yield ModelMessage(role="tool", call_id=ident, text='{"rows": [], "has_more": false}')
            yield ModelMessage(role="assistant", text="Here they are.")
