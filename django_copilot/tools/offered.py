"""Which write tools this person could use, and which of them a request tells the model of."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace

from ..access import Access
from ..backends.base import ToolSpec
from ..conf import get_settings
from .ranking import agreement
from .write import WriteTool, all_tools

logger = logging.getLogger("django_copilot")


def may_use_tool(access: Access, tool: WriteTool) -> bool:
    """Tell whether the person has the tool's permissions, and its verb on records of its model in general."""
    try:
        if tool.problems or not access.request.user.has_perms(tool.permissions):
            return False
        entity = access.registered(tool.model)
        if entity is None or not entity.can_view:
            return False
        verbs = {
            "view": True,
            "add": entity.can_add,
            "change": entity.can_change,
            "delete": entity.can_delete,
        }
        return verbs[tool.verb]
    except Exception:
        logger.exception("The rights on the tool %s can't be asked and are taken as a no.", tool.name)
        return False


def write_specs(access: Access, message: str, *, offered: Collection[str] = ()) -> list[ToolSpec]:
    """Return at most MAX_WRITE_TOOLS tools for a request: those that agree best with the message.

    Tools of entities named in ``offered`` come first where words decide nothing.
    """
    most = get_settings().MAX_WRITE_TOOLS
    declared = list(all_tools().values())
    if len(declared) > most:
        labels = {each.entity.label for each in access.named(offered)}
        words = {
            tool.name: f"{tool.name.replace('_', ' ')} {tool.title} {tool.model._meta.verbose_name}"
            for tool in declared
        }
        scores = agreement(words, message)
        declared.sort(key=lambda tool: -(scores[tool.name] + 0.5 * (tool.model._meta.label_lower in labels)))
    chosen: set[str] = set()
    for tool in declared:
        if len(chosen) == most:
            break
        if may_use_tool(access, tool):
            chosen.add(tool.name)
    return [replace(tool.spec, title=str(tool.title)) for tool in all_tools().values() if tool.name in chosen]
