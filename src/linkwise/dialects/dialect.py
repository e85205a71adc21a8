"""What a dialect answers: what does this pod want, what was it given, what does this node have, how is a grant written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.ask import Ask
    from linkwise.model.device import Device
    from linkwise.model.inventory import NodeFacts
    from linkwise.model.verdict import Grant, Problem
    from linkwise.model.views import NodeView, PodView

__all__ = ["Dialect", "Held", "Writing", "where_node", "where_pod"]


@dataclass(frozen=True, slots=True)
class Held:
    """What a pod's annotations say that it was given."""

    grant: Grant | None
    """None if they say nothing, or nothing that can be believed"""
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Writing:
    """What a dialect needs to know to write a grant down."""

    pod: PodView
    grant: Grant
    devices: Mapping[str, Device]
    """all devices of the node by id: other systems' keys hold indices"""
    now: int  # nanoseconds since the epoch, unique and increasing for each node
    siblings: tuple[str, ...] = ()
    """devices of the pod's group on this node, its own included"""


class Dialect(ABC):
    """One system's words. It knows no policy and no other dialect."""

    name: ClassVar[str]
    by_resource: ClassVar[bool] = True
    """whether a node must have the very resource that is asked for; if not, any of the dialect's will do"""
    domains: ClassVar[frozenset[str]]
    """what stands before the slash in keys and kinds that tell this dialect of a node: without one of them it has nothing
    to tell"""

    @abstractmethod
    def owns(self, resource: str) -> bool:
        """Whether asking for this resource is saying it in this dialect."""

    @abstractmethod
    def ask(self, pod: PodView) -> Ask | Problem | None:
        """What the pod wants in this dialect's words; a problem if that makes no sense; None if it wants nothing."""

    @abstractmethod
    def held(self, pod: PodView) -> Held:
        """What this dialect's annotations on the pod say that it was given."""

    @abstractmethod
    def write(self, writing: Writing) -> dict[str, str]:
        """The annotations that tell this dialect's users and tools about a grant."""

    @abstractmethod
    def node(self, view: NodeView, objects: Mapping[str, Mapping[str, object]]) -> NodeFacts | None:
        """What this dialect's labels, annotations and objects tell of a node; None if they tell nothing."""


def where_pod(pod: PodView) -> str:
    """A pod in the words of a problem."""
    return f"pod {pod.namespace}/{pod.name}"


def where_node(view: NodeView) -> str:
    """A node in the words of a problem."""
    return f"node {view.name}"
