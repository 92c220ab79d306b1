"""The example store on the database that ``COPILOT_TEST_DATABASE_URL`` named, or on the benchmark's own file."""

import os

from .settings import *  # noqa: F403
from .settings import COPILOT as _COPILOT

COPILOT = {**_COPILOT, "AUDIT_KEYS": {"1": "a key for measuring, kept by nobody"}}

if os.environ.get("BENCH_URL"):
    import dj_database_url

    DATABASES = {"default": dj_database_url.parse(os.environ["BENCH_URL"])}
