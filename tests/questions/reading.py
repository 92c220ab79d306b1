"""Questions that rows answer: searches, ranges, dates, several values, what is empty, order."""

from __future__ import annotations

from .asked import FRIDAY, LANGUAGES, NOVEMBER, OCTOBER, Question, ask, at

UNNAMED = "which kind of record is meant is not named"
UNKNOWN_VALUES = "texts of a field without choices are not known from the tools"

READING: list[Question] = [
    # -- search -----------------------------------------------------------------------------------
    ask(
        "half a name", "manager", "query_customer", {"search": "Gołębiow"},
        "find the customer Gołębiow…", "znajdź klienta Gołębiow…", "найди клиента Gołębiow…",
        rows=lambda s: s.customers.filter(name__contains="Gołębiow"),
    ),
    ask(
        "a surname", "support", "query_customer", {"search": "Lindqvist"},
        "find the customer Lindqvist", "znajdź klienta Lindqvist", "найди клиента Lindqvist",
        rows=lambda s: s.customers.filter(name__contains="Lindqvist"),
    ),
    ask(
        "part of a number", "support", "query_order", {"search": "SO-000011"},
        "search orders for SO-000011", "wyszukaj zamówienia SO-000011", "поищи заказы SO-000011",
        rows=lambda s: s.orders.filter(number__contains="SO-000011"),
    ),
    ask(
        "one order", "manager", "query_order", {"search": "SO-0000042"},
        "show order SO-0000042", "pokaż zamówienie SO-0000042", "покажи заказ SO-0000042",
        rows=lambda s: s.orders.filter(number="SO-0000042"),
    ),
    ask(
        "an order of others", "support", "query_order", {"search": "SO-0000042"},
        "show me order SO-0000042", "pokaż mi zamówienie SO-0000042", "покажи мне заказ SO-0000042",
        rows=lambda s: s.orders.none(),
    ),
    ask(
        "a product by its code", "viewer", "query_product", {"search": "GAR-000"},
        "find the product GAR-000", "znajdź produkt GAR-000", "найди товар GAR-000",
        rows=lambda s: s.products.filter(sku__contains="GAR-000"),
    ),
    ask(
        "a product by a word", "viewer", "query_product", {"search": "lantern"},
        "find products called lantern", "znajdź produkty o nazwie lantern", "найди товары под названием lantern",
        rows=lambda s: s.products.filter(title__contains="lantern"),
    ),
    ask(
        "a customer's orders", "admin", "query_order", {"filters": {"customer": "12"}},
        "show orders of customer Małgorzata Pawłowska",
        "pokaż zamówienia klienta Małgorzata Pawłowska",
        "покажи заказы клиента Małgorzata Pawłowska",
        rows=lambda s: s.orders.filter(customer__name="Małgorzata Pawłowska"),
    ),
    # -- dates ------------------------------------------------------------------------------------
    ask(
        "since friday", "manager", "query_order", {"filters": {"placed_at": {"gte": "friday"}}},
        "orders since Friday", "zamówienia od piątku", "заказы с пятницы",
        rows=lambda s: s.orders.filter(FRIDAY),
    ),
    ask(
        "since friday, north", "support", "query_order", {"filters": {"placed_at": {"gte": "friday"}}},
        "show me the orders since Friday, please", "pokaż proszę zamówienia od piątku", "покажи заказы с пятницы, пожалуйста",
        rows=lambda s: s.orders.filter(FRIDAY),
    ),
    ask(
        "paid since friday", "manager", "query_order",
        {"filters": {"status": "paid", "placed_at": {"gte": "friday"}}},
        "paid orders since Friday", "opłacone zamówienia od piątku", "оплаченные заказы с пятницы",
        rows=lambda s: s.orders.filter(FRIDAY, status="paid"),
    ),
    ask(
        "paid last month", "manager", "query_order", {"filters": {"status": "paid", "placed_at": "last month"}},
        "Which orders were paid last month?",
        "opłacone zamówienia z zeszłego miesiąca",
        "оплаченные заказы за прошлый месяц",
        rows=lambda s: s.orders.filter(OCTOBER, status="paid"),
    ),
    ask(
        "october 2026", "support", "query_order", {"filters": {"placed_at": "2026-10"}},
        "orders placed in October 2026",
        "zamówienia złożone w październiku 2026",
        "заказы, оформленные в октябре 2026 года",
        rows=lambda s: s.orders.filter(OCTOBER),
    ),
    ask(
        "cancelled in november", "admin", "query_order",
        {"filters": {"status": "cancelled", "placed_at": "november"}},
        "cancelled orders in November", "anulowane zamówienia w listopadzie", "отменённые заказы в ноябре",
        rows=lambda s: s.orders.filter(NOVEMBER, status="cancelled"),
    ),
    ask(
        "the first days of november", "manager", "query_order",
        {"filters": {"placed_at": {"gte": "2026-11-01", "lte": "2026-11-05"}}},
        "orders between 1 and 5 November", "zamówienia od 1 do 5 listopada", "заказы с 1 по 5 ноября",
        rows=lambda s: s.orders.filter(placed_at__gte=at(2026, 11, 1), placed_at__lt=at(2026, 11, 6)),
    ),
    ask(
        "yesterday", "manager", "query_order", {"filters": {"placed_at": "yesterday"}},
        "yesterday's orders", "wczorajsze zamówienia", "вчерашние заказы",
        rows=lambda s: s.orders.filter(placed_at__gte=at(2026, 11, 29), placed_at__lt=at(2026, 11, 30)),
    ),
    ask(
        "today", "admin", "query_order", {"filters": {"placed_at": "today"}},
        "show today's orders", "pokaż dzisiejsze zamówienia", "покажи сегодняшние заказы",
        rows=lambda s: s.orders.filter(placed_at__gte=at(2026, 11, 30), placed_at__lt=at(2026, 12, 1)),
    ),
    ask(
        "the last seven days", "support", "query_order", {"filters": {"placed_at": "last 7 days"}},
        "orders of the last 7 days", "zamówienia z ostatnich 7 dni", "заказы за последние 7 дней",
        rows=lambda s: s.orders.filter(placed_at__gte=at(2026, 11, 24), placed_at__lt=at(2026, 12, 1)),
    ),
    ask(
        "last week", "manager", "query_order", {"filters": {"placed_at": "last week"}},
        "orders from last week", "zamówienia z zeszłego tygodnia", "заказы за прошлую неделю",
        rows=lambda s: s.orders.filter(placed_at__gte=at(2026, 11, 23), placed_at__lt=at(2026, 11, 30)),
    ),
    ask(
        "since ten days ago", "manager", "query_order", {"filters": {"placed_at": {"gte": "10 days ago"}}},
        "orders since 10 days ago", "zamówienia od 10 dni temu", "заказы начиная с 10 дней назад",
        rows=lambda s: s.orders.filter(placed_at__gte=at(2026, 11, 20)),
    ),
    ask(
        "before a day", "admin", "query_order", {"filters": {"placed_at": {"lt": "2026-09-05"}}},
        "orders before 5 September 2026", "zamówienia przed 5 września 2026", "заказы раньше 5 сентября 2026",
        rows=lambda s: s.orders.filter(placed_at__lt=at(2026, 9, 5)),
    ),
    ask(
        "after a day", "manager", "query_order", {"filters": {"placed_at": {"gt": "2026-11-25"}}},
        "orders after 2026-11-25", "zamówienia po 2026-11-25", "заказы после 2026-11-25",
        rows=lambda s: s.orders.filter(placed_at__gte=at(2026, 11, 26)),
    ),
    ask(
        "a town in october", "support", "query_order",
        {"filters": {"shipping_city": "Toruń", "placed_at": "october"}},
        "orders from Toruń in October", "zamówienia z miasta Toruń w październiku", "заказы из города Toruń в октябре",
        rows=lambda s: s.orders.filter(OCTOBER, shipping_city="Toruń"),
    ),
    ask(
        "not for sale yet", "manager", "query_product", {"filters": {"available_from": "next month"}},
        "products available next month", "produkty dostępne w przyszłym miesiącu", "товары, доступные в следующем месяце",
        rows=lambda s: s.products.filter(available_from__gte=at(2026, 12, 1), available_from__lt=at(2027, 1, 1)),
    ),
    # -- numbers ----------------------------------------------------------------------------------
    ask(
        "dear", "viewer", "query_product", {"filters": {"price": {"gt": "100"}}},
        "products over 100", "produkty powyżej 100 zł", "товары дороже 100",
        rows=lambda s: s.products.filter(price__gt=100),
    ),
    ask(
        "cheap", "support", "query_product", {"filters": {"price": {"lt": "50"}}},
        "products cheaper than 50", "produkty tańsze niż 50 zł", "товары дешевле 50",
        rows=lambda s: s.products.filter(price__lt=50),
    ),
    ask(
        "within a price", "viewer", "query_product", {"filters": {"price": {"gte": "50", "lte": "70"}}},
        "products with price between 50 and 70", "produkty z ceną od 50 do 70", "товары с ценой от 50 до 70",
        rows=lambda s: s.products.filter(price__gte=50, price__lte=70),
    ),
    ask(
        "dear and active", "manager", "query_product", {"filters": {"status": "active", "price": {"gt": "150"}}},
        "active products over 150", "aktywne produkty droższe niż 150", "активные товары дороже 150",
        rows=lambda s: s.products.filter(status="active", price__gt=150),
    ),
    ask(
        "a price at least", "admin", "query_product", {"filters": {"price": {"gte": "200.29"}}},
        "products with price at least 200.29", "produkty z ceną co najmniej 200,29", "товары с ценой не меньше 200,29",
        rows=lambda s: s.products.filter(price__gte="200.29"),
    ),
    # -- several values, none ---------------------------------------------------------------------
    ask(
        "paid or shipped", "support", "query_order", {"filters": {"status": {"in": ["paid", "shipped"]}}},
        "paid or shipped orders", "opłacone lub wysłane zamówienia", "оплаченные или отправленные заказы",
        rows=lambda s: s.orders.filter(status__in=["paid", "shipped"]),
    ),
    ask(
        "not shipped", "manager", "query_order",
        {"filters": {"status": {"in": ["pending", "paid", "cancelled"]}}},
        "orders that are not shipped", "niewysłane zamówienia", "неотправленные заказы",
        rows=lambda s: s.orders.exclude(status="shipped"),
    ),
    ask(
        "without a category", "viewer", "query_product", {"filters": {"category": {"isnull": True}}},
        "products without a category", "produkty bez kategorii", "товары без категории",
        rows=lambda s: s.products.filter(category=None),
    ),
    ask(
        "of a category", "viewer", "query_product", {"filters": {"category": "3"}},
        "products of category Kitchen", "produkty z kategorii Kitchen", "товары из категории Kitchen",
        rows=lambda s: s.products.filter(category__name="Kitchen"),
    ),
    ask(
        "two countries", "manager", "query_customer", {"filters": {"country": {"in": ["Sweden", "Italy"]}}},
        "customers from Sweden or Italy", "klienci ze Szwecji lub Włoch", "клиенты из Швеции или Италии",
        rows=lambda s: s.customers.filter(country__in=["Sweden", "Italy"]),
        offline=dict.fromkeys(LANGUAGES, UNKNOWN_VALUES),
    ),
    ask(
        "a town", "support", "query_customer", {"filters": {"city": "Gdańsk"}},
        "customers from Gdańsk", "klienci z miasta Gdańsk", "клиенты из города Gdańsk",
        rows=lambda s: s.customers.filter(city="Gdańsk"),
    ),
    # -- order ------------------------------------------------------------------------------------
    ask(
        "the newest ten", "manager", "query_order", {"limit": 10, "order_by": ["-placed_at"]},
        "10 newest orders", "10 najnowszych zamówień", "10 последних заказов",
        rows=lambda s: s.orders, limit=10,
    ),
    ask(
        "the oldest", "support", "query_order", {"order_by": ["placed_at"]},
        "the oldest orders", "najstarsze zamówienia", "самые старые заказы",
        rows=lambda s: s.orders.order_by("placed_at", "-id"),
    ),
    ask(
        "the cheapest five", "viewer", "query_product", {"limit": 5, "order_by": ["price"]},
        "5 cheapest products", "5 najtańszych produktów", "5 самых дешёвых товаров",
        rows=lambda s: s.products.order_by("price", "-id"), limit=5,
    ),
    ask(
        "the dearest", "admin", "query_product", {"limit": 1, "order_by": ["-price"]},
        "the most expensive product", "najdroższy produkt", "самый дорогой товар",
        rows=lambda s: s.products.order_by("-price", "-id"), limit=1,
    ),
    ask(
        "sorted by price", "manager", "query_product", {"order_by": ["-price"]},
        "products sorted by price descending",
        "produkty posortowane według ceny malejąco",
        "товары, отсортированные по цене по убыванию",
        rows=lambda s: s.products.order_by("-price", "-id"),
    ),
    ask(
        "active ones by price", "viewer", "query_product",
        {"filters": {"status": "active"}, "order_by": ["price"]},
        "active products sorted by price", "aktywne produkty posortowane po cenie", "активные товары, отсортированные по цене",
        rows=lambda s: s.products.filter(status="active").order_by("price", "-id"),
    ),
    # -- what stays with the person ---------------------------------------------------------------
    ask(
        "a phone number", "support", "query_customer", {"fields": ["name", "phone"], "search": "Julia Wójcik"},
        "what is the phone of customer Julia Wójcik?",
        "jaki jest telefon klienta Julia Wójcik?",
        "какой телефон у клиента Julia Wójcik?",
        rows=lambda s: s.customers.filter(name="Julia Wójcik"),
    ),
    ask(
        "an e-mail", "manager", "query_customer", {"fields": ["name", "email"], "search": "Erik Hägg"},
        "show the e-mail of customer Erik Hägg", "pokaż e-mail klienta Erik Hägg", "покажи почту клиента Erik Hägg",
        rows=lambda s: s.customers.filter(name="Erik Hägg"),
    ),
    # -- as people say it -------------------------------------------------------------------------
    ask(
        "paid and not shipped", "manager", "query_order",
        {"filters": {"status": "paid", "placed_at": {"gte": "friday"}}},
        "orders paid but not shipped since Friday",
        "zamówienia opłacone, ale niewysłane od piątku",
        "заказы, оплаченные, но не отправленные с пятницы",
        rows=lambda s: s.orders.filter(FRIDAY, status="paid"),
    ),
    ask(
        "the weekend", "support", "query_order",
        {"filters": {"placed_at": {"gte": "2026-11-28", "lte": "2026-11-29"}}},
        "what came in over the weekend?", "co wpadło w weekend?", "что пришло за выходные?",
        rows=lambda s: s.orders.filter(placed_at__gte=at(2026, 11, 28), placed_at__lt=at(2026, 11, 30)),
        offline=dict.fromkeys(LANGUAGES, UNNAMED),
    ),
    ask(
        "unpaid from a town", "manager", "query_order",
        {"filters": {"shipping_city": "Zakopane", "status": "pending"}},
        "is anything from Zakopane still unpaid?", "czy coś z Zakopanego jest jeszcze nieopłacone?", "есть ли что-то неоплаченное из Zakopane?",
        rows=lambda s: s.orders.filter(shipping_city="Zakopane", status="pending"),
        offline=dict.fromkeys(LANGUAGES, UNNAMED),
    ),
    ask(
        "anything under 20", "viewer", "query_product", {"filters": {"price": {"lt": "20"}}},
        "do we sell anything under 20?", "czy mamy coś poniżej 20 zł?", "есть ли у нас что-нибудь дешевле 20?",
        rows=lambda s: s.products.filter(price__lt=20),
        offline=dict.fromkeys(LANGUAGES, UNNAMED),
    ),
    ask(
        "somebody's last order", "support", "query_order",
        {"search": "Julia Wójcik", "order_by": ["-placed_at"], "limit": 1},
        "when did Julia Wójcik last order something?",
        "kiedy Julia Wójcik ostatnio coś zamówiła?",
        "когда Julia Wójcik заказывала в последний раз?",
        rows=lambda s: s.orders.filter(customer__name="Julia Wójcik"), limit=1,
        offline=dict.fromkeys(LANGUAGES, UNNAMED),
    ),
    ask(
        "payments of a currency", "support", "query_payment", {"filters": {"currency": "EUR"}},
        "payments with currency EUR", "płatności z walutą EUR", "платежи с валютой EUR",
        rows=lambda s: s.payments.filter(currency="EUR"),
    ),
]  # fmt: skip
