"""Admins that are declared from outside their class, in an app's ``copilot.py``."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin import AdminSite, ModelAdmin, sites
from django.test import Client
from django.urls import reverse

import django_copilot
from django_copilot import declaring, harness
from django_copilot.checks import check_all
from django_copilot.declaration import Declaration, entities_of, is_declared
from django_copilot.declaring import check_declared
from django_copilot.exceptions import ConfigurationError
from django_copilot.mixin import HarnessMixin
from django_copilot.models import Conversation
from django_copilot.testing import Call

from .depot import models as depot
from .sites import Project, declared, say
from .test_installations import check_pages

ROOT = Path(__file__).resolve().parents[2]


def visit(what: str, *, warnings: str = "error", **environment: str) -> Any:
    """Run one visit of the project in a process of its own and return what it found."""
    done = subprocess.run(
        [sys.executable, "-W", warnings, "-m", "tests.projects.outside.visit", what],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


# -- at the start of a project ---------------------------------------------------------------------------


def test_each_apps_copilot_is_found_after_all_apps_have_registered() -> None:
    found = visit("state")
    assert found["declared"] == ["auth.User", "depot.Bin", "depot.City", "depot.Item"]
    assert found["mixin"] == found["declared"]
    places = [each for each in found["registered"] if not each.startswith("django_copilot.")]
    assert places == ["auth.Group", "auth.User", "depot.Bin", "depot.Item", "depot.City"]  # as they were
    assert [each for each in found["ids"] if each != "copilot.W042"] == []


def test_apps_that_are_set_up_again_declare_nothing_twice() -> None:
    once, again = visit("state"), visit("again")
    for found in (once, again):
        found["registered"].sort()  # one is registered anew
    assert again == once


def test_a_project_without_such_a_module_is_left_as_it_is() -> None:
    found = visit("state", WITHOUT="1")
    assert found["mixin"] == found["declared"] == []
    assert found["registered"] == ["auth.Group", "auth.User", "depot.City"]
    assert found["readies"] == []  # no app's own ready() is another


def test_an_admin_without_discovery_stays_without_and_what_is_missing_is_told() -> None:
    found = visit("state", ADMIN="django.contrib.admin.apps.SimpleAdminConfig")
    assert "depot.Bin" not in found["registered"]
    assert found["declared"] == ["auth.User", "depot.City"]  # the first is what copilot.py imports
    assert found["ids"].count("copilot.E070") == 2


@pytest.mark.parametrize("theme", ["", "unfold", "jazzmin", "grappelli"], ids=lambda theme: theme or "django")
def test_pages_are_those_of_a_harness_in_the_class(theme: str) -> None:
    if theme and importlib.util.find_spec(theme) is None:
        pytest.skip(f"the admin theme {theme} is not installed")
    check_pages(visit("pages", warnings="default" if theme else "error", ADMIN_THEME=theme))


def test_without_the_file_and_its_tables_the_admin_works_as_before() -> None:
    found = visit("uninstall", WITHOUT="1")
    assert len(found["dropped"]) > 5
    assert all(each.startswith("django_copilot") for each in found["dropped"])
    assert found["left"] == []
    assert found["saved"] == [302, 1]
    assert found["index"] == [200, False]
    assert found["chat"] in (302, 404)  # the admin's catch-all


# -- what a declaration comes to --------------------------------------------------------------------------


class ShelfAdmin(ModelAdmin):
    """Knows nothing of the package; has an __init__, and permissions of its own."""

    fields = ["number", "title"]
    list_display = ["number", "title"]
    search_fields = ["title"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.list_per_page = 7

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        return False


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no call of one test be there in the next."""
    monkeypatch.setattr(declaring, "_declared", [])


@pytest.fixture
def site() -> Iterator[AdminSite]:
    made = AdminSite(name="outside")
    yield made
    sites.all_sites.discard(made)


def ids() -> list[str]:
    return [str(each.id) for each in check_declared()]


def test_the_admin_gives_way_to_a_subclass_in_its_place(site: AdminSite) -> None:
    site.register(depot.Shelf, ShelfAdmin)
    site.register(depot.Box)
    harness(ShelfAdmin, list=["title"], persist=["title"], search=True, silence={})
    made = site.get_model_admin(depot.Shelf)
    assert isinstance(made, ShelfAdmin)
    assert type(made).__mro__[1:3] == (HarnessMixin, Declaration)
    assert type(made).__name__ == "ShelfAdmin"
    assert type(made).__module__ == __name__  # where it is declared: checks name it so
    assert str(made) == "depot.ShelfAdmin"
    assert (made.harness_list, made.harness_persist, made.harness_search) == (["title"], ["title"], True)
    assert made.list_per_page == 7
    assert list(entities_of(site)) == ["shelf"]
    assert not is_declared(site.get_model_admin(depot.Box))
    assert not hasattr(ShelfAdmin, "harness_list")
    assert ids() == []
    assert [str(each.id) for each in check_all() if each.obj is type(made)] == []


