"""Signals for projects."""

from __future__ import annotations

from django.dispatch import Signal

# Sent after the commit with ``plan`` and ``site`` (the AdminSite's name) when a plan starts to wait for a second
# person: to write her a mail, say. What a receiver raises is logged and changes nothing.
plan_awaits_approval = Signal()
