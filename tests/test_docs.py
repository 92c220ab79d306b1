"""The pages against the code: what they name exists, what they show runs, and their numbers are the code's."""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import json
import re
import subprocess
import sys
import tomllib
import types
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from django.conf import global_settings
from django.contrib.admin import AdminSite
from django.urls import get_resolver, resolve
from django.utils.module_loading import import_string

from django_copilot import gate
from django_copilot.api import base
from django_copilot.backends.base import ModelMessage, ModelRequest, ToolCall
from django_copilot.conf import Settings
from django_copilot.declaration import entities_of
from django_copilot.exceptions import BackendError
from django_copilot.scope import Scope
from django_copilot.tools.base import Failed, ReadDone

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "django_copilot"
ROOT_PAGES = [ROOT / "README.md", ROOT / "SECURITY.md"]
PAGES = [*ROOT_PAGES, *sorted((ROOT / "docs").glob("*.md"))]
IDS = [page.relative_to(ROOT).as_posix() for page in PAGES]  # there are two security.md
# Names in capitals that are Django's, REST framework's or the project's.
ELSEWHERE = {
    "ATOMIC_REQUESTS",
    "COOKIES",
    "COPILOT",
    "DEFAULT_SCHEMA_CLASS",
    "POST",
    "REST_FRAMEWORK",
    "SELECT",
}
PERMISSIONS = {"use_copilot", "approve_plan", "view_audit", "view_metrics", "use_switch"}


def text_of(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def blocks(page: Path, language: str) -> list[str]:
    """Give the fenced blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)


def code(page: Path) -> set[str]:
    """Give everything between single backticks, outside blocks."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S)
    return set(re.findall(r"`([^`\n]+)`", text))


@cache
def sources() -> str:
    return "\n".join(path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py")))


@cache
def constants() -> dict[str, Any]:
    """Give the settings' defaults and the literal constants of all modules, by name."""
    found: dict[str, Any] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                try:
                    found[node.targets[0].id] = ast.literal_eval(node.value)
                except ValueError:
                    continue
    return found | vars(Settings())


# -- links ----------------------------------------------------------------------------------------------


def slug(heading: str) -> str:
    """Give the anchor of a heading, as Markdown renderers make it."""
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading.lower())).strip("-")


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_lead_to_a_page_and_a_heading(page: Path) -> None:
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        text = file.read_text("utf-8") if file.is_file() else None
        if text is None or (anchor and anchor not in map(slug, re.findall(r"^#+ (.+)$", text, re.M))):
            dead.append(target)
    assert dead == []


def test_every_page_is_in_the_navigation_once() -> None:
    listed = re.findall(r": (\S+\.md)$", text_of("mkdocs.yml"), re.M)
    assert sorted(listed) == sorted(page.name for page in PAGES[len(ROOT_PAGES) :])


def test_the_pages_become_a_site_without_a_warning(tmp_path: Path) -> None:
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed (extra: docs)")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr  # with --quiet, warnings would not count


# -- names ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_names_in_capitals_are_settings_or_constants(page: Path) -> None:
    names = {name for name in code(page) if re.fullmatch(r"[A-Z][A-Z_]{3,}", name)}
    names |= set(re.findall(r"COPILOT\[\"(\w+)\"\]", page.read_text("utf-8")))
    own = {*constants(), *(f"COPILOT_{name}" for name in vars(Settings())), *ELSEWHERE}
    own |= set(re.findall(r'"([A-Z_]+)"', text_of("example_project/settings.py")))  # its environment
    assert {name for name in names - own if not hasattr(global_settings, name)} == set()


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_numbers_are_those_of_the_code(page: Path) -> None:
    """A number in brackets behind a name in capitals is its value: `MAX_ROUNDS` (5)."""
    for name, number in re.findall(r"`([A-Z][A-Z_]+)` \(([\d,.]+)\)", page.read_text("utf-8")):
        assert float(number.replace(",", "")) == constants()[name], name


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_check_ids_exist(page: Path) -> None:
    named = set(re.findall(r"copilot\.[EW]\d+", page.read_text("utf-8")))
    assert named <= set(re.findall(r"copilot\.[EW]\d+", sources()))


