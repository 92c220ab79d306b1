"""A site that takes the place of the default one."""

from django.contrib.admin import AdminSite


class OtherSite(AdminSite):
    """Has the name of the default site."""

    site_header = "Another header"

    def __init__(self, name: str = "admin") -> None:
        super().__init__(name)
