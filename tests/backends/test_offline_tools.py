"""How the offline backend reads the arguments of a write tool."""

from __future__ import annotations

import pytest

from django_copilot.backends.base import ToolSpec
from django_copilot.backends.offline.tools import _arguments

ADDRESS = ToolSpec(
    name="change_shipping_address",
    description="",
    parameters={
        "type": "object",
        "properties": {
            "order": {"type": "string"},
            "street": {"type": "string"},
            "postal_code": {"type": "string"},
            "house": {"type": "integer"},
        },
    },
    kind="write",
)


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("order SO-1, street Long Road", {"order": "SO-1", "street": "Long Road"}),
        ("SO-1, postal code 00-001", {"order": "SO-1", "postal_code": "00-001"}),
        ("SO-1, street: Long Street 1, house: 7", {"order": "SO-1", "street": "Long Street 1", "house": 7}),
        ("order: SO-1, street = Old Street at the Street end", {"order": "SO-1", "street": "Old Street at the Street end"}),
        ("house: seven", {"house": "seven"}),
        ("", {}),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)  # fmt: skip
def test_a_value_goes_up_to_the_next_name_that_was_not_there_yet(text: str, given: dict[str, object]) -> None:
    assert _arguments(ADDRESS, text) == given
