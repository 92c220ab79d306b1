"""A project of BENCH_MODELS generated models, BENCH_ENTITIES of them declared."""

from .settings import *  # noqa: F403
from .settings import INSTALLED_APPS as _STORE
from .settings import TEMPLATES as _TEMPLATES

INSTALLED_APPS = [name for name in _STORE if name != "example_project.store"] + ["bench.generated"]
TEMPLATES = [{**_TEMPLATES[0], "DIRS": []}]
ROOT_URLCONF = "bench.generated.urls"
