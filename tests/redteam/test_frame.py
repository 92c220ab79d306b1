"""The red team stands beside the product: nothing of the product needs it."""

from __future__ import annotations

import ast
from pathlib import Path

import django_copilot

PACKAGE = Path(django_copilot.__file__).parent


def test_nothing_of_the_product_imports_the_red_team() -> None:
    importing = set()
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).as_posix()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            named = ""
            if isinstance(node, ast.ImportFrom):
                named = f"{node.module or ''} {' '.join(each.name for each in node.names)}"
            elif isinstance(node, ast.Import):
                named = " ".join(each.name for each in node.names)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value:
                named = node.value if node.value.startswith("django_copilot.redteam") else ""
            if "redteam" in named and not name.startswith("redteam/"):
                importing.add(name)
    assert importing == {"management/commands/copilot_redteam.py"}
