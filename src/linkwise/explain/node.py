"""Explains a node: its devices, the pods that use them, and the requests that still fit; as a value and as text."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal

from linkwise.broker.cluster.demand import capacity_of
from linkwise.engine.feasibility import all_unfit
from linkwise.engine.index.node_index import Query
from linkwise.engine.reasons.catalog import choice_text, devices_text, refusal
from linkwise.engine.reasons.phrases import OTHER_NAMESPACE, count_text, domains_text, pod_text
from linkwise.engine.usage import drift_text
from linkwise.explain.choice.devices import why_chosen
from linkwise.explain.inspect import inspections
from linkwise.explain.text.phrases import part_text, share_text
from linkwise.model.access_policy import COMMON
from linkwise.model.ask import Ask, ContainerAsk, Demand
from linkwise.model.topology import NO_LINK_DATA, link_data_help
from linkwise.model.verdict import Offer
from linkwise.topology.fabric import fabric_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.broker.broker import Broker
    from linkwise.broker.state import State
    from linkwise.explain.inspect import Holder, InspectedDevice, NodeInspection
    from linkwise.explain.reports import Choice
    from linkwise.model.inventory import NodeInventory
    from linkwise.model.node import AskMode, Node
    from linkwise.model.verdict import Reason

__all__ = [
    "NodeExplanation",
    "Suspect",
    "by_index_text",
    "claim_text",
    "cordon_text",
    "explain_node",
    "fits_lines",
    "health_text",
    "node_lines",
]

SMALL_POD: Final = Demand(cpu=1000, memory=1 << 30)
"""the smallest realistic host request: a node with less free is full"""
_MODES: Final = {"whole": "whole devices", "share": "device memory", "percent": "percentages of devices"}
_MARKS: Final = {
    "scheduling": ", being scheduled",
    "reserved": ", reserved until it has enough",
    "planned": ", reserved by a plan",
    "claimed": ", waiting for terminating pods",
    "booked": ", booked",
    "binding": ", being bound",
    "bound": "",
    "terminating": ", terminating",
    "unknown": " (unknown pod)",
}
_SUSPECTS: Final = 8
"""pairs listed one by one; with more, the matrix should be measured again"""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A pair with a bad sample: one direction was measured much slower than the other."""

    devices: tuple[int, int]  # indices
    there: float  # GB/s
    back: float  # GB/s
    counted: float  # GB/s


@dataclass(frozen=True, slots=True)
class NodeExplanation:
    """One node."""

    name: str
    devices: NodeInspection
    decided: Literal["nothing", "node", "pod"]
    """what sets its sharing mode: nothing yet, the node itself, or its first pod"""
    decided_by: str = ""
    """that pod"""
    unidentified: int = 0
    """unhealthy devices that are counted but not identified"""
    sizes: tuple[int, ...] = ()
    """numbers of complete devices that one pod could get now"""
    largest: Choice | None = None
    """the devices of the largest of these"""
    shared_by_all: bool = False
    """whether pods of different namespaces may share a device"""
    stops: tuple[Reason, ...] = ()
    """why even a small pod would not fit, apart from devices"""
    suspects: tuple[Suspect, ...] = ()
    linked: bool = True
    """False if its devices need link data and have none"""
    drift: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def explain_node(
    broker: Broker, name: str, now: float, readable: frozenset[str] | None = None
) -> NodeExplanation | None:
    """Explain a node to a reader of these namespaces, or of all; None if it is unknown."""
    state = broker.state_at(now, readable)
    inspected = inspections(state, name)
    if not inspected:
        return None
    cluster, inventory, node = state.cluster, state.cluster.inventories[name], state.cluster.index.nodes[name]
    entries = cluster.ledger.on(name)
    by_pod = inventory.mode == "any" and bool(entries)
    served = _sizes(state, node)
    view = cluster.nodes[name]
    return NodeExplanation(
        name,
        inspected[0],
        "pod" if by_pod else "nothing" if inventory.mode == "any" else "node",
        state.name_of(entries[0].key) if by_pod else "",
        inventory.unidentified,
        tuple(served),
        _largest(state, node, served),
        state.settings.share.within == "any",
        all_unfit(SMALL_POD, view, capacity_of(view), cluster.load(name)),
        tuple(_suspects(node)),
        _is_linked(inventory),
        tuple(drift_text(drift, state.name_of) for drift in cluster.drift.get(name, ())),
        tuple(problem.text for problem in inventory.problems),
    )


