"""What a preview may not do, by every way there is, and that a refusal can't be swallowed or leak."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.core.mail import EmailMessage, EmailMultiAlternatives
from django.core.mail.backends.locmem import EmailBackend
from django.db import connection, connections, transaction

from django_copilot import Effect, Preview, write_tool
from django_copilot.models import Plan
from django_copilot.tools import guard
from django_copilot.tools.guard import NotAPreview, only_reading, through_context
from example_project.store.models import Category, Customer, Order, Product, Tag
from tests.gate.conftest import Orders

from .declared import confirm, context, decide, draft_for, propose, why_not

# -- what a tool might do --------------------------------------------------------------------------------


def _raw(sql: str) -> Callable[[], Any]:
    def run() -> None:
        with connection.cursor() as cursor:
            cursor.execute(sql)

    return run


def _many() -> None:
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO store_tag (name, slug) VALUES (%s, %s)", [("a", "zqx")])


def _procedure() -> None:
    with connection.cursor() as cursor:
        cursor.callproc("zqx")


WRITING: dict[str, Callable[[], Any]] = {
    "save": lambda: Tag(name="zqx", slug="zqx").save(),
    "create": lambda: Tag.objects.create(name="zqx", slug="zqx"),
    "bulk_create": lambda: Tag.objects.bulk_create([Tag(name="zqx", slug="zqx")]),
    "update": lambda: Order.objects.update(shipping_city="zqx"),
    "delete": lambda: Tag.objects.all()._raw_delete("default"),
    "raw update": _raw("UPDATE store_order SET shipping_city = 'zqx'"),
    "raw with a comment": _raw("/* SELECT */ UPDATE store_order SET shipping_city = 'zqx'"),
    "raw in a common table": _raw("WITH x AS (SELECT 1) UPDATE store_order SET shipping_city = 'zqx'"),
    "many": _many,
    "procedure": _procedure,
    "login": lambda: User.objects.filter(username="support").update(is_superuser=True),
    "plan": lambda: Plan.objects.update(state="executed"),
}
READING_PAST: dict[str, Callable[[], Any]] = {
    "objects": lambda: list(Order.objects.all()),
    "first": lambda: Order.objects.first(),
    "exists": lambda: Order.objects.exists(),
    "count": lambda: Order.objects.count(),
    "iterator": lambda: list(Order.objects.iterator()),
    "raw": lambda: list(Order.objects.raw("SELECT * FROM store_order")),
    "raw with a comment": _raw("/* x */ SELECT 1"),
    "raw in brackets": _raw("(SELECT 1)" if connection.vendor != "sqlite" else "VALUES (1)"),
    "raw values": _raw("VALUES (1)"),
    "raw in a common table": _raw("WITH x AS (SELECT 1) SELECT * FROM x"),
    "users": lambda: User.objects.get(username="admin"),
}


def _connect() -> None:
    with socket.socket() as made:
        made.connect(("127.0.0.1", 9))


def _send_to() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.sendto(b"x", ("127.0.0.1", 9))


def _fork() -> None:
    pid = os.fork()
    if not pid:  # pragma: no cover
        os._exit(0)
    os.waitpid(pid, 0)


def _pool() -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()


CALLING: dict[str, Callable[[], Any]] = {
    "connect": _connect,
    "send to": _send_to,
    "http": lambda: urllib.request.urlopen("http://127.0.0.1:9/", timeout=1),
    "process": lambda: subprocess.run(["true"], check=False),
    "shell": lambda: os.system("true"),
    "fork": _fork,
    "thread": lambda: threading.Thread(target=int).start(),
    "timer": lambda: threading.Timer(0, int).start(),
    "pool": _pool,
}
MAILING: dict[str, Callable[[], Any]] = {
    "send_mail": lambda: mail.send_mail("zqx", "", "a@example.com", ["b@example.com"]),
    "send_mass_mail": lambda: mail.send_mass_mail([("zqx", "", "a@example.com", ["b@example.com"])]),
    "mail_admins": lambda: mail.mail_admins("zqx", ""),
    "mail_managers": lambda: mail.mail_managers("zqx", ""),
    "message": lambda: EmailMessage("zqx", "", "a@example.com", ["b@example.com"]).send(),
    "silently": lambda: EmailMessage("zqx", "", "a@example.com", ["b@example.com"]).send(),
    "alternatives": lambda: EmailMultiAlternatives("zqx", "", "a@example.com", ["b@example.com"]).send(),
    "backend": lambda: EmailBackend().send_messages([EmailMessage("zqx", "", "a@example.com", ["b@x.org"])]),
    "of a user": lambda: User(email="b@example.com").email_user("zqx", "x", "a@example.com"),
}
if hasattr(mail, "mailers"):  # Django 6.1
    MAILING["mailer"] = lambda: mail.mailers["default"].send_messages(
        [EmailMessage("zqx", "", "a@example.com", ["b@example.com"])]
    )

LATER: dict[str, Callable[[], Any]] = {
    "on_commit": lambda: transaction.on_commit(lambda: Tag.objects.create(name="zqx", slug="zqx")),
    "on_commit robust": lambda: transaction.on_commit(int, robust=True),
    "in a block": lambda: _in_block(),
}


def _in_block() -> None:
    with transaction.atomic():
        transaction.on_commit(int)


DEEDS = {
    f"{kind}: {name}": deed
    for kind, deeds in (
        ("write", WRITING),
        ("read past", READING_PAST),
        ("call", CALLING),
        ("mail", MAILING),
        ("later", LATER),
    )
    for name, deed in deeds.items()
}


@pytest.fixture(autouse=True)
def _mails(settings: Any) -> None:
    if hasattr(mail, "mailers"):
        settings.MAILERS = {"default": {"BACKEND": "django.core.mail.backends.locmem.EmailBackend"}}
    settings.ADMINS = ["b@example.com"] if hasattr(mail, "mailers") else [("B", "b@example.com")]
    settings.MANAGERS = settings.ADMINS


def _state() -> list[Any]:
    return [
        list(Tag.objects.order_by("pk").values_list()),
        list(Order.objects.order_by("pk").values_list("shipping_city")),
        list(User.objects.order_by("pk").values_list("is_superuser")),
        len(mail.outbox),
        len(connection.run_on_commit),
    ]


@pytest.mark.parametrize("swallow", [False, True], ids=["raised", "swallowed"])
@pytest.mark.parametrize("deed", DEEDS)
def test_a_tool_that_does_more_than_read_through_its_context_gets_no_plan(
    orders: Orders, caplog: pytest.LogCaptureFixture, deed: str, swallow: bool
) -> None:
    """Guards hazard 150: a violation that the tool catches is refused all the same."""
    reached = []

    @write_tool(Order)
    def naughty(ctx: Any, number: str) -> Preview:
        """Do more than look."""
        found = ctx.get(Order, number=number)
        try:
            DEEDS[deed]()
        except BaseException:
            if not swallow:
                raise
        reached.append(deed)
        return Preview(found, shipping_city="Oslo")

    number = Order.objects.get(pk=orders.own).number
    before = _state()
    error = why_not("support", "naughty", {"number": number})
    assert error == {"code": "failed", "message": "The call could not be carried out."}
    assert "A preview" in caplog.text
    assert _state() == before
    late = deed.startswith("later")
    assert reached == ([deed] if swallow or late else [])


@pytest.mark.parametrize("deed", [name for name in DEEDS if not name.startswith("read past")])
def test_a_read_only_tool_may_do_no_more_than_a_preview(
    orders: Orders, caplog: pytest.LogCaptureFixture, deed: str
) -> None:
    @write_tool(Order, category="read_only")
    def curious(ctx: Any) -> str:
        """Do more than look."""
        DEEDS[deed]()
        return "done"

    before = _state()
    assert why_not("support", "curious")["code"] == "failed"
    assert _state() == before


@pytest.mark.parametrize("deed", [name for name in DEEDS if name.split(":")[0] in ("write", "mail", "later")])
def test_neither_a_dry_run_nor_an_approval_rule_may_write_or_mail(
    orders: Orders, caplog: pytest.LogCaptureFixture, deed: str
) -> None:
    from django_copilot.tools.write import Approval

    class Rule(Approval):
        def is_needed(self, *args: Any) -> bool:
            DEEDS[deed]()
            return False

    @write_tool(Order, approval=Rule())
    def ruled(ctx: Any, number: str) -> Preview:
        """Do it."""
        return Preview(ctx.get(Order, number=number), shipping_city="Oslo")

    @write_tool(Order)
    def tried(ctx: Any, number: str) -> Preview:
        """Do it."""
        return Preview(ctx.get(Order, number=number), shipping_city="Oslo")

    @tried.dry_run
    def try_it(preview: Preview) -> list[str]:
        DEEDS[deed]()
        return []

    before = _state()
    number = Order.objects.get(pk=orders.own).number
    assert draft_for("support", "ruled", {"number": number}).needs_approval  # a rule that fails is a yes
    assert why_not("support", "tried", {"number": number})["code"] == "failed"
    assert _state() == before


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"42")

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def other_system() -> Iterator[int]:
    """Run a small server and give its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_declared_dry_run_may_ask_another_system_and_a_preview_may_not(
    orders: Orders, other_system: int
) -> None:
    asked = []

    def ask() -> str:
        asked.append(1)
        return urllib.request.urlopen(f"http://127.0.0.1:{other_system}/", timeout=5).read().decode()

    @write_tool(Order)
    def asking(ctx: Any, number: str, at_once: bool = False) -> Preview:
        """Ask."""
        found = ctx.get(Order, number=number)
        return Preview(found, shipping_city=ask() if at_once else "Oslo")

    @asking.dry_run
    def try_it(preview: Preview) -> list[Any]:
        return [Effect("It costs %(sum)s.", sum=ask()), "And more."]

    number = Order.objects.get(pk=orders.own).number
    draft = draft_for("support", "asking", {"number": number})
    assert [each["text"] for each in draft.body["dry_run"]] == ["It costs %(sum)s.", "And more."]
    assert draft.body["dry_run"][0]["values"] == {"sum": "text:42"}
    assert why_not("support", "asking", {"number": number, "at_once": True})["code"] == "failed"
    assert asked == [1, 1]


