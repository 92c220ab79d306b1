"""The audit in the admin: who reads it, how much of it, and that nobody changes it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission
from django.test import Client, RequestFactory
from django.urls import reverse

from django_copilot import audit
from django_copilot.audit import admin as audit_admin
from django_copilot.models import AuditEntry, AuditValue, Plan
from example_project.store.models import Order, Supplier

from .chains import SITE, chain, entry, record, value

LIST = reverse("admin:django_copilot_auditentry_changelist")
Login = Callable[[str], Client]
HIDDEN = "<em>hidden</em>"


def page_of(number: int, site: str = SITE) -> str:
    return reverse("admin:django_copilot_auditentry_change", args=[entry(number, site).pk])


def text(client: Client, url: str, **data: Any) -> str:
    response = client.get(url, data)
    assert response.status_code == 200
    return response.content.decode()


def let_read(user: Any, *codenames: str) -> Any:
    """Give the audit's permission, and others, to a person."""
    for codename in ("view_audit", *codenames):
        user.user_permissions.add(Permission.objects.get(codename=codename))
    return user


def rows(client: Client, **data: Any) -> list[int]:
    response = client.get(LIST, data)
    assert response.status_code == 200, response
    return [each.number for each in response.context["cl"].result_list]


@pytest.mark.parametrize(
    ("name", "may"),
    [
        ("admin", True),
        ("auditor", True),
        ("manager", False),
        ("support", False),
        ("viewer", False),
        ("bot", False),
    ],
)
def test_it_is_there_for_those_with_its_permission(store: Any, login: Login, name: str, may: bool) -> None:
    chain(1)
    client = login(name)
    assert [client.get(url).status_code for url in (LIST, page_of(1))] == [200 if may else 403] * 2
    model_admin: Any = admin.site._registry[AuditEntry]
    request = RequestFactory().get("/admin/")
    request.user = store.user(name)
    assert audit_admin.AuditEntryAdmin.has_module_permission(model_admin, request) is may
    if name != "admin":  # who has an inbox finds it from there
        assert (LIST in text(client, reverse("admin:index"))) is may


def test_without_a_session_it_is_not_there(store: Any) -> None:
    chain(1)
    assert [Client().get(url).status_code for url in (LIST, page_of(1))] == [302, 302]


@pytest.mark.parametrize("name", ["admin", "auditor"])
def test_nobody_adds_changes_or_deletes(store: Any, login: Login, name: str) -> None:
    chain(1)
    before = list(AuditEntry.objects.values()), list(AuditValue.objects.values())
    client = login(name)
    change = page_of(1)
    answers = [
        client.get(reverse("admin:django_copilot_auditentry_add")),
        client.post(reverse("admin:django_copilot_auditentry_add"), {"event": "x"}),
        client.post(change, {"event": "x", "_save": "1"}),
        client.get(change.replace("/change/", "/delete/")),
        client.post(change.replace("/change/", "/delete/"), {"post": "yes"}),
    ]
    assert [each.status_code for each in answers] == [403] * 5
    action = {"action": "delete_selected", "_selected_action": [entry(1).pk], "post": "yes"}
    client.post(LIST, action)
    assert (list(AuditEntry.objects.values()), list(AuditValue.objects.values())) == before
    assert 'name="_save"' not in text(client, change)


def test_who_deletes_an_account_is_not_stopped_by_it(store: Any, login: Login) -> None:
    user = store.user("viewer")
    audit.append(SITE, "", record(1, actor=str(user.pk)))
    login("admin").post(reverse("admin:auth_user_delete", args=[user.pk]), {"post": "yes"})
    assert not type(user).objects.filter(pk=user.pk).exists()
    assert audit.verify(SITE) is None


def test_only_entries_of_this_site_and_this_scope_are_there(store: Any, login: Login) -> None:
    chain(2)
    chain(2, site="other")
    chain(1, scope_key="k")
    client = login("auditor")
    assert rows(client) == [2, 1]
    assert client.get(page_of(3)).status_code == 302  # as for a key that never was
    assert client.get(page_of(1, "other")).status_code == 302


class Tenants:
    """A project's scope."""

    @staticmethod
    def capture(request: Any) -> dict[str, str]:
        tenant = request.headers.get("X-Tenant", "")
        if not tenant:
            raise LookupError("no tenant")
        return {"tenant": tenant}

    @staticmethod
    @contextmanager
    def enter(values: dict[str, str], request: Any) -> Any:
        if values["tenant"] == "closed":
            raise LookupError("closed")
        yield


