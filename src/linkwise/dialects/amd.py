"""AMD's words: whole devices by count, and what AMD's node labeller tells of a node.

AMD's system writes nothing on pods: which devices one was given is not told in these words.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from linkwise.dialects.counted_devices import ByCount, counted, unhealthy
from linkwise.dialects.dialect import where_node
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
    domains = frozenset({"amd.com", "beta.amd.com"})

    resource = RESOURCE

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
    """One value a word; where a node has unlike devices, which has which is not told, and the word is left out."""
    labels = {}
    for kind, word in FACTS.items():
        values = _values(view, kind)
        if len(values) == 1:
            labels[word] = values[0]
        elif values:
            found = ", ".join(values)
            sentence = f"the labels say {found}, and not which device is which: none of it is used"
            problems.append(Problem(where_node(view), f"{STEMS[0]}{kind}", sentence))
    return labels


def _values(view: NodeView, kind: str) -> list[str]:
    """What `gpu.vram=64G` and the counted form `gpu.vram.64G=8` say, each value once."""
    found = {view.labels.get(f"{stem}{kind}", "") for stem in STEMS}
    counted = [f"{stem}{kind}." for stem in STEMS]
    found |= {key.removeprefix(start) for start in counted for key in view.labels if key.startswith(start)}
    return sorted(found - {""})


def _memory(view: NodeView, labels: Mapping[str, str], problems: list[Problem]) -> int:
    text = labels.get("memory", "")
    size = _GIB.fullmatch(text)
    if text and size is None:
        sentence = f"{text!r} is no size such as 64G and is not read; look at the node labeller"
        problems.append(Problem(where_node(view), f"{STEMS[0]}vram", sentence))
    return int(size[1]) if size else 0
