"""Who decides: no service account, and nobody who acts as somebody else. What can't be told is a no."""

from __future__ import annotations

import logging
import types
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import AnonymousUser, Group, User
from django.core.signing import TimestampSigner
from django.test import override_settings

from django_copilot import people
from django_copilot.exceptions import Denied

ANSWERS: dict[str, Any] = {}


def answer(given: Any) -> Any:
    """Stand for a project's function; a test says what it gives."""
    told = ANSWERS["told"]
    return told(given) if callable(told) else told


async def later(given: Any) -> bool:
    """Stand for a function that is none of those that are called here."""
    return False


no_function = "text"


def copilot(**changes: Any) -> Any:
    return override_settings(COPILOT={**django_settings.COPILOT, **changes})


@pytest.fixture
def told() -> Iterator[Callable[[Any], None]]:
    yield lambda value: ANSWERS.update(told=value)
    ANSWERS.clear()


@pytest.fixture
def ann(db: None) -> User:
    return User.objects.create_user("ann", is_staff=True)


@pytest.fixture
def boss(db: None) -> User:
    return User.objects.create_superuser("boss")


def asked(user: Any, session: dict[str, Any] | None = None, **attributes: Any) -> Any:
    """Return a request of a person with a session that holds these marks."""
    return types.SimpleNamespace(user=user, session=session or {}, **attributes)


# -- service accounts ------------------------------------------------------------------------------------


def test_a_person_is_no_service_account_and_a_member_of_the_group_is(ann: User, boss: User) -> None:
    assert not people.is_service_account(ann)
    assert not people.is_service_account(boss)
    for each in (ann, boss):
        each.groups.add(Group.objects.create(name=f"other of {each}"))
        assert not people.is_service_account(each)
        each.groups.add(Group.objects.get_or_create(name="service accounts")[0])
        assert people.is_service_account(each)


def test_the_group_is_the_one_that_the_settings_name(ann: User) -> None:
    ann.groups.add(Group.objects.create(name="robots"))
    assert not people.is_service_account(ann)
    with copilot(SERVICE_ACCOUNTS_GROUP="robots"):
        assert people.is_service_account(ann)


def test_a_project_can_say_it_and_is_asked_for_superusers_too(ann: User, boss: User, told: Any) -> None:
    told(lambda user: user.username == "boss")
    for function in (answer, f"{__name__}.answer"):
        with copilot(IS_SERVICE_ACCOUNT=function):
            assert people.is_service_account(boss)
            assert not people.is_service_account(ann)
    ann.groups.add(Group.objects.create(name="service accounts"))
    with copilot(IS_SERVICE_ACCOUNT=answer):
        assert not people.is_service_account(ann)  # the project's word replaces the group's


def named(value: Any) -> str:
    """Return a test's name for a value: the same in every process."""
    return getattr(value, "__name__", "") or f"{type(value).__name__} {str(value)[:20]}"


def broken(given: Any) -> Any:
    raise RuntimeError("no")


@pytest.mark.parametrize("wrong", [None, 0, 1, "", "no", [], broken], ids=named)
def test_an_answer_that_is_none_is_a_yes(
    ann: User, told: Any, wrong: Any, caplog: pytest.LogCaptureFixture
) -> None:
    told(wrong)
    with copilot(IS_SERVICE_ACCOUNT=answer):
        assert people.is_service_account(ann)
    assert "taken as a yes" in caplog.text


@pytest.mark.parametrize(
    "name", ["nowhere.at_all", f"{__name__}.missing", "text", f"{__name__}.no_function", 7]
)
def test_a_function_that_is_not_there_makes_everybody_a_service_account(ann: User, name: Any) -> None:
    with copilot(IS_SERVICE_ACCOUNT=name):
        assert people.is_service_account(ann)


@pytest.mark.parametrize("user", [None, object(), types.SimpleNamespace(pk=1)])
def test_an_account_without_groups_is_a_service_account(db: None, user: Any) -> None:
    assert people.is_service_account(user)


def test_a_database_that_fails_is_a_yes(ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(Group.objects.none()), "exists", broken)
    assert people.is_service_account(ann)


# -- impersonation ---------------------------------------------------------------------------------------


def test_nobody_is_behind_an_ordinary_session(ann: User, caplog: pytest.LogCaptureFixture) -> None:
    for request in (
        asked(ann),
        asked(ann, {"hijack_history": []}),  # as it is after going back
        asked(ann, impersonator=None),
        asked(AnonymousUser()),
    ):
        assert people.real_actor(request) is None
    ann.is_hijacked = ann.is_impersonate = False  # type: ignore[attr-defined]
    assert people.real_actor(asked(ann, impersonator=None)) is None
    assert caplog.text == ""


