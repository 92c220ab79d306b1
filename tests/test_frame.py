"""The project's own rules about itself: its README, what may import what, and what no file may name."""

from __future__ import annotations

import ast
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "django_copilot"


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Give line and absolute dotted name of everything a file of the package imports, anywhere in it."""
    here = path.relative_to(ROOT).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text("utf-8"), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, f"{module}.{alias.name}"


def within(name: str, *tops: str) -> bool:
    return any(name == top or name.startswith(f"{top}.") for top in tops)


def tracked() -> list[str]:
    try:
        found = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout: the list of tracked files is not known")
    return [name for name in found.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def readme_commands() -> list[str]:
    """Give the fenced shell blocks of the README."""
    return re.findall(
        r"^```(?:sh|bash|shell|console)\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.M | re.S
    )


def test_the_readme_has_one_line_for_the_demo_and_one_for_the_tests():
    lines = [block.rstrip("\n") for block in readme_commands()]
    assert all("\n" not in line for line in lines), "Each command is one line to paste."
    setup = [
        line for line in lines if line.startswith("python3.11 -m venv .venv && .venv/bin/pip install -e ")
    ]
    assert [line.rsplit(" && ", 1)[1] for line in setup] == [
        ".venv/bin/python manage.py demo",
        ".venv/bin/pytest",
    ]


def test_links_between_the_pages_lead_somewhere():
    pages = [ROOT / name for name in tracked() if name.endswith(".md")]
    dead = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)", page.read_text("utf-8"))
        if "://" not in target and not target.startswith("mailto:") and not (page.parent / target).exists()
    ]
    assert dead == []


def test_only_the_openai_backend_imports_openai():
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for _, name in imports(path)
        if within(name, "openai", "httpx", "httpx2")
    }
    assert found <= {"backends/openai.py"}


def test_the_turn_imports_nothing_but_the_standard_library_and_the_backends_values():
    files = sorted((PACKAGE / "turn").rglob("*.py"))
    assert files
    foreign = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path in files
        for line, name in imports(path)
        if name.split(".")[0] not in sys.stdlib_module_names
        and not within(name, "django_copilot.turn", "django_copilot.backends.base")
    ]
    assert foreign == []


def test_starting_the_example_imports_no_openai_and_no_pydantic():
    program = (
        "import sys, django; django.setup(); import django.urls; django.urls.get_resolver().url_patterns;"
        "print([n for n in ('openai', 'httpx', 'httpx2', 'pydantic') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={"DJANGO_SETTINGS_MODULE": "example_project.settings", "PATH": "", "PYTHONWARNINGS": "error"},
        capture_output=True,
        text=True,
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_no_file_names_the_machine_it_was_written_on():
    machine = re.compile(r"(^|[^\w.])/(work|root|farm|tmp/bash)[/_]|[.]pyenv/|DEVELOPERS[.]md", re.M)
    outside = re.compile(r"[.]{2}/shared")
    found = []
    for name in tracked():
        try:
            text = (ROOT / name).read_text("utf-8")
        except UnicodeDecodeError:
            continue
        if machine.search(text) or (outside.search(text) and not name.startswith("tests/")):
            found.append(name)
    assert found == []


def test_the_package_is_typed_and_neither_it_nor_the_example_has_a_long_file():
    assert (PACKAGE / "py.typed").is_file()
    long = {
        name: lines
        for name in tracked()
        if name.startswith(("django_copilot/", "example_project/"))
        and name.endswith((".py", ".js"))
        and (lines := len((ROOT / name).read_text("utf-8").splitlines())) > 500
    }
    assert long == {}


def test_no_test_leaves_this_machine(no_network):
    for where in ("192.0.2.1", "copilot.invalid"):
        with pytest.raises(OSError, match=f"tried to reach {where}"):
            socket.create_connection((where, 80), timeout=1)
    assert no_network == ["192.0.2.1", "copilot.invalid"]
    no_network.clear()


@pytest.mark.postgres
def test_postgres_is_what_the_tests_run_on(db):
    assert connection.vendor == "postgresql"


def test_a_skip_of_what_is_required_is_a_failure():
    environment = {name: value for name, value in os.environ.items() if name != "COPILOT_TEST_DATABASE_URL"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", __file__, "-k", "postgres_is_what"]
    skipped = subprocess.run(
        command, cwd=ROOT, env={**environment, "COPILOT_TEST_REQUIRE": ""}, capture_output=True, text=True
    )
    assert (skipped.returncode, "COPILOT_TEST_DATABASE_URL names no" in skipped.stdout) == (0, True)
    refused = subprocess.run(
        command,
        cwd=ROOT,
        env={**environment, "COPILOT_TEST_REQUIRE": "postgres"},
        capture_output=True,
        text=True,
    )
    assert (refused.returncode, "no test marked postgres passed" in refused.stdout) == (1, True)
