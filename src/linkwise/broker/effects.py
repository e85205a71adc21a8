"""Effects: what to write about a decision, the answers of verbs that carry them, and the protocol of the performer."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - snapshots are decoded by these annotations
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, Protocol

from linkwise.model.verdict import Grant  # noqa: TC001 - snapshots are decoded by these annotations
from linkwise.model.views import PodCondition  # noqa: TC001 - snapshots are decoded by these annotations

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.dialects.kubernetes.claims.requests import ClaimRequest
    from linkwise.engine.ledger import Outcome
    from linkwise.model.verdict import Offer, Problem, Reason

__all__ = [
    "NODE_EVENTS",
    "Additions",
    "Admission",
    "Bind",
    "BindAnswer",
    "BindResult",
    "Condition",
    "DryRun",
    "Effect",
    "Event",
    "Evict",
    "FilterAnswer",
    "Performer",
    "PolicyStatus",
    "Queued",
    "RankTable",
    "Record",
    "Steer",
    "Wake",
    "WriteClaim",
]

NODE_EVENTS: Final = "default"
"""the namespace of events about nodes, as for the kubelet"""


@dataclass(frozen=True, slots=True)
class Bind:
    """Write node and annotations of one pod in one request; the UID guards against a pod of the same name."""

    namespace: str
    name: str
    uid: str
    node: str
    grant: Grant | None
    """None for a pod that requests no devices"""
    serial: int
    """identifies the ledger entry when the outcome is reported"""
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wake:
    """Make the scheduler retry a refused pod that may fit now."""

    namespace: str
    name: str
    uid: str
    sentence: str
    priority: int = 0
    """of the pod"""
    fits: bool = False
    """whether it is a single pod that fits now, or has devices of a restored plan; the others may be refused again"""


@dataclass(frozen=True, slots=True)
class Event:
    """A Kubernetes event about a pod, a node or a PodGroup of Volcano."""

    kind: Literal["Normal", "Warning"]
    reason: str
    sentence: str
    namespace: str = ""
    name: str = ""
    """of the pod or PodGroup; empty if it is about a node"""
    uid: str = ""
    node: str = ""
    about: Literal["Pod", "PodGroup"] = "Pod"
    """the kind of the object that has that name"""


@dataclass(frozen=True, slots=True)
class Evict:
    """Evict a bound pod through the Eviction API; the UID guards against a pod of the same name."""

    namespace: str
    name: str
    uid: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Condition:
    """Publish in a pod's status whether it has a node, and why not; the UID guards against a pod of the same name."""

    namespace: str
    name: str
    uid: str
    condition: PodCondition


@dataclass(frozen=True, slots=True)
class PolicyStatus:
    """Write the status of an AcceleratorPolicy; no verb returns it: the service asks for it every few seconds."""

    name: str
    status: Mapping[str, object]

    @property
    def uid(self) -> str:
        """What identifies it in a queue."""
        return self.name

    @property
    def namespace(self) -> str:
        """None: policies are cluster-scoped."""
        return ""