def as_hijack(boss: User) -> dict[str, Any]:
    return {"session": {"hijack_history": [str(boss.pk)]}}


def as_hijack_twice(boss: User) -> dict[str, Any]:
    between = User.objects.create_user("between")
    return {"session": {"hijack_history": [str(boss.pk), str(between.pk)]}}


def as_loginas(boss: User) -> dict[str, Any]:
    return {"session": {"loginas_from_user": TimestampSigner().sign(boss.pk)}}


def as_impersonate(boss: User) -> dict[str, Any]:
    return {"session": {"_impersonate": 1}, "impersonator": boss}


MARKS = [as_hijack, as_hijack_twice, as_loginas, as_impersonate]


@pytest.mark.parametrize("mark", MARKS)
def test_the_person_behind_an_impersonated_one_is_named(ann: User, boss: User, mark: Any) -> None:
    request = asked(ann, **mark(boss))
    assert people.real_actor(request) == boss
    assert people.person_key(people.real_actor(request)) == str(boss.pk)


@pytest.mark.parametrize("mark", [as_hijack, as_loginas])
def test_an_account_that_is_not_active_is_named_and_one_that_is_gone_is_unknown(
    ann: User, boss: User, mark: Any
) -> None:
    request = asked(ann, **mark(boss))
    User.objects.filter(pk=boss.pk).update(is_active=False)
    assert people.real_actor(request) == boss
    boss.delete()
    assert isinstance(people.real_actor(request), people.Unknown)


def test_who_impersonates_out_of_a_hijacked_session_is_the_one_who_hijacked(ann: User, boss: User) -> None:
    between = User.objects.create_user("between")
    session = {"hijack_history": [str(boss.pk)], "_impersonate": ann.pk}
    assert people.real_actor(asked(ann, session, impersonator=between)) == boss


def test_where_the_middleware_ignores_its_mark_she_is_herself(boss: User) -> None:
    """As django-impersonate does below its URI_EXCLUSIONS, which are the admin unless a project changes them."""
    boss.is_impersonate = False  # type: ignore[attr-defined]
    assert people.real_actor(asked(boss, {"_impersonate": 7}, impersonator=None)) is None


def flagged(name: str) -> Callable[[User], dict[str, Any]]:
    def mark(user: User) -> dict[str, Any]:
        setattr(user, name, True)
        return {"impersonator": None}

    mark.__name__ = name
    return mark


def session(name: str, value: Any) -> Callable[[User], dict[str, Any]]:
    def mark(user: User) -> dict[str, Any]:
        return {"session": {name: value}}

    mark.__name__ = f"{name}={value!r}"
    return mark


UNKNOWN = [
    session("hijack_history", ["999999"]),
    session("hijack_history", ["not a key"]),
    session("hijack_history", [None]),
    session("hijack_history", "17"),
    session("hijack_history", {"a": 1}),
    session("loginas_from_user", "1:forged:signature"),
    session("loginas_from_user", ""),
    session("loginas_from_user", None),
    session("_impersonate", 1),  # and no middleware that says what it made of it
    flagged("is_hijacked"),
    flagged("is_impersonate"),
]


@pytest.mark.parametrize("mark", UNKNOWN, ids=lambda each: each.__name__)
def test_a_mark_that_names_nobody_is_somebody_unknown(ann: User, mark: Any) -> None:
    real = people.real_actor(asked(ann, **mark(ann)))
    assert isinstance(real, people.Unknown)
    assert people.person_key(real) == ""


def test_the_flag_of_the_session_is_the_one_that_the_project_chose(ann: User, boss: User) -> None:
    request = asked(ann, {"who_it_is": TimestampSigner().sign(boss.pk)})
    assert people.real_actor(request) is None
    with override_settings(LOGINAS_FROM_USER_SESSION_FLAG="who_it_is"):
        assert people.real_actor(request) == boss


