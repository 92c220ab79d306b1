"""One run by hand, in a process of its own (the id as ``python -m tests.mutation --list`` prints it):

COPILOT_TEST_MUTATION='gate.py:...' python -m pytest -p tests.mutation.plugin -x -q tests/gate
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from . import switch
from .watch import OFF, Watch


def pytest_configure(config: pytest.Config) -> None:
    """Take away what the environment names, for one run by hand. A name of nothing is an error."""
    given = os.environ.get(OFF, "").splitlines()
    try:
        switch.turn_off(*given)
    except LookupError as error:
        raise pytest.UsageError(str(error)) from error
    watch = Watch()
    config.pluginmanager.register(watch, "mutation-watch")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let a run fail in which no test came upon what was taken away: it tells nothing."""
    watch: Any = session.config.pluginmanager.get_plugin("mutation-watch")
    if switch.off and not switch.off & set().union(*watch.asked.values()):
        session.exitstatus = pytest.ExitCode.USAGE_ERROR


switch.install()
