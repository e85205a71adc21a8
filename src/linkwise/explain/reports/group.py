"""Report on a group of pods: its stage, members, plan and remedies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from linkwise.engine.reasons.codes import ReasonCode
    from linkwise.explain.reports.pod import ContainerDevices, Leaver
    from linkwise.explain.survey import RefusalSummary

__all__ = [
    "FILE_SOURCE",
    "GroupExplanation",
    "GroupNode",
    "GroupRemedy",
    "GroupStage",
    "MemberReport",
    "MemberState",
    "Need",
    "PlanLevel",
    "RunnerUp",
]

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
    """pods that each member is split into; `amount` is the devices of each"""


@dataclass(frozen=True, slots=True)
class GroupExplanation:
    """One group; what does not apply is empty."""

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
