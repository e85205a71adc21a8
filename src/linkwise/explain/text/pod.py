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
    LASTS,
    against_line,
    ask_text,
    difference_text,
    names_text,
    part_text,
    remedy_line,
    terms_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from linkwise.explain.reports.choice import Choice
    from linkwise.explain.reports.node import NodeExplanation
    from linkwise.explain.reports.pod import Given, Offered, OtherNode, PodState

__all__ = ["explanation_lines"]

OFFERED_IN_VAIN: Final = "look at volumes, quota or other filters"
ORDERS_EQUALS: Final = "which only orders nodes of one class: among these the scheduler's own preferences decide"


def explanation_lines(told: Explanation | NodeExplanation | GroupExplanation) -> list[str]:
    """One sentence a line, the most important first."""
    if isinstance(told, Explanation):
        return list(_pod_lines(told))
    return group_lines(told) if isinstance(told, GroupExplanation) else node_lines(told)


def _pod_lines(told: Explanation) -> Iterator[str]:
    yield _HEADINGS[told.state](told)
    if told.state in {"planned", "promised", "bound"}:
        yield from _why_here(told)
    elif told.state == "fits":
        yield from _would_go(told)
    elif told.state == "waiting":
        yield from _why_nowhere(told)
    if told.group:
        yield from (told.standing, *told.lacks)
        yield f"more of its group: linkwise explain group/{told.group}"
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
        return f"{_ask(told)} of node {told.node}"
    if parts[0].share or parts[0].core:
        return f"{_part(told, parts)} of node {told.node}"
    if len(parts) == 1:
        return f"{_listed(parts[0].indices)} of node {told.node}"
    if not all(part.container for part in parts):
        return f"{_listed(tuple(sorted(index for part in parts for index in part.indices)))} of node {told.node}"
    each = " and ".join(f"{_listed(part.indices)} for container {part.container}" for part in parts)
    return f"{each}, of node {told.node}"


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
    "no devices": lambda told: f"pod {told.name} asks for no device: nothing here keeps it waiting",
    "broken": lambda told: f"pod {told.name} can't be placed, and waiting does not help: {told.sentence}",
    "grouped": lambda told: (
        f"pod {told.name} waits with its group" + (f" for {_ask(told)}" if told.asked else "; it asks for no device")
    ),
    "waiting": lambda told: f"pod {told.name} waits for {_ask(told)}",
    "fits": lambda told: f"pod {told.name} waits for {_ask(told)}",
    "planned": lambda told: f"pod {told.name} has {_held(told)} kept for it by the plan of its group",
    "promised": lambda told: f"pod {told.name} was promised {_held(told)}",
    "bound": lambda told: f"pod {told.name} has {_held(told)}",
    "leaving": lambda told: (
        f"pod {told.name} is being deleted; it keeps {_held(told)} until its containers have stopped"
    ),
    "ended": lambda told: f"pod {told.name} has ended and holds nothing",
}


def _why_here(told: Explanation) -> Iterator[str]:
    if told.state == "promised":
        yield _OUTCOMES[told.outcome]
    if told.record != "untold":
        yield f"it asks for {_ask(told)}, placed by {told.policy or 'others'}"
    if told.group:
        # Its group's plan chose for it: what other nodes would give it alone is no reason.
        if told.choice and told.choice.worth:
            yield f"{devices_text(told.choice.devices)}: {told.choice.worth}"
    elif told.rank:
        yield f"{_place(told)}: {terms_text(told.terms)}"
    elif told.record != "untold":
        yield "it could not be given these devices now: one does not work any more, or its node has changed"
    if not told.group:
        yield from _chosen(told.choice)
        yield from _elsewhere(told)
    if told.record:
        yield _RECORDS[told.record]


_OUTCOMES: Final = {
    None: "its bind is under way",
    "written": "its bind is written, and the pod is not seen on the node yet",
    "unknown": "how its bind ended is not known: the devices stay promised until the pod is seen or read again",
    "refused": "its bind was refused",
}
_RECORDS: Final = {
    "seen": "the node's agent saw it use these devices",
    "enforced": "the node's agent hands out exactly these devices",
    "expected": "these devices are expected: the node's device plugin decides, and may take others",
    "untold": "nobody tells which devices it got: as many are kept free on its node",
}


def _place(told: Explanation) -> str:
    taken_out = "" if told.state == "fits" else ", this pod taken out"
    if told.fitting == 1:
        return f"node {told.node} is the only one that fits now{taken_out}"
    place = "the best" if told.rank == 1 else f"number {told.rank}"
    return f"node {told.node} is {place} of {told.fitting} nodes that fit now{taken_out}"


def _would_go(told: Explanation) -> Iterator[str]:
    yield f"{told.fitting} of {told.nodes} nodes can take it now; it would get {_held(told)}, by {told.policy}"
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
        reason = f"; of {devices_text(choice.devices)}: {choice.lost}" if choice.lost else ": what is free has changed"
        yield f"now {devices_text(choice.now)} would be chosen{reason}"
    elif choice.other:
        yield f"runner-up {devices_text(choice.other)}: {choice.lost}"
    elif choice.lost:
        yield choice.lost


def _elsewhere(told: Explanation) -> Iterator[str]:
    if told.other:
        yield _other(told.other)
    elif told.fitting and not told.rank:  # it could not be given its own devices now
        yield f"{count_text(told.fitting, 'other node')} could take it now"
    elif told.against:
        yield f"no other node could take it; {against_line(told.against[0])}"


def _other(other: OtherNode) -> str:
    if other.verdict == "equal":
        return f"node {other.name} is as good in every term"
    differs = difference_text(other.term, other.there, other.here)
    if other.verdict == "worse":
        return f"next is node {other.name}: {differs}"
    return f"node {other.name} would be better now: {differs}{'' if other.leading else f', {ORDERS_EQUALS}'}"


def _why_nowhere(told: Explanation) -> Iterator[str]:
    if not told.nodes:
        yield "no node was seen yet"
        return
    helped = sum(group.nodes for group in told.against if not group.final)
    none = f"0 of {told.nodes} nodes can take it"
    if not helped:
        yield f"{none}, and {LASTS}"
    elif helped < told.nodes:
        yield f"{none}; on {helped} that may change when pods end"
    else:
        yield none
    mixed = 0 < helped < told.nodes
    yield from (against_line(group) + (f"; {LASTS}" if mixed and group.final else "") for group in told.against)
    if helped and not any(remedy.kind == "pods end" for remedy in told.remedies):
        yield "no pods, up to 3 on one node, were found whose end would make room"


def _offers(offered: Offered, fitting: int) -> Iterator[str]:
    if not offered.asked and fitting:
        yield "no scheduler has asked about it yet: look at its schedulerName, its gates, and the scheduler"
    elif not offered.asked:
        yield "no scheduler has asked about it: one that finds too little by its own count does not ask"
    if offered.crowded:
        yield "its devices were offered to other pods a moment ago; it is tried again when these are bound"
    if offered.waiting:
        yield f"it was offered {names_text(offered.nodes)} a moment ago, and its bind is awaited"
    elif offered.rounds:
        times = "once" if offered.rounds == 1 else f"{offered.rounds} times"
        yield f"it was offered {times} without a bind: {names_text(offered.nodes)}; {OFFERED_IN_VAIN}"
