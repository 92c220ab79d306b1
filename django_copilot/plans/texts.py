"""The server's own sentences on plans: how one stands, and why something can't be done with it."""

from __future__ import annotations

from django.utils.translation import gettext as _

from ..models import Plan, PlanState
from .states import effective


def reply_of(plan: Plan) -> str:
    """Return the server's sentence on what a decision led to, from what is stored."""
    texts = {
        PlanState.PROPOSED: _("This is ready for you to confirm. Nothing is done until you do."),
        PlanState.AWAITING_APPROVAL: _(
            "Confirmed. A second person has to approve it before anything is done."
        ),
        PlanState.EXECUTING: _("It is being carried out."),
        PlanState.EXECUTED: _("Done."),
        PlanState.FAILED: _("It failed. Nothing was done."),
        PlanState.UNCERTAIN: _("Nobody knows yet whether it was done. Try again: it is never done twice."),
        PlanState.REJECTED: _("Declined. Nothing was done."),
        PlanState.EXPIRED: _("Too late: its time is over. Nothing was done."),
        PlanState.STALE: _("Something was changed since this was shown. Nothing was done."),
        PlanState.UNDONE: _("This was undone."),
    }
    return texts[effective(plan)]


def code_text(code: str, *, otherwise: str = "") -> str:
    """Return the fixed text of a reason code: what stands against a decision, or how a plan ended.

    ``otherwise`` is returned for a code that has none.
    """
    texts = {
        "digest_mismatch": _("This is not what you were shown. Look at it again."),
        "expired": _("Its time is over. Look at it again and make a new one."),
        "stale": _("Something was changed since it was shown. Look at what it would do now."),
        "changed_since": _("The value was changed again since, so it can't be put back."),
        "record_gone": _("A record that it is about is not there any more."),
        "tool_changed": _("The tool was changed since. Ask the assistant again."),
        "rejected": _("It was declined already."),
        "executed": _("It was carried out already."),
        "undone": _("It was undone already."),
        "failed": _("It failed. Nothing was done."),
        "effect_differs": _("Saving would have stored something else than was shown, so nothing was saved."),
        "in_flight": _("It is being carried out right now."),
        "uncertain": _("Nobody knows yet whether it was done. Try again: it is never done twice."),
        "operation_open": _("The same is being done to this record already. Wait until that is over."),
        "awaiting_approval": _("It waits for a second person."),
        "no_approval_needed": _("It does not wait for a second person."),
        "own_plan": _("Who asked for it can't approve it. A second person has to."),
        "not_allowed": _("You may not do this, or not any more."),
        "approver_cannot_see": _("You may not see everything that this is about, so you can't approve it."),
        "impersonated": _("While you act as somebody else, nothing can be decided."),
        "service_account": _("A service account decides nothing."),
        "requester_inactive": _("The account of who asked for it is not active any more."),
        "scope_unavailable": _("The place that this belongs to can't be entered. Tell an administrator."),
        "reservation_failed": _("It could not be started. Nothing was done."),
        "key_expired": _("It is too long ago to try it again. Ask what became of it, or have it settled."),
        "not_undoable": _("This can't be undone."),
        "not_again": _("This can't be made again."),
        "not_uncertain": _("It is known how this ended."),
        "no_look_up": _("The other system can't be asked."),
        "done_there": _("The other system says that it was done, so it was recorded as done."),
        "no_answer": _("The other system gave no answer. It may or may not have been done."),
        "reason_needed": _("Say how it ended, and give a reason."),
        "try_again": _("Somebody else was at it in this moment. Try again."),
        "call_failed": _("The other system refused it. Nothing was done there."),
        "lease_over": _("There was no answer in time. It may or may not have been done."),
        "switched_off": _("The assistant is turned off on this site."),
        "not_found": _("There is no such conversation or proposal."),
    }
    return texts.get(code) or otherwise or _("This can't be done now.")
