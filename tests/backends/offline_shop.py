"""A shop of the offline backend's tests: models in a registry of their own, named in three languages.

The names come from a table here and not from message catalogues, and no table exists in the database:
what the backend makes of a sentence depends on nothing else.
"""

from __future__ import annotations

from typing import Any

from django.apps.registry import Apps
from django.db import models
from django.utils.functional import lazy
from django.utils.translation import get_language

from django_copilot.backends import ToolSpec

registry = Apps()

NAMES = {
    "category": ("kategoria", "категория"),
    "categories": ("kategorie", "категории"),
    "tag": ("tag", "тег"),
    "tags": ("tagi", "теги"),
    "customer": ("klient", "клиент"),
    "customers": ("klienci", "клиенты"),
    "product": ("produkt", "товар"),
    "products": ("produkty", "товары"),
    "order": ("zamówienie", "заказ"),
    "orders": ("zamówienia", "заказы"),
    "order line": ("pozycja zamówienia", "позиция заказа"),
    "order lines": ("pozycje zamówień", "позиции заказов"),
    "name": ("nazwa", "имя"),
    "slug": ("skrót", "слаг"),
    "e-mail": ("e-mail", "эл. почта"),
    "city": ("miasto", "город"),
    "country": ("kraj", "страна"),
    "VIP": ("VIP", "VIP"),
    "internal note": ("notatka wewnętrzna", "внутренняя заметка"),
    "title": ("tytuł", "название"),
    "SKU": ("SKU", "артикул"),
    "status": ("status", "статус"),
    "price": ("cena", "цена"),
    "cost price": ("cena zakupu", "закупочная цена"),
    "available from": ("dostępny od", "доступен с"),
    "attributes": ("atrybuty", "атрибуты"),
    "number": ("numer", "номер"),
    "region": ("region", "регион"),
    "placed at": ("złożone", "оформлен"),
    "shipping city": ("miasto wysyłki", "город доставки"),
    "shipping country": ("kraj wysyłki", "страна доставки"),
    "quantity": ("ilość", "количество"),
    "Draft": ("Szkic", "Черновик"),
    "Active": ("Aktywny", "Активный"),
    "Archived": ("Zarchiwizowany", "В архиве"),
    "Pending": ("Oczekujące", "Ожидает"),
    "Paid": ("Opłacone", "Оплачен"),
    "Shipped": ("Wysłane", "Отправлен"),
    "North": ("Północ", "Север"),
    "South": ("Południe", "Юг"),
}


def _spoken(text: str) -> str:
    polish, russian = NAMES[text]
    return {"pl": polish, "ru": russian}.get(get_language() or "", text)


_: Any = lazy(_spoken, str)


class Shop(models.Model):
    class Meta:
        abstract = True
        apps = registry
        app_label = "offline_shop"


class Category(Shop):
    name = models.CharField(_("name"), max_length=80)
    slug = models.SlugField(_("slug"))

    class Meta(Shop.Meta):
        verbose_name = _("category")
        verbose_name_plural = _("categories")


class Tag(Shop):
    name = models.CharField(_("name"), max_length=80)

    class Meta(Shop.Meta):
        verbose_name = _("tag")
        verbose_name_plural = _("tags")


class Customer(Shop):
    name = models.CharField(_("name"), max_length=80)
    email = models.EmailField(_("e-mail"))
    city = models.CharField(_("city"), max_length=80)
    country = models.CharField(_("country"), max_length=80)
    vip = models.BooleanField(_("VIP"), default=False)
    internal_note = models.TextField(_("internal note"))

    class Meta(Shop.Meta):
        verbose_name = _("customer")
        verbose_name_plural = _("customers")


class Product(Shop):
    title = models.CharField(_("title"), max_length=80)
    sku = models.CharField(_("SKU"), max_length=32)
    status = models.CharField(
        _("status"),
        max_length=10,
        choices=[("draft", _("Draft")), ("active", _("Active")), ("archived", _("Archived"))],
    )
    price = models.DecimalField(_("price"), max_digits=10, decimal_places=2)
    cost_price = models.DecimalField(_("cost price"), max_digits=10, decimal_places=2)
    category = models.ForeignKey(Category, models.CASCADE, verbose_name=_("category"))
    tags = models.ManyToManyField(Tag, verbose_name=_("tags"))
    available_from = models.DateTimeField(_("available from"))
    attributes = models.JSONField(_("attributes"))

    class Meta(Shop.Meta):
        verbose_name = _("product")
        verbose_name_plural = _("products")


