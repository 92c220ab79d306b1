"""The project's own site on a port of this machine, one request at a time, on the run's own connections.

So that a database in memory and a transaction that is taken back at the end can be looked at in a browser.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from socketserver import ThreadingMixIn
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.core.servers.basehttp import WSGIRequestHandler, WSGIServer
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, connections
from django.test.utils import override_settings

_HOST = "127.0.0.1"
# As a site on this machine has it, whatever the real one has: no TLS, no other host for files or cookies.
_SETTINGS: dict[str, Any] = {
    "ALLOWED_HOSTS": ["*"],
    "SECURE_SSL_REDIRECT": False,
    "SESSION_COOKIE_SECURE": False,
    "SESSION_COOKIE_DOMAIN": None,
    "CSRF_COOKIE_SECURE": False,
    "CSRF_COOKIE_DOMAIN": None,
    "STATIC_URL": "/static/",
}
_PLAIN_FILES = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}


@dataclass
class Live:
    """The site. Whoever uses the database outside of a request holds ``lock``."""

    origin: str = ""
    requests: int = 0
    lock: Any = field(default_factory=threading.RLock)


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # as the base class has it
        """Django's own log tells of errors."""


@contextmanager
def serving() -> Iterator[Live]:
    """Serve the project while open."""
    plain = {**settings.STORAGES, "staticfiles": _PLAIN_FILES}
    shared = {alias: connections[alias] for alias in connections}
    live = Live()
    with override_settings(**_SETTINGS, STORAGES=plain):
        server = _Server((_HOST, 0), _Quiet, ipv6=False)
        server.set_app(_one_at_a_time(_application(), live, shared))
        live.origin = f"http://{_HOST}:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        for connection in shared.values():
            connection.inc_thread_sharing()
        thread.start()
        try:
            yield live
        finally:
            server.shutdown()
            thread.join()
            with live.lock:  # the request under way, if there is one, ends first
                server.server_close()
            for connection in shared.values():
                connection.dec_thread_sharing()


def _application() -> Callable[..., Any]:
    if apps.is_installed("django.contrib.staticfiles"):
        from django.contrib.staticfiles.handlers import StaticFilesHandler

        return StaticFilesHandler(WSGIHandler())
    return WSGIHandler()


def _one_at_a_time(inner: Callable[..., Any], live: Live, shared: dict[str, Any]) -> Callable[..., Any]:
    def application(environ: Any, start_response: Any) -> list[bytes]:
        if environ["PATH_INFO"] == "/favicon.ico":  # the browser's own wish
            start_response("404 Not Found", [("Content-Length", "0")])
            return []
        with live.lock:
            live.requests += 1
            for alias, connection in shared.items():
                connections[alias] = connection
            with _kept_open():
                response = inner(environ, start_response)
                try:
                    return [b"".join(response)]
                finally:
                    response.close()

    return application


@contextmanager
def _kept_open() -> Iterator[None]:
    """Let no request close the connections: they are the run's, in the middle of its transaction."""
    request_started.disconnect(close_old_connections)
    request_finished.disconnect(close_old_connections)
    try:
        yield
    finally:
        request_started.connect(close_old_connections)
        request_finished.connect(close_old_connections)
