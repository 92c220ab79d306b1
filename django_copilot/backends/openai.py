"""Ask a model through the ``openai`` SDK: OpenAI itself and whatever speaks Chat Completions.

Owns the SDK's client, the time one call may take, retries, and the mapping of every failure to a
``BackendError``. It is the only module that imports ``openai``, and it does so when a model is first asked.
The format itself is in ``chat_completions``. The key must never enter a message, a log record or a
traceback; the provider's words must never enter an error.
"""

from __future__ import annotations

import contextvars
import logging
import os
import random
import threading
import time
import traceback
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from ..conf import Settings, get_settings, on_settings_changed
from ..exceptions import BackendCode, BackendError
from .base import ModelReply, ModelRequest, Outgoing
from .chat_completions import BODY_BYTES, EventDecoder, ReplyBuilder, malformed, parse_json, request_body

if TYPE_CHECKING:
    import openai

_OFFICIAL = "https://api.openai.com/v1"
_GRACE = 0.5  # seconds more than the call may take, until its thread is no longer waited for
_CONNECT = 10.0  # seconds at most to open a connection
_chance = random.Random()  # noqa: S311 (of our own: a project may have seeded the shared one)
_CALL_OPTIONS = ("extra_headers", "extra_query")  # of OPENAI_OPTIONS, not part of the body

_blocks: list[list[str]] = []  # one list of refused calls for each open block_calls()
_open_backends: weakref.WeakSet[OpenAIBackend] = weakref.WeakSet()


class ModelCallBlocked(AssertionError):
    """A test was about to ask a real model."""


