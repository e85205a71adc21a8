"""NVIDIA dialect: whole devices by count, the labels of GPU Feature Discovery, and a published link matrix.

NVIDIA's device plugin writes nothing on pods, so these keys do not record which devices a pod has.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

from linkwise.dialects.counted_devices import ByCount, counted, unhealthy
from linkwise.dialects.dialect import Advertised, DefaultPolicies, where_node, where_pod
from linkwise.dialects.nvidia.topology_annotation import TOPOLOGY, matrix_annotation, read_matrix
from linkwise.dialects.pod_resources import resources_of
from linkwise.errors import TopologyError
from linkwise.model.device import Device
from linkwise.model.inventory import NodeFacts
from linkwise.model.link_data import link_data_help
from linkwise.model.verdict import Problem
from linkwise.model.views import NodeView

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.ask import Ask
    from linkwise.model.topology import Topology
    from linkwise.model.views import PodView

__all__ = ["OLD_RESOURCE", "RESOURCE", "TOPOLOGY", "Nvidia", "matrix_annotation", "opaque"]

RESOURCE: Final = "nvidia.com/gpu"
OLD_RESOURCE: Final = "alpha.kubernetes.io/nvidia-gpu"
OLD_NAME: Final = f"kube-scheduler and kubelet refuse this name today: request {RESOURCE} instead"
OPAQUE: Final = ("nvidia.com/mig-", "nvidia.com/gpu.shared")
"""parts of devices that NVIDIA's plugin makes and counts by itself"""
HAMI: Final = r"hami\.io/(?:[0-9A-Za-z_.-]+-devices-(?:to-allocate|allocated)|vgpu-(?:node|time)|bind-(?:time|phase))"
"""annotations of pods that HAMi's scheduler writes, and that its device plugin for the same resource allocates by"""

COUNT: Final = "nvidia.com/gpu.count"
MEMORY: Final = "nvidia.com/gpu.memory"  # MiB of one device
REPLICAS: Final = "nvidia.com/gpu.replicas"
STRATEGY: Final = "nvidia.com/mig.strategy"

FACTS: Final = {
    "nvidia.com/gpu.product": "model",
    "nvidia.com/gpu.family": "family",
    "nvidia.com/gpu.machine": "machine",
    "nvidia.com/gpu.clique": "clique",
    "nvidia.com/gpu.sharing-strategy": "sharing",
    COUNT: "count",
    MEMORY: "memory",
    REPLICAS: "replicas",
}
VERSIONS: Final = {
    "driver": ("nvidia.com/cuda.driver-version", "nvidia.com/cuda.driver"),
    "cuda": ("nvidia.com/cuda.runtime-version", "nvidia.com/cuda.runtime"),
    "compute": ("nvidia.com/gpu.compute",),
}
"""the stems of the labels, the older ones last"""


class Nvidia(ByCount):
    """Whole devices; MIG slices and time slices are left to NVIDIA's plugin, which makes them."""

    name = "nvidia"
    vendor = "nvidia"
    resource = RESOURCE
    resources = (RESOURCE, OLD_RESOURCE)
    renamed = {OLD_RESOURCE: RESOURCE}  # noqa: RUF012 - a ClassVar of the base class
    record_pattern = HAMI
    domains = frozenset({"nvidia.com", TOPOLOGY.split("/")[0], OLD_RESOURCE.split("/")[0]})
    policies = DefaultPolicies("link-affinity", "bandwidth")

    def ask(self, pod: PodView) -> Ask | Problem | None:
        """Whole devices, by container; a request for the resource of 2016 is refused with today's name."""
        if OLD_RESOURCE in resources_of(pod):
            return Problem(where_pod(pod), OLD_RESOURCE, OLD_NAME)
        return super().ask(pod)

    def node(self, view: NodeView, objects: Mapping[str, Mapping[str, object]]) -> NodeFacts | None:
        """Counted devices, the link matrix where one is published, and the labels of GPU Feature Discovery."""
        del objects
        facts = _of_a_kind(*_kind(view))
        return _read(view) if isinstance(facts, str) else facts

    def advertised(self, count: int, model: str, hardware: str) -> Advertised:
        """The resource, and the labels of GPU Feature Discovery."""
        del hardware
        product = model.removeprefix("NVIDIA ").replace(" ", "-")
        return Advertised({RESOURCE: str(count)}, {"nvidia.com/gpu.product": product, COUNT: str(count)})


def _kind(view: NodeView) -> tuple[str | None, str | None, str | None, tuple[tuple[str, str], ...]]:
    """Everything of a node that this dialect reads, except its name."""
    labels = tuple([pair for pair in view.labels.items() if pair[0].startswith("nvidia.com/")])
    return view.capacity.get(RESOURCE), view.allocatable.get(RESOURCE), view.annotations.get(TOPOLOGY), labels


