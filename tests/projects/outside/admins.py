"""Admin classes that know nothing of the package."""

from typing import Any

from django.contrib import admin


class CityAdmin(admin.ModelAdmin):
    """Registered by an app's ready()."""

    list_display = ["title"]


class BinAdmin(admin.ModelAdmin):
    """Has an __init__ of its own."""

    fields = ["code", "title"]
    list_display = ["code", "title"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.list_per_page = 7
