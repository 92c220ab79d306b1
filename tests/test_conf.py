"""The ``COPILOT`` setting: defaults, sources, and the page that lists them."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest
from django.test import override_settings

from django_copilot.conf import Settings, get_settings
from django_copilot.exceptions import ConfigurationError, CopilotError

PAGE = (Path(__file__).parent.parent / "docs" / "settings.md").read_text()


def test_the_page_lists_every_key_with_its_default_and_nothing_else():
    rows = dict(re.findall(r"^\| `([A-Z_]+)` \| `(.+?)` \|", PAGE, re.MULTILINE))
    defaults = vars(Settings())
    assert sorted(rows) == sorted(defaults)
    assert {name: ast.literal_eval(text) for name, text in rows.items()} == defaults


def test_the_page_has_a_row_for_a_key_only_once():
    names = re.findall(r"^\| `([A-Z_]+)` \|", PAGE, re.MULTILINE)
    assert len(names) == len(set(names))


def test_without_the_setting_the_defaults_hold(settings):
    del settings.COPILOT
    get_settings.cache_clear()
    try:
        assert get_settings() == Settings()
    finally:
        get_settings.cache_clear()


@pytest.mark.parametrize("wrong", [{"backend": "openai"}, {"OPENAI_KEY": "x"}, {"": 1}])
def test_an_unknown_key_is_an_error_that_names_it(wrong):
    with override_settings(COPILOT=wrong), pytest.raises(ConfigurationError) as caught:
        get_settings()
    assert repr(next(iter(wrong))) in str(caught.value)


@pytest.mark.parametrize("wrong", [[], "openai", 5, True])
def test_the_setting_is_a_dict(wrong):
    with override_settings(COPILOT=wrong), pytest.raises(ConfigurationError):
        get_settings()


def test_a_change_of_the_setting_is_seen_at_once():
    assert get_settings() is get_settings()
    with override_settings(COPILOT={"TURNS_PER_MINUTE": 7}):
        assert get_settings().TURNS_PER_MINUTE == 7
        with override_settings(COPILOT={}):
            assert get_settings().TURNS_PER_MINUTE == 60
    assert get_settings().TURNS_PER_MINUTE == 60


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "OPENAI_MODEL", "OPENAI_BASE_URL"])
def test_the_environment_gives_what_the_dict_does_not(monkeypatch, name):
    monkeypatch.setenv(f"COPILOT_{name}", "from the environment")
    with override_settings(COPILOT={}):
        assert getattr(get_settings(), name) == "from the environment"
    with override_settings(COPILOT={name: None}):
        assert getattr(get_settings(), name) == "from the environment"
    with override_settings(COPILOT={name: "from the dict"}):
        assert getattr(get_settings(), name) == "from the dict"


def test_nothing_else_is_read_from_the_environment(monkeypatch):
    for each in fields(Settings):
        if not each.name.startswith("OPENAI_"):
            monkeypatch.setenv(f"COPILOT_{each.name}", "999")
    with override_settings(COPILOT={}):
        assert get_settings() == Settings()


def test_the_settings_show_no_key_and_can_not_be_changed():
    with override_settings(COPILOT={"OPENAI_API_KEY": "sk-secret"}):
        made = get_settings()
    assert "sk-secret" not in repr(made)
    with pytest.raises(AttributeError):
        made.OPENAI_API_KEY = "other"  # type: ignore[misc]


def test_the_error_is_one_of_ours_and_one_of_djangos():
    from django.core.exceptions import ImproperlyConfigured

    assert issubclass(ConfigurationError, CopilotError)
    assert issubclass(ConfigurationError, ImproperlyConfigured)


def test_nothing_but_conf_reads_the_setting():
    package = Path(__file__).parent.parent / "django_copilot"
    readers = [
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if re.search(r"settings\.COPILOT\b|settings, \"COPILOT\"", path.read_text())
        and "redteam" not in path.parts  # which, as testing.py, puts other settings over the project's
    ]
    assert sorted(readers) == ["conf.py", "testing.py"]
