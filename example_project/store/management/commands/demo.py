"""The demo: a filled store with people in it, served on this machine."""

from __future__ import annotations

import contextlib
import os
import socket
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from example_project.store.data import ORDERS, PRODUCTS, Made, create_data
from example_project.store.gateway_process import misbehave_line, open_ledger, running_gateway
from example_project.store.models import Payment
from example_project.store.people import ACCOUNTS, PASSWORD, create_people

HOST = "127.0.0.1"


class Command(BaseCommand):
    help = "Fill the example store, print the logins, and serve it on this machine."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--setup-only", action="store_true", help="make everything and don't serve it")
        parser.add_argument("--port", type=int, default=8000, help="port on 127.0.0.1 (default 8000)")
        parser.add_argument("--products", type=int, default=PRODUCTS, help=f"how many (default {PRODUCTS:,})")
        parser.add_argument("--orders", type=int, default=ORDERS, help=f"how many (default {ORDERS:,})")

    def handle(
        self, *, setup_only: bool, port: int, products: int, orders: int, verbosity: int, **options: Any
    ) -> None:
        if not getattr(settings, "STORE_DEMO", False):
            raise CommandError("The demo makes accounts with a public password. These settings forbid it.")
        if not 0 < port < 65_536:
            raise CommandError(f"--port must be between 1 and 65535, not {port}.")
        if products < 0 or not 0 <= orders <= 9_999_999:
            raise CommandError("--products and --orders must not be negative, nor --orders over 9,999,999.")
        if orders and not products:
            raise CommandError("Orders need products: --products must be at least 1.")
        if not setup_only:
            _check_free(port)

        call_command("migrate", interactive=False, verbosity=0)
        accounts = create_people()
        if not Payment.objects.exists() and Path(settings.STORE_GATEWAY_STATE).exists():
            open_ledger().clear()  # of an earlier store, whose payments had the same references
        made = create_data(products=products, orders=orders, show=verbosity > 0)
        with contextlib.ExitStack() as stack:
            if not setup_only and not settings.STORE_GATEWAY_URL:
                settings.STORE_GATEWAY_URL = stack.enter_context(running_gateway())
                os.environ["STORE_GATEWAY_URL"] = settings.STORE_GATEWAY_URL
            if verbosity > 0:
                self._tell(made, accounts=accounts, port=port)
            if not setup_only:
                self.stdout.flush()
                call_command("runserver", f"{HOST}:{port}", use_reloader=False, skip_checks=True)

    def _tell(self, made: Made, *, accounts: int, port: int) -> None:
        if accounts or made.products or made.customers or made.orders:
            self.stdout.write(
                f"Made {accounts:,} accounts, {made.products:,} products, {made.customers:,} customers "
                f"and {made.orders:,} orders."
            )
        else:
            self.stdout.write("The store is filled already. Nothing was added.")
        backend = settings.COPILOT["BACKEND"]
        self.stdout.write(f"\nAddress:   http://{HOST}:{port}/admin/")
        self.stdout.write(f"Assistant: the {backend} backend")
        if settings.STORE_GATEWAY_URL:
            self.stdout.write(
                f"Payments:  the gateway at {settings.STORE_GATEWAY_URL}; to let it time out once:"
            )
            self.stdout.write(f"           {misbehave_line(settings.STORE_GATEWAY_URL)}")
        self.stdout.write(f"Password:  {PASSWORD} (for every account)\n\n")
        for account in ACCOUNTS:
            self.stdout.write(f"  {account.username:<10} {account.what}")
        self.stdout.write("")


def _check_free(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise CommandError(
                f"Port {port} can't be used ({error.strerror}). Choose another one with --port."
            ) from error
