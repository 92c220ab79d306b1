"""The payment gateway of the demo, by itself."""

from __future__ import annotations

import signal
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from example_project.store.gateway import Gateway
from example_project.store.gateway_process import misbehave_line, open_ledger, serve_for_parent

PORT = 8010


class Command(BaseCommand):
    help = "Serve the example's payment gateway on this machine. The demo starts one by itself."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--port", type=int, default=PORT, help=f"port on 127.0.0.1 (default {PORT}; 0 takes a free one)"
        )
        parser.add_argument(
            "--for-parent",
            action="store_true",
            help="say the address as JSON, and end when standard input does",
        )

    def handle(self, *, port: int, for_parent: bool, **options: Any) -> None:
        if not getattr(settings, "STORE_DEMO", False):
            raise CommandError("The gateway is for the demo. These settings forbid it.")
        if not 0 <= port < 65_536:
            raise CommandError(f"--port must be between 0 and 65535, not {port}.")
        try:
            gateway = Gateway(open_ledger(), token=settings.STORE_GATEWAY_TOKEN, port=port)
        except OSError as error:
            raise CommandError(
                f"Port {port} can't be used ({error.strerror}). Choose another one with --port."
            ) from error
        with gateway:
            if for_parent:
                # Ctrl-C in a terminal reaches both; the parent may still need us until it has ended.
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                serve_for_parent(gateway)
                return
            self.stdout.write(f"Address:   {gateway.address}")
            self.stdout.write(f"Books:     {settings.STORE_GATEWAY_STATE}")
            self.stdout.write(f"Misbehave: {misbehave_line(gateway.address)}")
            self.stdout.flush()
            try:
                gateway.serve_forever()
            except KeyboardInterrupt:
                self.stdout.write("")
