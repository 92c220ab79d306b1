"""Questions that a number, a sum, a history or a page of the admin answers."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, Max, Min, Sum

from .asked import FRIDAY, LANGUAGES, NOVEMBER, OCTOBER, Question, ask, average, by_category, by_period, money

COUNT = [{"op": "count"}]


def _statuses(rows: Any, field: str = "status") -> list[tuple[list[Any], list[Any]]]:
    made = rows.order_by().values(field).annotate(n=Count("pk")).values_list(field, "n")
    return [([key], [number]) for key, number in made]


COUNTING: list[Question] = [
    # -- how many ---------------------------------------------------------------------------------
    ask(
        "paid orders", "manager", "count_order", {"filters": {"status": "paid"}},
        "how many orders are paid?", "ile jest opłaconych zamówień?", "сколько оплаченных заказов?",
        count=lambda s: s.orders.filter(status="paid").count(),
    ),
    ask(
        "paid orders in the north", "support", "count_order", {"filters": {"status": "paid"}},
        "how many paid orders are there?", "ile zamówień jest opłaconych?", "сколько заказов оплачено?",
        count=lambda s: s.orders.filter(status="paid").count(),
    ),
    ask(
        "orders since friday", "manager", "count_order", {"filters": {"placed_at": {"gte": "friday"}}},
        "how many orders since Friday?", "ile zamówień od piątku?", "сколько заказов с пятницы?",
        count=lambda s: s.orders.filter(FRIDAY).count(),
    ),
    ask(
        "orders of october", "support", "count_order", {"filters": {"placed_at": "october"}},
        "how many orders were placed in October?",
        "ile zamówień złożono w październiku?",
        "сколько заказов оформлено в октябре?",
        count=lambda s: s.orders.filter(OCTOBER).count(),
    ),
    ask(
        "customers", "admin", "count_customer", {},
        "How many customers do we have?", "Ilu mamy klientów?", "Сколько у нас клиентов?",
        count=lambda s: s.customers.count(),
    ),
    ask(
        "vips", "manager", "count_customer", {"filters": {"vip": True}},
        "how many VIP customers are there?", "ilu jest klientów VIP?", "сколько клиентов VIP?",
        count=lambda s: s.customers.filter(vip=True).count(),
    ),
    ask(
        "active products", "viewer", "count_product", {"filters": {"status": "active"}},
        "how many products are active?", "ile produktów jest aktywnych?", "сколько активных товаров?",
        count=lambda s: s.products.filter(status="active").count(),
    ),
    ask(
        "cheap products", "viewer", "count_product", {"filters": {"price": {"lt": "50"}}},
        "how many products are cheaper than 50?", "ile produktów jest tańszych niż 50?", "сколько товаров дешевле 50?",
        count=lambda s: s.products.filter(price__lt=50).count(),
    ),
    ask(
        "products without a category", "support", "count_product", {"filters": {"category": {"isnull": True}}},
        "how many products without a category?", "ile jest produktów bez kategorii?", "сколько товаров без категории?",
        count=lambda s: s.products.filter(category=None).count(),
    ),
    ask(
        "waiting or paid", "admin", "count_order", {"filters": {"status": {"in": ["pending", "paid"]}}},
        "how many orders are pending or paid?",
        "ile zamówień jest oczekujących lub opłaconych?",
        "сколько заказов ожидает или оплачено?",
        count=lambda s: s.orders.filter(status__in=["pending", "paid"]).count(),
    ),
    # -- sums -------------------------------------------------------------------------------------
    ask(
        "total price by category", "viewer", "summarise_product",
        {"measures": [{"op": "sum", "field": "price"}], "by": ["category"]},
        "total price of products by category",
        "suma cen produktów według kategorii",
        "сумма цен товаров по категориям",
        groups=lambda s: [
            ([name], [money(value)]) for name, value in by_category(s.products, n=Sum("price"))
        ],
    ),
    ask(
        "average price by status", "manager", "summarise_product",
        {"measures": [{"op": "avg", "field": "price"}], "by": ["status"]},
        "average price of products by status",
        "średnia cena produktów według statusu",
        "средняя цена товаров по статусу",
        groups=lambda s: [
            ([status], [average(s.products.filter(status=status))])
            for status in ("draft", "active", "archived")
        ],
    ),
    ask(
        "highest price by category", "support", "summarise_product",
        {"measures": [{"op": "max", "field": "price"}], "by": ["category"]},
        "highest price of products by category",
        "najwyższa cena produktów według kategorii",
        "максимальная цена товаров по категориям",
        groups=lambda s: [
            ([name], [money(value)]) for name, value in by_category(s.products, n=Max("price"))
        ],
    ),
    ask(
        "average price", "viewer", "summarise_product", {"measures": [{"op": "avg", "field": "price"}]},
        "what is the average price of products?", "jaka jest średnia cena produktów?", "какая средняя цена товаров?",
        groups=lambda s: [([], [average(s.products)])],
    ),
    ask(
        "total price of drafts", "admin", "summarise_product",
        {"measures": [{"op": "sum", "field": "price"}], "filters": {"status": "draft"}},
        "total price of draft products", "łączna cena produktów o statusie szkic", "суммарная цена товаров со статусом черновик",
        groups=lambda s: [([], [money(s.products.filter(status="draft").aggregate(n=Sum("price"))["n"])])],
    ),
    ask(
        "lowest price by status", "viewer", "summarise_product",
        {"measures": [{"op": "min", "field": "price"}], "by": ["status"]},
        "lowest price of products by status",
        "najniższa cena produktów według statusu",
        "минимальная цена товаров по статусу",
        groups=lambda s: [
            ([status], [money(value)])
            for status, value in s.products.order_by().values("status").annotate(n=Min("price")).values_list("status", "n")
        ],
    ),
    ask(
        "orders per month", "manager", "summarise_order",
        {"measures": COUNT, "by": ["placed_at"], "every": "month"},
        "orders per month", "zamówienia według miesięcy", "заказы по месяцам",
        groups=lambda s: by_period(list(s.orders.values_list("placed_at", flat=True)), "month"),
    ),
    ask(
        "orders per week", "support", "summarise_order",
        {"measures": COUNT, "by": ["placed_at"], "every": "week"},
        "how many orders per week?", "ile zamówień na tydzień?", "сколько заказов по неделям?",
        groups=lambda s: by_period(list(s.orders.values_list("placed_at", flat=True)), "week"),
    ),
    ask(
        "orders of november by day", "admin", "summarise_order",
        {"measures": COUNT, "by": ["placed_at"], "every": "day", "filters": {"placed_at": "november"}},
        "orders in November by day", "zamówienia w listopadzie według dni", "заказы в ноябре по дням",
        groups=lambda s: by_period(
            list(s.orders.filter(NOVEMBER).values_list("placed_at", flat=True)), "day"
        ),
    ),
    ask(
        "orders by status", "manager", "summarise_order", {"measures": COUNT, "by": ["status"]},
        "number of orders by status", "liczba zamówień według statusu", "количество заказов по статусам",
        groups=lambda s: _statuses(s.orders),
    ),
    ask(
        "orders by region", "support", "summarise_order", {"measures": COUNT, "by": ["region"]},
        "how many orders per region?", "ile zamówień według regionu?", "сколько заказов по регионам?",
        groups=lambda s: _statuses(s.orders, "region"),
    ),
    ask(
        "paid orders by region", "admin", "summarise_order",
        {"measures": COUNT, "by": ["region"], "filters": {"status": "paid"}},
        "number of paid orders by region", "liczba opłaconych zamówień według regionu", "количество оплаченных заказов по регионам",
        groups=lambda s: _statuses(s.orders.filter(status="paid"), "region"),
    ),
    ask(
        "orders by region and status", "manager", "summarise_order",
        {"measures": COUNT, "by": ["region", "status"]},
        "number of orders by region and status",
        "liczba zamówień według regionu i statusu",
        "количество заказов по регионам и статусам",
        groups=lambda s: [
            ([region, status], [n])
            for region, status, n in s.orders.order_by().values("region", "status").annotate(n=Count("pk")).values_list("region", "status", "n")
        ],
    ),
    ask(
        "the greatest category", "viewer", "summarise_product", {"measures": COUNT, "by": ["category"]},
        "which category has the most products?",
        "która kategoria ma najwięcej produktów?",
        "в какой категории больше всего товаров?",
        groups=lambda s: [([name], [n]) for name, n in by_category(s.products, n=Count("pk"))],
        offline=dict.fromkeys(LANGUAGES, "two kinds of record are named, and which of them is counted is not told"),
    ),
    ask(
        "customers by country", "manager", "summarise_customer", {"measures": COUNT, "by": ["country"]},
        "number of customers by country", "liczba klientów według kraju", "количество клиентов по странам",
        groups=lambda s: _statuses(s.customers, "country"),
    ),
    # -- history, lists ---------------------------------------------------------------------------
    ask(
        "who changed an order", "manager", "history_order", {"id": "12"},
        "who changed order SO-0000012?", "kto zmienił zamówienie SO-0000012?", "кто изменил заказ SO-0000012?",
        changes=12,
    ),
    ask(
        "the history of an order", "admin", "history_order", {"id": "12"},
        "show the history of order SO-0000012", "pokaż historię zamówienia SO-0000012", "покажи историю заказа SO-0000012",
        changes=12,
    ),
    ask(
        "mark as shipped", "manager", "open_order_list",
        {"filters": {"status": "paid"}, "action": "mark_as_shipped"},
        "mark the paid orders as shipped",
        "oznacz opłacone zamówienia jako wysłane",
        "отметь оплаченные заказы как отправленные",
        opens=lambda s: s.orders.filter(status="paid"),
    ),
    ask(
        "mark those of friday as shipped", "support", "open_order_list",
        {"filters": {"status": "paid", "placed_at": {"gte": "friday"}}, "action": "mark_as_shipped"},
        "mark the paid orders since Friday as shipped",
        "oznacz opłacone zamówienia od piątku jako wysłane",
        "отметь оплаченные заказы с пятницы как отправленные",
        opens=lambda s: s.orders.filter(FRIDAY, status="paid"),
    ),
    ask(
        "the list of paid orders", "manager", "open_order_list", {"filters": {"status": "paid"}},
        "open the list of paid orders", "otwórz listę opłaconych zamówień", "открой список оплаченных заказов",
        opens=lambda s: s.orders.filter(status="paid"),
    ),
]  # fmt: skip
