"""The OpenAPI schema that drf-spectacular makes of the admin's addresses."""

from __future__ import annotations

import difflib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse

pytest.importorskip("drf_spectacular")

ROOT = Path(__file__).parent.parent.parent
GOLDEN = ROOT / "tests" / "golden" / "openapi.yaml"

PROGRAM = """
import sys, warnings

warnings.simplefilter("error")
from django.conf import settings

import tests.settings as base

options = {name: getattr(base, name) for name in dir(base) if name.isupper()}
options["INSTALLED_APPS"] = [*options["INSTALLED_APPS"], "drf_spectacular"]
options["REST_FRAMEWORK"] = {"DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema"}
options["ROOT_URLCONF"] = "tests.api.openapi_urls"
options["SPECTACULAR_SETTINGS"] = {"TITLE": "Store", "VERSION": "1", "SERVE_INCLUDE_SCHEMA": False}
settings.configure(**options)
import django
import django.urls
import django.utils.module_loading

django.setup()
assert "rest_framework.views" not in sys.modules, "REST framework's views are imported at start"
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.validation import validate_schema

if sys.argv[1] == "generator":
    from drf_spectacular.generators import SchemaGenerator
    from drf_spectacular.renderers import OpenApiYamlRenderer

    with GENERATOR_STATS.silence():
        schema = SchemaGenerator().get_schema(request=None, public=True)
    assert not GENERATOR_STATS, (GENERATOR_STATS._warn_cache, GENERATOR_STATS._error_cache)
    validate_schema(schema)
    sys.stdout.write(OpenApiYamlRenderer().render(schema, renderer_context={}).decode())
    view = django.urls.resolve("/admin/django_copilot/conversation/chat/").func
    view.cls = None  # whatever is left there
    assert view._view.cls is django.utils.module_loading.import_string(view.dotted), "it answers requests"
else:
    from django.test import Client

    response = Client().get("/schema/", headers={"Accept": "application/yaml"})
    assert response.status_code == 200, response.content
    sys.stdout.write(response.content.decode())
"""


def made(how: str) -> str:
    """Return the schema as a project gets it, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr, done.stderr
    return done.stdout


@pytest.mark.parametrize("how", ["generator", "view"])
def test_the_schema_is_the_golden_one(how):
    schema = made(how)
    golden = GOLDEN.read_text() if GOLDEN.exists() else ""
    if schema != golden:
        candidate = GOLDEN.with_name(f"{GOLDEN.name}.candidate")
        candidate.write_text(schema)
        diff = "".join(
            difflib.unified_diff(
                golden.splitlines(True), schema.splitlines(True), str(GOLDEN), str(candidate)
            )
        )
        pytest.fail(f"The schema differs from the golden one:\n{diff}")


def test_the_golden_schema_says_what_matters():
    import yaml

    schema: dict[str, Any] = yaml.safe_load(GOLDEN.read_text())
    assert list(schema["paths"]) == [reverse("admin:django_copilot_chat")]
    operation = schema["paths"][reverse("admin:django_copilot_chat")]
    assert list(operation) == ["post"]
    assert list(operation["post"]["responses"]) == ["200", "400", "401", "403", "404", "409", "429", "500"]
    components = schema["components"]["schemas"]
    assert set(components["ChatRequest"]["properties"]) == {"conversationId", "message", "page", "continue"}
    assert "required" not in components["ChatRequest"]  # a message, or the plan after which a turn goes on
    assert {"id", "digest", "confirmUrl", "rejectUrl"} <= set(components["ChatPlan"]["properties"])
    assert set(components["ChatAnswer"]["required"]) == {"conversationId", "reply", "results"}
    assert set(components["ChatRow"]["properties"]) == {"id", "url", "values"}
    assert all(name.startswith("Chat") for name in components)  # no clash with a project's own
    assert operation["post"]["security"] == [{"copilotSession": []}]


def test_it_stays_optional():
    """Nothing of the package needs drf-spectacular unless the project has installed it."""
    program = (
        "import sys; sys.modules['drf_spectacular'] = None\n"
        "import os; os.environ['DJANGO_SETTINGS_MODULE'] = 'tests.settings'\n"
        "import django; django.setup()\n"
        "import django_copilot.api.views"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