def test_a_connection_that_was_open_before_is_no_way_out(other_system: int, db: None) -> None:
    """Guards hazard 151."""
    kept = HTTPConnection("127.0.0.1", other_system, timeout=5)
    kept.request("GET", "/")
    assert kept.getresponse().read() == b"42"
    with pytest.raises(NotAPreview, match="call out"), only_reading():
        kept.request("GET", "/")
    kept.close()


def test_a_dry_run_reads_no_more_than_the_preview_gave_it(
    orders: Orders, caplog: pytest.LogCaptureFixture
) -> None:
    @write_tool(Order)
    def lazy(ctx: Any, number: str) -> Preview:
        """Do it."""
        return Preview(ctx.get(Order, number=number), shipping_city="Oslo")

    @lazy.dry_run
    def try_it(preview: Preview) -> list[str]:
        return [preview.record.lines.first().product.title]  # type: ignore[attr-defined]

    number = Order.objects.get(pk=orders.own).number
    assert why_not("support", "lazy", {"number": number})["code"] == "failed"
    assert "read past it" in caplog.text


# -- where it ends -----------------------------------------------------------------------------------------


def test_nothing_is_refused_after_a_preview_nor_in_other_threads(
    orders: Orders, other_system: int, caplog: pytest.LogCaptureFixture
) -> None:
    inside, outside = threading.Event(), threading.Event()
    seen: list[Any] = []

    def elsewhere() -> None:
        inside.wait(10)
        try:
            seen.append(
                urllib.request.urlopen(f"http://127.0.0.1:{other_system}/", timeout=5).read().decode()
            )
            EmailMessage("zqx", "", "a@example.com", ["b@example.com"]).message()
        except BaseException as error:
            seen.append(error)
        outside.set()

    thread = threading.Thread(target=elsewhere)
    thread.start()
    with only_reading():
        inside.set()
        assert outside.wait(10)
    thread.join()
    assert seen == ["42"]
    Tag.objects.create(name="after", slug="after")
    mail.send_mail("after", "", "a@example.com", ["b@example.com"])
    assert [each.subject for each in mail.outbox] == ["after"]
    assert guard._running.get() is None
    assert all(each.execute_wrappers == [] or each.alias != "default" for each in connections.all())