def test_an_old_signature_still_says_who_it_is(
    ann: User, boss: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django.core.signing.time.time", lambda: 1_000_000)
    signed = TimestampSigner().sign(boss.pk)
    monkeypatch.undo()
    assert people.real_actor(asked(ann, {"loginas_from_user": signed})) == boss


@pytest.mark.parametrize("form", [lambda user: user, lambda user: user.pk, lambda user: str(user.pk)])
def test_a_project_can_say_who_really_acts(ann: User, boss: User, told: Any, form: Any) -> None:
    told(lambda request: form(boss) if request.real else None)
    for function in (answer, f"{__name__}.answer"):
        with copilot(REAL_ACTOR=function):
            assert people.real_actor(asked(ann, real=True)) == boss
            assert people.real_actor(asked(ann, real=False)) is None
            assert people.real_actor(asked(boss, real=True)) is None  # nobody is behind herself


def test_a_project_that_sees_nobody_does_not_hide_the_marks(ann: User, boss: User, told: Any) -> None:
    for nobody in (None, ann):
        told(nobody)
        with copilot(REAL_ACTOR=answer):
            assert people.real_actor(asked(ann, **as_hijack(boss))) == boss


@pytest.mark.parametrize(
    "wrong", [False, True, "", 0, "nobody", [], AnonymousUser(), uuid.UUID(int=7), 10**30, broken], ids=named
)
def test_an_answer_that_names_no_account_is_somebody_unknown(ann: User, told: Any, wrong: Any) -> None:
    told(wrong)
    with copilot(REAL_ACTOR=answer):
        assert isinstance(people.real_actor(asked(ann)), people.Unknown)


@pytest.mark.parametrize("name", ["nowhere.at_all", f"{__name__}.missing", f"{__name__}.no_function", 7])
def test_a_function_that_is_not_there_makes_everybody_impersonated(
    ann: User, name: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with copilot(REAL_ACTOR=name):
        assert isinstance(people.real_actor(asked(ann)), people.Unknown)
    assert "taken as impersonated" in caplog.text


def test_a_request_without_a_session_is_somebody_unknown(ann: User) -> None:
    assert isinstance(people.real_actor(types.SimpleNamespace(user=ann)), people.Unknown)


# -- keys, and who decides -------------------------------------------------------------------------------


def test_keys_are_text_and_short(ann: User) -> None:
    assert people.person_key(ann) == str(ann.pk)
    assert people.person_key(None) == people.person_key(AnonymousUser()) == people.person_key(User()) == ""
    one = uuid.uuid4()
    assert people.person_key(types.SimpleNamespace(pk=one)) == str(one)
    assert people.person_key(types.SimpleNamespace(pk="ä" * 200)) == "ä" * 64


def test_a_person_decides(ann: User, boss: User) -> None:
    assert people.who_decides(asked(ann)) == str(ann.pk)
    assert people.who_decides(asked(boss)) == str(boss.pk)


def test_impersonated_people_service_accounts_and_nobody_do_not_decide(ann: User, boss: User) -> None:
    def refusal(request: Any) -> tuple[str, int]:
        with pytest.raises(Denied) as denied:
            people.who_decides(request)
        return denied.value.code, denied.value.status

    for mark in MARKS:
        User.objects.filter(username="between").delete()
        assert refusal(asked(ann, **mark(boss))) == ("impersonated", 403)
    assert refusal(asked(AnonymousUser())) == ("service_account", 403)
    boss.groups.add(Group.objects.create(name="service accounts"))
    assert refusal(asked(boss)) == ("service_account", 403)


# -- checks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "ident"), [("IS_SERVICE_ACCOUNT", "E043"), ("REAL_ACTOR", "E044")])
def test_checks_name_a_function_that_can_not_be_called(name: str, ident: str) -> None:
    for right in (None, answer, f"{__name__}.answer"):
        with copilot(**{name: right}):
            assert people.check_people() == []
    for wrong in ("nowhere.at_all", f"{__name__}.missing", "text", "", f"{__name__}.no_function", 7, later):
        with copilot(**{name: wrong}):
            (found,) = people.check_people()
            assert found.id == f"copilot.{ident}"
            assert name in found.msg
    with copilot(NO_SUCH_KEY=1):
        assert people.check_people() == []


def test_a_group_that_is_named_and_not_there_is_warned_of(db: None) -> None:
    def found() -> list[str]:
        return [str(each.id) for each in people.check_service_accounts(databases=["default"])]

    assert found() == []  # nobody named one
    with copilot(SERVICE_ACCOUNTS_GROUP="robots"):
        assert found() == ["copilot.W043"]
        assert people.check_service_accounts() == []  # no database was to be asked
        with copilot(SERVICE_ACCOUNTS_GROUP="robots", IS_SERVICE_ACCOUNT=answer):
            assert found() == []
        Group.objects.create(name="robots")
        assert found() == []


def test_what_went_wrong_is_logged_without_the_session(ann: User, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), copilot(REAL_ACTOR="nowhere.at_all"):
        people.real_actor(asked(ann, {"hijack_history": ["a secret"]}))
    assert "nowhere" in caplog.text
    assert "a secret" not in caplog.text
