"""Register all generated models, each with an admin of its own; BENCH_ENTITIES of them are declared."""

from __future__ import annotations

import os

from django.contrib import admin

from django_copilot.admin import HarnessMixin

from .models import MADE

FIELDS = ["title", "code", "status", "price", "quantity", "active", "placed_at", "contact", "parent"]
DECLARED = int(os.environ["BENCH_ENTITIES"])

for _number, _model in enumerate(MADE):
    _attributes = {
        "harness_list": FIELDS,
        "harness_persist": [*FIELDS, "notes"],
        "list_display": ["title", "code", "status", "price", "parent"],
        "list_filter": ["status"],
        "list_select_related": ["parent"],
        "raw_id_fields": ["parent"],
    }
    _bases = (HarnessMixin, admin.ModelAdmin) if _number < DECLARED else (admin.ModelAdmin,)
    admin.site.register(_model, type(f"{_model.__name__}Admin", _bases, _attributes))
