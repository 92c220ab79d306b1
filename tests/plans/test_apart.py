"""A store in another database than plans: what a failing step had written there is taken back, too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_a_failing_step_leaves_nothing_in_a_database_of_the_tools_own(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.plans.apart"],
        cwd=ROOT,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("COPILOT_")},
            "DJANGO_SETTINGS_MODULE": "tests.plans.apart_settings",
            "APART_FOLDER": str(tmp_path),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "a reservation that fails": [[409, "reservation_failed"], []],
        "an end that fails": [[200, "uncertain"], ["pending"]],
        "tried again": [[200, "executed"], ["spent"]],
    }
