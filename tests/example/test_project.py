"""The example project as a whole: languages, settings, migrations, the header of its admin."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from django.apps import apps
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils.translation import override

ROOT = Path(__file__).resolve().parents[2]
SAME = {"pl": {"SKU", "VIP", "slug", "status", "tag", "e-mail", "region"}, "ru": {"VIP"}}
PRODUCTION = {
    "DJANGO_SETTINGS_MODULE": "example_project.settings_production",
    "DJANGO_SECRET_KEY": "0123456789-abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "DJANGO_ALLOWED_HOSTS": "store.example, www.store.example",
    "DATABASE_URL": "sqlite:///:memory:",
    "STORE_AUDIT_KEY": "0123456789-abcdefghijklmnopqrstuvwxyz",
}


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-W", "error", *code.split("|")],
        cwd=ROOT,
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def shown(code: str, **environment: str) -> str:
    done = run(
        f"-c|import django; django.setup(); from django.conf import settings; print({code})", **environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("language", ["pl", "ru"])
def test_every_name_and_choice_is_translated(language: str) -> None:
    def translated(text: object) -> None:
        with override("en"):
            english = str(text)
        with override(language):
            there = str(text)
        assert there
        assert there != english or english in SAME[language], english

    store = apps.get_app_config("store")
    translated(store.verbose_name)
    for model in store.get_models():
        if model.__name__.startswith("Historical") or model._meta.auto_created:
            continue
        translated(model._meta.verbose_name)
        translated(model._meta.verbose_name_plural)
        for field in model._meta.get_fields():
            if not field.concrete or field.auto_created:
                continue
            translated(field.verbose_name)
            for _value, label in field.choices or ():
                translated(label)


@pytest.mark.parametrize("language", ["pl", "ru"])
def test_compiled_translations_are_those_of_the_sources(language: str) -> None:
    import gettext

    folder = ROOT / "example_project" / "store" / "locale" / language / "LC_MESSAGES"
    with (folder / "django.mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)
    source: dict[tuple[str, str], str] = {}
    context = text = ""
    for line in (folder / "django.po").read_text(encoding="utf-8").splitlines():
        kind, _, quoted = line.partition(" ")
        if kind == "msgctxt":
            context = quoted.strip('"')
        elif kind == "msgid":
            text = quoted.strip('"')
        elif kind == "msgstr" and text:
            source[context, text] = quoted.strip('"')
            context = ""
    assert len(source) > 60
    for (context, text), there in source.items():
        assert there
        assert (compiled.pgettext(context, text) if context else compiled.gettext(text)) == there


@pytest.mark.django_db
def test_migrations_are_complete() -> None:
    call_command("makemigrations", "store", check=True, dry_run=True, verbosity=0)


def test_the_language_switch_keeps_the_page(log_in: Callable[[str], Client]) -> None:
    client = log_in("manager")
    page = reverse("admin:store_product_changelist")
    content = client.get(page).content.decode()
    assert f'action="{reverse("set_language")}"' in content
    assert '<button type="submit" name="language" value="en" lang="en" aria-current="true">' in content
    response = client.post(reverse("set_language"), {"language": "pl", "next": page})
    assert response.status_code == 302
    assert response["Location"] == page
    content = client.get(page).content.decode()
    assert "Przykładowy sklep" in content
    assert "produkty" in content.lower()
    assert 'lang="pl" aria-current="true"' in content
    assert all(f">{name}</button>" in content for name in ("English", "Polski", "Русский"))
    assert "style=" not in content.split('class="store-language"')[1].split("</form>")[0]


@pytest.mark.django_db
def test_the_login_page_has_the_language_switch_once() -> None:
    content = Client().get(reverse("admin:login"), headers={"accept-language": "ru"}).content.decode()
    assert content.count('class="store-language"') == 1
    assert "Пример магазина" in content


@pytest.mark.django_db
def test_the_first_page_leads_to_the_admin() -> None:
    response = Client().get("/")
    assert (response.status_code, response["Location"]) == (302, "/admin/")


def test_prices_are_written_as_the_language_writes_them(store: None, log_in: Callable[[str], Client]) -> None:
    from example_project.store.models import Product

    product = Product.objects.first()
    Product.objects.filter(pk=product.pk).update(price="1234.50")
    client = log_in("manager")
    page = reverse("admin:store_product_change", args=[product.pk])
    assert 'value="1234.50"' in client.get(page).content.decode()
    client.post(reverse("set_language"), {"language": "pl"})
    assert 'value="1234,50"' in client.get(page).content.decode()


@pytest.mark.parametrize(
    ("environment", "backend"),
    [
        ({}, "offline"),
        ({"COPILOT_OPENAI_API_KEY": "key"}, "openai"),
        ({"COPILOT_BACKEND": "openai"}, "openai"),
        ({"COPILOT_BACKEND": "offline", "COPILOT_OPENAI_API_KEY": "key"}, "offline"),
    ],
)
def test_the_backend_follows_the_environment(environment: dict[str, str], backend: str) -> None:
    demo = {"DJANGO_SETTINGS_MODULE": "example_project.settings"}
    assert shown("settings.COPILOT['BACKEND']", **demo, **environment) == backend


def test_the_throttle_follows_the_environment() -> None:
    demo = {"DJANGO_SETTINGS_MODULE": "example_project.settings"}
    assert shown("settings.COPILOT['TURNS_PER_MINUTE']", **demo) == "60"
    assert shown("settings.COPILOT['TURNS_PER_MINUTE']", **demo, COPILOT_TURNS_PER_MINUTE="3") == "3"
    done = run("-m|django|check", **demo, COPILOT_TURNS_PER_MINUTE="many")
    assert done.returncode == 1
    assert "COPILOT_TURNS_PER_MINUTE must be a whole number" in done.stderr


def test_production_settings_pass_the_deployment_checks() -> None:
    done = run("-m|django|check|--deploy|--fail-level|DEBUG", **PRODUCTION)
    assert done.returncode == 0, done.stderr
    assert "no issues" in done.stdout
    assert "WARNING" not in done.stderr


@pytest.mark.parametrize(
    "name", ["DJANGO_SECRET_KEY", "DJANGO_ALLOWED_HOSTS", "DATABASE_URL", "STORE_AUDIT_KEY"]
)
def test_production_settings_guess_nothing(name: str) -> None:
    done = run("-m|django|check", **{key: value for key, value in PRODUCTION.items() if key != name})
    assert done.returncode == 1
    assert f"Set {name} in the environment." in done.stderr


def test_production_settings_take_the_audit_key_of_the_environment_alone() -> None:
    shown_keys = shown("settings.COPILOT['AUDIT_KEYS']", **PRODUCTION)
    assert shown_keys == str({"1": PRODUCTION["STORE_AUDIT_KEY"]})


def test_production_settings_know_no_public_token_of_a_gateway() -> None:
    address = {"STORE_GATEWAY_URL": "https://payments.example"}
    done = run("-m|django|check", **PRODUCTION, **address)
    assert done.returncode == 1
    assert "Set STORE_GATEWAY_TOKEN in the environment." in done.stderr
    assert shown("settings.STORE_GATEWAY_TOKEN", **PRODUCTION, **address, STORE_GATEWAY_TOKEN="t") == "t"
    assert shown("settings.STORE_GATEWAY_TOKEN", **PRODUCTION) == ""


@pytest.mark.parametrize(
    ("environment", "state"),
    [
        ({}, str(ROOT / "demo-gateway.sqlite3")),
        ({"DATABASE_URL": "sqlite:////tmp/x/shop.sqlite3"}, "/tmp/x/shop-gateway.sqlite3"),
        ({"DATABASE_URL": "postgres://postgres@127.0.0.1:1/shop"}, str(ROOT / "demo-gateway.sqlite3")),
        ({"STORE_GATEWAY_STATE": "/tmp/books.sqlite3"}, "/tmp/books.sqlite3"),
    ],
)
def test_the_gateways_books_lie_beside_the_database(environment: dict[str, str], state: str) -> None:
    demo = {"DJANGO_SETTINGS_MODULE": "example_project.settings"}
    assert shown("settings.STORE_GATEWAY_STATE", **demo, **environment) == state


@pytest.mark.django_db
def test_the_service_accounts_are_those_that_the_settings_name(people: None) -> None:
    from django.conf import settings

    from example_project.store.people import SERVICE_ACCOUNTS

    assert settings.COPILOT["SERVICE_ACCOUNTS_GROUP"] == SERVICE_ACCOUNTS
    members = get_user_model().objects.filter(groups__name=SERVICE_ACCOUNTS)
    assert [each.username for each in members] == ["bot"]


def test_production_settings_run_no_gateway() -> None:
    done = run("-m|django|gateway", **PRODUCTION)
    assert done.returncode == 1
    assert "The gateway is for the demo." in done.stderr


def test_production_settings_make_no_demo() -> None:
    done = run("-m|django|demo|--setup-only", **PRODUCTION)
    assert done.returncode == 1
    assert "public password" in done.stderr