def test_every_check_has_its_line_once() -> None:
    told = re.findall(r"^\| `(copilot\.[EW]\d+)` \|", text_of("docs/checks.md"), re.M)
    assert sorted(told) == sorted(set(re.findall(r"\"(copilot\.[EW]\d+)\"", sources())))


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_dotted_paths_can_be_imported(page: Path) -> None:
    for name in code(page):
        if not re.fullmatch(r"django_copilot(\.\w+)+", name) or name.endswith(".py"):
            continue
        if name.removeprefix("django_copilot.") in PERMISSIONS:
            continue
        try:
            importlib.import_module(name)
        except ImportError:
            import_string(name)


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_files_and_tests_exist(page: Path) -> None:
    missing = []
    for name in code(page):
        path, _, test = name.partition("::")
        if not re.fullmatch(r"(django_copilot|tests|example_project|docs|bench|\.ci)/[\w./-]+", path):
            continue
        if not (ROOT / path).exists() or (test and f"def {test}(" not in text_of(path)):
            missing.append(name)
    assert missing == []


def addresses() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for address in re.findall(r"<admin>(/django_copilot/[\w/<>]*)", page.read_text("utf-8")):
            yield page.name, address


@pytest.mark.parametrize(("page", "address"), sorted(set(addresses())))
def test_addresses_are_there(page: str, address: str) -> None:
    found = resolve("/admin" + address.replace("<id>", "e22660ec-a42f-459b-9c23-33c0edd673be"))
    assert found.namespaces == ["admin"]
    assert str(found.url_name).startswith("django_copilot_")


def test_the_table_of_addresses_has_all_of_them_and_their_names() -> None:
    told = dict(re.findall(r"^\| `(<admin>\S+)` \| `admin:(\w+)`", text_of("docs/conversations.md"), re.M))
    site = get_resolver().namespace_dict["admin"][1]
    real = {
        name: "<admin>/" + site.reverse_dict[name][0][0][0].replace("%(ident)s", "<id>")
        for name in site.reverse_dict
        if isinstance(name, str)
        and name.startswith("django_copilot_")
        # A second name that the admin's index asks for, and pages of the admin's own.
        and not (name.endswith("_changelist") and name.removesuffix("_changelist") in site.reverse_dict)
        and "%(object_id)s" not in site.reverse_dict[name][0][0][0]
        and not name.endswith("_add")
    }
    assert {name: address for address, name in told.items()} == real


def test_every_code_of_the_endpoints_is_on_the_page() -> None:
    tree = ast.parse(Path(base.__file__).read_text("utf-8"))
    function = next(
        each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == "error_text"
    )
    texts = next(node for node in ast.walk(function) if isinstance(node, ast.Dict))
    real = {key.value for key in texts.keys if isinstance(key, ast.Constant)}
    told = re.findall(r"^\| (\d{3}) \| `(\w+)` \|", text_of("docs/conversations.md"), re.M)
    assert {name for _, name in told} == real
    assert len(told) == len(real)


def test_every_error_that_a_model_may_read_is_on_the_page() -> None:
    raised = set(re.findall(r"_error\(\s*\"(\w+)\"", text_of("django_copilot/turn/machine.py")))
    for path in ("django_copilot/gate.py", "django_copilot/runtime/sync.py"):
        raised |= set(re.findall(r"{\"code\": \"(\w+)\"", text_of(path)))
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("CallError", "Refused"):
                given = [each.value for each in node.keywords if each.arg == "code"]
                default = "refused" if ast.unparse(node.func) == "Refused" else "invalid_value"
                raised |= {ast.literal_eval(each) for each in given if isinstance(each, ast.Constant)}
                raised |= set() if given else {default}
    told, of_entities = set[str](), set[str]()
    for page in ("docs/harness.md", "docs/write-tools.md", "docs/plans.md"):
        for table in re.findall(r"^\|[^\n]* code \|.*?\n((?:\|.*\n)+)", text_of(page), re.M):
            rows = re.findall(r"^\| (?:\d{3} \| |in the plan \| )?(`.*?`) \|", table, re.M)
            told.update(name for row in rows for name in re.findall(r"`(\w+)`", row))
        of_entities = of_entities or set(told)
    assert raised - told == set()
    assert of_entities - raised == set()


