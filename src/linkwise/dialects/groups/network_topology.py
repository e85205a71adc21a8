"""Network topology by node labels: Topology objects of Kueue and KAI, and Koordinator's layers.

Each orders node labels from the broadest level to the narrowest. Source: contract koordinator, section 8.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from linkwise.dialects.json_fields import Fields, Report, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkwise.model.verdict import Problem

__all__ = ["HOSTNAME", "LADDERS", "LAYERS", "TOPOLOGIES", "Ladder", "ladder_of"]

TOPOLOGIES: Final = ("Topology.kueue.x-k8s.io", "Topology.kai.scheduler")
LAYERS: Final = "ClusterNetworkTopology.scheduling.koordinator.sh"
LADDERS: Final = (*TOPOLOGIES, LAYERS)
"""kinds of objects that order labels"""
HOSTNAME: Final = "kubernetes.io/hostname"

CLUSTER_LAYER: Final = "ClusterTopologyLayer"
NODE_LAYER: Final = "NodeTopologyLayer"


@dataclass(frozen=True, slots=True)
class Ladder:
    """Levels of the network in order, the broadest first, and by what other names they are called."""

    levels: tuple[str, ...]
    """node labels"""
    names: Mapping[str, str] = field(default_factory=dict)
    """levels by their other names, in small letters: KAI's users write `rack`, Koordinator's `spineLayer`"""

    @classmethod
    def of(cls, levels: Iterable[str], names: Mapping[str, str] | None = None) -> Ladder:
        """Levels, each once, that are also called by what stands after the slash of their label."""
        ordered = tuple(dict.fromkeys(levels))
        short: dict[str, list[str]] = {}
        for level in ordered:
            short.setdefault(level.rpartition("/")[2].casefold(), []).append(level)
        called = {name: found[0] for name, found in short.items() if len(found) == 1}
        return cls(ordered, {**called, **{name.casefold(): level for name, level in (names or {}).items()}})

    def level(self, name: str) -> str | None:
        """The level that is called so."""
        return name if name in self.levels else self.names.get(name.casefold())


def ladder_of(kind: str, name: str, document: Mapping[str, object]) -> tuple[Ladder | None, tuple[Problem, ...]]:
    """The levels that an object orders, and what is wrong with it."""
    report = Report(f"{kind.partition('.')[0]} {name}", "spec")
    spec = Fields.of(document.get("spec"), "spec", report)
    ladder = None
    if spec is not None:
        ladder = _layers(spec) if kind == LAYERS else _levels(spec)
    return None if report.broken else ladder, tuple(report.problems)


def _levels(spec: Fields) -> Ladder:
    labels = [entry.text("nodeLabel") for entry in spec.objects("levels")]
    if not labels:
        spec.report.refuse("spec.levels is empty; name at least one node label")
    return Ladder.of(label for label in labels if label)


def _layers(spec: Fields) -> Ladder:
    """Layers from the broadest on: each names the one above it."""
    labels: dict[str, str] = {}
    below: dict[str, str] = {}
    for entry in spec.objects("networkTopologySpec"):
        layer, above = entry.text("topologyLayer"), entry.text("parentTopologyLayer", "")
        if layer is None or above is None or layer == CLUSTER_LAYER:
            continue
        labels[layer] = _label(entry, layer)
        other = below.setdefault(above or CLUSTER_LAYER, layer)
        if other != layer:
            spec.report.refuse(f"{entry.path}parentTopologyLayer is {shown(above)}, as that of layer {shown(other)}")
    order = _downwards(below)
    for layer in sorted(labels.keys() - set(order)):
        spec.report.refuse(f"layer {shown(layer)} hangs on no other layer; name the one above it")
    found = {layer: labels[layer] for layer in order if labels.get(layer)}
    return Ladder.of(found.values(), found)


def _label(entry: Fields, layer: str) -> str:
    keys = entry.texts("labelKey", ()) or ()
    if len(keys) > 1:
        entry.report.note(f"{entry.path}labelKey has several labels; only {keys[0]} is read")
    if not keys and layer != NODE_LAYER:
        entry.report.refuse(f"{entry.path}labelKey is missing; name the node label of layer {shown(layer)}")
    return keys[0] if keys else HOSTNAME if layer == NODE_LAYER else ""


def _downwards(below: Mapping[str, str]) -> list[str]:
    order: list[str] = []
    layer = below.get(CLUSTER_LAYER)
    while layer is not None and layer not in order:
        order.append(layer)
        layer = below.get(layer)
    return order
