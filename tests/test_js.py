"""Run the JavaScript tests with node's own test runner, where node is installed."""

import gzip
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
STATIC = ROOT / "django_copilot" / "static" / "django_copilot"
# From this version on node reads a .js file with imports as a module without being told.
NODE = (20, 19)


def node() -> str:
    found = shutil.which("node")
    if found is None:
        pytest.skip("needs node")
    told = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    version = tuple(int(part) for part in told.strip().lstrip("v").split(".")[:2])
    if version < NODE:
        pytest.skip(f"needs node {NODE[0]}.{NODE[1]} or newer, found {told.strip()}")
    return found


def test_the_pure_parts_hold_in_node() -> None:
    run = subprocess.run(
        [node(), "--test", "tests/js/"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    passed = re.search(r"pass (\d+)", run.stdout)
    assert passed is not None, run.stdout
    assert int(passed[1]) >= 20


def test_the_scripts_and_styles_stay_small() -> None:
    sizes = {path.name: len(gzip.compress(path.read_bytes())) for path in STATIC.iterdir()}
    # What draws a plan, and what ticks rows of a list, is loaded once there is one.
    later = {"card.js": 4_000, "list.js": 2_000}
    assert sum(size for name, size in sizes.items() if name not in later) < 27_000, sizes
    sources = "".join(path.read_text("utf-8") for path in STATIC.glob("*.js"))
    for name, most in later.items():
        assert sizes[name] < most
        assert f'from "./{name}"' not in sources
    # What every admin page loads before anyone opens the panel, the styles aside.
    assert sum(sizes[name] for name in ("panel.js", "address.js", "forms.js", "memory.js")) < 5_000


@pytest.mark.parametrize("path", sorted(STATIC.glob("*.js")), ids=lambda path: path.name)
def test_nothing_parses_markup_or_code(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|https?://(?!www\.w3\.org/)"
    assert re.search(forbidden, source) is None
    assert not re.search(r"setAttribute\(\s*[\"'](style|on)", source)


def test_styles_stay_under_our_own_classes() -> None:
    source = re.sub(r"/\*.*?\*/", "", (STATIC / "copilot.css").read_text(encoding="utf-8"), flags=re.DOTALL)
    assert "url(" not in source
    assert "@import" not in source
    for block in re.findall(r"([^{}]+)\{", source):
        selector = block.strip()
        if selector.startswith("@") or re.fullmatch(r"[\d.%]+|from|to", selector):
            continue
        assert ".copilot" in selector, selector
