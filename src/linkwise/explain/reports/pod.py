"""Why a pod waits, or has these devices: values that a person, a page or a program can read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from linkwise.engine.ledger import Outcome
    from linkwise.explain.reports.choice import Choice
    from linkwise.explain.survey import RefusalSummary
    from linkwise.model.ask import ContainerAsk
    from linkwise.model.node import AskMode
    from linkwise.model.verdict import Reason

__all__ = [
    "Asked",
    "Explanation",
    "Given",
    "Leaver",
    "Offered",
    "OtherNode",
    "PodState",
    "Remedy",
    "Term",
]

PodState = Literal[
    "no devices",
    "invalid",
    "grouped",
    "unschedulable",
    "schedulable",
    "planned",
    "binding",
    "bound",
    "terminating",
    "ended",
]
"""the state of a pod:

no devices     requests none; Linkwise leaves it alone
invalid        the request is invalid, or no node could ever serve it
grouped        pending with its group, and placed when the group is
unschedulable  no node is feasible now
schedulable    some node is feasible now, and the pod is not bound yet
planned        the plan of its group reserves devices for it
binding        a bind is in progress, or its result is unknown
bound          observed on its node
terminating    being deleted; its devices stay in use until its containers have stopped
ended          its containers have stopped
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the pod asks for."""

    resource: str
    mode: AskMode
    devices: int
    share: int
    core: int
    unit: str
    """of the share: MiB, GiB, %, or bytes; empty where nodes differ or do not tell"""
    profile: str
    containers: tuple[ContainerAsk, ...]


@dataclass(frozen=True, slots=True)
class Given:
    """The devices of one container, or of the pod as a whole where nobody knows whose they are."""

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
    """whether nodes that differ in it are not equally good"""


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
class Leaver:
    """A pod whose end would make room."""

    uid: str
    name: str
    """with its namespace"""
    devices: int = 0
    share: int = 0
    unit: str = ""
    """of the share"""
    cpu: int = 0  # thousandths of a core
    terminating: bool = False
    """being deleted already"""


@dataclass(frozen=True, slots=True)
class Remedy:
    """Something that would let the pod fit on a node."""

    kind: Literal["pods end", "beside devices", "fewer devices", "less memory", "less compute", "other mode"]
    node: str
    pods: tuple[Leaver, ...] = ()
    amount: int = 0
    """devices, or memory or compute of one device"""
    unit: str = ""
    device: int = 0
    """its index"""
    nodes: int = 1
    """where the same is true"""
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Offered:
    """Nodes that the pod was offered before."""

    rounds: int = 0
    """offers that led to no bind"""
    nodes: tuple[str, ...] = ()
    """of these, and of the last one"""
    waiting: bool = False
    """whether the last offer still counts"""
    asked: bool = True
    """whether any scheduler has asked about the pod at all"""
    crowded: bool = False
    """whether other pods that were offered the same devices keep it waiting"""


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
    """that can take it now; of a placed pod, as if it held nothing"""
    asked: Asked | None = None
    policy: str = ""
    node: str = ""
    """where it is, or would go"""
    devices: tuple[Given, ...] = ()
    unit: str = ""
    """of the shares it holds"""
    terms: tuple[Term, ...] = ()
    """of the score of its devices"""
    rank: int = 0
    """of its node among those that fit, from 1; 0 if it no longer fits there"""
    choice: Choice | None = None
    other: OtherNode | None = None
    against: tuple[RefusalSummary, ...] = ()
    """what speaks against the nodes that do not fit"""
    remedies: tuple[Remedy, ...] = ()
    offered: Offered | None = None
    outcome: Outcome | None = None
    """of the bind"""
    record: Literal["", "seen", "enforced", "expected", "unrecorded"] = ""
    """how certain the devices are: the agent reports them in use, our agent allocates them, the device plugin may
    choose others, or there is no record"""
    sentence: str = ""
    """why it is invalid"""
    group: str = ""
    """the key of the group that it is placed with"""
    standing: str = ""
    """how far that group has come, in a sentence"""
    lacks: tuple[str, ...] = ()
    """in sentences what the group lacks, if it does not fit or leaves no room for this pod, and what would help most"""
    notes: tuple[str, ...] = ()
    """what else a person should know: records that disagree, problems of the manifest, gates"""
