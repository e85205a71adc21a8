"""Verdicts and grants: a node's offer or refusal for an ask, with the reason as data, and the devices reserved.

Also problems in user input.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from linkwise.model.ask import Ask  # noqa: TC001 - snapshots are decoded by these annotations
from linkwise.model.node import AskMode  # noqa: TC001 - snapshots are decoded by these annotations

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "Decision",
    "Entry",
    "Fact",
    "Grant",
    "Key",
    "Offer",
    "Outcome",
    "Part",
    "Problem",
    "Purpose",
    "Reason",
    "Reject",
    "ReservedKey",
    "State",
    "key_order",
    "pods_of",
]


Fact = int | float | str | tuple[int, ...] | tuple[str, ...] | tuple[tuple[int, int], ...] | None
State = Literal["OFFERED", "RESERVED", "PLANNED", "CLAIMED", "BOOKED", "ASSUMED", "ASSIGNED", "RELEASING"]
"""drawn in `engine.ledger`"""
Outcome = Literal["written", "refused", "unknown"]
"""result of a bind; unknown if the API server may or may not have written it"""
_TENTATIVE: Final[tuple[State, ...]] = ("OFFERED", "RESERVED", "PLANNED", "CLAIMED", "BOOKED")
_BOOKED: Final[tuple[State, ...]] = ("CLAIMED", "BOOKED")
Purpose = Literal["reservation", "preemption", "replacement"]
"""what devices are kept free for beside the pod's own entry: its node is drained, pods are evicted for it, or it is gone and
another pod replaces it in its group"""


@dataclass(frozen=True, slots=True, order=True)
class ReservedKey:
    """Key of a ledger entry that only keeps devices free for a pod, beside the pod's own entry."""

    pod: str
    """the pod's UID"""
    purpose: Purpose

    def __str__(self) -> str:
        return f"{self.pod} ({self.purpose})"


Key = str | ReservedKey
"""key of a ledger entry: the pod's UID, or what is kept free for the pod"""


def key_order(key: Key) -> tuple[str, str]:
    """Sort key of ledger keys: by pod, its own entry first."""
    return (key, "") if isinstance(key, str) else (key.pod, key.purpose)


def pods_of(keys: Iterable[Key]) -> Iterator[str]:
    """Yield the pods that have an entry of their own under one of these keys."""
    return (key for key in keys if isinstance(key, str))


@dataclass(frozen=True, slots=True)
class Part:
    """The devices of one container, and the share of each."""

    container: str
    devices: tuple[str, ...]
    share: int = 0  # of each device, in the resource's own unit; 0 means the whole device
    core: int = 0  # percent of each device's compute; 0 means all or not counted
    indices: tuple[int, ...] = field(default=(), compare=False)
    """of the devices, if a record has them: they identify a device while its node reports no ids"""


@dataclass(frozen=True, slots=True)
class Offer:
    """Devices that a node could allocate, an entry per container."""

    node: str
    parts: tuple[Part, ...]
    score: tuple[int, ...] = ()
    """the policy's terms, compared in order; larger is better"""
    notes: tuple[str, ...] = ()
    """remarks for users, such as inferred link kinds or incomplete link data"""

    @property
    def devices(self) -> tuple[str, ...]:
        """The distinct devices of the offer, in order."""
        return tuple(dict.fromkeys(device for part in self.parts for device in part.devices))


@dataclass(frozen=True, slots=True)
class Grant:
    """An offer reserved for one pod."""

    pod: str
    """the pod's UID"""
    policy: str
    offer: Offer
    plan: str = ""
    """id of the group plan it belongs to"""
    generation: int = 0
    mode: AskMode = "whole"
    """the sharing mode in which it was granted"""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something is refused: the rule, the request and what was found; the sentences are in `engine.reasons`."""

    rule: str
    asked: Fact = None
    found: Fact = None
    kind: str = ""
    """distinguishes several refusals of one rule"""
    noun: str = ""
    """the vendor's word for a group of devices (ring, mesh, module, card), or the name of a profile or a task"""
    unit: str = ""
    """the unit of the amounts, if known: MiB, GiB, %"""


@dataclass(frozen=True, slots=True)
class Reject:
    """A refusal by one node."""

    node: str
    reason: Reason
    final: bool = field(default=False)
    """whether other pods ending can't resolve it"""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem in user input: its place and a sentence that says what to do."""

    where: str
    """the object: `pod default/trainer-0`, `node gpu-1`"""
    key: str
    """the label, annotation, resource or field"""
    sentence: str

    def __str__(self) -> str:
        return f"{self.where}: {self.text}"

    @property
    def text(self) -> str:
        """Key and sentence, for where the object is named already."""
        return f"{self.key}: {self.sentence}"


@dataclass(frozen=True, slots=True)
class Decision:
    """Why a pod has its node and its devices; what is not known is empty."""

    considered: int = 0
    """nodes that the scheduler asked about; 0 if the devices were chosen by a bind or by the plan of a group"""
    terms: tuple[str, ...] = ()
    """names of the policy's terms: a later version may have others"""
    score: tuple[int, ...] = ()
    """of the devices, one number per term"""
    others: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """the next best nodes and their scores, the best first; a record has only the first that could take the pod"""
    free: tuple[int, ...] = ()
    """for whole devices: indices of the devices of the node that were free"""
    rooms: tuple[tuple[int, int, int], ...] = ()
    """for a part of one device: index, free memory and free compute of the devices that the pod might have shared"""
    nominated: bool = False
    """whether the node had been nominated for the pod, as preemption does where it made room"""


@dataclass(frozen=True, slots=True)
class Entry:
    """The devices reserved for one pod, and their state."""

    grant: Grant
    state: State
    namespace: str = "default"
    created: float = 0.0
    """creation time of the pod: of two claims on one device the older pod's is named first"""
    unrecorded_ask: Ask | None = None
    """the ask of a bound pod that has no record of the devices it got"""
    serial: int = 0
    """number of the latest bind, so that a late result of an earlier one is recognised; 0 if the pod was only observed"""
    open: tuple[int, ...] = ()
    """binds that may still be written; the refusal of one does not end the others"""
    outcome: Outcome | None = None
    """result of the bind, None while it is in flight"""
    expires: float | None = None
    """deadline of an entry that is tentative, None for all others"""
    decision: Decision | None = None
    """why these devices, until the pod is observed as bound: then its record has it"""
    sharing: str = ""
    """the sharing domain, if it is not the namespace; the ledger derives it, and again when policies change"""
    purpose: Purpose | None = None
    """what the devices are kept free for, if the entry is beside the pod's own"""

    @property
    def tentative(self) -> bool:
        """Whether no bind has begun that we know of, and the entry ends at its deadline."""
        return self.state in _TENTATIVE

    @property
    def booked(self) -> bool:
        """Whether another scheduler has allocated the node to the pod, and binds it by itself."""
        return self.state in _BOOKED

    @property
    def domain(self) -> str:
        """The sharing domain of the pod."""
        return self.sharing or self.namespace

    @property
    def pod(self) -> str:
        """The pod's UID."""
        return self.grant.pod

    @property
    def key(self) -> Key:
        """The key in the ledger: the pod's UID, unless the devices are only kept free for the pod."""
        return ReservedKey(self.grant.pod, self.purpose) if self.purpose else self.grant.pod

    @property
    def node(self) -> str:
        """The node of the devices."""
        return self.grant.offer.node
