"""The admin, and what a theme needs."""

from django.apps import apps
from django.contrib import admin
from django.urls import include, path

urlpatterns = [path("admin/", admin.site.urls)]
if apps.is_installed("grappelli"):
    urlpatterns.append(path("grappelli/", include("grappelli.urls")))