def test_each_scope_has_its_own_entries_and_without_one_there_are_none(
    store: Any, login: Login, settings: Any
) -> None:
    from django_copilot.scope import Scope

    settings.COPILOT = {**settings.COPILOT, "SCOPE": Tenants}
    chain(1)
    chain(2, scope_key=Scope(site=SITE, keys={"tenant": "acme"}).key)
    chain(1, scope_key=Scope(site=SITE, keys={"tenant": "closed"}).key)
    client = login("admin")
    assert rows(client) == []
    for tenant, numbers in (("acme", [3, 2]), ("closed", [4]), ("other", [])):
        response = client.get(LIST, headers={"X-Tenant": tenant})
        assert [each.number for each in response.context["cl"].result_list] == numbers
    # A scope that can't be entered shows no value of a record.
    order = Order.objects.get(pk=Order.objects.values_list("pk", flat=True).first())
    AuditValue.objects.update(object_pk=str(order.pk))
    for tenant, number, shown in (("acme", 2, True), ("closed", 4, False)):
        page = client.get(page_of(number), headers={"X-Tenant": tenant}).content.decode()
        assert ("<pre>paid</pre>" in page) is shown


# -- values ---------------------------------------------------------------------------------------------


def values_on(client: Client, number: int) -> dict[str, str]:
    """Return what the page of an entry shows of its values, by name."""
    response = client.get(page_of(number))
    assert response.status_code == 200
    seen = response.context["original"].seen.values
    content = response.content.decode()
    for each in seen:
        assert (f"<em>{each.text}</em>" in content) or each.is_shown
    return {each.name: each.text for each in seen}


def test_words_are_shown_to_the_very_person_only(store: Any, login: Login) -> None:
    support, manager = let_read(store.user("support")), let_read(store.user("manager"))
    audit.append(
        SITE, "", record(1, values=(audit.Value(name="words", value="Tell nobody", person=str(support.pk)),))
    )
    for name, shown in (("support", True), ("manager", False), ("admin", False), ("auditor", False)):
        client = login(name)
        assert values_on(client, 1) == {"words": "Tell nobody" if shown else "hidden"}
        assert ("Tell nobody" in text(client, page_of(1))) is shown
    assert manager.has_perm("django_copilot.view_audit")