@lru_cache(maxsize=1024)
def _of_a_kind(
    capacity: str | None, allocatable: str | None, matrix: str | None, labels: tuple[tuple[str, str], ...]
) -> NodeFacts | Literal["odd"] | None:
    """Facts of nodes of one kind; `odd` if there are problems, which name the node and are made for each."""
    amounts = [{} if amount is None else {RESOURCE: amount} for amount in (capacity, allocatable)]
    words = {} if matrix is None else {TOPOLOGY: matrix}
    facts = _read(NodeView("", dict(labels), words, amounts[0], amounts[1]))
    return "odd" if facts and facts.problems else facts


def _read(view: NodeView) -> NodeFacts | None:
    problems: list[Problem] = []
    labels = _labels(view)
    capacity = counted(view, RESOURCE, view.capacity, problems)
    memory = _number(view, MEMORY, problems)
    devices = _counted(capacity, labels.get("model", ""), memory)
    labels |= unhealthy(view, RESOURCE, capacity, problems)
    topology = _topology(view, capacity, problems)
    if not (devices or topology or labels or problems):
        return None
    unit = "MiB" if devices and memory else ""
    return NodeFacts(Nvidia.name, devices, topology, unit=unit, labels=labels, problems=tuple(problems))


def _counted(count: int, model: str, memory: int) -> tuple[Device, ...]:
    return tuple(Device(f"#{index}", index, model=model, memory=memory) for index in range(count))


def opaque(pod: PodView) -> tuple[str, ...]:
    """Resources of the pod that NVIDIA's plugin makes of parts of devices: MIG slices, renamed time slices."""
    return tuple(name for name in resources_of(pod) if name.startswith(OPAQUE))


def _labels(view: NodeView) -> dict[str, str]:
    """The labels, by the names that Linkwise uses."""
    labels = {key: value for key, value in view.labels.items() if key.startswith("nvidia.com/")}
    found = {word: labels.get(key, "") for key, word in FACTS.items()}
    # Where devices are shared GPU Feature Discovery adds this to the name; `replicas` says it already.
    found["model"] = found["model"].removesuffix("-SHARED")
    found |= {word: _version(labels, stems) for word, stems in VERSIONS.items()}
    found |= {
        key.removeprefix("nvidia.com/"): value
        for key, value in labels.items()
        if key.startswith("nvidia.com/mig.") or (key.startswith("nvidia.com/mig-") and key.endswith(".count"))
    }
    return {word: value for word, value in found.items() if value}


def _version(labels: Mapping[str, str], stems: tuple[str, ...]) -> str:
    for stem in stems:
        parts = [labels.get(f"{stem}.{part}", "") for part in ("major", "minor", "revision", "rev")]
        if version := labels.get(f"{stem}.full", "") or ".".join(filter(None, parts)):
            return version
    return ""


def _number(view: NodeView, label: str, problems: list[Problem]) -> int:
    text = view.labels.get(label, "")
    if not text or (text.isascii() and text.isdigit() and len(text) < 10):
        return int(text or 0)
    sentence = f"{text!r} is not a whole number and is ignored; check GPU Feature Discovery on this node"
    problems.append(Problem(where_node(view), label, sentence))
    return 0


def _topology(view: NodeView, capacity: int, problems: list[Problem]) -> Topology | None:
    divided = _divided(view, capacity, problems)
    if TOPOLOGY not in view.annotations or divided:
        return None
    try:
        topology = read_matrix(view.annotations[TOPOLOGY], capacity)
    except TopologyError as error:
        sentence = f"{error}; it is ignored, correct it: {link_data_help(view.name)}"
        problems.append(Problem(where_node(view), TOPOLOGY, sentence))
        return None
    problems += [Problem(where_node(view), TOPOLOGY, text) for text in (topology.warnings if topology else ())]
    return topology


def _divided(view: NodeView, capacity: int, problems: list[Problem]) -> bool:
    """Whether the vendor's plugin counts parts of devices under the name of whole ones: then links mean nothing."""
    count, replicas = _number(view, COUNT, problems), _number(view, REPLICAS, problems)
    if not capacity:
        return False
    where = where_node(view)
    strategy = view.labels.get(STRATEGY, "")
    if replicas > 1:
        sentence = (
            f"the vendor's plugin shares each device {replicas} ways: they are placed by count only, without links"
        )
        problems.append(Problem(where, REPLICAS, sentence))
    sliced = strategy == "single" and "-MIG-" in view.labels.get("nvidia.com/gpu.product", "")
    if sliced:
        sentence = f"{RESOURCE} counts MIG slices here: they are placed by count only, without links"
        problems.append(Problem(where, STRATEGY, sentence))
    # With `mixed`, devices cut into slices are counted by the label and not by the resource.
    if count and strategy != "mixed" and count * max(1, replicas) != capacity:
        sentence = (
            f"{count} devices do not make the {capacity} {RESOURCE} reported, which are used; check the device plugin"
        )
        problems.append(Problem(where, COUNT, sentence))
    return replicas > 1 or sliced
