"""Text of explanations of pods and workloads, one sentence per line: for the command line, events and the dashboard."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from linkwise.engine.reasons.catalog import devices_text
from linkwise.engine.reasons.phrases import count_text
from linkwise.explain.node import NodeExplanation, node_lines
from linkwise.explain.reports import Explanation, WorkloadExplanation
from linkwise.explain.text.group import group_lines
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
from linkwise.model.topology import NO_LINK_DATA, link_data_help

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from linkwise.explain.reports import (
        Choice,
        ContainerDevices,
        GroupExplanation,
        Offered,
        OtherNode,
        PlacedBecause,
        PodState,
        WorkloadPart,
    )

__all__ = [
    "certainty_text",
    "explanation_lines",
    "next_best_text",
    "no_end_text",
    "pending_sentence",
    "reason_lines",
    "remark_lines",
    "request_text",
    "workload_lines",
]

CLAIM_UNSEEN: Final = "a ResourceClaim allocates its devices; until it is observed, its request is counted as used"
CLAIM_GONE: Final = (
    "no ResourceClaim has devices for it, so its request is counted as used; if that lasts, kube-scheduler deleted the claim"
    " after a bind that it took for failed, and the pod must be created again"
)
HAS_GATES: Final = "it has scheduling gates"
CLAIM_PENDING: Final = "its ResourceClaim can't be allocated"
"""begins notes about what keeps kube-scheduler from allocating the claim that Linkwise wrote for a pod"""
VOLCANO: Final = "Volcano "
"""starts the notes on what Volcano is expected to do"""
OFFERED_IN_VAIN: Final = "check volumes, quotas and other scheduler filters"
AGAIN: Final = "if placed again now"
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
_ORDER: Final = ("pending", "starting", "running", "terminating", "succeeded", "failed")


def explanation_lines(report: Explanation | NodeExplanation | GroupExplanation | WorkloadExplanation) -> list[str]:
    """Return one sentence per line, the most important first."""
    if isinstance(report, WorkloadExplanation):
        return workload_lines(report, explanation_lines)
    if isinstance(report, NodeExplanation):
        return node_lines(report)
    lines = list(_pod_lines(report)) if isinstance(report, Explanation) else group_lines(report)
    unlinked = any(NO_LINK_DATA in line for line in lines)
    return [*lines, f"for link data, {link_data_help()}"] if unlinked else lines


def _pod_lines(report: Explanation) -> Iterator[str]:
    yield _HEADINGS[report.state](report)
    if report.state in {"scheduling", "planned", "claimed", "booked", "binding", "bound"}:
        yield from _why_here(report)
    elif report.state == "schedulable":
        yield from _would_go(report)
    elif report.state == "unschedulable":
        if report.drained:
            yield report.drained
        yield from _why_nowhere(report)
    if report.group:
        yield from (report.standing, *report.lacks)
        yield f"for its group, run: linkwise explain group/{report.group}"
    elif report.standing:
        yield report.standing
    if report.state == "grouped":
        yield from report.notes
        return
    yield from map(remedy_line, report.remedies)
    if report.offered:
        yield from _offers(report.offered, report.fitting)
    yield from report.notes


def pending_sentence(report: Explanation) -> str:
    """Return why a pod is pending in one sentence: its request, and the reason that counts most."""
    parts = [_HEADINGS[report.state](report)]
    match report.state:
        case "unschedulable":
            parts += [report.drained] if report.drained else []
            parts.append(": ".join(islice(_why_nowhere(report), 2)))
        case "schedulable":
            parts.append(next(_would_go(report)))
            if report.offered:
                parts += islice(_offers(report.offered, report.fitting), 1)
        case "grouped":
            parts += filter(None, (report.standing, *report.lacks[:1]))
    gates = [note for note in report.notes if note.startswith(HAS_GATES)] if not report.group else []
    reported = [note for note in report.notes if note.startswith((VOLCANO, CLAIM_PENDING))][:1]
    return "; ".join([*parts, *gates, *reported])


def _allocation(report: Explanation) -> str:
    """Return its devices, or its share of one, with the node."""
    parts = [part for part in report.devices if part.indices]
    if not parts:
        return f"{request_text(report)} on node {report.node}"
    if parts[0].share or parts[0].core:
        return f"{_part(report, parts)} on node {report.node}"
    if len(parts) == 1:
        return f"{_devices(parts[0].indices)} on node {report.node}"
    if not all(part.container for part in parts):
        return f"{_devices(tuple(sorted(index for part in parts for index in part.indices)))} on node {report.node}"
    each = " and ".join(f"{_devices(part.indices)} for container {part.container}" for part in parts)
    return f"{each}, on node {report.node}"


def _part(report: Explanation, parts: list[ContainerDevices]) -> str:
    share, core = sum(part.share for part in parts), sum(part.core for part in parts)
    where = tuple(sorted({index for part in parts for index in part.indices}))
    return f"{part_text(share, core, report.unit)} of {_devices(where)}"


def _devices(indices: tuple[int, ...]) -> str:
    return f"device{'s' if len(indices) > 1 else ''} {', '.join(map(str, indices))}"


def remark_lines(report: Explanation) -> list[str]:
    """Return what is said about the state of a pod beside its reasons, what speaks against nodes, remedies and notes."""
    verdict = [report.drained, _verdict(report)] if report.state == "unschedulable" else []
    offers = _offers(report.offered, report.fitting) if report.offered and report.state != "grouped" else ()
    return list(filter(None, (*verdict, report.standing, *report.lacks, *offers)))


def request_text(report: Explanation) -> str:
    """Return what the pod requests, with the name of the resource."""
    requested = report.asked
    if requested is None:
        return "devices"
    return f"{ask_text(requested.devices, requested.share, requested.core, requested.unit)} ({requested.resource})"


_HEADINGS: Final[dict[PodState, Callable[[Explanation], str]]] = {
    "no devices": lambda report: f"pod {report.name} requests no devices; Linkwise does not keep it pending",
    "invalid": lambda report: f"pod {report.name} can't be scheduled as requested: {report.sentence}",
    "not permitted": lambda report: f"pod {report.name} is not permitted: {report.sentence}",
    "grouped": lambda report: (
        f"pod {report.name} is pending with its group: it requests {request_text(report) if report.asked else 'no devices'}"
    ),
    "unschedulable": lambda report: f"pod {report.name} is pending: it requests {request_text(report)}",
    "schedulable": lambda report: f"pod {report.name} is pending: it requests {request_text(report)}",
    "scheduling": lambda report: f"pod {report.name} is being scheduled to {_allocation(report)}",
    "planned": lambda report: (
        f"pod {report.name} has {_allocation(report)} reserved {'by the plan of its group' if report.group else 'for it'}"
    ),
    "claimed": lambda report: (
        f"pod {report.name} has a claim on {_allocation(report)}, which terminating pods still use"
    ),
    "booked": lambda report: f"pod {report.name} has {_allocation(report)} booked until its scheduler binds it",
    "binding": lambda report: f"pod {report.name} is being bound to {_allocation(report)}",
    "bound": lambda report: f"pod {report.name} has {_allocation(report)}",
    "terminating": lambda report: (
        f"pod {report.name} is terminating; it keeps {_allocation(report)} until its containers have stopped"
    ),
    "ended": lambda report: (
        f"pod {report.name} was rejected by the kubelet of node {report.node} and holds no devices: {report.sentence}"
        if report.sentence
        else f"pod {report.name} has finished and holds no devices"
    ),
}


def _why_here(report: Explanation) -> Iterator[str]:
    if report.state == "scheduling":
        yield "its node was named to the scheduler a moment ago, and its bind is expected"
    if report.state == "binding":
        yield _OUTCOMES[report.outcome]
    if report.record == "claimed":
        yield f"it requests {request_text(report)}; placed by {report.policy or 'another scheduler'}"
    elif report.foreign:
        yield f"it requests {request_text(report)}; placed by another scheduler"
    else:
        yield f"it requests {request_text(report)}; placed by {report.policy}"
        yield from _reason(report)
        yield from _again(report)
    yield from filter(None, [certainty_text(report)])


def reason_lines(report: Explanation) -> list[str]:
    """Return why the pod has its node and its devices, or would get them; without how certain they are."""
    if report.state == "schedulable":
        return list(_would_go(report))
    certain = certainty_text(report)
    return [line for line in _why_here(report) if line != certain]


def certainty_text(report: Explanation) -> str:
    """Return how certain its devices are; empty if it has none."""
    if not report.record:
        return ""
    if report.record != "claimed":
        return _RECORDS[report.record]
    names = [name for part in report.devices for name in part.devices]
    if names:
        return f"allocated by a ResourceClaim: {', '.join(names)}"
    return CLAIM_GONE if report.state == "bound" else CLAIM_UNSEEN


def _reason(report: Explanation) -> Iterator[str]:
    """Yield the recorded reason: why this node, and why these devices."""
    because = report.because
    if because is None:
        yield "why it was placed there is not recorded"
        return
    if because.nominated:
        yield f"node {report.node} had been nominated for it, as preemption does once it has made room"
    if report.group and not because.terms:
        # Its group's plan chose for it: other nodes for the pod alone are not a reason.
        if because.choice and because.choice.worth:
            yield f"{devices_text(because.choice.devices)}: {because.choice.worth}"
        return
    if because.terms:
        yield f"placed because {_node_reason(report.node, because)}: {terms_text(because.terms)}"
    if because.other:
        yield _next_best(because.other)
    yield from _chosen(because.choice)


def _node_reason(node: str, because: PlacedBecause) -> str:
    match because.considered:
        case 0:
            return f"the scheduler bound it to node {node} without a recent offer"
        case 1:
            return f"node {node} was the only node that the scheduler asked about"
        case considered if because.other is None:
            return f"node {node} was the only feasible one of {considered} nodes considered"
        case considered:
            return f"node {node} was the best of {considered} nodes considered"


def _next_best(other: OtherNode) -> str:
    if other.verdict == "equal":
        return f"node {other.name} was equal; tie broken by node name"
    return f"next best was node {other.name}: {difference_text(other.term, other.there, other.here)}"


def _again(report: Explanation) -> Iterator[str]:
    """Yield what would be chosen if the pod were placed again; a member is placed with its group."""
    if report.group:
        return
    choice, other = report.choice, report.other
    if not report.rank:
        elsewhere = f"; {count_text(report.fitting, 'other node')} would be feasible" if report.fitting else ""
        yield f"{AGAIN}: not these devices, as one is unhealthy or the node has changed{elsewhere}"
    elif other and other.verdict == "better":
        yield f"{AGAIN}: node {other.name} ({difference_text(other.term, other.there, other.here)})"
    elif choice and choice.now:
        lost = f"; {devices_text(choice.devices)}: {choice.lost}" if choice.lost else ""
        yield f"{AGAIN}: {devices_text(choice.now)} of the same node{lost}"
    else:
        yield f"{AGAIN}: the same devices"


def _would_go(report: Explanation) -> Iterator[str]:
    yield f"{report.fitting} of {report.nodes} nodes {'is' if report.fitting == 1 else 'are'} feasible; it would get {_allocation(report)} (policy {report.policy})"
    place = "the only feasible node" if report.fitting == 1 else f"the best of {report.fitting} feasible nodes"
    yield f"node {report.node} is {place}: {terms_text(report.terms)}"
    yield from _chosen(report.choice)
    if report.other:
        yield _other(report.other)
    elif report.against:
        yield f"no other node is feasible; {against_line(report.against[0])}"


def _chosen(choice: Choice | None) -> Iterator[str]:
    if choice is None:
        return
    if choice.worth:
        yield f"{devices_text(choice.devices)}: {choice.worth}"
    if choice.because:
        yield f"chosen: {choice.because}"
    if choice.now:  # the policy, or what is known of the links, has changed since
        return
    if choice.other:
        yield f"runner-up {devices_text(choice.other)}: {choice.lost}"
    elif choice.lost:
        yield choice.lost


def next_best_text(report: Explanation) -> tuple[str, str]:
    """Return the node that came second, and why; empty if there was none."""
    if report.because:
        other = report.because.other
        return (other.name, _next_best(other)) if other else ("", "")
    return (report.other.name, _other(report.other)) if report.other else ("", "")


def _other(other: OtherNode) -> str:
    if other.verdict == "equal":
        return f"tied with node {other.name}"
    return f"next best is node {other.name}: {difference_text(other.term, other.there, other.here)}"


def _why_nowhere(report: Explanation) -> Iterator[str]:
    yield _verdict(report)
    yield from refusal_lines(report.against) if _helped(report) else map(against_line, report.against)
    yield from filter(None, [no_end_text(report)])


def _helped(report: Explanation) -> int:
    """Return the number of nodes that other pods may make feasible by finishing."""
    return sum(group.nodes for group in report.against if not group.final)


def _verdict(report: Explanation) -> str:
    """Return how many nodes are feasible, or may become so."""
    if not report.nodes:
        return "no nodes have been observed yet"
    none, helped = f"0 of {report.nodes} nodes are feasible", _helped(report)
    if not helped:
        return f"{none} ({NOT_RESOLVED})"
    return f"{none}; {helped} may become feasible when other pods finish" if helped < report.nodes else none


def no_end_text(report: Explanation) -> str:
    """Return that no pods were found whose end would help, if some might; else nothing."""
    if report.state != "unschedulable" or not _helped(report) or any(one.kind == "pods end" for one in report.remedies):
        return ""
    return "no node was found where it would fit after up to 3 pods finish"


def _offers(offered: Offered, fitting: int) -> Iterator[str]:
    if not offered.asked and fitting:
        yield "no scheduler has called the extender for it yet; check its schedulerName, its scheduling gates and the scheduler"
    elif not offered.asked:
        yield "no scheduler has called the extender for it; kube-scheduler does not when its own count of devices is too low"
    if offered.rounds:
        times = "once" if offered.rounds == 1 else f"{offered.rounds} times"
        yield f"it was offered {names_text(offered.nodes)} {times} without being bound; {OFFERED_IN_VAIN}"


def workload_lines(report: WorkloadExplanation, pod_lines: Callable[[Explanation], list[str]]) -> list[str]:
    """Return one sentence per line: how many pods run and wait, then each reason once."""
    counts = report.counts()
    total = count_text(sum(counts.values()), "pod")
    states = ", ".join(f"{counts[state]} {state}" for state in _ORDER if counts.get(state))
    heading = f"{report.kind} {report.namespace}/{report.name} has {total}: {states}"
    return [heading, *_placed(report), *_waiting(report, pod_lines)]


def _placed(report: WorkloadExplanation) -> Iterator[str]:
    nodes: dict[str, int] = {}
    for part in report.parts:
        node = part.explanation.node if part.explanation and part.state in {"starting", "running"} else ""
        if node:
            nodes[node] = nodes.get(node, 0) + len(part.pods)
    if nodes:
        yield f"placed on {names_text([f'{name} ({count})' for name, count in sorted(nodes.items())])}"


def _waiting(report: WorkloadExplanation, pod_lines: Callable[[Explanation], list[str]]) -> Iterator[str]:
    if report.group is not None:
        yield from group_lines(report.group)
        return
    for part in report.parts:
        if part.state != "pending" or part.explanation is None:
            continue
        heading, *lines = pod_lines(part.explanation)
        yield _named(part, report, heading)
        yield from lines


def _named(part: WorkloadPart, report: WorkloadExplanation, heading: str) -> str:
    """Return the heading of the first pod, worded for all of them."""
    sentence = heading.removeprefix(f"pod {report.namespace}/{part.pods[0]} ")
    if len(part.pods) == 1:
        return f"pod {part.pods[0]} {sentence}"
    return f"{count_text(len(part.pods), 'pod')} for the same reason ({names_text(list(part.pods))}); each {sentence}"