def test_every_module_has_its_line_in_the_house() -> None:
    house = text_of("docs/architecture.md").partition("## The house")[2].partition("\n## ")[0]
    told = set(re.findall(r"`(django_copilot/[\w/.]+)`", house))
    folders = {"django_copilot/backends/offline/"}
    folders |= {f"django_copilot/redteam/{each}/" for each in ("client", "machine", "browser", "honest")}
    real = {
        name
        for path in PACKAGE.rglob("*.py")
        if path.read_text("utf-8").strip()
        and not (name := path.relative_to(ROOT).as_posix()).startswith(
            (*folders, "django_copilot/migrations/")
        )
        and path.parts[-2:] != ("access", "__init__.py")  # it only passes on what its modules have
    }
    assert told == real | folders
    assert all((ROOT / each / "__init__.py").exists() for each in folders)


def test_every_dependency_and_extra_has_its_reason() -> None:
    project = tomllib.loads(text_of("pyproject.toml"))["project"]
    page = text_of("docs/architecture.md").partition("## Dependencies")[2].partition("\n## ")[0]
    told = re.findall(r"^\| `([\w-]+)` \| ", page, re.M)
    needed = [re.split(r"[<>=\[]", each)[0] for each in project["dependencies"]]
    assert sorted(told) == sorted([*needed, *project["optional-dependencies"]])


def test_every_parameter_of_a_form_is_on_the_page() -> None:
    from django_copilot.draft import PARAMETERS, PLAN_INPUT

    page = text_of("docs/forms.md")
    assert set(re.findall(r"^\| `(ai\w+)` \|", page, re.M)) == set(PARAMETERS)
    assert f"`{PLAN_INPUT}`" in page


def test_every_step_of_a_turn_is_on_the_page() -> None:
    from django_copilot.turn import machine

    page = text_of("docs/architecture.md").partition("## The turn")[2].partition("\n## ")[0]
    names = set(re.findall(r"`([A-Z]\w+)`", page))
    real = {each.__name__ for union in (machine.Event, machine.Effect) for each in union.__args__}
    assert names == real


def test_every_public_name_for_tests_is_on_the_page() -> None:
    from django_copilot import testing

    page = text_of("docs/testing.md")
    shown = {"ModelCallBlocked", "ModelReply", "Script", "ScriptFailure"}  # met, and not made, by a test
    assert {name for name in testing.__all__ if name not in page} <= shown


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_pages_name_no_machine_and_nothing_private(page: Path) -> None:
    text = page.read_text("utf-8")
    assert re.findall(r"(?<![\w.])/(?:work|root|home|tmp|usr|opt|Users)/", text) == []
    assert "shared/" not in text


# -- code -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_python_on_the_page_compiles(page: Path) -> None:
    for number, block in enumerate(blocks(page, "python")):
        compile(block, f"{page.name}, block {number}", "exec")


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_json_on_the_page_is_json(page: Path) -> None:
    for block in blocks(page, "json"):
        json.loads(block)