def test_words_are_not_shown_to_who_acts_as_that_person(
    store: Any, login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    support = let_read(store.user("support"))
    audit.append(
        SITE, "", record(1, values=(audit.Value(name="words", value="Mine", person=str(support.pk)),))
    )
    client = login("support")
    assert values_on(client, 1) == {"words": "Mine"}

    def fail(request: Any) -> None:
        raise LookupError

    for hook in (lambda request: store.user("admin"), fail):
        monkeypatch.setattr("django_copilot.audit.viewing.real_actor", hook)
        assert values_on(client, 1) == {"words": "hidden"}


def order_value(order: Order, field: str = "status", **changed: Any) -> audit.Value:
    given = {"name": f"old {field}", "value": "seen", "label": "store.order", "object_pk": str(order.pk)}
    return audit.Value(**{**given, "field": field, **changed})


def test_a_records_value_is_shown_to_those_whose_admin_shows_that_field_of_it(
    store: Any, login: Login
) -> None:
    near = Order.objects.filter(region="north", customer__vip=False).first()
    far = Order.objects.filter(region="south").first()
    for order in (near, far):
        audit.append(SITE, "", record(1, values=(order_value(order), order_value(order, "internal"))))
    let_read(store.user("support"))
    let_read(store.user("manager"))
    matrix = {
        "support": ("seen", "hidden"),
        "manager": ("seen", "seen"),
        "admin": ("seen", "seen"),
        "auditor": ("hidden", "hidden"),
    }
    for name, expected in matrix.items():
        client = login(name)
        assert tuple(values_on(client, number)["old status"] for number in (1, 2)) == expected, name
        assert {values_on(client, number)["old internal"] for number in (1, 2)} == {"hidden"}


@pytest.mark.parametrize(
    "changed",
    [
        {"object_pk": ""},
        {"object_pk": "987654"},
        {"object_pk": "x"},
        {"label": "store.nothing"},
        {"label": "nothing"},
        {"label": "django_copilot.plan"},
        {"field": ""},
        {"label": "", "object_pk": "", "field": ""},
        {"person": "987654"},
    ],
    ids=str,
)
def test_a_value_of_nobody_or_nothing_is_hidden_from_all(
    store: Any, login: Login, changed: dict[str, Any]
) -> None:
    order = Order.objects.first()
    assert order is not None
    audit.append(SITE, "", record(1, values=(order_value(order), order_value(order, **changed, name="x"))))
    assert values_on(login("admin"), 1) == {"old status": "seen", "x": "hidden"}


def test_a_record_that_is_gone_hides_its_values(store: Any, login: Login) -> None:
    supplier = Supplier.objects.create(name="Gone", country="PL")
    audit.append(
        SITE,
        "",
        record(
            1,
            values=(
                audit.Value(
                    name="old name",
                    value="Gone",
                    label="store.supplier",
                    object_pk=str(supplier.pk),
                    field="name",
                ),
            ),
        ),
    )
    client = login("admin")
    assert values_on(client, 1) == {"old name": "Gone"}
    supplier.delete()
    assert values_on(client, 1) == {"old name": "hidden"}


def test_a_password_hash_is_hidden_though_the_admin_shows_something_of_it(store: Any, login: Login) -> None:
    user = store.user("viewer")
    given = {"label": "auth.user", "object_pk": str(user.pk)}
    audit.append(
        SITE,
        "",
        record(
            1,
            values=(
                audit.Value(name="a", value="md5$x", field="password", **given),
                audit.Value(name="b", value="viewer", field="username", **given),
            ),
        ),
    )
    assert values_on(login("admin"), 1) == {"a": "hidden", "b": "viewer"}


def test_erased_values_say_so(store: Any, login: Login) -> None:
    user = store.user("admin")
    audit.append(SITE, "", record(1, values=(audit.Value(name="words", value="x", person=str(user.pk)),)))
    audit.erase(person=str(user.pk))
    assert values_on(login("admin"), 1) == {"words": "erased"}


def test_a_key_that_is_data_is_hidden_with_its_record(
    store: Any, login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_copilot.audit.viewing.key_is_data", lambda model: True)
    near = Order.objects.filter(region="north", customer__vip=False).first()
    assert near is not None
    order_pk = "7654321"
    order = Order.objects.create(pk=7654321, number="x", customer=near.customer, region="north")
    about = {
        "target": {"model": "store.order", "pk": order_pk, "label": "x"},
        "records": [{"model": "store.order", "pk": order_pk}],
    }
    audit.append(SITE, "", record(1, about=about, values=(order_value(order),)))
    let_read(store.user("support"))
    for name, shown in (("support", True), ("auditor", False)):
        assert (order_pk in text(login(name), page_of(1))) is shown


def test_characters_that_can_not_be_seen_are_made_visible(store: Any, login: Login) -> None:
    user = store.user("admin")
    trick = "a\u202eb"
    audit.append(
        SITE,
        "",
        record(
            1,
            tool=trick,
            about={"x": trick},
            values=(
                audit.Value(name="words", value=trick, person=str(user.pk)),
                audit.Value(name="more", value={"k": [trick]}, person=str(user.pk)),
            ),
        ),
    )
    client = login("admin")
    for url in (LIST, page_of(1)):
        page = text(client, url)
        assert "\u202e" not in page
        assert "a⟨U+202E⟩b" in page
    shown = values_on(client, 1)
    assert shown["words"] == "a⟨U+202E⟩b"
    assert "a⟨U+202E⟩b" in shown["more"]


def test_what_stands_in_values_is_text_and_no_markup(store: Any, login: Login) -> None:
    user = store.user("admin")
    bad = "<script>alert(1)</script>"
    audit.append(
        SITE,
        "",
        record(
            1,
            tool=bad,
            plan=bad,
            about={"x": bad},
            values=(audit.Value(name=bad, value=bad, person=str(user.pk)),),
        ),
    )
    for url in (LIST, page_of(1)):
        assert bad not in text(login("admin"), url)


# -- people, plans, filters -----------------------------------------------------------------------------


def test_people_are_named_while_their_account_is_there(store: Any, login: Login) -> None:
    support = store.user("support")
    audit.append(SITE, "", record(1, actor=str(support.pk), real_actor="987654"), record(2, actor="no key"))
    page = text(login("auditor"), page_of(1))
    assert ">support<" in page
    assert ">987654<" in page
    listed = text(login("auditor"), LIST)
    assert "support" in listed
    assert "no key" in listed


def test_the_page_of_a_plan_is_linked_for_its_owner_only(store: Any, login: Login) -> None:
    from django.utils import timezone

    support = let_read(store.user("support"))
    now = timezone.now()
    plan = Plan.objects.create(
        user=support, site=SITE, kind="tool", model="store.order", expires_at=now, submit_by=now
    )
    audit.append(SITE, "", record(1, plan=str(plan.pk)))
    address = reverse("admin:django_copilot_plan_detail", args=[plan.pk])
    for name, linked in (("support", True), ("admin", False), ("auditor", False)):
        page = text(login(name), page_of(1))
        assert str(plan.pk) in page
        assert (f'href="{address}"' in page) is linked


def test_filters_offer_what_is_there_and_filter(store: Any, login: Login) -> None:
    support = store.user("support")
    audit.append(
        SITE,
        "",
        record(1, event="proposed", code="", tool="a", actor=str(support.pk)),
        record(2, event="refused", code="stale", tool="b", actor="987654"),
    )
    audit.append(SITE, "other scope", record(3, event="elsewhere", tool="secret_tool"))
    audit.append("other", "", record(3, event="elsewhere", tool="secret_tool"))
    client = login("auditor")
    page = text(client, LIST)
    for offered in ("?event=refused", "?tool=b", "?code=stale", f"?actor={support.pk}", ">support<"):
        assert offered in page
    assert "elsewhere" not in page
    assert "secret_tool" not in page
    for data, numbers in (
        ({"event": "refused"}, [2]),
        ({"tool": "a"}, [1]),
        ({"code": "stale"}, [2]),
        ({"actor": str(support.pk)}, [1]),
        ({"event": "elsewhere"}, []),
        ({"event": "a\x00"}, []),
        ({"q": "plan 2"}, []),
        ({"at__year": entry(1).at.year}, [2, 1]),
        ({"at__year": 1999}, []),
    ):
        assert rows(client, **data) == numbers, data


def test_a_plan_is_found_by_its_id(store: Any, login: Login) -> None:
    ident = "e22660ec-a42f-459b-9c23-33c0edd673be"
    audit.append(SITE, "", record(1, plan=ident), record(2, plan=ident[:-1] + "0"), record(3, plan=ident))
    client = login("auditor")
    assert rows(client, q=ident) == [3, 1]
    assert rows(client, q=f" {ident.upper()} ") == [3, 1]
    assert rows(client, q=ident[:8]) == []


@pytest.mark.parametrize(
    "lookup",
    ["values__value__contains", "values__person", "digest__startswith", "about__rows", "scope_key", "site"],
)
def test_an_address_asks_for_nothing_that_is_not_shown(store: Any, login: Login, lookup: str) -> None:
    chain(2)
    response = login("admin").get(LIST, {lookup: "x"})
    assert response.status_code in (302, 400)


def test_a_page_costs_the_same_whatever_is_on_it(
    store: Any, login: Login, django_assert_max_num_queries: Any, django_assert_num_queries: Any
) -> None:
    users = [store.user(name) for name in ("admin", "support", "viewer")]
    client = login("auditor")

    def add(count: int) -> None:
        audit.append(
            SITE,
            "",
            *(
                record(number, actor=str(users[number % 3].pk), real_actor=str(users[number % 2].pk))
                for number in range(count)
            ),
        )

    add(3)
    client.get(LIST)
    with django_assert_max_num_queries(30) as few:
        client.get(LIST)
    add(60)
    with django_assert_num_queries(len(few)) as many:
        assert len(rows(client)) == 50
    counts = [each["sql"] for each in many if "COUNT(" in each["sql"] and "auditentry" in each["sql"]]
    assert len(counts) == 1
    assert f"LIMIT {audit_admin.MOST}" in counts[0]
    assert not [each["sql"] for each in many if "auditvalue" in each["sql"]]


def test_the_filters_read_the_latest_entries_only(
    store: Any, login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_admin, "RECENT", 2)
    audit.append(SITE, "", *(record(number, tool=f"tool_{number}") for number in range(1, 4)))
    client = login("auditor")
    page = text(client, LIST)
    assert "?tool=tool_3" in page
    assert "?tool=tool_1" not in page
    assert rows(client, tool="tool_1") == [1]
    assert "tool_1" in text(client, LIST, tool="tool_1")


def test_it_passes_the_admins_own_checks() -> None:
    model_admin = admin.site._registry[AuditEntry]
    assert isinstance(model_admin, audit_admin.AuditEntryAdmin)
    assert model_admin.check() == []


def test_the_history_and_reading_leave_no_trace_and_no_hole(store: Any, login: Login) -> None:
    chain(1)
    assert value(1, "words").value == "Refund 1"
    history = page_of(1).replace("/change/", "/history/")
    assert "Refund 1" not in text(login("auditor"), history)
    assert login("viewer").get(history).status_code == 403
