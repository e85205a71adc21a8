"""Refusals for reasons other than devices: cordons, taints, labels, cpu, memory, ports, affinity, spread, policies.

The short texts follow kube-scheduler's own, so that its event reads alike whichever of the two refused the node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.engine.reasons.phrases import (
    RefusalText,
    as_tuple,
    device_count,
    domains_text,
    is_or_are,
    size_text,
    with_unit,
)
from linkwise.engine.selectors import ANY_POD
from linkwise.model.access_policy import ALONE, domain_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.model.verdict import Fact, Reason

__all__ = ["ACCESS_REFUSALS", "NODE_REFUSALS", "SHORTAGES"]

_NOT_PERMITTED: Final = "node(s): an AcceleratorPolicy doesn't permit the request"
_IN_USE: Final = "node(s): an AcceleratorPolicy's limit of devices at one time is reached"


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


def _policy(reason: Reason) -> str:
    return f"AcceleratorPolicy {reason.noun}"


def _facts(reason: Reason) -> tuple[str, list[str]]:
    """To whom the policy applies, and what it permits."""
    who, *permitted = map(str, as_tuple(reason.found))
    return who, permitted


def _resource(reason: Reason) -> str:
    who, permitted = _facts(reason)
    only = f"only {', '.join(permitted)}" if permitted else "no accelerators"
    return f"{reason.asked} requested, but {_policy(reason)} permits {who} {only}"


def _invalid(reason: Reason) -> str:
    who, problem = _facts(reason)
    return f"{_policy(reason)}, which applies to {who}, is invalid and permits nothing until it is corrected: {', '.join(problem)}"


def _too_many(reason: Reason) -> str:
    who, (most, *_) = _facts(reason)
    return f"{device_count(reason.asked)} requested, but {_policy(reason)} permits {who} at most {most} at one time"


def _limit(reason: Reason) -> str:
    who, (used, most, *_) = _facts(reason)
    return (
        f"{device_count(reason.asked)} requested, but {_policy(reason)} permits {who} at most {most} at one time, and {used} "
        f"{is_or_are(int(used))} in use"
    )


def _group_limit(reason: Reason) -> str:
    who, (used, most, *_) = _facts(reason)
    return (
        f"the members of the pod's group that must start together request {device_count(reason.asked)}, but "
        f"{_policy(reason)} permits {who} at most {most} at one time, and {used} {is_or_are(int(used))} in use"
    )


def _model(reason: Reason) -> str:
    who, permitted = _facts(reason)
    there = f"a device of model {reason.asked}" if reason.asked else "a device of an unknown model"
    return f"the node has {there}, but {_policy(reason)} permits {who} only {', '.join(permitted)}"


def _share(reason: Reason) -> str:
    who, (most, *_) = _facts(reason)
    return f"{with_unit(reason.asked, reason.unit)} of one device requested, but {_policy(reason)} permits {who} at most {most}"


def _domain(reason: Reason) -> str:
    users = domains_text(map(str, as_tuple(reason.found))) if reason.found else "an unknown namespace"
    rule = (
        "the pod may not share a device"
        if reason.asked == ALONE
        else f"the pod may share only with pods of {domain_text(str(reason.asked))}"
    )
    return f"devices with free memory are used by {users}, and by an AcceleratorPolicy {rule}"


ACCESS_REFUSALS: Final[dict[tuple[str, str], RefusalText]] = {
    ("002.access", "resource"): RefusalText(_NOT_PERMITTED, _resource),
    ("002.access", "too many"): RefusalText(_NOT_PERMITTED, _too_many),
    ("002.access", "share"): RefusalText(_NOT_PERMITTED, _share),
    ("002.access", "invalid"): RefusalText(
        "node(s): an AcceleratorPolicy that applies to the pod is invalid", _invalid
    ),
    ("002.access", "limit"): RefusalText(_IN_USE, _limit),
    ("002.access", "group limit"): RefusalText(_IN_USE, _group_limit),
    ("002.access", "model"): RefusalText(
        "node(s) had devices of a model that an AcceleratorPolicy doesn't permit", _model
    ),
    ("002.segregate", "domain"): RefusalText(
        "node(s) had free memory only on devices that the pod may not share", _domain
    ),
}
