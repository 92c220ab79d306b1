"""An AI copilot inside the Django admin that can't do anything a person did not confirm."""

__version__ = "0.1.0.dev0"