def block_with(page: str, words: str) -> str:
    """Give the one python block of a page that contains these words."""
    (found,) = [block for block in blocks(ROOT / page, "python") if words in block]
    return found


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_the_first_declaration_runs(page: str, db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a site of its own: the store has declared its products already."""
    from django.contrib.auth import get_user_model

    from example_project.store.models import Product

    site = AdminSite()
    monkeypatch.setattr("django.contrib.admin.sites.site", site)
    names = {"__name__": "example_project.store.shown", "__package__": "example_project.store"}
    exec(compile(block_with(page, "ProductAdmin"), page, "exec"), names)
    assert list(entities_of(site)) == ["product"]

    Product.objects.create(title="Red mug", price="9.90")
    boss = get_user_model().objects.create_superuser("boss")

    def ask(arguments: dict[str, Any]) -> Any:
        call = ToolCall(id="1", name="query_product", arguments=json.dumps(arguments))
        return gate.run(site, Scope(site="admin"), boss.pk, call)

    outcome = ask({})
    assert isinstance(outcome, ReadDone)
    assert set(outcome.content["rows"][0]) == {"id", "title", "sku", "status"}
    assert isinstance(ask({"filters": {"price": "9.90"}}), Failed)


def test_the_harness_example_hides_a_field_by_request() -> None:
    from example_project.store.models import Product

    names: dict[str, Any] = {}
    exec(compile(block_with("docs/harness.md", "ParcelAdmin"), "harness.md", "exec"), names)
    parcels = names["ParcelAdmin"](Product, AdminSite())
    for allowed in (True, False):
        user = types.SimpleNamespace(has_perm=lambda permission, allowed=allowed: allowed)
        read = parcels.get_harness_list(types.SimpleNamespace(user=user))
        assert ("tracking_token" in read) is allowed


def test_the_order_example_gives_what_its_table_says(db: None) -> None:
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import Permission

    from example_project.store.models import Customer, Order, StaffProfile

    before = block_with("docs/harness.md", "class OrderAdmin")
    (diff,) = blocks(ROOT / "docs/harness.md", "diff")
    added = "".join(f"{line[1:]}\n" for line in diff.splitlines() if line.startswith("+"))
    (removed,) = [f"{line[1:]}\n" for line in diff.splitlines() if line.startswith("-")]
    assert before.count(removed) == 1
    names: dict[str, Any] = {"__name__": "shown"}
    exec(compile(before.replace(removed, added), "harness.md", "exec"), names)
    site = AdminSite()
    site.register(Order, names["OrderAdmin"])

    ann = get_user_model().objects.create_user("ann", is_staff=True)
    codes = ("use_copilot", "view_order", "change_order")
    ann.user_permissions.set(Permission.objects.filter(codename__in=codes))
    StaffProfile.objects.create(user=ann, region="north")
    plain, vip = (
        Customer.objects.create(name="c", email="c@example.com", vip=flag) for flag in (False, True)
    )

    def order(number: str, customer: Customer = plain, region: str = "north", status: str = "pending") -> str:
        made = Order.objects.create(number=number, customer=customer, region=region, status=status)
        return str(made.pk)

    near, far, dear = order("1"), order("2", region="south"), order("3", vip)
    shipped = order("4", status=Order.Status.SHIPPED)

    def ask(tool: str, **arguments: Any) -> Any:
        call = ToolCall(id="1", name=tool, arguments=json.dumps(arguments))
        return gate.run(site, Scope(site="admin"), ann.pk, call)

    rows = ask("query_order").content["rows"]
    assert {row["id"] for row in rows} == {near, shipped}
    assert set(rows[0]) == {"id", "number", "region", "status"}

    def form(ident: str, **fields: Any) -> Any:
        return ask("open_order_form", id=ident, fields=fields)

    unseen = [form(ident, shipping_city="x").content["error"] for ident in (far, dear, "987654")]
    assert unseen[0] == unseen[1] == unseen[2]
    assert unseen[0]["code"] == "not_found"
    for arguments in ({"fields": ["customer"]}, {"filters": {"customer": str(plain.pk)}}):
        assert ask("query_order", **arguments).content["error"]["code"] == "unknown_field"
    assert form(near, shipping_city="Gdynia").values == {"shipping_city": "Gdynia"}
    assert form(near, number="9").content["error"]["code"] == "not_fillable"
    assert form(shipped, shipping_city="Gdynia").content["error"]["code"] == "not_fillable"


def test_the_code_that_deletes_what_is_old_deletes_that_only(db: None) -> None:
    import datetime

    from django.contrib.auth import get_user_model
    from django.utils import timezone

    from django_copilot.models import Conversation, Message, Plan, Reference, Turn

    names: dict[str, Any] = {}
    exec(compile(block_with("docs/security.md", "def delete_older_than"), "security.md", "exec"), names)
    ann = get_user_model().objects.create_user("ann")
    now = timezone.now()
    for days in (0, 40):
        then = now - datetime.timedelta(days=days)
        talk = Conversation.objects.create(user=ann, site="admin", title=str(days))
        turn = Turn.objects.create(user=ann, conversation=talk, deadline=then)
        Message.objects.create(conversation=talk, turn=turn, role="user", text="x")
        plan = Plan.objects.create(
            user=ann, site="admin", kind="form", model="a.b", expires_at=then, submit_by=then
        )
        Conversation.objects.filter(pk=talk.pk).update(updated_at=then)
        Turn.objects.filter(pk=turn.pk).update(started_at=then)
        Plan.objects.filter(pk=plan.pk).update(created_at=then)
    Reference.objects.create(token="t", user=ann, model="a.b", object_pk="1")

    names["delete_older_than"](30)
    kept = [each.objects.count() for each in (Conversation, Message, Turn, Plan, Reference)]
    assert kept == [1, 1, 1, 1, 1]
    Conversation.objects.update(updated_at=now - datetime.timedelta(days=40))
    names["delete_older_than"](30)
    assert not Conversation.objects.exists()
    assert not Reference.objects.exists()


def test_the_readme_has_every_option_and_variable_of_the_demo() -> None:
    page = text_of("README.md")
    command = text_of("example_project/store/management/commands/demo.py")
    settings = text_of("example_project/settings.py")
    options = re.findall(r'add_argument\("(--[\w-]+)"', command)
    variables = set(re.findall(r"COPILOT_[A-Z_]+[A-Z]|DATABASE_URL", settings))
    assert options
    assert [name for name in [*options, *sorted(variables)] if f"`{name}" not in page] == []


def test_the_scope_example_enters_a_tenant_and_leaves_it() -> None:
    names: dict[str, Any] = {}
    exec(compile(block_with("docs/scope.md", "class CopilotScope"), "scope.md", "exec"), names)
    scope, current = names["CopilotScope"], names["current_tenant"]
    seen = []
    request = types.SimpleNamespace(get_host=lambda: "acme.example.com")
    names["middleware"](lambda request: seen.append(scope.capture(request)))(request)
    assert (seen, current()) == ([{"tenant": "acme"}], None)
    inside = []
    with contextlib.suppress(ZeroDivisionError), scope.enter(seen[0], request):
        inside.append(current())
        raise ZeroDivisionError
    assert (inside, current()) == (["acme"], None)


def test_the_session_example_gives_what_was_captured() -> None:
    names: dict[str, Any] = {}
    exec(compile(block_with("docs/scope.md", "class RegionScope"), "scope.md", "exec"), names)
    scope, request = names["RegionScope"], types.SimpleNamespace(session={"region": "north", "x": 1})
    built = types.SimpleNamespace()
    with scope.enter(scope.capture(request), built):
        assert built.session == {"region": "north"}


def test_the_example_of_a_backend_answers() -> None:
    names: dict[str, Any] = {}
    exec(compile(block_with("docs/backends.md", "class EchoBackend"), "backends.md", "exec"), names)
    backend = names["EchoBackend"]()
    said = ModelRequest(system="", tools=(), messages=(ModelMessage(role="user", text="Hello"),))
    assert backend.complete(said).text == "You wrote: Hello"
    with pytest.raises(BackendError):
        backend.complete(ModelRequest(system="", tools=(), messages=()))


# The example of the page for tests is collected with this file: its tests run as they are.
exec(compile(block_with("docs/testing.md", "class HarnessOfProducts"), "testing.md", "exec"), globals())
