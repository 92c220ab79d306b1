"""Plans: what the assistant proposed, carried out at most once and only by a person's own request.

``pages`` holds the plans of kinds form, delete and list, which the admin's own pages carry out. Those of kind tool,
what a write tool would do, are made, decided and carried out by the other modules; ``states`` holds the one
table of what may follow what.
"""

from __future__ import annotations

from .pages import (
    action_of,
    claim,
    close_deleted,
    find_plan,
    fragment,
    is_openable,
    own_plans,
    propose,
    query_params,
    record_result,
    reject,
    reject_open,
    renew,
    withdraw_claim,
)

__all__ = [
    "action_of",
    "claim",
    "close_deleted",
    "find_plan",
    "fragment",
    "is_openable",
    "own_plans",
    "propose",
    "query_params",
    "record_result",
    "reject",
    "reject_open",
    "renew",
    "withdraw_claim",
]