def test_the_class_keeps_its_rules_pages_and_addresses(project: Project) -> None:
    made = project.site({depot.Shelf: ShelfAdmin})
    addresses = [reverse("admin:depot_shelf_changelist"), reverse("admin:depot_shelf_add")]
    harness(ShelfAdmin, site=made, list=["title"], persist=["title"])
    project.mount()
    assert [reverse("admin:depot_shelf_changelist"), reverse("admin:depot_shelf_add")] == addresses
    depot.Shelf.objects.create(number=5, title="oak")
    client = project.boss()
    chat = say(client, Call("query_shelf"))
    assert [row["title"] for row in chat.rows] == ["oak"]
    assert "confirm_delete_shelf" not in chat.tools  # its own has_delete_permission
    filled = say(client, Call("open_shelf_form", {"fields": {"title": "elm"}}), ends=True)
    assert 'value="elm"' in client.get(filled.page).content.decode()


def test_checks_of_what_was_declared_name_the_module_that_declares(site: AdminSite) -> None:
    site.register(depot.Shelf, ShelfAdmin)
    harness(ShelfAdmin, list=["titel"])
    (message,) = [each for each in check_all() if each.obj is type(site.get_model_admin(depot.Shelf))]
    assert message.id == "copilot.E020"
    assert f"{__name__}.ShelfAdmin" in str(message)


def test_every_keyword_is_an_attribute_without_its_prefix(site: AdminSite) -> None:
    attributes = [name for name in vars(Declaration) if name.startswith("harness_")]
    assert {"harness_list", "harness_persist", "harness_show", "harness_silence"} <= set(attributes)
    values = {name.removeprefix("harness_"): object() for name in attributes}
    site.register(depot.Shelf, ShelfAdmin)
    harness(ShelfAdmin, **values)
    made = site.get_model_admin(depot.Shelf)
    assert {name.removeprefix("harness_"): getattr(made, name) for name in attributes} == values


@pytest.fixture
def pair() -> Iterator[tuple[AdminSite, AdminSite]]:
    made = AdminSite(name="north"), AdminSite(name="south")
    yield made
    for each in made:
        sites.all_sites.discard(each)


def test_a_class_is_declared_wherever_it_is_registered_and_on_one_site_if_named(
    pair: tuple[AdminSite, AdminSite],
) -> None:
    north = pair[0]
    for each in pair:
        each.register(depot.Shelf, ShelfAdmin)
        each.register(depot.Box, type("BoxAdmin", (ModelAdmin,), {}))
    harness(ShelfAdmin, list=["title"])
    assert [list(entities_of(each)) for each in pair] == [["shelf"], ["shelf"]]
    harness(depot.Box, site="south", list=["title"])
    assert [list(entities_of(each)) for each in pair] == [["shelf"], ["shelf", "box"]]
    harness(depot.Box, site=north, list=["title"], persist=["title"])
    assert [list(entities_of(each)["box"].model_admin.harness_persist) for each in pair] == [["title"], []]
    assert ids() == []


def test_the_default_site_is_known_by_its_lazy_object() -> None:
    class BoxAdmin(ModelAdmin):
        pass

    admin.site.register(depot.Box, BoxAdmin)
    try:
        harness(BoxAdmin, site=admin.site, list=["title"])
        assert is_declared(admin.site.get_model_admin(depot.Box))
    finally:
        admin.site.unregister(depot.Box)


def test_a_proxy_is_not_its_parent(site: AdminSite) -> None:
    site.register(depot.SmallBox)
    harness(depot.Box, list=["title"])
    assert list(entities_of(site)) == []
    assert ids() == ["copilot.E070"]


def test_what_is_registered_later_is_found_when_all_apps_are_ready(site: AdminSite) -> None:
    harness(ShelfAdmin, list=["title"])
    assert ids() == ["copilot.E070"]
    site.register(depot.Shelf, ShelfAdmin)
    assert ids() == ["copilot.E070"]  # a check changes nothing
    declaring.apply_waiting()
    assert list(entities_of(site)) == ["shelf"]
    assert ids() == []


def test_what_is_never_registered_is_an_error_that_names_a_subclass(site: AdminSite) -> None:
    harness(ShelfAdmin, list=["title"])
    harness(depot.Box, site="nowhere", list=["title"])
    first, second = check_declared()
    assert first.id == second.id == "copilot.E070"
    assert "harness(ShelfAdmin)" in first.msg
    assert "'nowhere'" in second.msg
    own = type("OwnShelfAdmin", (ShelfAdmin,), {"__module__": "shop.admin"})
    site.register(depot.Shelf, own)
    declaring.apply_waiting()
    assert not is_declared(site.get_model_admin(depot.Shelf))
    assert "shop.admin.OwnShelfAdmin" in str(check_declared()[0].hint)


