"""Addresses of a project that serves its OpenAPI schema."""

from django.contrib import admin
from django.urls import path
from drf_spectacular.views import SpectacularAPIView

urlpatterns = [path("admin/", admin.site.urls), path("schema/", SpectacularAPIView.as_view())]
