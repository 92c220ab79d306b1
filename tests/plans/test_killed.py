"""A server killed while it carries out refunds; hundreds of times by ``python -m bench kill``."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from bench import kill, report

KILLS = 3  # in each phase


def test_a_killed_server_never_refunds_twice_and_leaves_no_plan_without_an_end(tmp_path: Path) -> None:
    """SIGKILL at random points before, during and after the gateway's work; then the person confirms again."""
    environment = report.environment_for(
        settings="bench.settings_kill",
        database=tmp_path / "store.sqlite3",
        url=os.environ.get("COPILOT_TEST_DATABASE_URL", ""),
        kills=KILLS,
    )
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "bench.kill"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        printed, wrong = process.communicate(timeout=240)
    finally:
        with contextlib.suppress(ProcessLookupError):  # with its server, if it did not end by itself
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert process.returncode == 0, wrong
    told = json.loads(printed.splitlines()[-1])
    assert (told["wrong"], told["halved"], told["endless"], told["audit"]) == (0, 0, 0, "whole")
    assert set(told["phases"]) == set(kill.PHASES)
    assert min(each["kills"] for each in told["phases"].values()) >= KILLS
    # The points were where they should be: while the gateway is at work, nothing but a claimed plan can be left.
    assert set(told["phases"]["during"]["plan_was_left"]) == {"executing"}