def node_lines(report: NodeExplanation) -> list[str]:
    """Return one sentence per line: sharing mode, devices, and what still fits."""
    inspection = report.devices
    if not inspection.devices:
        return [f"node {report.name} has no devices managed by Linkwise", *report.problems]
    models = ", ".join(sorted({device.model for device in inspection.devices if device.model}))
    there = f"{count_text(len(inspection.devices), 'device')}{f' ({models})' if models else ''}"
    return [
        f"node {report.name}: {there}, {inspection.idle} idle; {_mode(report)}",
        *_by_claims(report),
        *_by_device(report),
        *_unattributed(report),
        *fits_lines(report),
        *_suspects_text(report),
        *_links(report),
        *report.drift,
        *report.problems,
    ]


def health_text(device: InspectedDevice, *, short: bool = False) -> str:
    """Return why not every new pod can get a device, `short` without details; empty if it can."""
    words = []
    if not device.healthy:
        words.append("unhealthy" if short or not device.fault else f"unhealthy ({device.fault})")
    elif not device.reachable:
        words.append("unreachable from other nodes")
    if device.cordoned:
        words.append("cordoned" if short else cordon_text(device))
    if device.hold:
        until = f"{datetime.fromtimestamp(device.hold.until, UTC):%Y-%m-%dT%H:%M:%SZ}"
        words.append("held" if short else f"held by the agent until {until}: {device.hold.reason}")
    return ", ".join(words)


def cordon_text(device: InspectedDevice) -> str:
    """Return that a device is cordoned, and why; empty if it is not."""
    reason = f": {device.cordon_reason}" if device.cordon_reason else ""
    return f"cordoned{reason}" if device.cordoned else ""


def claim_text(claim: str) -> str:
    """Return a ResourceClaim by its name, if it has one."""
    return f"a ResourceClaim of {claim}" if claim == OTHER_NAMESPACE else f"ResourceClaim {claim}"


def by_index_text(pods: int) -> str:
    """Return what is shown of a node whose pods have devices by ids that it does not report."""
    records = "record of 1 pod has" if pods == 1 else f"records of {pods} pods have"
    return f"the {records} device ids that the node does not report; its inventory may be missing, and the index counts"


def fits_lines(report: NodeExplanation) -> Iterator[str]:
    """Yield the requests that still fit, or why none does."""
    if report.devices.mode != "share":
        yield from _sizes_text(report)
    if report.devices.mode in {"share", "percent"}:
        yield _free_share(report)
    if report.devices.idle and report.stops:
        idle = f"{count_text(report.devices.idle, 'device')} {'is' if report.devices.idle == 1 else 'are'} idle"
        why = "; ".join(map(refusal, report.stops))
        yield f"{idle}, but even a pod of 1 cpu and 1 GiB of memory does not fit: {why}"


def _sizes(state: State, node: Node) -> list[int]:
    """Return the numbers of devices that one pod could get now."""
    free = max(0, len(node.free()) - node.unattributed)
    if not node.profile:
        return list(range(1, free + 1)) if node.mode != "share" and not node.unattributed_share else []
    return [size for size in range(1, free + 1) if isinstance(_offer(state, node, size), Offer)]


def _offer(state: State, node: Node, size: int) -> Offer | None:
    query = _query_of(state, node, size)
    offer = None if query.policy.admit(query.ask) else query.pick(node)
    return offer if isinstance(offer, Offer) else None


def _query_of(state: State, node: Node, size: int) -> Query:
    mode: AskMode = "percent" if node.mode == "percent" else "whole"
    ask = Ask("", (ContainerAsk("", devices=size),), profile=node.profile, mode=mode)
    return Query(ask, "", state.policies["ring-affinity" if node.profile else "link-affinity"])


def _largest(state: State, node: Node, served: list[int]) -> Choice | None:
    offer = _offer(state, node, served[-1]) if served else None
    return why_chosen(_query_of(state, node, served[-1]), node, offer.devices) if isinstance(offer, Offer) else None


def _suspects(node: Node) -> Iterator[Suspect]:
    """Yield pairs with a bad bandwidth sample."""
    topology = node.topology
    if topology is None or not topology.bandwidth:
        return
    # rule 001.suspect: the report has what was measured, and what is used instead.
    fabric, samples, positions = fabric_of(topology.bandwidth, topology.links), topology.bandwidth, node.positions()
    at = {positions[device.id]: device.index for device in node.devices if device.id in positions}
    for one, other in fabric.suspects:
        if one in at and other in at:
            yield Suspect((at[one], at[other]), samples[one][other], samples[other][one], fabric.values[one][other])


