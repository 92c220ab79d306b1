"""What the tests of the endpoint share: sending a body as it is, and looking at what is stored."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from django.apps import apps
from django.core import serializers
from django.test import Client
from django.urls import reverse

CHAT = "/admin/django_copilot/conversation/chat/"
CONVERSATIONS = "/admin/django_copilot/conversation/"


def post(client: Client, body: Any, **options: Any) -> Any:
    """Send a body: bytes as they are, text in UTF-8, anything else as JSON."""
    if not isinstance(body, bytes | str):
        body = json.dumps(body)
    options.setdefault("content_type", "application/json")
    return client.post(CHAT, data=body, **options)


def told(response: Any) -> tuple[int, str]:
    """Return the status and the code of an answer, after looking at what every answer must have."""
    assert response.headers["Content-Type"].split(";")[0] == "application/json", response.content[:300]
    assert {"no-store", "private"} <= {
        part.strip() for part in response.headers.get("Cache-Control", "").split(",")
    }
    assert "Traceback" not in response.content.decode()
    body = response.json()
    if response.status_code >= 400:
        assert body["detail"]
    return response.status_code, body.get("code", "")


def fingerprint() -> str:
    """Return a hash of everything that is stored in the store's tables, and of the log of its changes."""
    digest = hashlib.sha256()
    for label in ("store", "auth", "admin"):
        for model in sorted(apps.get_app_config(label).get_models(), key=lambda each: each.__name__):
            rows = model._base_manager.order_by("pk")
            if label == "auth" and model.__name__ == "User":
                digest.update(repr(list(rows.values_list("pk", "username", "is_superuser"))).encode())
            else:
                digest.update(serializers.serialize("json", rows).encode())
    return digest.hexdigest()


def detail(conversation: Any) -> str:
    """Return the address of a conversation."""
    return reverse("admin:django_copilot_conversation_detail", args=[conversation])
