"""``request``: the size of what the model is asked with, for the manager of the example store.

The openai backend asks a server on this machine, which keeps what arrives. The request is the first of a
conversation: no history and no rows yet. Tokens are an estimate, counted with the encoding o200k_base on the
compact JSON of tools and messages; null without the package quicktok-v1.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from .report import Bound, Effort, Figures, run_child, scratch

BYTES = 11 * 1024
MESSAGE = "Show the latest orders"


def measure(effort: Effort) -> Figures:
    """Ask once and measure what was sent."""
    with scratch() as folder:
        told = run_child("bench.request", settings="bench.settings", database=folder / "db.sqlite3")
    return Figures(
        name="request",
        results=told,
        bounds=(Bound(what="bytes of a request before history and rows", value=told["bytes"], limit=BYTES),),
    )


class _Ear(BaseHTTPRequestHandler):
    """Keep the body and answer as a model with nothing to say."""

    bodies: list[bytes] = []

    def do_POST(self) -> None:
        """Answer a chat completion."""
        self.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        said = {"role": "assistant", "content": "Here they are."}
        answer = json.dumps({"choices": [{"index": 0, "message": said, "finish_reason": "stop"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _counter() -> Any:
    """Return a function that counts tokens, or None for each text where that can't be done."""
    try:
        import quicktok
    except ImportError:
        return lambda text: None
    encoding = quicktok.get_encoding("o200k_base")
    return lambda text: len(encoding.encode(text))


def child() -> None:
    """Send one message as the manager and print the sizes."""
    import django

    django.setup()
    from django.contrib.auth import get_user_model
    from django.core.management import call_command
    from django.test import override_settings

    from django_copilot.testing import ask, copilot_client
    from example_project.store.data import create_data
    from example_project.store.people import create_people

    call_command("migrate", verbosity=0)
    create_people()
    create_data(products=20, orders=20)
    server = HTTPServer(("127.0.0.1", 0), _Ear)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/v1"
    copilot = {"BACKEND": "openai", "OPENAI_API_KEY": "bench", "OPENAI_BASE_URL": address}
    try:
        with override_settings(COPILOT=copilot):
            ask(copilot_client(get_user_model().objects.get(username="manager")), MESSAGE)
    finally:
        server.shutdown()
        server.server_close()
    (raw,) = _Ear.bodies
    body = json.loads(raw)
    tokens = _counter()
    tools = {
        tool["function"]["name"]: {"bytes": len(_compact(tool).encode()), "tokens": tokens(_compact(tool))}
        for tool in body["tools"]
    }
    parts = {"tools": _compact(body["tools"]), "messages": _compact(body["messages"])}
    print(
        json.dumps(
            {
                "bytes": len(raw),
                "tokens": tokens("".join(parts.values())),
                "parts": {
                    name: {"bytes": len(text.encode()), "tokens": tokens(text)}
                    for name, text in parts.items()
                },
                "tools": tools,
            }
        )
    )


if __name__ == "__main__":
    child()