class OpenAIBackend:
    """Ask the model that ``COPILOT`` names, over HTTP.

    ``OPENAI_OPTIONS`` goes into the request as it is (``extra_headers`` and ``extra_query`` go where they
    belong). ``MODEL_TIMEOUT`` is the wall time of a call, retries included. One client per process.
    """

    label = ""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._client: openai.OpenAI | None = None
        self._pid = 0
        self._without_reasoning: set[str] = set()  # models that take tools only without reasoning
        _open_backends.add(self)

    @property
    def is_configured(self) -> bool:
        """Tell whether there is a key to ask with. Imports nothing and asks nobody."""
        return bool(get_settings().OPENAI_API_KEY)

    def complete(self, request: ModelRequest) -> ModelReply:
        """Ask once and wait. Raises BackendError."""
        _refuse_when_blocked()
        settings = get_settings()
        client = self._client_for(settings)
        deadline = time.monotonic() + settings.MODEL_TIMEOUT
        outcome: list[ModelReply | Exception] = []

        def work() -> None:
            try:
                outcome.append(self._ask(client, request, settings=settings, deadline=deadline))
            except Exception as error:  # every failure is named here, on the thread that met it
                outcome.append(failure(error))

        # The client's time-outs are for single reads, and none covers looking up a name: a thread can be
        # left behind, a blocking read can't. What is left behind ends at its own next read.
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(work,), name="copilot-model-call", daemon=True)
        thread.start()
        thread.join(max(0.0, deadline - time.monotonic()) + _GRACE)
        if not outcome:
            raise _timeout()
        if isinstance(outcome[0], Exception):
            raise outcome[0]
        return outcome[0]

    def outgoing(self, request: ModelRequest) -> Outgoing:
        """Return what a first call would send, made by the code that sends it. Nothing is sent. Raises BackendError.

        Without a key it is what would be sent with one.
        """
        import openai

        settings, kept = get_settings(), _Keeping()
        client = _new_client(
            settings,
            api_key="no-key" if not sendable_key(settings.OPENAI_API_KEY) else settings.OPENAI_API_KEY,
            http_client=openai.DefaultHttpxClient(transport=kept),  # type: ignore[arg-type]  # by its one method
        )
        try:
            self._ask_once(
                client,
                request,
                settings=settings,
                deadline=time.monotonic() + settings.MODEL_TIMEOUT,
                reasoning=settings.OPENAI_MODEL not in self._without_reasoning,
            )
        except Exception as error:
            if kept.request is None:
                raise failure(error) from None
        finally:
            client.close()
        return _outgoing(kept.request, settings)

    def close(self) -> None:
        """Close the client. The next call makes another."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None and self._pid == os.getpid():
            client.close()

    def _client_for(self, settings: Settings) -> openai.OpenAI:
        if not sendable_key(settings.OPENAI_API_KEY):
            raise BackendError(
                "model_not_configured",
                "No usable API key: set COPILOT['OPENAI_API_KEY'] or the variable COPILOT_OPENAI_API_KEY.",
            )
        with self._lock:
            if self._client is None or self._pid != os.getpid():
                self._client, self._pid = _new_client(settings), os.getpid()
            return self._client

    def _ask(
        self, client: openai.OpenAI, request: ModelRequest, *, settings: Settings, deadline: float
    ) -> ModelReply:
        """Ask, again where that makes sense and there is time. Raises whatever the SDK raises."""
        retries, tried, model = max(0, settings.MODEL_RETRIES), 0, settings.OPENAI_MODEL
        while True:
            reasoning = model not in self._without_reasoning
            try:
                return self._ask_once(
                    client, request, settings=settings, deadline=deadline, reasoning=reasoning
                )
            except Exception as error:
                if reasoning and refuses_reasoning(error):
                    self._without_reasoning.add(model)
                    continue
                wait = retry_wait(error, tried=tried)
                if tried >= retries or wait is None or time.monotonic() + wait >= deadline:
                    raise
            tried += 1
            time.sleep(wait)

    def _ask_once(
        self,
        client: openai.OpenAI,
        request: ModelRequest,
        *,
        settings: Settings,
        deadline: float,
        reasoning: bool,
    ) -> ModelReply:
        import openai

        options = {key: value for key, value in settings.OPENAI_OPTIONS.items() if key not in _CALL_OPTIONS}
        if not reasoning:
            options["reasoning_effort"] = "none"
        body = request_body(
            request,
            model=settings.OPENAI_MODEL,
            stream=settings.OPENAI_STREAM,
            options=options,
            official=str(client.base_url).rstrip("/") == _OFFICIAL,
        )
        left = deadline - time.monotonic()
        if left <= 0:
            raise _timeout()
        # Messages and tools go through extra_body: the SDK walks over everything else, item by item.
        with client.chat.completions.with_streaming_response.create(
            model=body.pop("model"),
            stream=body.pop("stream"),
            messages=[],
            extra_body=body,
            extra_headers=settings.OPENAI_OPTIONS.get("extra_headers"),
            extra_query=settings.OPENAI_OPTIONS.get("extra_query"),
            timeout=openai.Timeout(left, connect=min(_CONNECT, left)),
        ) as response:
            kind = str(response.headers.get("content-type", ""))
            pieces = _in_time(response.iter_bytes(), deadline=deadline)
            if "event-stream" in kind or (settings.OPENAI_STREAM and "json" not in kind):
                return _read_stream(pieces)
            builder = ReplyBuilder()
            builder.add_whole(parse_json(b"".join(pieces)))
            return builder.reply()


def _in_time(pieces: Iterator[bytes], *, deadline: float) -> Iterator[bytes]:
    """Pass the pieces on while there is time and they are not too many. Raises BackendError."""
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > BODY_BYTES:
            malformed("it is too long")
        if time.monotonic() > deadline:
            raise _timeout()
        yield piece


def _read_stream(pieces: Iterator[bytes]) -> ModelReply:
    """Read a stream to its end and return the reply. Raises BackendError, and what the client raises."""
    decoder, builder = EventDecoder(), ReplyBuilder()
    try:
        for piece in pieces:
            for event in decoder.feed(piece):
                if event.strip() == b"[DONE]":
                    return builder.reply()
                builder.add(parse_json(event))
    except Exception as error:
        # What the model had to say is complete; only the count of tokens may be missing.
        if builder.finished and not isinstance(error, BackendError):
            return builder.reply()
        raise
    for event in decoder.end():
        if event.strip() != b"[DONE]":
            builder.add(parse_json(event))
    return builder.reply()


def sendable_key(key: object) -> bool:
    """Say whether a key can stand in a header; an HTTP library would print one that can't."""
    return isinstance(key, str) and bool(key.strip()) and all("!" <= char <= "~" for char in key.strip())


