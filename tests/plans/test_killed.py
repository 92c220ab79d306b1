"""A server killed while it carries out refunds; hundreds of times by ``python -m bench kill``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from bench import kill, report

KILLS = 3  # of each phase


def test_a_killed_server_never_refunds_twice_and_leaves_no_plan_without_an_end(tmp_path: Path) -> None:
    """SIGKILL at random points before, during and after the gateway's work; then the person confirms again."""
    environment = report.environment_for(
        settings="bench.settings_kill",
        database=tmp_path / "store.sqlite3",
        url=os.environ.get("COPILOT_TEST_DATABASE_URL", ""),
        kills=KILLS,
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "bench.kill"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["kills"] == KILLS * len(kill.PHASES)
    assert (told["wrong"], told["endless"], told["audit"]) == (0, 0, "whole")
    # The points were where they should be: the gateway was at work, or had paid, and the store did not know.
    assert told["phases"]["during"]["plan_was_left"].get("executing") == KILLS
    assert told["phases"]["after"]["gateway_had_the_key"] == KILLS