class Order(Shop):
    number = models.CharField(_("number"), max_length=10)
    customer = models.ForeignKey(Customer, models.CASCADE, verbose_name=_("customer"))
    region = models.CharField(
        _("region"), max_length=10, choices=[("north", _("North")), ("south", _("South"))]
    )
    status = models.CharField(
        _("status"),
        max_length=10,
        choices=[("pending", _("Pending")), ("paid", _("Paid")), ("shipped", _("Shipped"))],
    )
    placed_at = models.DateTimeField(_("placed at"))
    shipping_city = models.CharField(_("shipping city"), max_length=80)
    shipping_country = models.CharField(_("shipping country"), max_length=80)

    class Meta(Shop.Meta):
        verbose_name = _("order")
        verbose_name_plural = _("orders")


class OrderLine(Shop):
    order = models.ForeignKey(Order, models.CASCADE, verbose_name=_("order"))
    quantity = models.IntegerField(_("quantity"))

    class Meta(Shop.Meta):
        verbose_name = _("order line")
        verbose_name_plural = _("order lines")


def find(path: str) -> type[models.Model] | None:
    """Return a model of the shop, as ``apps.get_model`` would."""
    return registry.all_models["offline_shop"].get(path.rpartition(".")[2].lower())


_TEXT = {"type": "string"}
_DECIMAL = {"type": "string", "description": "decimal, at most 2 places"}
_MOMENT = {"type": "string", "format": "date-time"}
_PRODUCT_STATUS = {"type": "string", "enum": ["draft", "active", "archived"]}
_ORDER_STATUS = {"type": "string", "enum": ["pending", "paid", "shipped"]}
_REGION = {"type": "string", "enum": ["north", "south"]}
_ONE = {"type": "string", "description": "id of a related record"}
_MANY = {"type": "array", "items": {"type": "string"}, "description": "ids of tag"}

READABLE: dict[str, dict[str, Any]] = {
    "category": {"name": _TEXT, "slug": _TEXT},
    "tag": {"name": _TEXT},
    "customer": {"name": _TEXT, "email": _TEXT, "city": _TEXT, "country": _TEXT, "vip": {"type": "boolean"}},
    "product": {
        "title": _TEXT,
        "sku": _TEXT,
        "status": _PRODUCT_STATUS,
        "price": _DECIMAL,
        "category": _ONE,
        "available_from": _MOMENT,
    },
    "order": {
        "number": _TEXT,
        "customer": _ONE,
        "region": _REGION,
        "status": _ORDER_STATUS,
        "placed_at": _MOMENT,
        "shipping_city": _TEXT,
        "shipping_country": _TEXT,
    },
    "order_line": {"order": _ONE, "quantity": {"type": "integer"}},
}
FILLABLE: dict[str, dict[str, Any]] = {
    "category": {"name": _TEXT, "slug": _TEXT},
    "tag": {"name": _TEXT},
    "customer": {"name": _TEXT, "email": _TEXT, "city": _TEXT, "country": _TEXT, "vip": {"type": "boolean"}},
    "product": {
        "title": _TEXT,
        "sku": _TEXT,
        "status": _PRODUCT_STATUS,
        "price": _DECIMAL,
        "category": _ONE,
        "tags": _MANY,
        "available_from": _MOMENT,
        "attributes": {"description": "any JSON"},
    },
    "order": {"status": _ORDER_STATUS, "shipping_city": _TEXT, "shipping_country": _TEXT},
    "order_line": {"quantity": {"type": "integer"}},
}
_MODELS = {
    "category": "Category",
    "tag": "Tag",
    "customer": "Customer",
    "product": "Product",
    "order": "Order",
    "order_line": "OrderLine",
}


