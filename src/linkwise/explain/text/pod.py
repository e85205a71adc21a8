"""Explanations as lines of plain sentences: the same words on the command line, in events and on the dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.engine.reasons.catalog import devices_text
from linkwise.engine.reasons.phrases import count_text
from linkwise.explain.reports.group import GroupExplanation
from linkwise.explain.reports.pod import Explanation
from linkwise.explain.text.group import group_lines
from linkwise.explain.text.node import node_lines
from linkwise.explain.text.phrases import (
    NOT_RESOLVED,
    against_line,
    ask_text,
    difference_text,
    names_text,
    part_text,
    refusal_lines,
    remedy_line,
    terms_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from linkwise.explain.reports.choice import Choice
    from linkwise.explain.reports.node import NodeExplanation
    from linkwise.explain.reports.pod import Given, Offered, OtherNode, PodState

__all__ = ["explanation_lines"]

OFFERED_IN_VAIN: Final = "check volumes, quotas and other scheduler filters"
ORDERS_EQUALS: Final = "but such nodes get the same score, and kube-scheduler's other plugins decide between them"


def explanation_lines(told: Explanation | NodeExplanation | GroupExplanation) -> list[str]:
    """One sentence a line, the most important first."""
    if isinstance(told, Explanation):
        return list(_pod_lines(told))
    return group_lines(told) if isinstance(told, GroupExplanation) else node_lines(told)


def _pod_lines(told: Explanation) -> Iterator[str]:
    yield _HEADINGS[told.state](told)
    if told.state in {"planned", "binding", "bound"}:
        yield from _why_here(told)
    elif told.state == "schedulable":
        yield from _would_go(told)
    elif told.state == "unschedulable":
        yield from _why_nowhere(told)
    if told.group:
        yield from (told.standing, *told.lacks)
        yield f"for its group, run: linkwise explain group/{told.group}"
    if told.state == "grouped":
        yield from told.notes
        return
    yield from map(remedy_line, told.remedies)
    if told.offered:
        yield from _offers(told.offered, told.fitting)
    yield from told.notes


def _held(told: Explanation) -> str:
    """What it has: devices, or a part of one."""
    parts = [part for part in told.devices if part.indices]
    if not parts:
        return f"{_ask(told)} on node {told.node}"
    if parts[0].share or parts[0].core:
        return f"{_part(told, parts)} on node {told.node}"
    if len(parts) == 1:
        return f"{_listed(parts[0].indices)} on node {told.node}"
    if not all(part.container for part in parts):
        return f"{_listed(tuple(sorted(index for part in parts for index in part.indices)))} on node {told.node}"
    each = " and ".join(f"{_listed(part.indices)} for container {part.container}" for part in parts)
    return f"{each}, on node {told.node}"


def _part(told: Explanation, parts: list[Given]) -> str:
    share, core = sum(part.share for part in parts), sum(part.core for part in parts)
    where = tuple(sorted({index for part in parts for index in part.indices}))
    return f"{part_text(share, core, told.unit)} of {_listed(where)}"


def _listed(indices: tuple[int, ...]) -> str:
    return f"device{'s' if len(indices) > 1 else ''} {', '.join(map(str, indices))}"


def _ask(told: Explanation) -> str:
    asked = told.asked
    if asked is None:
        return "devices"
    return f"{ask_text(asked.devices, asked.share, asked.core, asked.unit)} ({asked.resource})"


_HEADINGS: Final[dict[PodState, Callable[[Explanation], str]]] = {
    "no devices": lambda told: f"pod {told.name} requests no devices; Linkwise does not keep it pending",
    "invalid": lambda told: f"pod {told.name} can't be scheduled as requested: {told.sentence}",
    "grouped": lambda told: (
        f"pod {told.name} is pending with its group: it requests {_ask(told) if told.asked else 'no devices'}"
    ),
    "unschedulable": lambda told: f"pod {told.name} is pending: it requests {_ask(told)}",
    "schedulable": lambda told: f"pod {told.name} is pending: it requests {_ask(told)}",
    "planned": lambda told: f"pod {told.name} has {_held(told)} reserved by the plan of its group",
    "binding": lambda told: f"pod {told.name} is being bound to {_held(told)}",
    "bound": lambda told: f"pod {told.name} has {_held(told)}",
    "terminating": lambda told: (
        f"pod {told.name} is terminating; it keeps {_held(told)} until its containers have stopped"
    ),
    "ended": lambda told: f"pod {told.name} has finished and holds no devices",
}


def _why_here(told: Explanation) -> Iterator[str]:
    if told.state == "binding":
        yield _OUTCOMES[told.outcome]
    if told.record != "unrecorded":
        yield f"it requests {_ask(told)}; placed by {told.policy or 'another scheduler'}"
    if told.group:
        # Its group's plan chose for it: what other nodes would give it alone is no reason.
        if told.choice and told.choice.worth:
            yield f"{devices_text(told.choice.devices)}: {told.choice.worth}"
    elif told.rank:
        yield f"{_place(told)}: {terms_text(told.terms)}"
    elif told.record != "unrecorded":
        yield "it could not get these devices now: a device is unhealthy, or its node has changed"
    if not told.group:
        yield from _chosen(told.choice)
        yield from _elsewhere(told)
    if told.record:
        yield _RECORDS[told.record]


_OUTCOMES: Final = {
    None: "its bind is in progress",
    "written": "its bind is written, but the pod has not been observed on the node yet",
    "unknown": "the result of its bind is unknown; the devices stay reserved until the pod is observed or read again",
    "refused": "its bind was rejected",
}
_RECORDS: Final = {
    "seen": "the node agent reports that it uses these devices",
    "enforced": "the node agent allocates exactly these devices",
    "expected": "these devices are expected; the node's device plugin makes the final choice",
    "unrecorded": "which devices it uses is not recorded; its request is counted as used on its node",
}


def _place(told: Explanation) -> str:
    again = "" if told.state == "schedulable" else " (if rescheduled now)"
    if told.fitting == 1:
        return f"node {told.node} is the only feasible node{again}"
    place = "is the best" if told.rank == 1 else f"ranks {told.rank}"
    return f"node {told.node} {place} of {told.fitting} feasible nodes{again}"


def _would_go(told: Explanation) -> Iterator[str]:
    yield f"{told.fitting} of {told.nodes} nodes {'is' if told.fitting == 1 else 'are'} feasible; it would get {_held(told)} (policy {told.policy})"
    yield f"{_place(told)}: {terms_text(told.terms)}"
    yield from _chosen(told.choice)
    yield from _elsewhere(told)


def _chosen(choice: Choice | None) -> Iterator[str]:
    if choice is None:
        return
    if choice.worth:
        yield f"{devices_text(choice.devices)}: {choice.worth}"
    if choice.because:
        yield f"chosen: {choice.because}"
    if choice.now:
        reason = f"; {devices_text(choice.devices)}: {choice.lost}" if choice.lost else ""
        yield f"if rescheduled now, {devices_text(choice.now)} would be chosen{reason}"
    elif choice.other:
        yield f"runner-up {devices_text(choice.other)}: {choice.lost}"
    elif choice.lost:
        yield choice.lost


def _elsewhere(told: Explanation) -> Iterator[str]:
    if told.other:
        yield _other(told.other)
    elif told.fitting and not told.rank:  # it could not be given its own devices now
        yield f"{count_text(told.fitting, 'other node')} {'is' if told.fitting == 1 else 'are'} feasible now"
    elif told.against:
        yield f"no other node is feasible; {against_line(told.against[0])}"


def _other(other: OtherNode) -> str:
    if other.verdict == "equal":
        return f"tied with node {other.name}"
    differs = difference_text(other.term, other.there, other.here)
    if other.verdict == "worse":
        return f"next best is node {other.name}: {differs}"
    return f"node {other.name} would be better now: {differs}{'' if other.leading else f', {ORDERS_EQUALS}'}"


def _why_nowhere(told: Explanation) -> Iterator[str]:
    if not told.nodes:
        yield "no nodes have been observed yet"
        return
    helped = sum(group.nodes for group in told.against if not group.final)
    none = f"0 of {told.nodes} nodes are feasible"
    if not helped:
        yield f"{none} ({NOT_RESOLVED})"
    elif helped < told.nodes:
        yield f"{none}; {helped} may become feasible when other pods finish"
    else:
        yield none
    yield from refusal_lines(told.against) if helped else map(against_line, told.against)
    if helped and not any(remedy.kind == "pods end" for remedy in told.remedies):
        yield "no node was found where it would fit after up to 3 pods finish"


def _offers(offered: Offered, fitting: int) -> Iterator[str]:
    if not offered.asked and fitting:
        yield "no scheduler has asked about it yet; check its schedulerName, its scheduling gates and the scheduler"
    elif not offered.asked:
        yield "no scheduler has asked about it; kube-scheduler does not ask if it counts too few devices itself"
    if offered.crowded:
        yield "its devices were just offered to other pods; it is retried when those are bound"
    if offered.waiting:
        yield f"it was just offered {names_text(offered.nodes)}, and its bind is expected"
    elif offered.rounds:
        times = "once" if offered.rounds == 1 else f"{offered.rounds} times"
        yield f"it was offered {names_text(offered.nodes)} {times} without being bound; {OFFERED_IN_VAIN}"
