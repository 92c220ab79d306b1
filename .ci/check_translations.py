"""Check that the translations are complete and that the compiled ones are what the sources say.

For each folder with a ``locale``: every text that makemessages finds today has a translation in each
language, none is fuzzy, and each ``.mo`` holds exactly what its ``.po`` compiles to. Needs gettext's
programs and Django. Exit status 1 and one line for each fault.
"""

from __future__ import annotations

import gettext
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LANGUAGES = ("pl", "ru")


def run(*command: str | Path, cwd: Path) -> tuple[int, str]:
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True)
    return done.returncode, (done.stdout + done.stderr).strip()


def catalog(path: Path) -> dict[object, str]:
    with path.open("rb") as file:
        found = dict(gettext.GNUTranslations(file)._catalog)  # type: ignore[attr-defined]
    found.pop("", None)  # the header: dates and the tool's version
    return found


def check(folder: Path, scratch: Path) -> list[str]:
    """Return the faults of one folder that has a ``locale``."""
    name = folder.relative_to(ROOT)
    copy = scratch / name
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("__pycache__", "*.mo"))
    faults = []
    for domain in ("django", "djangojs"):
        command = [sys.executable, "-m", "django", "makemessages", "--keep-pot", "--domain", domain]
        status, output = run(*command, *(f"--locale={code}" for code in LANGUAGES), cwd=copy)
        if status:
            faults.append(f"{name}: makemessages fails: {output}")
            continue
        template = copy / "locale" / f"{domain}.pot"
        for code in LANGUAGES:
            po = folder / "locale" / code / "LC_MESSAGES" / f"{domain}.po"
            shown = po.relative_to(ROOT)
            if not template.is_file():
                if po.is_file():
                    faults.append(f"{shown}: nothing in {name} is translated in this domain any more")
                continue
            if not po.is_file():
                faults.append(f"{shown}: missing")
                continue
            status, output = run("msgcmp", po, template, cwd=scratch)
            if status:
                faults.append(f"{shown}: texts without a translation:\n{output}")
            status, output = run("msgattrib", "--only-fuzzy", "--no-obsolete", po, cwd=scratch)
            if status or output:
                faults.append(f"{shown}: fuzzy:\n{output}")
            fresh = scratch / "fresh.mo"
            status, output = run("msgfmt", "--check", "-o", fresh, po, cwd=scratch)
            if status:
                faults.append(f"{shown}: {output}")
            elif not po.with_suffix(".mo").is_file():
                faults.append(f"{shown}: not compiled")
            elif catalog(fresh) != catalog(po.with_suffix(".mo")):
                faults.append(f"{shown}: the compiled file is not what this file says; run compilemessages")
    return faults


def main() -> int:
    listed = subprocess.run(
        ["git", "ls-files", "*/locale/*"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    folders = {ROOT / line.split("/locale/")[0] for line in listed.stdout.splitlines()}
    faults = []
    with tempfile.TemporaryDirectory() as scratch:
        for folder in sorted(folders):
            faults += check(folder, Path(scratch))
    print("\n".join(faults) or f"{len(folders)} folders with translations, complete and compiled.")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
