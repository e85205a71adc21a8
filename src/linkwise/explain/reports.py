"""Reports: explanations of pods, groups and workloads as values, which their texts and the documents of clients share."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.engine.ledger import Outcome
    from linkwise.engine.reasons.phrases import ReasonCode
    from linkwise.explain.survey import RefusalSummary
    from linkwise.model.ask import ContainerAsk
    from linkwise.model.node import AskMode, Node
    from linkwise.model.verdict import Reason

__all__ = [
    "FILE_SOURCE",
    "Choice",
    "ContainerDevices",
    "Explanation",
    "GroupExplanation",
    "GroupNode",
    "GroupRemedy",
    "GroupStage",
    "Leaver",
    "MemberReport",
    "MemberState",
    "Need",
    "Offered",
    "OtherNode",
    "PartState",
    "PlacedBecause",
    "PlanLevel",
    "PodState",
    "Remedy",
    "Requested",
    "RunnerUp",
    "Term",
    "WorkloadExplanation",
    "WorkloadPart",
    "indices_of",
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
FILE_SOURCE: Final = "file"
"""source of groups that exist only because their pods are in one file"""
GroupStage = Literal["pending", "gated", "planning", "schedulable", "reserved", "unschedulable", "placed"]
"""the stage of a group:

pending        members are missing, or the group can't be planned yet
gated          members have scheduling gates
planning       a plan is being computed
schedulable    not planned yet; the plan shown would be made now
reserved       a plan reserves devices for its members
unschedulable  it does not fit now
placed         all members are bound
"""
MemberState = Literal[
    "bound", "terminating", "binding", "planned", "schedulable", "left out", "gated", "pending", "extra"
]
"""the state of a member:

bound        observed on its node
terminating  bound and being deleted: not a member any more, though its devices are not free yet
binding      its bind is in progress
planned      the plan of the group reserves its devices
schedulable  it would be placed as shown
left out     the other members leave no free devices for it
gated        it has scheduling gates
pending      nothing is decided
extra        the group is complete without it: it is scheduled separately
"""
PartState = Literal["pending", "starting", "running", "terminating", "succeeded", "failed"]


@dataclass(frozen=True, slots=True)
class Choice:
    """A chosen set of devices, by index; every text may be empty."""

    devices: tuple[int, ...]
    worth: str = ""
    """quality of the set: its links, its ring, its free share"""
    because: str = ""
    """why it was chosen"""
    other: tuple[int, ...] = ()
    """the runner-up"""
    lost: str = ""
    """why the runner-up lost"""
    now: tuple[int, ...] = ()
    """the set that would be chosen now, if it differs"""


def indices_of(node: Node, devices: Iterable[str]) -> tuple[int, ...]:
    """Return the indices of devices, ascending."""
    known = {device.id: device.index for device in node.devices}
    return tuple(sorted(known[device] for device in devices))


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


@dataclass(frozen=True, slots=True)
class MemberReport:
    """One pod of the group."""

    uid: str
    name: str
    """with its namespace"""
    state: MemberState
    asks: int = 0
    """complete devices that it requests"""
    node: str = ""
    devices: tuple[ContainerDevices, ...] = ()
    bottleneck: float | None = None  # GB/s
    """the slowest pair of its devices, by the node's samples; None for one device, or if unknown"""

    @property
    def indices(self) -> tuple[int, ...]:
        """All its devices."""
        return tuple(sorted({index for part in self.devices for index in part.indices}))


@dataclass(frozen=True, slots=True)
class GroupNode:
    """A node that has members, or would have."""

    name: str
    members: int
    devices: tuple[int, ...]
    """those of all members there, by index"""
    idle: int
    """devices that stay free"""
    bottleneck: float | None = None  # GB/s
    """the slowest pair of all these devices"""


@dataclass(frozen=True, slots=True)
class PlanLevel:
    """The result of the plan in one level; GB/s are those of bandwidth classes."""

    name: str
    value: tuple[float | None, ...]
    """None where there is no pair"""
    proven: bool
    """whether no plan is better there; else it is the best found"""


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """The best plan without one of the nodes."""

    nodes: tuple[str, ...]
    level: str
    """in which it lost; empty if node names broke the tie"""
    sentence: str
    better: bool = False
    """whether it would be better there now"""


@dataclass(frozen=True, slots=True)
class Need:
    """Members of one size, and how many of them fit beside all others."""

    devices: int
    members: int
    fitting: int
    alone: bool = False
    """whether no node could ever take two of them"""
    one_model: bool = False
    """whether there are several models, and only devices of one may serve the group"""
    domain: str = ""
    """the level of the network of which one domain must hold all of it"""
    beside: int = 0
    """members of the group that are bound, which are not counted"""


