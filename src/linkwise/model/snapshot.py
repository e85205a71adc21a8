"""Snapshot: everything that decisions depend on at one moment, as a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from linkwise.model.settings import PlacingSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.views import NodeView, PodView

__all__ = ["Snapshot"]

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Snapshot(Generic[S]):
    """The observed objects, and the state of the broker that can't be derived from them."""

    now: float = 0.0  # seconds since the epoch
    settings: PlacingSettings = field(default_factory=PlacingSettings)
    nodes: tuple[NodeView, ...] = ()
    """by name"""
    objects: Mapping[str, Mapping[str, Mapping[str, object]]] = field(default_factory=dict)
    """other objects of a node, by the node's name and the object's kind"""
    pods: tuple[PodView, ...] = ()
    """by UID"""
    shared: Mapping[str, Mapping[str, Mapping[str, object]]] = field(default_factory=dict)
    """cluster-wide objects, by kind and name"""
    state: S | None = None
    """None if only objects are known: grants are then known only from the records on pods"""
