"""Check that a wheel holds each tracked file of the package, and of the project nothing else.

``python .ci/check_wheel.py dist/NAME.whl``: exit status 1 and the difference.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main(wheel: str) -> int:
    listed = subprocess.run(
        ["git", "ls-files", "django_copilot"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    wanted = set(listed.stdout.splitlines())
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    for name in sorted(wanted - held):
        print(f"not in the wheel: {name}")
    for name in sorted(held - wanted):
        print(f"in the wheel, but not tracked: {name}")
    kinds = sorted({Path(name).suffix or Path(name).name for name in held})
    print(f"{len(held)} files of the package in the wheel: {' '.join(kinds)}")
    return 0 if held == wanted else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