@dataclass(frozen=True, slots=True)
class GroupRemedy:
    """Something that would let the complete group fit."""

    kind: Literal["pods end", "fewer members", "split", "fewer devices", "any model", "any domain"]
    pods: tuple[Leaver, ...] = ()
    nodes: tuple[str, ...] = ()
    """of the pods that end, one for each; else those that the group would take"""
    amount: int = 0
    """members, or devices of each"""
    level: str = ""
    """of the network, whose domain may be left"""
    count: int = 0
    """pods that each member is split into, or members with fewer devices if others are bound; `amount` is the devices of each"""


@dataclass(frozen=True, slots=True)
class GroupExplanation:
    """One group; fields that do not apply are empty."""

    key: str
    source: str
    """whose convention makes it a group"""
    stage: GroupStage
    total: int | None
    """declared number of members"""
    minimum: int | None
    """how many must start together; None without all-or-nothing"""
    members: tuple[MemberReport, ...] = ()
    """by rank"""
    bundle: tuple[str, ...] = ()
    """groups that must start together with it, and are planned with it"""
    sentence: str = ""
    """why it is pending, if not for members or scheduling gates"""
    lacking: int = 0
    """members that it waits for before it is planned, or whose gates it waits for"""
    window: float = 0.0  # seconds
    """time after the first attempt until it is planned without missing members; 0 if it never is"""
    policy: str = ""
    nodes: int = 0
    """known at all"""
    held: float = 0.0  # seconds
    """remaining time of the plan"""
    hosts: tuple[GroupNode, ...] = ()
    levels: tuple[PlanLevel, ...] = ()
    network: tuple[str, ...] = ()
    """node labels that name the domains of the network, the broadest first"""
    region: tuple[str, ...] = ()
    """the domains that the plan is in"""
    runner_up: RunnerUp | None = None
    sole: bool = False
    """whether no other set of nodes fits the group"""
    needs: tuple[Need, ...] = ()
    """sizes of members that do not all fit"""
    best: tuple[tuple[str, int], ...] = ()
    """nodes with the most free devices, not counting its own plan"""
    free: int = 0
    """free devices of all nodes that could serve it, not counting its own plan; only if members do not fit"""
    fitting: int = 0
    """nodes that could take a member now, beside its own plan"""
    against: tuple[RefusalSummary, ...] = ()
    """refusals of the other nodes, by reason"""
    remedies: tuple[GroupRemedy, ...] = ()
    never: bool = False
    """whether it would not fit if all other pods were gone"""
    drained: str = ""
    """nodes that are drained for it, in a sentence"""
    notes: tuple[str, ...] = ()
    code: ReasonCode | Literal[""] = ""
    """the stable code of the reason"""

    def count(self, *states: MemberState) -> int:
        """Return the number of members in these states."""
        return sum(member.state in states for member in self.members)

    @property
    def there(self) -> int:
        """Existing members."""
        return len(self.members) - self.count("extra", "terminating")

    @property
    def missing(self) -> int:
        """Declared members that do not exist yet."""
        return max(0, (self.total or self.minimum or 0) - self.there)

    @property
    def whole(self) -> bool:
        """Whether every member is placed, or would be."""
        return self.stage in {"schedulable", "reserved", "placed"} and not self.missing and not self.count("left out")


@dataclass(frozen=True, slots=True)
class WorkloadPart:
    """Pods that are explained by one answer."""

    state: PartState
    pods: tuple[str, ...]
    """names, the oldest first"""
    explanation: Explanation | None = None
    """of the first of them; None if it has ended"""


@dataclass(frozen=True, slots=True)
class WorkloadExplanation:
    """One workload."""

    kind: str
    """in lower case: job, deployment"""
    namespace: str
    name: str
    parts: tuple[WorkloadPart, ...]
    """pending pods first"""
    group: GroupExplanation | None = None
    """of its pending pods, if all of them are scheduled as one group"""
    groups: tuple[str, ...] = ()
    """keys of the groups that its pending pods belong to"""
    code: ReasonCode | Literal[""] = ""
    """the stable code of the first reason for which pods are pending"""

    def counts(self) -> dict[PartState, int]:
        """Return the number of pods by state."""
        states: Counter[PartState] = Counter()
        for part in self.parts:
            states[part.state] += len(part.pods)
        return dict(states)
