"""The example's addresses and a second admin site."""

from django.urls import path

from example_project.urls import urlpatterns as example

from .admin import site

urlpatterns = [path("forms/", site.urls), *example]
