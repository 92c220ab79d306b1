"""What the assistant may ask the store to do besides reading and filling in forms.

Each function says what would happen; nothing does until a person has confirmed it.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any

from django.db.models import Sum
from django.utils.formats import date_format
from django.utils.timezone import localtime
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_copilot import Above, Arg, Category, Effect, Preview, Refused, write_tool

from . import payments
from .models import Order, Payment, Refund

APPROVAL_OVER = 10_000  # cents
# A pending refund counts as spent until it is known to have failed.
_SPENT = (Refund.State.PENDING, Refund.State.SUCCEEDED)


@write_tool(
    Order,
    category=Category.READ_ONLY,
    permissions=["store.view_order"],
    title=_("Draft a message to a customer"),
)
def draft_customer_message(ctx: Any, order: str, topic: Annotated[str, Arg(max_length=200)]) -> str:
    """Draft a message to the customer of an order, by its number. Sends nothing."""
    found = ctx.get(Order, number=order)
    try:
        greeting = gettext("Dear %(name)s,") % {"name": ctx.related(found, "customer").name}
    except Refused:  # she may see the order and not the customer
        greeting = gettext("Dear customer,")
    return gettext(
        "%(greeting)s\n\n"
        "we are writing about your order %(number)s of %(date)s: %(topic)s.\n\n"
        "If you have any question, just answer this message.\n\n"
        "Kind regards\n"
        "Your store"
    ) % {
        "greeting": greeting,
        "number": found.number,
        "date": date_format(localtime(found.placed_at), "DATE_FORMAT"),
        "topic": topic.rstrip(" .!"),
    }


@write_tool(
    Order,
    category=Category.MUTATING,
    permissions=["store.change_order"],
    reversible=True,
    title=_("Change the shipping address"),
)
def change_shipping_address(
    ctx: Any,
    order: str,
    street: Annotated[str, Arg(max_length=120)],
    postal_code: Annotated[str, Arg(max_length=20)],
    city: Annotated[str, Arg(max_length=80)],
) -> Preview:
    """Change where an order, named by its number, is delivered."""
    found = ctx.get(Order, number=order)
    if found.status == Order.Status.SHIPPED:
        raise Refused(_("This order has shipped; its address can't change any more."))
    return Preview(found, shipping_street=street, shipping_postal_code=postal_code, shipping_city=city)


@write_tool(
    Payment,
    category=Category.DESTRUCTIVE,
    permissions=["store.propose_refund"],
    verb="view",  # nothing of the payment itself changes
    approval=Above(APPROVAL_OVER, window=timedelta(days=1)),
    keys_kept=timedelta(days=30),
    title=_("Refund a payment"),
)
def refund_payment(
    ctx: Any,
    order: str,
    amount_cents: Annotated[int, Arg(min=1)],
    reason: Annotated[str, Arg(max_length=200)],
) -> Preview:
    """Give money back to the customer of an order, named by its number."""
    if not payments.is_set_up():
        raise Refused(_("Nothing can be refunded: the setting STORE_GATEWAY_URL names no payment gateway."))
    found = ctx.look_up(Order, number=order)
    payment, left = _payment_with(ctx, found, amount_cents)
    return Preview(
        payment,
        system={
            "payment": payment,
            "currency": payment.currency,
            "customer": ctx.related(found, "customer"),
        },
        summary=Effect(
            _("%(amount)s %(currency)s of order %(order)s"),
            amount=_money(amount_cents),
            currency=payment.currency,
            order=found.number,
        ),
        amount=amount_cents,
        effects=[
            Effect(
                _("%(amount)s %(currency)s go back to the customer's card. That can't be taken back."),
                amount=_money(amount_cents),
                currency=payment.currency,
            ),
            Effect(
                _("%(left)s %(currency)s of the payment are left to refund afterwards."),
                left=_money(left - amount_cents),
                currency=payment.currency,
            ),
        ],
        payload={
            "payment": payment.gateway_reference,
            "amount_cents": amount_cents,
            "currency": payment.currency,
            "reason": reason,
        },
    )


def _payment_with(ctx: Any, order: Order, cents: int) -> tuple[Payment, int]:
    """Return the first payment of an order of which that much is left, and how much is. Raises Refused."""
    through_gateway = [each for each in ctx.list(Payment, order=order) if each.gateway_reference]
    if not through_gateway:
        raise Refused(_("This order has no payment that came through the payment gateway."))
    spent = dict(
        ctx.unscoped(Refund)
        .filter(payment__in=[each.pk for each in through_gateway], state__in=_SPENT)
        .order_by()
        .values_list("payment")
        .annotate(sum=Sum("amount_cents"))
    )
    left = [(each, each.amount_cents - spent.get(each.pk, 0)) for each in through_gateway]
    for payment, cents_left in left:
        if cents <= cents_left:
            return payment, cents_left
    payment, most = max(left, key=lambda each: each[1])
    raise Refused(
        gettext(
            "No payment of this order has that much left: at most %(amount)s %(currency)s can be refunded."
        )
        % {"amount": _money(max(most, 0)), "currency": payment.currency}
    )


def _money(cents: int) -> Decimal:
    return Decimal(cents).scaleb(-2)


@refund_payment.reserve
def reserve(ctx: Any, preview: Preview, grant: Any) -> None:
    """Count the money as spent before the gateway is asked for it."""
    sent = preview.payload
    Refund.objects.create(
        payment=preview.record,
        amount_cents=sent["amount_cents"],
        reason=sent["reason"],
        idempotency_key=grant.key,
    )


@refund_payment.call
def call(payload: dict[str, Any], key: str) -> dict[str, Any]:
    """Ask the gateway for the refund."""
    return payments.refund(payload, key)


@refund_payment.look_up
def look_up(payload: dict[str, Any], key: str) -> dict[str, Any] | None:
    """Ask the gateway what became of the refund."""
    return payments.look_up(payload, key)


@refund_payment.settle
def settle(grant: Any, succeeded: bool, result: dict[str, Any] | None) -> None:
    """Keep how the refund ended. Money that went back stays spent, whatever is heard later."""
    refunds = Refund.objects.filter(idempotency_key=grant.key)
    if succeeded:
        refunds.exclude(state=Refund.State.SUCCEEDED).update(
            state=Refund.State.SUCCEEDED, gateway_reference=(result or {}).get("gateway_reference", "")
        )
    else:
        refunds.filter(state=Refund.State.PENDING).update(state=Refund.State.FAILED)