@dataclass(frozen=True, slots=True)
class RankTable:
    """Write the rank table of a job into its ConfigMap; no verb returns it: the service asks for it every few seconds."""

    namespace: str
    name: str
    """of the ConfigMap"""
    text: str
    pods: tuple[str, ...] = ()
    """UIDs of the pods of the job: a job that runs again may have the same table in a new ConfigMap"""

    @property
    def uid(self) -> str:
        """What identifies it in a queue."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Steer:
    """Write the plan of a gang on a pending member, and remove its scheduling gate; the UID guards against a pod of the same name.

    The nomination is written first: kube-scheduler then counts the member on its node from the moment it may try it. A pod of
    Volcano is pinned to its node as well, in the patch that removes the gate. Volcano tries a nominated node alone; if it
    tried others, it would take the first member's misfit there for that of all members of the task.
    """

    namespace: str
    name: str
    uid: str
    node: str | None = None
    """the nominated node; empty to nominate none, None to leave the nomination as it is"""
    annotations: Mapping[str, str] = field(default_factory=dict)
    gate: str = ""
    """the scheduling gate to remove; empty to leave all"""
    since: float = 0.0  # seconds since the epoch
    """when the gang was complete; 0 if that does not matter"""
    pin: str = ""
    """the node that its required node affinity is restricted to, with the gate; empty to leave the affinity as it is"""


@dataclass(frozen=True, slots=True)
class Record:
    """Write the devices of a pod that another scheduler has bound; the UID guards against a pod of the same name."""

    namespace: str
    name: str
    uid: str
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WriteClaim:
    """Write the ResourceClaim that names the planned devices of a pending pod, in place of one that is not allocated."""

    namespace: str
    name: str
    """of the pod"""
    uid: str
    """of the pod"""
    claim: str
    text: str
    """the claim as JSON; empty to delete it"""


Queued = Wake | Event | Evict | Condition | PolicyStatus | RankTable | Record | Steer | WriteClaim
"""effects that may be carried out later"""
Effect = Bind | Queued


@dataclass(frozen=True, slots=True)
class BindResult:
    """The result of a bind."""

    outcome: Outcome
    sentence: str = ""
    """why it was not written, as reported by the API server if it answered"""


class Performer(Protocol):
    """Carries out effects; repeating one is harmless."""

    async def bind(self, effect: Bind) -> BindResult:
        """Write node and annotations of a pod."""
        ...

    async def settle(self, effect: Bind) -> BindResult:
        """Determine the result of a bind whose outcome is unknown, however long that takes."""
        ...

    def tell(self, effects: Iterable[Queued]) -> None:
        """Queue effects that may be carried out later."""
        ...


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether a pod may be created as it is."""

    refusal: str = ""
    """why not; empty if it may"""
    warnings: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Additions:
    """What a pod gets when it is created, beside what its manifest has."""

    creator: Mapping[str, str] = field(default_factory=dict)
    """annotations about who created it"""
    resources: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """by container, what is added to its requests and limits: a policy's default share"""
    in_gang: bool = False
    """whether it must start together with others, or its PodGroup object may require it"""
    planned_for_volcano: bool = False
    """whether it requests devices that are planned before a Volcano scheduler tries it"""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """resources that it requests under names that no node has, with those that replace them"""
    refusal: str = ""
    """why it can't be created: no vendor's resource can replace one that any vendor could serve, or it names a claim of
    another pod"""
    claim: ClaimRequest | None = None
    """the claim that serves its devices instead of the extended resource"""
    warning: str = ""
    """why a claim can't serve its devices though the cluster has no device plugin for them"""


@dataclass(frozen=True, slots=True)
class FilterAnswer:
    """Nodes of the best class, or why there are none."""

    nodes: list[str]
    failed: Mapping[str, str] = field(default_factory=dict)
    """short reasons by node; only if no node is feasible"""
    unresolvable: Mapping[str, str] = field(default_factory=dict)
    """the same for nodes where preemption can't help"""
    partial: bool = False
    """whether some nodes were skipped to stay within the budget"""
    effects: tuple[Effect, ...] = ()
    policy: str = ""
    """the policy used; empty if the pod requests no devices"""

    def joined(self, other: FilterAnswer) -> FilterAnswer:
        """One answer from two about different nodes."""
        nodes = [*self.nodes, *other.nodes]
        failed = {} if nodes else {**self.failed, **other.failed}
        unresolvable = {} if nodes else {**self.unresolvable, **other.unresolvable}
        partial, effects = self.partial or other.partial, (*self.effects, *other.effects)
        return FilterAnswer(nodes, failed, unresolvable, partial, effects, self.policy or other.policy)


@dataclass(frozen=True, slots=True)
class BindAnswer:
    """The effects of a bind, or an error; neither if it was done before."""

    error: str = ""
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True)
class DryRun:
    """Where a pod would go now, and why other nodes refuse it; nothing is kept."""

    offer: Offer | None
    ranking: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """feasible nodes with their scores, the best first"""
    refused: Mapping[str, Reason] = field(default_factory=dict)
    """every other node with its first refusal"""
    stranded: Mapping[str, Reason] = field(default_factory=dict)
    """nodes with enough devices, and the other resource they lack"""
