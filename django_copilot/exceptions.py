"""The whole error tree, so that a reader sees in one place who must react to what.

Only ``CallError`` and ``Refused`` carry text that may reach a model; every other message is for the
developer or the operator and stays on the server.
"""

from __future__ import annotations

from typing import Literal

from django.core.exceptions import ImproperlyConfigured
from django.utils.functional import Promise

BackendCode = Literal["model_not_configured", "model_unavailable", "model_timeout", "model_protocol"]


class CopilotError(Exception):
    """Root of everything this package raises on purpose."""


class ConfigurationError(CopilotError, ImproperlyConfigured):
    """A setting or a declaration is wrong; the message names it."""


class ScopeUnavailable(CopilotError):
    """The place a conversation belongs to can't be entered again; nothing was run."""


class CallError(CopilotError):
    """A tool call that the model can mend. ``code`` and the text go back to the model."""

    def __init__(self, message: str | Promise, *, code: str = "invalid_value", **details: object) -> None:
        super().__init__(message)
        self.code = code
        self.details = details

    @property
    def message(self) -> str:
        """Return the text, a lazy one in the language of whoever asks for it."""
        return str(self.args[0])


class Refused(CallError):
    """A call that this person may not make, that names nothing she may see, or that a tool's rules forbid.

    Write tools raise it with a text for the model and the person: ``Refused("This order has shipped.")``.
    """

    def __init__(self, message: str | Promise, *, code: str = "refused", **details: object) -> None:
        super().__init__(message, code=code, **details)


class CallFailed(CopilotError):
    """An outside system answered that it did not do what was asked, and will not: nothing happened there.

    Raised by the ``call`` or ``look_up`` step of an external tool. Any other exception there means that
    nobody knows, and the plan becomes uncertain. The text is for people.
    """


class NoGrant(CopilotError):
    """A tool's effect was asked for without a grant, or with one that is not of this plan: a defect."""


class Denied(CopilotError):
    """A decision on a plan that is not carried out. ``code`` is one of the plan endpoints' codes.

    ``status`` is the HTTP status of the answer, ``plan`` the plan to show with it, the fresh one when it is
    stale, ``text`` what a tool itself says, where it refuses.
    """

    def __init__(self, code: str, *, status: int = 409, plan: object = None, text: str = "") -> None:
        super().__init__(code)
        self.code, self.status, self.plan, self.text = code, status, plan, text


class BackendError(CopilotError):
    """The model could not be asked, or what it said can't be used.

    ``code`` is one of the chat endpoint's codes. The text is for the log: it must not hold the key or
    words of the provider that could hold it.
    """

    def __init__(self, code: BackendCode, message: str) -> None:
        super().__init__(message)
        self.code: BackendCode = code


class TurnRunning(CopilotError):
    """The conversation has an open turn already."""


class Throttled(CopilotError):
    """The person sent too much for now; she may try again in so many seconds."""

    def __init__(self, seconds: int) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class ConversationNotFound(CopilotError):
    """No such conversation for this person here."""


class HistoryUnreadable(CopilotError):
    """Stored messages of the conversation can't be read."""