def test_what_waited_for_the_commit_before_a_preview_still_does(db: None) -> None:
    done: list[str] = []
    with transaction.atomic():
        transaction.on_commit(lambda: done.append("before"))
        before = len(connection.run_on_commit)
        with pytest.raises(NotAPreview, match="commits"), only_reading():
            transaction.on_commit(lambda: done.append("inside"))
        assert len(connection.run_on_commit) == before


def test_one_preview_in_another_one_does_not_open_it(db: None) -> None:
    with pytest.raises(NotAPreview, match="write"), only_reading():  # noqa: PT012
        with only_reading(may_call=True):
            pass
        Tag.objects.update(name="zqx")
    with pytest.raises(NotAPreview, match="call out"), only_reading():  # noqa: PT012
        with only_reading(may_call=True):
            pass
        _connect()


def test_an_exception_of_the_tools_own_does_not_hide_a_violation(db: None) -> None:
    with pytest.raises(NotAPreview, match="write"), only_reading():  # noqa: PT012
        try:
            Tag.objects.create(name="zqx", slug="zqx")
        finally:
            raise LookupError("my own")


def test_the_context_may_read_more_than_one_table_and_still_write_nothing(db: None) -> None:
    with only_reading(), through_context():
        assert Customer.objects.count() == 0
        assert list(Product.objects.select_related("category")) == []
    with pytest.raises(NotAPreview), only_reading(), through_context():
        Category.objects.create(name="zqx", slug="zqx")
    with pytest.raises(NotAPreview), only_reading(), through_context():
        EmailMessage("zqx", "", "a@example.com", ["b@example.com"]).send()


