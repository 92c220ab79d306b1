"""A model's server on loopback that answers with exact bytes, for what no well-made server does."""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

Answer = bytes | Callable[[socket.socket], None]


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    head: str
    body: dict[str, Any]
    raw: bytes


class Loopback:
    """Answer each request with the next of ``answers``; the last one answers all further ones.

    Every connection carries one request. ``asked`` holds what came.
    """

    def __init__(self, *answers: Answer) -> None:
        self.asked: list[Asked] = []
        self._answers = list(answers)
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []
        self._stopping = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"

    def __enter__(self) -> Loopback:
        self._run(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        for thread in list(self._threads):
            thread.join(10)
        self._listener.close()

    def _run(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._stopping.is_set():
            if select.select([self._listener], [], [], 0.05)[0]:
                connection, _ = self._listener.accept()
                self._run(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                data = b""
                while b"\r\n\r\n" not in data:
                    data += connection.recv(65536)
                head, _, body = data.partition(b"\r\n\r\n")
                length = next(
                    int(line.split(b":")[1])
                    for line in head.lower().split(b"\r\n")
                    if line.startswith(b"content-length:")
                )
                while len(body) < length:
                    body += connection.recv(65536)
                self.asked.append(Asked(head.decode("latin-1"), json.loads(body), body))
                answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
                if isinstance(answer, bytes):
                    connection.sendall(answer)
                else:
                    answer(connection)
            except OSError:
                pass  # the client had enough


def http(body: bytes, *, status: int = 200, kind: str = "application/json", **headers: str) -> bytes:
    """Return a whole HTTP answer. Underscores in the names of headers become hyphens."""
    lines = [f"HTTP/1.1 {status} Status", f"content-type: {kind}", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if "transfer_encoding" not in headers:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def whole(message: dict[str, Any], *, finish: str | None = "stop", **more: Any) -> bytes:
    """Return an answer that is not streamed."""
    answer = {"choices": [{"index": 0, "message": message, "finish_reason": finish}], **more}
    return http(json.dumps(answer).encode())


def refused(
    status: int, *, param: str | None = None, words: str = "words of the provider", **headers: str
) -> bytes:
    """Return an error as OpenAI writes it."""
    body = json.dumps({"error": {"message": words, "type": "t", "param": param, "code": None}})
    return http(body.encode(), status=status, **headers)


def delta(said: dict[str, Any] | None = None, *, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """Return one chunk of a stream."""
    return {"choices": [{"index": 0, "delta": said or {}, "finish_reason": finish}], **more}


def events(*chunks: object, done: bool = True) -> bytes:
    """Return chunks as server-sent events."""
    data = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
    return data + b"data: [DONE]\n\n" * done


def stream(*chunks: object, done: bool = True) -> bytes:
    """Return a whole streamed answer, closed by the end of the connection's stated length."""
    return http(events(*chunks, done=done), kind="text/event-stream")


STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


def dripping(
    first: bytes, drop: bytes, *, every: float = 0.05, seconds: float = 2.5
) -> Callable[[socket.socket], None]:
    """Return an answer that starts with ``first`` and then never ends, nor falls silent."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(first)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            connection.sendall(drop)
            time.sleep(every)

    return answer
