"""Tables of numbers, what was asked for, and what was sent, as a person sees them in the panel."""

from __future__ import annotations

from playwright.sync_api import expect

from django_copilot.testing import Call
from example_project.store.models import Customer, Order

from .panel import Rows


def test_what_was_sent_is_told_and_listed(open_as, panel, model, shot):
    email = Customer.objects.order_by("name").values_list("email", flat=True)[0]
    model.will(Call("query_customer", {"fields": ["name", "email"], "limit": 50}), "Here.")
    open_as("manager")
    answer = panel.ask("Show the customers")
    sent = answer.locator("details.copilot-sent")
    expect(sent.locator("summary")).to_have_text(
        f"{min(Customer.objects.count(), 50)} rows × 1 field were sent"
    )
    expect(sent.locator("li")).not_to_be_visible()
    sent.locator("summary").press("Enter")
    expect(sent.locator("li")).to_contain_text("Name")
    assert Rows(answer).columns[1].split() == ["E-mail", "not", "sent", "to", "the", "model"]
    assert email in Rows(answer).cells[0] or any(email in row for row in Rows(answer).cells)
    assert email not in model.sent
    shot("sent")


def test_numbers_are_a_table_without_links(open_as, panel, model, shot):
    model.will(
        Call(
            "summarise_order",
            {"measures": [{"op": "count"}], "by": ["status"], "filters": {"region": "north"}},
        ),
        "There.",
    )
    open_as("manager")
    answer = panel.ask("How many per status in the north")
    rows = Rows(answer)
    assert rows.columns == ["Status", "Number"]
    assert rows.links == []
    paid = Order.objects.filter(region="north", status="paid").count()
    assert ["Paid", str(paid)] in rows.cells
    expect(answer.locator(".copilot-asked li")).to_have_text("Region: North")
    shot("numbers")


def test_the_lines_of_a_record_stand_in_its_cell(open_as, panel, model, shot):
    order = Order.objects.filter(lines__isnull=False).order_by("pk").first()
    model.will(
        Call("query_order", {"fields": ["number", "lines"], "filters": {"id": str(order.pk)}}), "There."
    )
    open_as("manager")
    answer = panel.ask("Show its lines")
    lines = answer.locator(".copilot-inner li")
    expect(lines).to_have_count(order.lines.count())
    expect(lines.first).to_contain_text(order.lines.order_by("pk").first().product.title)
    shot("inner-rows")