def _is_linked(inventory: NodeInventory) -> bool:
    """Return whether the links of the devices are known; a profile has them, and a single device or claims need none."""
    topology = inventory.topology
    known = topology is not None and bool(topology.links or topology.bandwidth)
    return known or bool(inventory.profile) or inventory.by_claims or len(inventory.devices) < 2


def _mode(report: NodeExplanation) -> str:
    mode = report.devices.mode
    if report.decided == "nothing" or mode == "any":
        return "its first pod decides the sharing mode"
    why = "set by the node" if report.decided == "node" else f"set by its first pod, {report.decided_by}"
    return f"allocates {_MODES[mode]} ({why})"


def _by_claims(report: NodeExplanation) -> Iterator[str]:
    if not report.devices.by_claims:
        return
    yield "ResourceClaims allocate its devices"
    if names := [device.id for device in report.devices.devices if device.claim]:
        yield f"allocated by a ResourceClaim: {', '.join(names)}"


def _by_device(report: NodeExplanation) -> Iterator[str]:
    """Yield one line per device, or per set of devices with the same text."""
    lines: dict[tuple[str, tuple[int, ...]], list[int]] = {}
    for device in report.devices.devices:
        others = tuple(pod.other for pod in device.pods)
        lines.setdefault((_device(device, report), others), []).append(device.index)
    for (text, _), indices in lines.items():
        yield f"device{'s' if len(indices) > 1 else ''} {', '.join(map(str, indices))}: {text}"


def _device(device: InspectedDevice, report: NodeExplanation) -> str:
    if not device.pods and device.claim:
        return claim_text(device.claim)
    health = health_text(device)
    if not device.pods:
        return health if health and (not device.usable or device.hold) else "; ".join(filter(None, ("idle", health)))
    pods = "; ".join(_holder(pod, report.devices.unit) for pod in device.pods)
    taken = (
        ""
        if device.whole
        else f"{share_text(device.share, '')} of {share_text(device.memory, report.devices.unit)} used: "
    )
    return f"{f'{health}; ' if health else ''}{taken}{pods}"


def _holder(pod: Holder, unit: str) -> str:
    amount = "" if pod.whole else f" {part_text(pod.share, pod.core, unit)}"
    return f"{pod_text(pod.full_name)}{amount}{_MARKS[pod.state]}"


def _unattributed(report: NodeExplanation) -> Iterator[str]:
    for pod in report.devices.unattributed:
        amount = (
            count_text(pod.devices, "device") if pod.devices else part_text(pod.share, pod.core, report.devices.unit)
        )
        yield f"{pod_text(pod.full_name)} has {amount}, but it is not known which; that amount is counted as used"
    if report.devices.by_index:
        yield by_index_text(report.devices.by_index)
    if report.unidentified:
        yield f"{count_text(report.unidentified, 'more device')} {'is' if report.unidentified == 1 else 'are'} unhealthy, but it is not known which"


def _suspects_text(report: NodeExplanation) -> Iterator[str]:
    for pair in report.suspects[:_SUSPECTS]:
        one, other = pair.devices
        yield (
            f"devices {one} and {other}: {pair.there:g} GB/s in one direction and {pair.back:g} GB/s in the other; "
            f"bad sample, {pair.counted:g} GB/s is used"
        )
    more = len(report.suspects) - _SUSPECTS
    if more > 0:
        yield f"{count_text(more, 'more pair')} {'has' if more == 1 else 'have'} a bad sample; measure the node again"


def _links(report: NodeExplanation) -> Iterator[str]:
    if not report.linked:
        yield f"{NO_LINK_DATA} for its devices, so nodes with link data go first; {link_data_help(report.name)}"


def _sizes_text(report: NodeExplanation) -> Iterator[str]:
    if not report.sizes:
        yield "no request for whole devices fits now"
        return
    yield f"a request for {choice_text(report.sizes)} device{'' if report.sizes == (1,) else 's'} fits now"
    if report.largest and len(report.largest.devices) > 1:
        worth = f": {report.largest.worth}" if report.largest.worth else ""
        yield f"its largest set is {devices_text(report.largest.devices)}{worth}"


def _free_share(report: NodeExplanation) -> str:
    usable = [device for device in report.devices.devices if device.usable and device.room]
    if not usable:
        return "no device has free memory left"
    best = max(usable, key=lambda device: (device.room, -device.index))
    limited = best.domains and not (report.shared_by_all and best.domains == (COMMON,))
    whose = f" ({domains_text(best.domains)} only)" if limited else ""
    return f"the largest free share is {share_text(best.room, report.devices.unit)}, on device {best.index}{whose}"
