"""Settings of a process of its own. ADMIN names the config of the admin, WITHOUT leaves out the app with copilot.py."""

import os

from tests.projects.showroom.settings import *  # noqa: F403
from tests.projects.showroom.settings import INSTALLED_APPS as _APPS

ADMIN = os.environ.get("ADMIN", "django.contrib.admin")
INSTALLED_APPS = [ADMIN if each == "django.contrib.admin" else each for each in _APPS[:-1]]
if not os.environ.get("WITHOUT"):
    INSTALLED_APPS.append("tests.projects.outside.apps.OutsideConfig")
INSTALLED_APPS.append("tests.projects.outside.apps.LastConfig")
ROOT_URLCONF = "tests.projects.outside.urls"
