"""The example store as it is measured: its own settings, without what is only for development."""

from example_project.settings import *  # noqa: F403

DEBUG = False
ALLOWED_HOSTS = ["testserver", "127.0.0.1", "localhost"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
LOGGING = {"version": 1, "disable_existing_loggers": False, "root": {"level": "ERROR"}}
COPILOT = {"BACKEND": "offline", "TURNS_PER_MINUTE": 1_000_000}
