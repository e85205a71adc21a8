"""Refusals about all that a node must have beside devices, and what it lacks if its devices would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.engine.reasons.phrases import Words, size_text, tuple_

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.model.verdict import Reason

__all__ = ["LACKS", "NODE_WORDS"]


def _cpu_left(reason: Reason) -> str:
    asked, left, there = (f"{count / 1000:g}" for count in _asked_and_left(reason))
    return f"{asked} cpu {'is' if asked == '1' else 'are'} asked for and {left} of {there} are left"


def _bytes_left(reason: Reason, what: str) -> str:
    asked, left, there = _asked_and_left(reason)
    return f"{size_text(asked, up=True)} of {what} is asked for and {size_text(left)} of {size_text(there)} is left"


def _asked_and_left(reason: Reason) -> list[int]:
    return [int(number) for number in (*tuple_(reason.asked), *tuple_(reason.found))]


def _missing(reason: Reason) -> int:
    asked, left, _ = _asked_and_left(reason)
    return asked - left


LACKS: Final[dict[str, Callable[[Reason], str]]] = {
    "unschedulable": lambda _: "is cordoned",
    "not ready": lambda _: "is not ready",
    "taint": lambda r: f"has taint {r.found}, which the pod does not tolerate",
    "cpu": lambda r: f"lacks {_missing(r) / 1000:g} cpu",
    "memory": lambda r: f"lacks {size_text(_missing(r), up=True)} of memory",
    "ephemeral": lambda r: f"lacks {size_text(_missing(r), up=True)} of ephemeral storage",
    "pods": lambda r: f"has all the {tuple_(r.found)[1]} pods it takes",
}

NODE_WORDS: Final[dict[tuple[str, str], Words]] = {
    ("001.filters", "unschedulable"): Words("the node takes no new pods", lambda _: "the node is cordoned"),
    ("001.filters", "not ready"): Words("the node is not ready", lambda _: "the node is not ready"),
    ("001.filters", "selector"): Words(
        "the node lacks a selected label",
        lambda r: f"label {r.asked} is selected and the node has {r.found or 'no such label'}",
    ),
    ("001.filters", "affinity"): Words(
        "the node does not meet the affinity",
        lambda r: (
            f"the node affinity asks for {' or '.join(map(str, tuple_(r.asked)))}, which is not met"
            if r.asked
            else "the node affinity names no node"
        ),
    ),
    ("001.filters", "taint"): Words("a taint is not tolerated", lambda r: f"taint {r.found} is not tolerated"),
    ("001.filters", "ports"): Words("a host port is taken", lambda r: f"host port {r.asked} is taken"),
    ("001.filters", "cpu"): Words("too little cpu is left", _cpu_left),
    ("001.filters", "memory"): Words("too little memory is left", lambda r: _bytes_left(r, "memory")),
    ("001.filters", "ephemeral"): Words(
        "too little ephemeral storage is left", lambda r: _bytes_left(r, "ephemeral storage")
    ),
    ("001.filters", "pods"): Words(
        "the node has all the pods it takes", lambda r: f"the node takes {tuple_(r.found)[1]} pods and has them"
    ),
    ("001.filters", "apart"): Words(
        "the pod and one that is there must be apart",
        lambda r: (
            f"the pod must be apart from {r.asked}, which is there"
            if r.asked
            else f"a pod that is there must be apart from {r.found}"
        ),
    ),
    ("001.filters", "together"): Words(
        "no pod is there that it must be with",
        lambda r: f"the pod must be with {' and '.join(map(str, tuple_(r.asked)))}, which is not there",
    ),
}
