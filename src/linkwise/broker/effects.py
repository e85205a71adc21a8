"""Effects: what to write about a decision, as finished values, and the protocol of the performer that carries them out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkwise.engine.ledger import Outcome
    from linkwise.model.verdict import Grant

__all__ = ["Annotate", "Bind", "BindResult", "Effect", "Event", "Evict", "Performer", "Wake"]


@dataclass(frozen=True, slots=True)
class Bind:
    """Write node and annotations of one pod in one request; the UID guards against a pod of the same name."""

    namespace: str
    name: str
    uid: str
    node: str
    grant: Grant | None
    """None for a pod that asks for no device"""
    serial: int
    """names the promise when the outcome is reported"""
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wake:
    """Let the scheduler try a pod again that was refused: there is room now that it lacked."""

    namespace: str
    name: str
    uid: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Event:
    """Tell people about a pod or a node."""

    kind: Literal["Normal", "Warning"]
    reason: str
    sentence: str
    namespace: str = ""
    name: str = ""
    """of the pod; empty if it is about a node"""
    uid: str = ""
    node: str = ""


@dataclass(frozen=True, slots=True)
class Annotate:
    """Write annotations of a pod that is not bound; the UID guards against a pod of the same name."""

    namespace: str
    name: str
    uid: str
    annotations: Mapping[str, str | None]
    """None takes one away"""

    def applied(self, before: Mapping[str, str]) -> dict[str, str]:
        """The annotations of the pod once it is written."""
        return {key: text for key, text in {**before, **self.annotations}.items() if text is not None}


@dataclass(frozen=True, slots=True)
class Evict:
    """Send a bound pod away of which no container has run; the UID guards against a pod of the same name."""

    namespace: str
    name: str
    uid: str
    sentence: str


Effect = Bind | Wake | Event | Annotate | Evict


@dataclass(frozen=True, slots=True)
class BindResult:
    """How a bind ended."""

    outcome: Outcome
    sentence: str = ""
    """why it was not written, in the words of the API server where it had any"""


class Performer(Protocol):
    """Carries out effects, each as often as it is told without harm."""

    async def bind(self, effect: Bind) -> BindResult:
        """Write node and annotations of a pod."""
        ...

    async def settle(self, effect: Bind) -> BindResult:
        """Find out what became of a bind that is unknown; it takes as long as that takes."""
        ...

    def tell(self, effects: Iterable[Wake | Annotate | Evict | Event]) -> None:
        """Take in what may be done later and does not hold up any answer."""
        ...