def test_a_preview_is_watched_again_when_it_is_confirmed(
    orders: Orders, login: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """In the transaction of the confirmation: nothing is done, and the plan can still be confirmed."""
    naughty = []

    @write_tool(Order)
    def turning(ctx: Any, number: str) -> Preview:
        """Do it."""
        found = ctx.get(Order, number=number)
        if naughty:
            Tag.objects.create(name="zqx", slug="zqx")
        return Preview(found, shipping_city="Oslo")

    client = login("support")
    plan = propose(client, "turning", {"number": Order.objects.get(pk=orders.own).number})
    naughty.append(1)
    response = decide(client, plan["confirmUrl"], digest=plan["digest"])
    assert (response.status_code, response.json()["code"]) == (409, "failed")
    assert not Tag.objects.filter(slug="zqx").exists()
    assert Order.objects.get(pk=orders.own).shipping_city != "Oslo"
    assert Plan.objects.get(pk=plan["id"]).state == "proposed"
    naughty.clear()
    assert confirm(client, plan)["state"] == "executed"
    assert Order.objects.get(pk=orders.own).shipping_city == "Oslo"


def test_a_tool_reads_her_permissions_through_the_context(store: Any) -> None:
    with context("support") as ctx, only_reading():
        assert ctx.has_perm("store.change_order")
        assert not ctx.has_perm("store.delete_order")
    with pytest.raises(NotAPreview), context("support") as ctx, only_reading():
        ctx.person.groups.first()
