"""Resources that a pod waits for and no node has: mostly names that are written wrongly."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from linkwise.broker.state import State
    from linkwise.model.views import PodView

__all__ = ["unknown_resource"]


def unknown_resource(state: State, pod: PodView) -> str:
    """What is wrong with the first such resource of a pod that is not bound; empty if there is none."""
    asked = [name for found in pod.containers for names in (found.limits, found.requests) for name in names]
    extended = [name for name in dict.fromkeys(asked) if "/" in name]
    if not extended or pod.node or pod.claims or pod.hosted_by_claims:
        return ""
    there = {name for view in state.cluster.nodes.values() for name in view.allocatable or view.capacity}
    unknown = next((name for name in extended if name not in there), "")
    if not unknown:
        return ""
    near = get_close_matches(unknown, sorted(name for name in there if "/" in name), 1)
    return f"no node has {unknown}" + (f"; did you mean {near[0]}?" if near else "")