def _new_client(settings: Settings, *, api_key: str | None = None, http_client: Any = None) -> openai.OpenAI:
    import openai

    try:
        client = openai.OpenAI(
            api_key=(api_key or settings.OPENAI_API_KEY).strip(),
            base_url=settings.OPENAI_BASE_URL or None,
            max_retries=0,  # ours know how much time is left
            http_client=http_client,
        )
    except Exception:  # an address that can't be parsed, or a proxy from the environment
        client = None
    if client is None:
        raise BackendError(
            "model_not_configured",
            "The client can't be made. See COPILOT['OPENAI_BASE_URL'] and the proxy variables.",
        )
    _keep_key_out_of_logs()
    return client


# Looking at what would be sent

_SHOWN_HEADERS = (
    "accept",
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "host",
    "user-agent",
)


class _Keeping:
    """Stand in for the way out: keep the one request that comes, and answer nothing."""

    def __init__(self) -> None:
        self.request: Any = None

    def handle_request(self, request: Any) -> Any:
        """Keep the request. Raises ConnectionError."""
        request.read()
        self.request = request
        raise ConnectionError("Nothing is sent.")

    def close(self) -> None:
        """Close nothing."""

    def __enter__(self) -> _Keeping:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def _outgoing(request: Any, settings: Settings) -> Outgoing:
    """Return a kept request without keys: of other headers and of the address's parameters only the names."""
    url = str(request.url.copy_with(query=None))
    names = "&".join(f"{name}=…" for name in dict(request.url.params))
    headers = tuple(
        (name, value if name in _SHOWN_HEADERS or name.startswith("x-stainless-") else "…")
        for name, value in request.headers.items()
    )
    return Outgoing(
        method=request.method,
        url=f"{url}{'?' if names else ''}{names}",
        headers=headers,
        body=request.content,
    )


# Failures


def failure(error: Exception) -> BackendError:
    """Return the BackendError for whatever a call raised.

    The result has neither cause nor context: those hold the request, and so the key.
    """
    import openai

    kinds = {kind.__name__ for kind in type(error).__mro__}  # of httpx or httpx2: the SDK chooses
    if isinstance(error, BackendError):
        return BackendError(error.code, str(error))
    if isinstance(error, openai.APITimeoutError) or "TimeoutException" in kinds:
        return _timeout()
    if isinstance(error, openai.APIStatusError):
        return _status(error.status_code)
    if "DecodingError" in kinds:
        return BackendError(
            "model_protocol", "The model's answer can't be unpacked. See COPILOT['OPENAI_BASE_URL']."
        )
    if isinstance(error, openai.APIConnectionError) or kinds & {
        "TransportError",
        "RequestError",
        "InvalidURL",
    }:
        return BackendError(
            "model_unavailable",
            "The model can't be reached, or the connection was cut. See COPILOT['OPENAI_BASE_URL'].",
        )
    if isinstance(error, openai.OpenAIError):
        return BackendError(
            "model_unavailable", "The SDK refused the model request. See COPILOT['OPENAI_*']."
        )
    # Its text may hold anything, so the log is told the kind and the place only.
    place = traceback.extract_tb(error.__traceback__)[-1:]
    where = f" in {place[0].name}, line {place[0].lineno}" if place else ""
    return BackendError(
        "model_protocol",
        f"Asking the model failed with {type(error).__name__}{where}. See COPILOT['OPENAI_OPTIONS'].",
    )


