"""What speaks against nodes, as a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from linkwise.explain.survey__against import Against

__all__ = ["LASTS", "against_line"]

LASTS: Final = "no pod's end changes that"


def against_line(group: Against) -> str:
    """One reason, on how many nodes, and what was asked and found on the nearest of them."""
    if group.nodes == 1:
        return f"node {group.nearest}: {group.sentence}"
    if group.rule == "002.inventory" or group.sentence == group.short:
        return f"{group.nodes} nodes: {group.short}"
    return f"{group.nodes} nodes: {group.short}; nearest is {group.nearest}: {group.sentence}"
