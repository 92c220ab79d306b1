"""Characters that hide or reorder others are seen as their codes, wherever a plan shows text."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_copilot import Effect, Preview, write_tool
from django_copilot.values import made_visible
from example_project.store.models import Customer, Order
from tests.gate.conftest import Orders

from .declared import confirm, propose

# -- characters that can't be seen -----------------------------------------------------------------------------

HIDDEN = {
    "right to left": "\u202e",
    "left to right mark": "\u200e",
    "isolate": "\u2066",
    "zero width space": "\u200b",
    "joiner": "\u200d",
    "byte order mark": "\ufeff",
    "soft hyphen": "\u00ad",
    "tag": "\U000e0041",
    "variation selector": "\ufe0f",
    "variation selector 17": "\U000e0100",
    "mongolian selector": "\u180b",
    "hangul filler": "\u3164",
    "braille blank": "\u2800",
    "combining joiner": "\u034f",
    "line separator": "\u2028",
    "escape": "\x1b",
    "backspace": "\x08",
    "return": "\r",
    "delete": "\x7f",
    "next line": "\x85",
    "private": "\ue000",
    "unassigned": "\U0001fbff",
    "nonchar": "\uffff",
    "interlinear": "\ufff9",
    "deprecated format": "\u206a",
    "shorthand format": "\U0001bca0",
    "musical": "\U0001d173",
}
VISIBLE = [
    "",
    "plain",
    "Zażółć gęślą jaźń",
    "Привет",
    "日本語",
    "عربي",
    "עברית",
    "👍",
    "é",
    "two\nlines\tand",
    "a b",
]


@pytest.mark.parametrize("name", HIDDEN)
def test_a_character_that_hides_or_reorders_is_written_as_its_code(name: str) -> None:
    char = HIDDEN[name]
    assert made_visible(f"a{char}b") == f"a⟨U+{ord(char):04X}⟩b"


# What Unicode says is to be ignored where it can't be drawn.
IGNORABLE = [
    *(0x00AD, 0x034F, 0x061C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFEFF, 0xFFA0),
    *range(0x180B, 0x1810),
    *range(0x200B, 0x2010),
    *range(0x202A, 0x202F),
    *range(0x2060, 0x2070),
    *range(0xFE00, 0xFE10),
    *range(0xFFF0, 0xFFF9),
    *range(0x1BCA0, 0x1BCA4),
    *range(0x1D173, 0x1D17B),
    *range(0xE0000, 0xE1000),
]


def test_everything_that_unicode_lets_be_ignored_is_written_as_its_code() -> None:
    left = [f"{code:X}" for code in IGNORABLE if made_visible(chr(code)) != f"⟨U+{code:04X}⟩"]
    assert left == []


@pytest.mark.parametrize("text", VISIBLE)
def test_text_that_can_be_read_stays_as_it_is(text: str) -> None:
    assert made_visible(text) == text


@given(st.text(max_size=30))
def test_nothing_that_hides_is_left(text: str) -> None:
    left = made_visible(text)
    assert made_visible(left) == left
    for char in left:
        assert unicodedata.category(char) not in ("Cf", "Zl", "Zp", "Co", "Cn") or char in "\n\t"
        assert unicodedata.category(char) != "Cc" or char in "\n\t"


def test_hidden_characters_are_seen_wherever_a_plan_shows_text(orders: Orders, login: Any) -> None:
    """Guards hazard 165: old and new values, labels, arguments, effects, the reason, and the result."""
    bad = "Os\u202elo\U000e0041"
    seen = "Os⟨U+202E⟩lo⟨U+E0041⟩"
    order = Order.objects.get(pk=orders.own)
    Order.objects.filter(pk=order.pk).update(shipping_city=bad)
    Customer.objects.filter(pk=order.customer_id).update(name=bad)

    @write_tool(Order)
    def hiding(ctx: Any, pk: int, city: str) -> Preview:
        """Do it."""
        found = ctx.get(Order, pk=pk)
        customer = ctx.related(found, "customer")
        return Preview(
            found,
            shipping_city=city + "!",
            effects=[Effect("To %(who)s.", who=customer), Effect("At %(city)s.", city=city), f"Raw {city}"],
            system={"customer": customer},
            acting_as=bad,
            summary=Effect("of %(who)s", who=customer),
        )

    @hiding.apply
    def apply(ctx: Any, preview: Preview, grant: Any) -> dict[str, str]:
        Order.objects.filter(pk=preview.record.pk).update(shipping_city=bad + "!")
        return {"sent_to": bad}

    client = login("support")
    plan = propose(client, "hiding", {"pk": order.pk, "city": bad})
    everything = json.dumps(plan, ensure_ascii=False)
    assert not any(char in everything for char in "\u202e\U000e0041")
    assert everything.count(seen) >= 8
    assert plan["warnings"]
    done = confirm(client, plan)
    assert done["resultRows"] == [{"label": "Sent to", "value": seen}]
    for text in (json.dumps(done, ensure_ascii=False), client.get(plan["url"]).content.decode()):
        assert not any(char in text for char in "\u202e\U000e0041")
    order.refresh_from_db()
    assert order.shipping_city == bad + "!"  # shown as it is, and stored as it was said

    clean = propose(client, "change_shipping_address", {
        "order": order.number, "street": "S", "postal_code": "0", "city": "Bergen"
    })  # fmt: skip
    assert clean["warnings"]  # of the old value
    Order.objects.filter(pk=order.pk).update(shipping_city="")
    Customer.objects.filter(pk=order.customer_id).update(name="Ola")
    clean = propose(client, "change_shipping_address", {
        "order": order.number, "street": "S", "postal_code": "0", "city": "Bergen"
    })  # fmt: skip
    assert clean["warnings"] == []