def test_what_is_registered_anew_after_that_is_an_error(site: AdminSite) -> None:
    site.register(depot.Shelf, ShelfAdmin)
    harness(ShelfAdmin, list=["title"])
    site.unregister(depot.Shelf)
    (message,) = check_declared()
    assert (message.id, "taken off" in message.msg) == ("copilot.E071", True)
    site.register(depot.Shelf, ShelfAdmin)
    (message,) = check_declared()
    assert (message.id, "registered anew" in message.msg) == ("copilot.E071", True)
    harness(ShelfAdmin, list=["title"])  # below what registers it last, as the hint says
    assert is_declared(site.get_model_admin(depot.Shelf))


def test_several_models_or_sites_are_not_guessed_at(pair: tuple[AdminSite, AdminSite]) -> None:
    shared = type("SharedAdmin", (ModelAdmin,), {})
    pair[0].register([depot.Box, depot.Shelf], shared)
    pair[1].register(depot.Box)
    harness(shared, list=["title"])
    harness(depot.Box, list=["title"])
    assert ids() == ["copilot.E072", "copilot.E072"]
    assert [list(entities_of(each)) for each in pair] == [[], []]
    harness(depot.Shelf, list=["title"])
    assert [list(entities_of(each)) for each in pair] == [["shelf"], []]


class Other:
    """No admin and no model."""


@pytest.mark.parametrize(
    ("target", "declared", "told"),
    [
        (ShelfAdmin, {"lists": ["title"]}, "It takes site, list, persist, show"),
        (ShelfAdmin, {"harness_list": ["title"]}, "takes no harness_list"),
        (ShelfAdmin, {}, "declares nothing"),
        (ShelfAdmin, {"list": ["title"], "site": AdminSite}, "takes an AdminSite or the name of one"),
        (ModelAdmin, {"list": ["title"]}, "name the model"),
        (Other, {"list": ["title"]}, "class of a ModelAdmin or of a model"),
        ("depot.Shelf", {"list": ["title"]}, "class of a ModelAdmin or of a model"),
        (HarnessMixin, {"list": ["title"]}, "class of a ModelAdmin or of a model"),
    ],
)
def test_a_call_that_can_mean_nothing_is_refused(target: Any, declared: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        harness(target, **declared)
    assert check_declared() == []


def test_an_admin_that_declares_itself_is_not_declared_from_outside(site: AdminSite) -> None:
    own = declared(read=["title"])
    site.register(depot.Shelf, own)
    for target in (own, depot.Shelf):
        with pytest.raises(ConfigurationError, match="has HarnessMixin already"):
            harness(target, list=["title", "number"])
    site.register(depot.Box, type("Forgetful", (ModelAdmin,), {"harness_list": ["title"]}))
    with pytest.raises(ConfigurationError, match="has harness_list already"):
        harness(depot.Box, persist=["title"])
    assert list(entities_of(site)["shelf"].model_admin.harness_list) == ["title"]


def test_one_admin_is_declared_once_on_a_site(site: AdminSite) -> None:
    site.register(depot.Shelf, ShelfAdmin)
    harness(ShelfAdmin, list=["title"])
    for target in (ShelfAdmin, depot.Shelf):
        with pytest.raises(ConfigurationError, match=r"was declared in .* already"):
            harness(target, list=["title", "number"])
    assert list(entities_of(site)["shelf"].model_admin.harness_list) == ["title"]


def test_the_packages_own_models_can_not_be_declared(site: AdminSite) -> None:
    site.register(depot.Shelf, ShelfAdmin)
    harness(ShelfAdmin, list=["title"])  # now they are on the site
    with pytest.raises(ConfigurationError, match="own models"):
        harness(Conversation, list=["title"])
    with pytest.raises(ConfigurationError, match="own models"):
        harness(type(site.get_model_admin(Conversation)), list=["title"])


def test_the_name_is_public_and_needs_no_import_of_its_module() -> None:
    assert "harness" in django_copilot.__all__
    assert django_copilot.harness is declaring.harness
    code = "import django_copilot, sys; assert 'django_copilot.declaring' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)


def test_a_stranger_gets_nothing_from_a_declaration(project: Project) -> None:
    made = project.site({depot.Shelf: ShelfAdmin})
    harness(ShelfAdmin, site=made, list=["title"])
    project.mount()
    answer = Client().post("/admin/django_copilot/conversation/chat/", "{}", content_type="application/json")
    assert answer.status_code == 401
