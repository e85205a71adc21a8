"""AMD dialect: whole devices by count, and the labels of AMD's node labeller.

AMD's device plugin writes nothing on pods, so these keys do not record which devices a pod has.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from linkwise.dialects.counted_devices import ByCount, counted, unhealthy
from linkwise.dialects.dialect import DefaultPolicies, where_node
from linkwise.model.device import Device
from linkwise.model.inventory import NodeFacts
from linkwise.model.verdict import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.views import NodeView

__all__ = ["RESOURCE", "Amd"]

RESOURCE: Final = "amd.com/gpu"


STEMS: Final = ("amd.com/gpu.", "beta.amd.com/gpu.")
FACTS: Final = {
    "product-name": "model",
    "vram": "memory",
    "family": "family",
    "device-id": "device-id",
    "cu-count": "compute-units",
    "driver-version": "driver",
}
_GIB: Final = re.compile(r"([0-9]{1,6})G")


class Amd(ByCount):
    """Whole devices."""

    name = "amd"
    vendor = "amd"
    resource = RESOURCE
    domains = frozenset({"amd.com", "beta.amd.com"})
    policies = DefaultPolicies("link-affinity", "bandwidth")

    def node(self, view: NodeView, objects: Mapping[str, Mapping[str, object]]) -> NodeFacts | None:
        """Counted devices and the labels of AMD's node labeller."""
        del objects
        problems: list[Problem] = []
        labels = _labels(view, problems)
        capacity = counted(view, RESOURCE, view.capacity, problems)
        memory = _memory(view, labels, problems)
        model = labels.get("model", "")
        devices = tuple(Device(f"#{index}", index, model=model, memory=memory) for index in range(capacity))
        labels |= unhealthy(view, RESOURCE, capacity, problems)
        if not (devices or labels or problems):
            return None
        unit = "GiB" if devices and memory else ""
        return NodeFacts(self.name, devices, unit=unit, labels=labels, problems=tuple(problems))


def _labels(view: NodeView, problems: list[Problem]) -> dict[str, str]:
    """One value per fact; on a node with unlike devices the labels do not map to devices, and the fact is left out."""
    labels = {}
    for kind, word in FACTS.items():
        values = _values(view, kind)
        if len(values) == 1:
            labels[word] = values[0]
        elif values:
            sentence = f"the labels list {', '.join(values)} but not which device is which; they are ignored"
            problems.append(Problem(where_node(view), f"{STEMS[0]}{kind}", sentence))
    return labels


def _values(view: NodeView, kind: str) -> list[str]:
    """Distinct values of `gpu.vram=64G` and of the counted form `gpu.vram.64G=8`."""
    values = {view.labels.get(f"{stem}{kind}", "") for stem in STEMS}
    counted = [f"{stem}{kind}." for stem in STEMS]
    values |= {key.removeprefix(start) for start in counted for key in view.labels if key.startswith(start)}
    return sorted(values - {""})


def _memory(view: NodeView, labels: Mapping[str, str], problems: list[Problem]) -> int:
    text = labels.get("memory", "")
    size = _GIB.fullmatch(text)
    if text and size is None:
        sentence = f"{text!r} is not a size such as 64G and is ignored; check the node labeller"
        problems.append(Problem(where_node(view), f"{STEMS[0]}vram", sentence))
    return int(size[1]) if size else 0
