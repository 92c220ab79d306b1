"""Answering requests inside the process, as a server's worker would, with the cost of each."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.test.client import ClientHandler

CONTROL = ("BEGIN", "SAVEPOINT", "RELEASE", "COMMIT", "ROLLBACK")


class Worker(ClientHandler):
    """Count CPU seconds and statements of each request, from the first middleware to the rendered answer."""

    cpu_seconds = 0.0

    def __init__(self) -> None:
        super().__init__(enforce_csrf_checks=False)
        self.statements: list[str] = []

    def get_response(self, request: Any) -> HttpResponse:
        """Answer, with the figures beside."""
        self.statements = []
        begun = time.process_time()
        with connection.execute_wrapper(self._note):
            response: HttpResponse = super().get_response(request)
        self.cpu_seconds = time.process_time() - begun
        return response

    def _note(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if not sql.startswith(CONTROL):
            self.statements.append(sql)
        return execute(sql, params, many, context)


def client_of(person: Any) -> tuple[Client, Worker]:
    """Return a client with the person's session, and the worker that answers it."""
    client, worker = Client(), Worker()
    client.handler = worker
    client.force_login(person)
    return client, worker
