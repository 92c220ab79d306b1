"""Registers one admin with a class, and one without."""

from django.contrib import admin

from tests.projects.depot.models import Bin, Item

from .admins import BinAdmin

admin.site.register(Bin, BinAdmin)
admin.site.register(Item)
