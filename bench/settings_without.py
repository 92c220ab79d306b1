"""The example store without the package, with the REST framework and history apps that it needs anyway."""

from .settings import *  # noqa: F403
from .settings import INSTALLED_APPS as _WITH

INSTALLED_APPS = [name for name in _WITH if name != "django_copilot"]
del COPILOT  # noqa: F821
