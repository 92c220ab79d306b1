"""Admin sites that a test puts together: models, declarations, people, and the addresses."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from django.contrib import admin
from django.contrib.admin import AdminSite, sites
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import URLResolver, path

from django_copilot.admin import HarnessMixin
from django_copilot.backends.base import ModelRequest
from django_copilot.backends.scripted import Script, Step
from django_copilot.testing import Text, ask, copilot_client, script


def declared(*, read: Any = (), fill: Any = (), **attributes: Any) -> type[admin.ModelAdmin[Any]]:
    """Return a ModelAdmin class that declares these fields."""
    return type(
        "DeclaredAdmin",
        (HarnessMixin, admin.ModelAdmin),
        {"harness_list": list(read), "harness_persist": list(fill), **attributes},
    )


class Project:
    """The admin sites of one test, each at /<its name>/."""

    def __init__(self, settings: Any) -> None:
        self.settings = settings
        self.sites: dict[str, AdminSite] = {}
        settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": []}]  # without the example's own header

    def site(
        self,
        admins: Mapping[Any, type[admin.ModelAdmin[Any]] | None],
        *,
        name: str = "admin",
        cls: type[AdminSite] = AdminSite,
    ) -> AdminSite:
        """Make an admin site and mount it."""
        made = self.sites[name] = cls(name=name)
        for model, model_admin in admins.items():
            made.register(model, model_admin)
        self.mount()
        return made

    def mount(self) -> None:
        """Make the addresses of all sites anew."""
        urlconf: Any = types.ModuleType("tests.projects.made_urls")
        patterns: list[URLResolver] = [path(f"{name}/", site.urls) for name, site in self.sites.items()]
        urlconf.urlpatterns = patterns
        self.settings.ROOT_URLCONF = urlconf

    def person(self, *permissions: str, name: str = "", **fields: Any) -> Any:
        """Make a staff member who may use the copilot and has these permissions ("app.codename")."""
        user_model = get_user_model()
        name = name or f"person{user_model.objects.count()}"
        user = user_model.objects.create_user(name, is_staff=True, **fields)
        for each in ("django_copilot.use_copilot", *permissions):
            label, codename = each.split(".", 1)
            user.user_permissions.add(
                Permission.objects.get(content_type__app_label=label, codename=codename)
            )
        return user

    def boss(self, name: str = "boss") -> Client:
        """Return a client of a new superuser."""
        return copilot_client(get_user_model().objects.create_superuser(name))

    def close(self) -> None:
        """Take the sites out of what Django knows, so that no other test's checks find them."""
        for made in self.sites.values():
            sites.all_sites.discard(made)


class Chat:
    """What one message gave: the answer, and what the model was asked with and told."""

    def __init__(self, answer: dict[str, Any], model: Script) -> None:
        self.answer, self.model = answer, model

    @property
    def tools(self) -> set[str]:
        """The names of the tools that were offered first."""
        return {each.name for each in self.model.requests[0].tools}

    @property
    def told(self) -> list[dict[str, Any]]:
        """The tool results that the model was told last."""
        return results(self.model.request)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of the last tool result."""
        assert "rows" in self.told[-1], self.told[-1]
        return list(self.told[-1]["rows"])

    @property
    def error(self) -> str:
        """The code of the last tool result, which must be an error."""
        assert "error" in self.told[-1], self.told[-1]
        return str(self.told[-1]["error"]["code"])

    @property
    def page(self) -> str:
        """The address that the browser is sent to."""
        action = self.answer["action"]
        return action["path"] + "?" + "&".join(f"{k}={v}" for k, v in _quoted(action["queryParams"]))


def _quoted(params: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    yield from ((name, quote(value)) for name, value in params.items())


def results(request: ModelRequest) -> list[dict[str, Any]]:
    """Return the tool results in a request, in their order."""
    return [json.loads(each.text) for each in request.messages if each.role == "tool"]


def say(client: Client, *steps: Step, message: str = "Do it", site: str = "admin", **extra: Any) -> Chat:
    """Send a message that the model answers with these steps, and with a text when they are reads.

    A step that ends the turn (a form, a delete page) needs no text after it: pass ``ends=True``.
    """
    ends = extra.pop("ends", False)
    status = extra.pop("status", 200)
    last = () if ends or (steps and isinstance(steps[-1], Text)) else (Text("Done."),)
    with script(*steps, *last) as model:
        answer = ask(client, message, site=site, status=status, **extra)
    return Chat(answer, model)


def shown(client: Client, conversation: str) -> list[dict[str, Any]]:
    """Return the messages of a conversation as they are shown again."""
    messages = client.get(
        f"/admin/django_copilot/conversation/{conversation}/", headers={"Accept": "application/json"}
    ).json()
    return list(messages["messages"])
