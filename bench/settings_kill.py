"""The example store with a short lease, for a server that is killed and started again."""

from .settings_audit import *  # noqa: F403
from .settings_audit import COPILOT as _COPILOT

COPILOT = {**_COPILOT, "BACKEND": "offline", "LEASE_SECONDS": 1, "TURNS_PER_MINUTE": 100_000}
ALLOWED_HOSTS = ["127.0.0.1"]
STORE_GATEWAY_SECONDS = 20
