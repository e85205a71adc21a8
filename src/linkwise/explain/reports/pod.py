"""Report on a pod: why it is pending, or why it has its devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from linkwise.engine.ledger import Outcome
    from linkwise.engine.reasons.codes import ReasonCode
    from linkwise.explain.reports.choice import Choice
    from linkwise.explain.survey import RefusalSummary
    from linkwise.model.ask import ContainerAsk
    from linkwise.model.node import AskMode
    from linkwise.model.verdict import Reason

__all__ = [
    "ContainerDevices",
    "Explanation",
    "Leaver",
    "Offered",
    "OtherNode",
    "PlacedBecause",
    "PodState",
    "Remedy",
    "Requested",
    "Term",
]

PodState = Literal[
    "no devices",
    "invalid",
    "not permitted",
    "grouped",
    "unschedulable",
    "schedulable",
    "scheduling",
    "planned",
    "claimed",
    "booked",
    "binding",
    "bound",
    "terminating",
    "ended",
]
"""the state of a pod:

no devices     requests none; Linkwise leaves it alone
invalid        the request is invalid, or no node could ever serve it
not permitted  an AcceleratorPolicy does not permit the request, or not now
grouped        pending with its group, and placed when the group is
unschedulable  no node is feasible now
schedulable    some node is feasible now, and the pod is not bound yet
scheduling     filter named its node a moment ago, and its bind is expected
planned        the plan of its group reserves devices for it
binding        a bind is in progress, or its result is unknown
bound          observed on its node
terminating    being deleted; its devices stay in use until its containers have stopped
ended          its containers have stopped
"""


@dataclass(frozen=True, slots=True)
class Requested:
    """The pod's request."""

    resource: str
    mode: AskMode
    devices: int
    share: int
    core: int
    unit: str
    """of the share: MiB, GiB, % or bytes; empty if nodes differ or do not report it"""
    profile: str
    containers: tuple[ContainerAsk, ...]


@dataclass(frozen=True, slots=True)
class ContainerDevices:
    """The devices of one container, or of the pod if the container is unknown."""

    container: str
    devices: tuple[str, ...]
    indices: tuple[int, ...]
    share: int = 0
    core: int = 0


@dataclass(frozen=True, slots=True)
class Term:
    """One number of a score."""

    name: str
    value: int
    leading: bool
    """whether nodes that differ in it get different scores"""


@dataclass(frozen=True, slots=True)
class OtherNode:
    """The best of the other nodes, and how it compares with the node chosen."""

    name: str
    verdict: Literal["worse", "equal", "better"]
    term: str = ""
    """the first in which they differ"""
    leading: bool = False
    there: int = 0
    here: int = 0


@dataclass(frozen=True, slots=True)
class PlacedBecause:
    """Why a pod was placed, by the record of the decision: as things were then."""

    considered: int
    """nodes that the scheduler asked about; 0 if the devices were chosen by a bind or by the plan of a group"""
    terms: tuple[Term, ...] = ()
    choice: Choice | None = None
    other: OtherNode | None = None
    nominated: bool = False
    """whether the node had been nominated for the pod, as preemption does where it made room"""


@dataclass(frozen=True, slots=True)
class Leaver:
    """A pod whose completion would free enough."""

    uid: str
    name: str
    """with its namespace"""
    devices: int = 0
    share: int = 0
    unit: str = ""
    """of the share"""
    cpu: int = 0  # thousandths of a core
    terminating: bool = False
    """whether it is already being deleted"""


@dataclass(frozen=True, slots=True)
class Remedy:
    """Something that would let the pod fit on a node."""

    kind: Literal[
        "reserved", "pods end", "beside devices", "split", "fewer devices", "less memory", "less compute", "other mode"
    ]
    node: str
    """empty for a request that is split"""
    pods: tuple[Leaver, ...] = ()
    amount: int = 0
    """devices, or memory or compute of one device"""
    unit: str = ""
    device: int = 0
    """its index"""
    nodes: int = 1
    """where the same is true"""
    groups: tuple[str, ...] = ()
    """for which the devices are reserved"""
    reason: Reason | None = None
    count: int = 0
    """pods of a request that is split; `amount` is the devices of each"""


@dataclass(frozen=True, slots=True)
class Offered:
    """Nodes that the pod was offered before."""

    rounds: int = 0
    """offers that led to no bind"""
    nodes: tuple[str, ...] = ()
    """of these offers"""
    asked: bool = True
    """whether any scheduler has asked about the pod at all"""


@dataclass(frozen=True, slots=True)
class Explanation:
    """One pod; what does not apply is empty."""

    uid: str
    name: str
    """with its namespace"""
    state: PodState
    nodes: int = 0
    """known at all"""
    fitting: int = 0
    """feasible nodes; for a placed pod, as if it held nothing"""
    asked: Requested | None = None
    policy: str = ""
    node: str = ""
    """where it is, or would go"""
    devices: tuple[ContainerDevices, ...] = ()
    unit: str = ""
    """of the shares it holds"""
    because: PlacedBecause | None = None
    """for a placed pod: the reason that was recorded; the fields below are what would be chosen if it were placed again"""
    foreign: bool = False
    """whether another scheduler placed it"""
    terms: tuple[Term, ...] = ()
    """of the score of its devices"""
    rank: int = 0
    """rank of its node among feasible nodes, from 1; 0 if it no longer fits there"""
    choice: Choice | None = None
    other: OtherNode | None = None
    against: tuple[RefusalSummary, ...] = ()
    """refusals of the other nodes, by reason"""
    remedies: tuple[Remedy, ...] = ()
    offered: Offered | None = None
    drained: str = ""
    """nodes that are drained for it, in a sentence"""
    outcome: Outcome | None = None
    """of the bind"""
    record: Literal["", "seen", "claimed", "enforced", "expected", "unrecorded"] = ""
    """how certain the devices are: the agent reports them in use, a ResourceClaim allocates them, our agent allocates
    them, the device plugin may choose others, or there is no record"""
    sentence: str = ""
    """why it is invalid or not permitted"""
    group: str = ""
    """the key of the group that it is placed with"""
    standing: str = ""
    """the stage of that group, in a sentence"""
    lacks: tuple[str, ...] = ()
    """sentences: what the group lacks if it does not fit or leaves this pod out, and the first remedy"""
    notes: tuple[str, ...] = ()
    """further remarks: conflicting records, problems of the manifest, scheduling gates"""
    code: ReasonCode | Literal[""] = ""
    """the stable code of the reason; empty for a pod that requests no devices or has ended"""
