"""Effects: what to write about a decision, as finished values, and the protocol of the performer that carries them out."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - snapshots are decoded by these annotations
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from linkwise.model.verdict import Grant  # noqa: TC001 - snapshots are decoded by these annotations

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.engine.ledger import Outcome

__all__ = ["Bind", "BindResult", "Effect", "Event", "Evict", "Performer", "Wake"]


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
    """A Kubernetes event about a pod or a node."""

    kind: Literal["Normal", "Warning"]
    reason: str
    sentence: str
    namespace: str = ""
    name: str = ""
    """of the pod; empty if it is about a node"""
    uid: str = ""
    node: str = ""


@dataclass(frozen=True, slots=True)
class Evict:
    """Evict a bound pod through the Eviction API; the UID guards against a pod of the same name."""

    namespace: str
    name: str
    uid: str
    sentence: str


Effect = Bind | Wake | Event | Evict


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

    def tell(self, effects: Iterable[Wake | Evict | Event]) -> None:
        """Queue effects that may be carried out later."""
        ...
