"""Declares for admins of other apps."""

from django.contrib.auth.admin import UserAdmin

from django_copilot import harness
from tests.projects.depot.models import Item

from .admins import BinAdmin, CityAdmin

harness(UserAdmin, list=["username"], persist=["username"])
harness(BinAdmin, list=["code", "title"], persist=["title"])
harness(Item, list=["title", "bin"], persist=["title", "bin"])
harness(CityAdmin, list=["title"])