def _spec(name: str, kind: Any, entity: str, parameters: dict[str, Any]) -> ToolSpec:
    schema = {"type": "object", "additionalProperties": False, **parameters}
    model = f"offline_shop.{_MODELS[entity]}" if entity else ""
    return ToolSpec(name=name, description="", parameters=schema, kind=kind, model=model)


def query(entity: str) -> ToolSpec:
    """Return the query tool of an entity of the shop."""
    readable = READABLE[entity]
    filters = {"type": "object", "additionalProperties": False, "properties": {"id": _TEXT, **readable}}
    fields = {"type": "array", "items": {"enum": list(readable)}}
    parameters = {"properties": {"fields": fields, "filters": filters, "limit": {"type": "integer"}}}
    return _spec(f"query_{entity}", "query", entity, parameters)


def form(entity: str, *, add: bool = True, change: bool = True) -> ToolSpec:
    """Return the form tool of an entity of the shop."""
    properties: dict[str, Any] = {"id": _TEXT} if change else {}
    properties["fields"] = {"type": "object", "properties": FILLABLE[entity]}
    parameters: dict[str, Any] = {"properties": properties}
    if not add:
        parameters["required"] = ["id"]
    return _spec(f"open_{entity}_form", "form", entity, parameters)


def delete(entity: str) -> ToolSpec:
    """Return the delete tool of an entity of the shop."""
    return _spec(
        f"confirm_delete_{entity}", "delete", entity, {"properties": {"id": _TEXT}, "required": ["id"]}
    )


ASK = _spec(
    "ask_user", "question", "", {"properties": {"text": _TEXT, "kind": _TEXT, "options": {"type": "array"}}}
)
FIND = _spec("find_entities", "find", "", {"properties": {"words": _TEXT}, "required": ["words"]})
ALL = (*(make(entity) for entity in _MODELS for make in (query, form, delete)), ASK)


# -- the further tools, as a request tells of them where they are asked for ---------------------------------

LOOSE = {
    "order": ("status", "region", "placed_at"),
    "product": ("status", "category", "price", "available_from"),
}
_NARROWING = {"filters": {"type": "object"}, "search": _TEXT}


def wide(entity: str) -> ToolSpec:
    """Return the query tool of an entity that takes ranges, several values, a search and an order."""
    loose = LOOSE.get(entity, ())
    filters = {name: {} if name in loose else schema for name, schema in READABLE[entity].items()}
    parameters = {
        "properties": {
            "fields": {"type": "array", "items": _TEXT},
            "filters": {
                "type": "object",
                "additionalProperties": False,
                "properties": {"id": _TEXT, **filters},
            },
            "limit": {"type": "integer"},
            "search": _TEXT,
            "order_by": {"type": "array", "items": _TEXT},
            "after": _TEXT,
        }
    }
    return _spec(f"query_{entity}", "query", entity, parameters)


def counting(entity: str) -> tuple[ToolSpec, ...]:
    """Return the tools that count, sum up, tell the history and open the list of an entity."""
    several = {"type": "array", "items": _TEXT}
    action = {"action": {"enum": ["mark_as_shipped", "cancel"]}} if entity == "order" else {}
    listed = {"filters": {"type": "object"}, "ids": several, **action}
    summed = {"measures": {"type": "array"}, "by": several, "every": {"enum": ["day", "week", "month"]}}
    return (
        _spec(f"count_{entity}", "count", entity, {"properties": dict(_NARROWING)}),
        _spec(f"summarise_{entity}", "summary", entity, {"properties": {**summed, **_NARROWING}}),
        _spec(f"history_{entity}", "history", entity, {"properties": {"id": _TEXT}, "required": ["id"]}),
        _spec(f"open_{entity}_list", "list", entity, {"properties": listed}),
    )


_ASKED = ("order", "product", "customer")
FURTHER = (
    *(spec for spec in ALL if spec.kind != "query" or spec.name.removeprefix("query_") not in _ASKED),
    *(wide(entity) for entity in _ASKED),
    *(spec for entity in _ASKED for spec in counting(entity)),
)
