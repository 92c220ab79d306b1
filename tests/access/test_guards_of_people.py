"""Who a person really is, and the place she is in: what is told of somebody else, and what can't be entered."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import DatabaseError
from django.urls import NoReverseMatch

from django_copilot import people, scope
from django_copilot.exceptions import Refused
from django_copilot.scope import Scope, at_page, enter_place, page_url
from tests.projects.depot import models as depot
from tests.projects.depot_north import models as depot_north
from tests.projects.sites import Project, declared

HERE = Scope(site="admin", host="testserver", language="en", time_zone="UTC")


@pytest.fixture
def project(db: None, settings: Any) -> Iterator[Project]:
    made = Project(settings)
    yield made
    made.close()


def asked(user: Any, **attributes: Any) -> Any:
    return SimpleNamespace(user=user, session={}, **attributes)


class Later:
    """What is waited for, and names nobody."""

    pk = 1

    def __await__(self) -> Any:
        yield


@pytest.mark.parametrize("given", [Later(), True, False], ids=["awaitable", "yes", "no"])
def test_an_answer_that_is_no_account_is_said_to_be_none(
    db: None, settings: Any, caplog: pytest.LogCaptureFixture, given: Any
) -> None:
    """A key that happens to be somebody's names nobody when it comes in such a thing."""
    ann = User.objects.create_user("ann", pk=1)
    settings.COPILOT = {"REAL_ACTOR": lambda request: given}
    with caplog.at_level(logging.ERROR, "django_copilot"):
        assert isinstance(people.real_actor(asked(ann)), people.Unknown)
    assert [each.levelname for each in caplog.records] == ["ERROR"]
    assert "no account" in caplog.text


def test_a_person_who_carries_who_acts_for_her_is_that_one(db: None) -> None:
    ann, boss = User.objects.create_user("ann"), User.objects.create_user("boss")
    ann.impersonator = boss  # type: ignore[attr-defined]
    assert people.real_actor(asked(ann)) == boss


def test_another_group_is_not_the_one_that_is_named(db: None, settings: Any) -> None:
    Group.objects.create(name="others")
    settings.COPILOT = {"SERVICE_ACCOUNTS_GROUP": "robots"}
    assert [each.id for each in people.check_service_accounts(databases=["default"])] == ["copilot.W043"]


def test_a_database_that_has_no_groups_yet_is_warned_of_nothing(
    db: None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_table(*args: Any, **kwargs: Any) -> Any:
        raise DatabaseError("no such table")

    settings.COPILOT = {"SERVICE_ACCOUNTS_GROUP": "robots"}
    monkeypatch.setattr(Group.objects, "filter", no_table)
    assert people.check_service_accounts(databases=["default"]) == []


# -- the place --------------------------------------------------------------------------------------------


def test_a_place_without_pages_can_be_entered(settings: Any) -> None:
    urlconf: Any = ModuleType("tests.access.no_urls")
    urlconf.urlpatterns = []
    settings.ROOT_URLCONF = urlconf
    with enter_place(HERE) as request:
        assert request.get_host() == "testserver"


@contextmanager
def swallowing(values: Any, request: Any) -> Iterator[None]:
    with suppress(LookupError):
        yield


def test_what_fails_in_a_place_fails_though_the_project_swallows_it(settings: Any) -> None:
    settings.COPILOT = {"SCOPE": {"capture": lambda request: {}, "enter": swallowing}}
    with pytest.raises(LookupError, match="zqx"), enter_place(HERE):
        raise LookupError("zqx")
    with enter_place(HERE) as request:
        assert request is not None


def test_two_models_whose_names_run_together_have_a_page_each(project: Project) -> None:
    site = project.site(
        {depot.North_Stock: declared(read=["title"]), depot_north.Stock: declared(read=["title"])}
    )
    urls = {
        (model, page): page_url(site._registry[model], page, "7" if page in ("change", "delete") else None)
        for model in (depot.North_Stock, depot_north.Stock)
        for page in ("changelist", "add", "change", "delete")
    }
    assert len(set(urls.values())) == 8
    assert urls[depot.North_Stock, "change"] == "/admin/depot/north_stock/7/change/"
    assert urls[depot_north.Stock, "change"] == "/admin/depot_north/stock/7/change/"


def test_a_page_at_an_address_of_its_own_is_not_taken_for_another(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = project.site(
        {depot.North_Stock: declared(read=["title"]), depot_north.Stock: declared(read=["title"])}
    )
    other = SimpleNamespace(func=SimpleNamespace(model_admin=None))
    monkeypatch.setattr(scope, "resolve", lambda path: other)
    with pytest.raises(NoReverseMatch, match="address of its own"):
        page_url(site._registry[depot.North_Stock], "add")


def test_a_page_that_there_is_not_is_a_refusal(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    site = project.site({depot.Diary: declared(read=["title"])})
    request = scope.ScopedRequest(dataclasses.replace(HERE))
    request.path = request.path_info = "/before/"
    request.resolver_match = None
    with at_page(request, site._registry[depot.Diary], "add", None):
        assert request.path == "/admin/depot/diary/add/"
    assert request.path == "/before/"
    with pytest.raises(Refused), at_page(request, site._registry[depot.Diary], "no_such_page", None):
        raise AssertionError
