"""Questions of the store's staff that a number, a sum, an order, a history or the admin's own list answers.

Each comes with the call that answers it, so that it is asked of the tools even where the offline backend does not
get the sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from django.db.models import Count, QuerySet, Sum
from django.utils import timezone

from .models import Customer, Order, Product, Region

Check = Callable[[Mapping[str, Any]], str]  # an answer of the chat → what is wrong with it, or ""
Asked = tuple[str, str, str, Check, tuple[str, dict[str, Any]]]  # name, username, message, check, call

COUNT = [{"op": "count"}]
SAID: Mapping[str, Mapping[str, str]] = {
    "en": {
        "count paid": "how many orders are paid?",
        "count vips": "how many VIP customers are there?",
        "count active": "how many products are active?",
        "count cheap": "how many products are cheaper than 50?",
        "count since": "how many orders after {day}?",
        "by status": "number of orders by status",
        "by month": "orders per month",
        "total by status": "total price of products by status",
        "customers by country": "number of customers by country",
        "cheapest": "5 cheapest products",
        "oldest": "the oldest orders",
        "two statuses": "paid or shipped orders",
        "without category": "products without a category",
        "price range": "products with price between 50 and 70",
        "search": "find order {number}",
        "after a day": "orders after {day}",
        "history": "who changed order {changed}?",
        "ship": "mark the paid orders as shipped",
    },
    "pl": {
        "count paid": "ile jest opłaconych zamówień?",
        "count vips": "ilu jest klientów VIP?",
        "count active": "ile produktów jest aktywnych?",
        "count cheap": "ile produktów jest tańszych niż 50?",
        "count since": "ile zamówień po {day}?",
        "by status": "liczba zamówień według statusu",
        "by month": "zamówienia według miesięcy",
        "total by status": "suma cen produktów według statusu",
        "customers by country": "liczba klientów według kraju",
        "cheapest": "5 najtańszych produktów",
        "oldest": "najstarsze zamówienia",
        "two statuses": "opłacone lub wysłane zamówienia",
        "without category": "produkty bez kategorii",
        "price range": "produkty z ceną od 50 do 70",
        "search": "znajdź zamówienie {number}",
        "after a day": "zamówienia po {day}",
        "history": "kto zmienił zamówienie {changed}?",
        "ship": "oznacz opłacone zamówienia jako wysłane",
    },
    "ru": {
        "count paid": "сколько оплаченных заказов?",
        "count vips": "сколько клиентов VIP?",
        "count active": "сколько активных товаров?",
        "count cheap": "сколько товаров дешевле 50?",
        "count since": "сколько заказов после {day}?",
        "by status": "количество заказов по статусам",
        "by month": "заказы по месяцам",
        "total by status": "сумма цен товаров по статусу",
        "customers by country": "количество клиентов по странам",
        "cheapest": "5 самых дешёвых товаров",
        "oldest": "самые старые заказы",
        "two statuses": "оплаченные или отправленные заказы",
        "without category": "товары без категории",
        "price range": "товары с ценой от 50 до 70",
        "search": "найди заказ {number}",
        "after a day": "заказы после {day}",
        "history": "кто изменил заказ {changed}?",
        "ship": "отметь оплаченные заказы как отправленные",
    },
}


def asked(language: str) -> Iterator[Asked]:
    """Give the questions of one language, of everybody whose rights allow them."""
    seen = Order.objects.filter(region=Region.NORTH, customer__vip=False)  # by support, and by its bot
    some = seen.order_by("placed_at")[seen.count() // 2]
    changed = Order.objects.earliest("pk")
    day = timezone.localtime(some.placed_at).date()
    words = {"day": day.isoformat(), "number": some.number, "changed": changed.number}
    say = {name: text.format(**words) for name, text in SAID[language].items()}

    def one(name: str, who: str, check: Check, tool: str, **arguments: Any) -> Asked:
        return f"{who}/{language}/{name}", who, say[name], check, (tool, arguments)

    for who in ("admin", "manager", "support", "bot"):
        orders = Order.objects.all() if who in ("admin", "manager") else seen
        paid = {"status": "paid"}
        later = [
            pk for pk, at in orders.values_list("pk", "placed_at") if timezone.localtime(at).date() > day
        ]
        yield one("count paid", who, _counts(orders.filter(**paid).count()), "count_order", filters=paid)
        yield one(
            "count since",
            who,
            _counts(len(later)),
            "count_order",
            filters={"placed_at": {"gt": day.isoformat()}},
        )
        vips = Customer.objects.filter(vip=True).count()
        yield one("count vips", who, _counts(vips), "count_customer", filters={"vip": True})
        groups = _numbers(orders, "status")
        yield one("by status", who, _groups(groups), "summarise_order", measures=COUNT, by=["status"])
        months = len(
            {
                timezone.localtime(at).date().replace(day=1)
                for at in orders.values_list("placed_at", flat=True)
            }
        )
        by_month = {"measures": COUNT, "by": ["placed_at"], "every": "month"}
        yield one("by month", who, _adds_up(months, orders.count()), "summarise_order", **by_month)
        groups = _numbers(Customer.objects.all(), "country")
        yield one(
            "customers by country", who, _groups(groups), "summarise_customer", measures=COUNT, by=["country"]
        )
        oldest = orders.order_by("placed_at", "-pk")
        yield one("oldest", who, _shows(oldest), "query_order", order_by=["placed_at"])
        two = {"status": {"in": ["paid", "shipped"]}}
        yield one(
            "two statuses",
            who,
            _shows(orders.filter(status__in=["paid", "shipped"])),
            "query_order",
            filters=two,
        )
        yield one("search", who, _shows(orders.filter(pk=some.pk)), "query_order", search=some.number)
        after = {"placed_at": {"gt": day.isoformat()}}
        yield one("after a day", who, _shows(orders.filter(pk__in=later)), "query_order", filters=after)
    for who in ("admin", "manager", "support", "viewer"):
        products = Product.objects.all()
        active = products.filter(status=Product.Status.ACTIVE).count()
        yield one("count active", who, _counts(active), "count_product", filters={"status": "active"})
        cheap = products.filter(price__lt=50).count()
        yield one("count cheap", who, _counts(cheap), "count_product", filters={"price": {"lt": "50"}})
        sums = products.order_by().values("status").annotate(total=Sum("price"))
        totals = {each["status"]: each["total"] for each in sums}
        of_price = [{"op": "sum", "field": "price"}]
        yield one(
            "total by status", who, _groups(totals), "summarise_product", measures=of_price, by=["status"]
        )
        cheapest = products.order_by("price", "-pk")
        yield one("cheapest", who, _shows(cheapest, first=5), "query_product", order_by=["price"], limit=5)
        none = {"category": {"isnull": True}}
        yield one(
            "without category", who, _shows(products.filter(category=None)), "query_product", filters=none
        )
        between = {"price": {"gte": "50", "lte": "70"}}
        within = products.filter(price__gte=50, price__lte=70)
        yield one("price range", who, _shows(within), "query_product", filters=between)
    for who in ("admin", "manager"):
        yield one("history", who, _tells_history, "history_order", id=str(changed.pk))
    for who in ("admin", "manager", "support"):
        yield one(
            "ship", who, _opens_list, "open_order_list", filters={"status": "paid"}, action="mark_as_shipped"
        )


def _numbers(rows: QuerySet[Any], name: str) -> dict[str, Any]:
    made = rows.order_by().values(name).annotate(number=Count("pk"))
    return {each[name]: each["number"] for each in made}


def _values(answer: Mapping[str, Any]) -> list[list[Any]]:
    table = answer["results"][-1] if answer["results"] else {"columns": [], "rows": []}
    return [[row["values"][each["name"]] for each in table["columns"]] for row in table["rows"]]


def _counts(number: int) -> Check:
    """Return a check that the answer is a number."""

    def check(answer: Mapping[str, Any]) -> str:
        given = _values(answer)
        return "" if given == [[number]] else f"it counts {given}, not {number}"

    return check


def _groups(wanted: Mapping[str, Any]) -> Check:
    """Return a check that the answer holds these numbers by their keys."""

    def check(answer: Mapping[str, Any]) -> str:
        given = {key: Decimal(value) for key, value in _values(answer)}
        same = given == {key: Decimal(value) for key, value in wanted.items()}
        return "" if same else f"it gives {given}, not {wanted}"

    return check


def _adds_up(groups: int, number: int) -> Check:
    """Return a check that the answer holds so many groups and so many records in all of them."""

    def check(answer: Mapping[str, Any]) -> str:
        given = [value for _key, value in _values(answer)]
        return (
            ""
            if (len(given), sum(given)) == (groups, number)
            else f"it gives {given} of {number} in {groups}"
        )

    return check


def _shows(rows: QuerySet[Any], *, first: int = 20) -> Check:
    """Return a check that the answer's table holds the first of these rows, in their order."""
    wanted = [str(pk) for pk in rows.values_list("pk", flat=True)[:first]]

    def check(answer: Mapping[str, Any]) -> str:
        given = [row["id"] for row in (answer["results"] or [{"rows": []}])[-1]["rows"]]
        return "" if given == wanted else f"it shows {given}, not {wanted}"

    return check


def _tells_history(answer: Mapping[str, Any]) -> str:
    """Return what is wrong with an answer that should be a history."""
    kinds = [table.get("kind") for table in answer["results"]]
    return "" if kinds[-1:] == ["history"] else f"it gives {kinds}: {answer['reply'][:200]}"


def _opens_list(answer: Mapping[str, Any]) -> str:
    """Return what is wrong with an answer that should open the list of orders, with rows ticked."""
    action = answer.get("action") or {}
    fits = str(action.get("path", "")).endswith("/store/order/") and "copilot-plan=" in str(action)
    return "" if fits else f"it opens {action}: {answer['reply'][:200]}"
