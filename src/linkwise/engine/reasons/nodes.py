"""Refusals for reasons other than devices: cordons, taints, labels, cpu, memory, ports, pod affinity and topology spread.

The short texts follow kube-scheduler's own, so that its event reads alike whichever of the two refused the node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.engine.reasons.phrases import RefusalText, as_tuple, size_text
from linkwise.engine.selectors import ANY_POD

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.model.verdict import Fact, Reason

__all__ = ["NODE_REFUSALS", "SHORTAGES"]


def _cpu(reason: Reason) -> str:
    requested, free, capacity = (f"{millis / 1000:g}" for millis in _amounts(reason))
    left = f"only {free} of {capacity} {'is' if free == '1' else 'are'}" if free != "0" else f"none of {capacity} is"
    return f"{requested} cpu requested, but {left} free"


def _bytes(reason: Reason, what: str) -> str:
    requested, free, capacity = _amounts(reason)
    left = f"only {size_text(free)}" if free else "none"
    return f"{size_text(requested, up=True)} of {what} requested, but {left} of {size_text(capacity)} is free"


def _amounts(reason: Reason) -> list[int]:
    """Requested, free, capacity."""
    return [int(number) for number in (*as_tuple(reason.asked), *as_tuple(reason.found))]


def _missing(reason: Reason) -> int:
    requested, free, _ = _amounts(reason)
    return requested - free


def _pods(terms: Fact) -> str:
    """The pods that affinity terms select: `pods with app=web`, `any pod`."""
    selectors = [str(term) for term in as_tuple(terms)]
    return ANY_POD if selectors == [ANY_POD] else f"pods with {' and '.join(selectors)}"


SHORTAGES: Final[dict[str, Callable[[Reason], str]]] = {
    "unschedulable": lambda _: "is cordoned",
    "not ready": lambda _: "is not ready",
    "taint": lambda r: f"has taint {r.found}, which the pod does not tolerate",
    "cpu": lambda r: f"lacks {_missing(r) / 1000:g} cpu",
    "memory": lambda r: f"lacks {size_text(_missing(r), up=True)} of memory",
    "ephemeral": lambda r: f"lacks {size_text(_missing(r), up=True)} of ephemeral storage",
    "pods": lambda r: f"already runs its maximum of {as_tuple(r.found)[1]} pods",
}
"""what a node with suitable devices lacks, by kind; reads after the node's name"""

NODE_REFUSALS: Final[dict[tuple[str, str], RefusalText]] = {
    ("001.filters", "unschedulable"): RefusalText(
        "node(s) were unschedulable", "the node is cordoned", code="Excluded"
    ),
    ("001.filters", "not ready"): RefusalText("node(s) were not ready", "the node is not ready", code="Excluded"),
    ("001.filters", "scheduler"): RefusalText(
        "node(s) didn't pass the scheduler's other filters",
        "the node did not pass the scheduler's own filters, such as those for volumes and topology spread",
        code="Excluded",
    ),
    ("001.filters", "selector"): RefusalText(
        "node(s) didn't match the pod's node selector",
        lambda r: f"the pod's node selector requires {r.asked}, but the node has {r.found or 'no such label'}",
        code="Excluded",
    ),
    ("001.filters", "affinity"): RefusalText(
        "node(s) didn't match the pod's node affinity",
        lambda r: (
            f"the node does not match the pod's node affinity, {' or '.join(map(str, as_tuple(r.asked)))}"
            if r.asked
            else "the pod's node affinity matches no node"
        ),
        code="Excluded",
    ),
    ("001.filters", "taint"): RefusalText(
        "node(s) had untolerated taint(s)", lambda r: f"the pod does not tolerate taint {r.found}", code="Excluded"
    ),
    ("001.filters", "ports"): RefusalText(
        "node(s) didn't have free ports for the requested host ports",
        lambda r: f"host port {r.asked} is in use",
        code="NoRoom",
    ),
    ("001.filters", "cpu"): RefusalText("node(s) had insufficient cpu", _cpu, code="NoRoom"),
    ("001.filters", "memory"): RefusalText(
        "node(s) had insufficient memory", lambda r: _bytes(r, "memory"), code="NoRoom"
    ),
    ("001.filters", "ephemeral"): RefusalText(
        "node(s) had insufficient ephemeral storage", lambda r: _bytes(r, "ephemeral storage"), code="NoRoom"
    ),
    ("001.filters", "pods"): RefusalText(
        "node(s) had too many pods",
        lambda r: f"the node already runs its maximum of {as_tuple(r.found)[1]} pods",
        code="NoRoom",
    ),
    ("001.filters", "apart"): RefusalText(
        "node(s) didn't match pod anti-affinity rules",
        lambda r: (
            f"the pod has anti-affinity to {_pods(r.asked)}, and the node runs one"
            if r.asked
            else f"a pod on the node has anti-affinity to {_pods(r.found)}, which includes this pod"
        ),
        code="Excluded",
    ),
    ("001.filters", "together"): RefusalText(
        "node(s) didn't match pod affinity rules",
        lambda r: f"the pod has affinity to {_pods(r.asked)}, and the node runs none",
        code="Excluded",
    ),
    ("001.filters", "spread"): RefusalText(
        "node(s) didn't match pod topology spread constraints",
        lambda r: (
            f"the pod's topology spread constraint allows at most {as_tuple(r.found)[1]} on this node of "
            f"{_pods(r.asked)}, and it has {as_tuple(r.found)[0]}"
        ),
        code="Excluded",
    ),
}
