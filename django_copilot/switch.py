"""Whether the assistant is turned off on a site."""

from __future__ import annotations

from .models import Switch


def is_off(site_name: str) -> bool:
    """Tell whether the assistant is turned off on a site, asked of the database each time."""
    return Switch.objects.filter(site=site_name, is_off=True).exists()
