"""Register all generated models, each with an admin of its own."""

from __future__ import annotations

import os

from django.contrib import admin

from django_copilot.admin import HarnessMixin

from .models import MADE

FIELDS = ["title", "code", "status", "price", "quantity", "active", "placed_at", "contact", "parent"]
BASES = (admin.ModelAdmin,) if os.environ.get("BENCH_PLAIN") == "1" else (HarnessMixin, admin.ModelAdmin)

for _model in MADE:
    _attributes = {
        "harness_list": FIELDS,
        "harness_persist": [*FIELDS, "notes"],
        "list_display": ["title", "code", "status", "price", "parent"],
        "list_filter": ["status"],
        "list_select_related": ["parent"],
        "raw_id_fields": ["parent"],
    }
    admin.site.register(_model, type(f"{_model.__name__}Admin", BASES, _attributes))
