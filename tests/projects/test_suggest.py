"""``copilot_suggest``: a declaration to review, in Python that runs and that the checks take."""

from __future__ import annotations

import ast
import re
import sys
import types
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django import forms
from django.contrib.admin import AdminSite, ModelAdmin, TabularInline, sites
from django.contrib.admin import site as default_site
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Group, User
from django.contrib.contenttypes.admin import GenericTabularInline
from django.core.management import CommandError, call_command

from django_copilot import declaring
from django_copilot.checks import check_all
from django_copilot.declaration import entities_of
from django_copilot.suggesting import attributes_text, module_text, suggestions
from example_project.store import models as store
from tests.formapp import models as formapp

from .depot import models as depot
from .sites import declared
from .test_outside import visit


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no call of one test be there in the next."""
    monkeypatch.setattr(declaring, "_declared", [])


@pytest.fixture
def site() -> Iterator[AdminSite]:
    made = AdminSite(name="suggested")
    yield made
    sites.all_sites.discard(made)


def said(*args: str) -> str:
    text = StringIO()
    call_command("copilot_suggest", *args, stdout=text)
    return text.getvalue()


def values(site: AdminSite, model: Any) -> dict[str, Any]:
    """Return the keywords that are suggested for a model, without what is a comment."""
    (call,) = [
        node
        for node in ast.walk(ast.parse(module_text(suggestions([site], only=[model]))))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "harness"
    ]
    return {
        each.arg: ast.literal_eval(each.value) for each in call.keywords if each.arg not in (None, "site")
    }


# -- what is suggested -----------------------------------------------------------------------------------


def test_list_and_form_are_what_the_class_shows(site: AdminSite) -> None:
    class CustomerAdmin(ModelAdmin):
        list_display = ["name", "vip", "greeting"]
        fieldsets = [(None, {"fields": [("city", "email"), "api_token"]}), ("More", {"fields": ["created"]})]
        readonly_fields = ["city"]

        def greeting(self, obj: Any) -> str:
            return "Hello"

    site.register(store.Customer, CustomerAdmin)
    found = values(site, store.Customer)
    assert found["list"] == ["name", "vip", "city"]
    assert found["show"] == ["email"]
    assert found["persist"] == ["email"]
    text = module_text(suggestions([site]))
    assert '# "email",  # looks personal: what stands here is sent to the model\'s provider' in text
    assert "# left out, looking like a secret: api_token" in text
    assert '# computed=["greeting"]' in text


def test_secrets_privileges_and_what_is_never_read_are_in_no_list(site: AdminSite) -> None:
    site.register(User, UserAdmin)
    site.register(Group)
    found = values(site, User)
    named = {name for names in found.values() for name in names}
    assert (
        named & {"password", "is_superuser", "is_staff", "is_active", "groups", "user_permissions"} == set()
    )
    assert {"username", "first_name"} <= named
    assert "email" not in found["list"]
    assert values(site, Group)["list"] == ["name"]


def test_what_can_not_be_filled_in_is_not_suggested_for_it(site: AdminSite) -> None:
    for model in (depot.Note, depot.Shop, depot.Deed, depot.Vault):
        site.register(model)
    assert values(site, depot.Note)["persist"] == ["title", "object_id"]  # no file, bytes, foreign site
    assert values(site, depot.Shop)["persist"] == ["name", "till"]
    assert values(site, depot.Deed)["persist"] == ["title", "vault", "vaults"]
    assert values(site, depot.Vault)["persist"] == ["title"]  # a PIN
    site.unregister(depot.Vault)
    assert values(site, depot.Deed)["persist"] == ["title"]


def test_a_form_of_the_projects_own_has_its_say(site: AdminSite) -> None:
    class Form(forms.ModelForm):
        class Meta:
            model = store.Supplier
            fields = ["name", "country"]

    site.register(
        store.Supplier, type("SupplierAdmin", (ModelAdmin,), {"form": Form, "exclude": ["country"]})
    )
    assert values(site, store.Supplier) == {"list": ["name"], "persist": ["name"]}


def test_search_filters_and_actions_are_comments(site: AdminSite) -> None:
    class OrderAdmin(ModelAdmin):
        list_display = ["number", "placed_at", "status", "customer"]
        list_filter = ["status", ("region", object), "customer__vip"]
        date_hierarchy = "placed_at"
        search_fields = ["number", "customer__name"]
        actions = ["mark_as_shipped"]

    site.register(store.Order, OrderAdmin)
    text = module_text(suggestions([site]))
    assert "# search=True,  # people search number, customer__name" in text
    assert '# lookups={"status": ["in"], "region": ["in"], "placed_at": ["range"]},' in text
    assert '# actions=["mark_as_shipped"],' in text
    assert set(values(site, store.Order)) == {"list", "show", "persist"}


def test_inlines_are_a_comment_with_the_name_of_their_rows(site: AdminSite) -> None:
    class Lines(TabularInline):
        model = store.OrderLine

    class Notes(GenericTabularInline):
        model = depot.Note

    class Papers(TabularInline):
        model = depot.Letter
        fields = ["subject"]

    site.register(store.Order, type("OrderAdmin", (ModelAdmin,), {"inlines": [Lines]}))
    site.register(depot.Topic, type("TopicAdmin", (ModelAdmin,), {"inlines": [Notes]}))
    site.register(depot.Person, type("PersonAdmin", (ModelAdmin,), {"inlines": [Papers]}))
    text = module_text(suggestions([site]))
    assert '# inlines={"lines": ["product", "quantity", "unit_price"]},' in text
    assert '# inlines={"letter_set": ["subject"]},' in text
    assert text.count("# inlines=") == 2


def test_what_is_a_comment_can_be_taken_over_as_it_stands(site: AdminSite) -> None:
    class OrderAdmin(ModelAdmin):
        list_display = ["number", "placed_at", "status", "customer", "total"]
        list_filter = ["status", "region"]
        date_hierarchy = "placed_at"
        search_fields = ["number"]
        actions = ["mark"]

        def total(self, obj: Any) -> str:
            return "0"

        def mark(self, request: Any, queryset: Any) -> None: ...

    site.register(store.Order, OrderAdmin)
    text = re.sub(r"^    # (\w+=)", r"    \1", module_text(suggestions([site])), flags=re.M)
    exec(compile(text, "copilot.py", "exec"), {"__name__": "suggested"})
    made = site.get_model_admin(store.Order)
    assert made.harness_search is made.harness_history is True
    assert made.harness_lookups == {"status": ["in"], "region": ["in"], "placed_at": ["range"]}
    assert (made.harness_computed, made.harness_actions) == (["total"], ["mark"])
    about = [each for each in check_all() if getattr(each.obj, "__module__", "") == "suggested"]
    assert [each.id for each in about] == ["copilot.W093"]  # a computed column is worth a thought


# -- that it is Python which declares --------------------------------------------------------------------


def test_the_suggestion_for_many_admins_runs_and_earns_no_message(site: AdminSite) -> None:
    """Every model of the test apps, plain, with a class of its own, twins, and names that are not ASCII."""
    models = [
        each
        for each in (*vars(depot).values(), *vars(formapp).values(), *vars(store).values())
        if isinstance(each, type) and hasattr(each, "_meta") and not each._meta.abstract
    ]
    for model in dict.fromkeys((*models, User)):
        site.register(model)
    text = module_text(suggestions([site]))
    exec(compile(text, "copilot.py", "exec"), {"__name__": "suggested"})
    assert len(entities_of(site)) > 30
    assert [str(each) for each in declaring.check_declared()] == []
    assert [str(each) for each in check_all() if getattr(each.obj, "__module__", "") == "suggested"] == []


def test_classes_of_one_name_keep_apart(site: AdminSite, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = {}
    for name, model in (("north_shop.admin", depot.Box), ("south_shop.admin", depot.Shelf)):
        modules[name] = types.ModuleType(name)
        monkeypatch.setitem(sys.modules, name, modules[name])
        modules[name].ThingAdmin = type("ThingAdmin", (ModelAdmin,), {"__module__": name})  # type: ignore[attr-defined]
        site.register(model, modules[name].ThingAdmin)
    text = module_text(suggestions([site]))
    assert "from north_shop.admin import ThingAdmin\n" in text
    assert "from south_shop.admin import ThingAdmin as DepotThingAdmin\n" in text
    exec(compile(text, "copilot.py", "exec"), {"__name__": "x"})
    assert list(entities_of(site)) == ["box", "shelf"]


def test_a_class_that_can_not_be_imported_is_named_by_its_model_and_site(site: AdminSite) -> None:
    other = AdminSite(name="elsewhere")
    try:
        site.register(depot.Box, list_display=["title"])
        other.register(depot.Box)
        (made,) = suggestions([site])
        text = module_text([made])
        assert 'site="suggested"' in text
        exec(compile(text, "copilot.py", "exec"), {"__name__": "x"})
        assert [list(entities_of(each)) for each in (site, other)] == [["box"], []]
    finally:
        sites.all_sites.discard(other)


def test_a_whole_project_is_declared_by_it() -> None:
    found = visit("suggest", WITHOUT="1")
    assert found["declared"] == ["auth.Group", "auth.User", "depot.City"]
    assert [each for each in found["ids"] if each != "copilot.W042"] == []


# -- the command -----------------------------------------------------------------------------------------


def test_without_names_it_is_the_admins_without_a_harness_and_no_database_is_asked() -> None:
    text = said()
    ast.parse(text)
    assert "store.Refund" in text
    assert "store.Product" not in text
    assert "django_copilot." not in text


def test_one_that_has_a_harness_is_a_comment_to_compare() -> None:
    text = said("store.Product")
    assert "# store.Product has a harness already." in text
    assert [type(node) for node in ast.parse(text).body] == [ast.Expr, ast.ImportFrom]


@pytest.mark.parametrize("named", [(), ("store.Product", "auth.User")], ids=["all", "named"])
def test_attributes_are_classes_to_copy_from(named: tuple[str, ...]) -> None:
    classes = ast.parse(said(*named, "--attributes")).body
    assert all(isinstance(each, ast.ClassDef) for each in classes)
    if named:
        names = [
            each.targets[0].id  # type: ignore[union-attr]
            for each in classes[1].body  # type: ignore[attr-defined]
        ]
        assert names == ["harness_list", "harness_persist"]


def test_nothing_to_declare_is_still_python(site: AdminSite) -> None:
    site.register(
        depot.Box, type("BoxAdmin", (ModelAdmin,), {"exclude": ["title"], "search_fields": ["title"]})
    )
    made = suggestions([site])
    assert "nothing to suggest" in module_text(made)
    for text in (module_text(made), attributes_text(made)):
        exec(compile(text, "copilot.py", "exec"), {"__name__": "x"})
    assert list(entities_of(site)) == []


def test_when_everything_has_a_harness_it_says_so(site: AdminSite) -> None:
    site.register(depot.Box, declared(read=["title"]))
    assert said("--site", "suggested") == "# Every registered admin has a harness.\n"


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["store.Nothing"], "is no model"),
        (["Product"], "is no model"),
        (["store.OrderLine"], "registered on no AdminSite"),
        (["--site", "nowhere"], "There are: "),
    ],
)
def test_what_is_not_there_is_an_error(args: list[str], told: str) -> None:
    assert default_site.name == "admin"
    with pytest.raises(CommandError, match=told):
        said(*args)