def _timeout() -> BackendError:
    return BackendError(
        "model_timeout", "The model did not answer in time. See COPILOT['MODEL_TIMEOUT'] and its address."
    )


def _status(status: int) -> BackendError:
    if status in (401, 403):
        see = "COPILOT['OPENAI_API_KEY'] and what the key may do"
    elif status == 404:
        see = "COPILOT['OPENAI_MODEL'] and COPILOT['OPENAI_BASE_URL']"
    elif status == 429:
        see = "the limits and the credit of the account of COPILOT['OPENAI_API_KEY']"
    elif status >= 500:
        see = "the state of the service at COPILOT['OPENAI_BASE_URL']"
    else:
        see = "COPILOT['OPENAI_MODEL'] and COPILOT['OPENAI_OPTIONS']"
    code: BackendCode = "model_timeout" if status == 408 else "model_unavailable"
    return BackendError(code, f"The model's provider answered with status {status}. See {see}.")


def refuses_reasoning(error: Exception) -> bool:
    """Say whether a server refused a request only for its effort of reasoning.

    Some models take no function tools on Chat Completions while they reason, which they do unasked.
    """
    import openai

    return isinstance(error, openai.BadRequestError) and error.param == "reasoning_effort"


def retry_wait(error: Exception, *, tried: int) -> float | None:
    """Return how many seconds to wait before asking again, or None if that makes no sense.

    A ``Retry-After`` is obeyed; without one the wait doubles from half a second, less some chance.
    """
    import openai

    headers: Mapping[str, str] = {}
    if isinstance(error, openai.APIStatusError):
        headers = error.response.headers
        wanted = headers.get("x-should-retry")
        if wanted == "false" or (
            wanted != "true" and error.status_code not in (408, 409, 429) and error.status_code < 500
        ):
            return None
    elif not isinstance(error, openai.APIConnectionError):
        return None
    asked = retry_after(headers)
    if asked is not None:
        return asked
    return min(8.0, 0.5 * 2.0 ** min(tried, 10)) * (1 - _chance.random() / 4)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asked to wait, None if it did not. Dates and milliseconds count."""
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) / scale
        except (KeyError, ValueError):
            continue
        if seconds >= 0:
            return seconds
    try:
        return max(0.0, parsedate_to_datetime(headers["retry-after"]).timestamp() - time.time())
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


# Logs


class _KeyFilter(logging.Filter):
    """Take the key out of records of the SDK and its HTTP client: a server's headers may repeat it."""

    def filter(self, record: logging.LogRecord) -> bool:
        key = get_settings().OPENAI_API_KEY
        key = key.strip() if isinstance(key, str) else ""
        if len(key) >= 8:  # shorter ones are dummies for local servers, and part of ordinary words
            try:
                message = record.getMessage()
            except (TypeError, ValueError):  # logging itself complains of that
                return True
            if key in message:
                record.msg, record.args = message.replace(key, "[API key]"), None
        return True


_key_filter = _KeyFilter()


def _keep_key_out_of_logs() -> None:
    """Put the filter on every logger of the SDK's libraries. Filters of a parent see no child's records."""
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("openai", "httpx", "httpx2", "httpcore", "httpcore2"):
            logging.getLogger(name).addFilter(_key_filter)


# Tests


@contextmanager
def block_calls() -> Iterator[None]:
    """Let no call out while this is open. Raises ModelCallBlocked at the call, and again at the end."""
    refused: list[str] = []
    _blocks.append(refused)
    try:
        yield
    finally:
        _blocks.remove(refused)
    if refused:
        raise ModelCallBlocked(refused[0])


def _refuse_when_blocked() -> None:
    if _blocks:
        text = (
            "A test was about to ask a real model. Use django_copilot.testing.script, "
            "or set COPILOT['BACKEND'] to 'scripted' or 'offline'."
        )
        _blocks[-1].append(text)
        raise ModelCallBlocked(text)


@on_settings_changed
def _close_all() -> None:
    for backend in list(_open_backends):
        backend.close()
