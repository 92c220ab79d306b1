"""The example store of the tests, made once and then copied into each test's database by SQL.

Making it through the models takes most of a short test's time. So when the test database is new, the store
is made, copied aside into tables that Django does not know, and taken away again. Permissions have other
keys after a flush: what people may do is kept by name.
"""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core.management.color import no_style
from django.db import connection, transaction
from django.db.models import Model

PRODUCTS = 40
ORDERS = 120


class Store:
    """The example store of a test: 40 products, 120 orders, and all accounts of the demo."""

    def user(self, username: str) -> Any:
        """Return the account, freshly loaded."""
        return get_user_model().objects.get(username=username)


def keep() -> None:
    """Make the store in an empty database, copy it aside, and take it away."""
    with transaction.atomic(), connection.cursor() as cursor:
        _make()
        for table in _tables():
            cursor.execute(f'CREATE TABLE "kept_{table}" AS SELECT * FROM "{table}"')
        for table, owner in _permission_tables():
            cursor.execute(
                f'CREATE TABLE "kept_{table}" AS SELECT held."{owner}", type.app_label, permission.codename'
                f' FROM "{table}" held'
                " JOIN auth_permission permission ON permission.id = held.permission_id"
                " JOIN django_content_type type ON type.id = permission.content_type_id"
            )
        for table in [*(table for table, _ in _permission_tables()), *_tables()]:
            cursor.execute(f'DELETE FROM "{table}"')
        sequences = [each for each in connection.introspection.sequence_list() if each["table"] in _tables()]
        for sql in connection.ops.sequence_reset_by_name_sql(no_style(), sequences):
            cursor.execute(sql)


def fill() -> Store:
    """Put the store into the database of a test and return it."""
    if any(model._default_manager.exists() for model in (get_user_model(), Group, *_store_models()[:1])):
        _make()  # beside what is there: with keys of its own
        return Store()
    with transaction.atomic(), connection.cursor() as cursor:
        for table in _tables():
            cursor.execute(f'INSERT INTO "{table}" SELECT * FROM "kept_{table}"')
        for table, owner in _permission_tables():
            cursor.execute(
                f'INSERT INTO "{table}" ("{owner}", permission_id) SELECT kept."{owner}", permission.id'
                f' FROM "kept_{table}" kept'
                " JOIN django_content_type type ON type.app_label = kept.app_label"
                " JOIN auth_permission permission ON permission.content_type_id = type.id"
                " AND permission.codename = kept.codename"
            )
        for sql in connection.ops.sequence_reset_sql(no_style(), _models()):
            cursor.execute(sql)
    return Store()


def _make() -> None:
    from example_project.store.data import create_data
    from example_project.store.people import create_people

    create_people()
    create_data(products=PRODUCTS, orders=ORDERS)


def _store_models() -> list[type[Model]]:
    return list(apps.get_app_config("store").get_models(include_auto_created=True))


def _models() -> list[type[Model]]:
    user = get_user_model()
    return [Group, user, user.groups.through, *_store_models()]


def _tables() -> list[str]:
    return [model._meta.db_table for model in _models()]


def _permission_tables() -> list[tuple[str, str]]:
    """Give the tables that say who holds which permission, each with the column of its owner."""
    return [
        (Group.permissions.through._meta.db_table, "group_id"),
        (get_user_model().user_permissions.through._meta.db_table, "user_id"),
    ]
