"""NVIDIA dialect: whole devices by count, labels of GPU Feature Discovery, a link matrix, requirements of images.

NVIDIA's device plugin writes nothing on pods, so these keys do not record which devices a pod has.

The topology annotation of a node has the link kind, or the score, of every pair of devices. Source: seed 000, "Architecture",
which leaves the form open; the points are those proposed in NVIDIA/k8s-device-plugin#465. Positions are indices: a node that
lost a device in the middle can't be described this way.

In the variables `NVIDIA_REQUIRE_*` spaces separate alternatives, commas comparisons that must all hold, as in
`cuda>=12.2 brand=tesla,driver>=470,driver<471`. Several variables must all hold. NVIDIA's container toolkit checks them when
a container starts; here they are checked before a node is chosen. As there, comparisons with properties that are not known
are left out. A variable of the image itself is not in the pod and can't be seen; neither can one whose value is computed by
Kubernetes.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

from linkwise.dialects.counted_devices import ByCount, counted, unhealthy
from linkwise.dialects.dialect import Advertised, DefaultPolicies, where_node, where_pod
from linkwise.dialects.pod_resources import resources_of
from linkwise.dialects.requirements import LONGEST, checked, error_at
from linkwise.errors import TopologyError
from linkwise.model.device import Device
from linkwise.model.inventory import NodeFacts
from linkwise.model.link import SELF, Link, Pcie
from linkwise.model.requirement import OPERATORS, Clause
from linkwise.model.topology import Topology, link_data_help, numbered, square
from linkwise.model.verdict import Problem
from linkwise.model.views import NodeView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from linkwise.model.ask import Ask
    from linkwise.model.requirement import Comparison, FactName
    from linkwise.model.views import PodView

__all__ = [
    "OLD_RESOURCE",
    "PREFIX",
    "RESOURCE",
    "TOPOLOGY",
    "Nvidia",
    "matrix_annotation",
    "opaque",
    "read_matrix",
    "read_required",
    "required_variables",
]

TOPOLOGY: Final = "linkwise.dev/gpu-topology"

LONGEST_KIND: Final = 32  # characters of a link kind
POINTS: Final = 10 * Pcie.BOARD  # of the shortest PCIe path; each step is worth 10
NVLINK_POINTS: Final = 100
MOST_NVLINKS: Final = 18
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
PREFIX: Final = "NVIDIA_REQUIRE_"
DISABLE: Final = "NVIDIA_DISABLE_REQUIRE"
JETPACK: Final = "NVIDIA_REQUIRE_JETPACK"
"""about the libraries that are mounted, not a comparison"""
TRUE: Final = frozenset({"1", "t", "true"})
PROPERTIES: Final[Mapping[str, FactName]] = {"cuda": "cuda", "driver": "driver", "arch": "compute", "brand": "brand"}
_COMPARISON: Final = re.compile(r"([^<>=!]*)(!=|<=|>=|=|<|>)(.*)")


def matrix_annotation(topology: Topology) -> str:
    """The link kinds of every pair as JSON; `[]` where none are known."""
    rows = [
        [str(SELF) if i == j else _written(link) for j, link in enumerate(row)] for i, row in enumerate(topology.links)
    ]
    return json.dumps(rows, separators=(",", ":"))


@lru_cache(maxsize=1024)
def read_matrix(text: str, size: int = 0) -> Topology | None:
    """The links that such an annotation lists, None if it is an empty list; TopologyError names the cell that is broken.

    There must be `size` rows, if that is known. Kinds that are not known stay as they are, and the topology warns of them.
    """
    rows = _rows(text)
    if not rows:
        return None
    square(rows, "the matrix", size or None)
    read = _reader(cell for i, row in enumerate(rows) for j, cell in enumerate(row) if i != j)
    links = tuple(
        tuple(SELF if i == j else read(cell, f"row {i} column {j}") for j, cell in enumerate(row))
        for i, row in enumerate(rows)
    )
    return Topology(numbered(len(rows)), links, warnings=_warnings(links))


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


def opaque(pod: PodView) -> tuple[str, ...]:
    """Resources of the pod that NVIDIA's plugin makes of parts of devices: MIG slices, renamed time slices."""
    return tuple(name for name in resources_of(pod) if name.startswith(OPAQUE))


def required_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables of a container that state requirements, unless another one disables them."""
    if variables.get(DISABLE, "").casefold() in TRUE:
        return {}
    return {
        name: value
        for name, value in sorted(variables.items())
        if name.startswith(PREFIX) and not name.startswith(JETPACK) and "$(" not in value
    }


def read_required(name: str, text: str) -> tuple[Clause, ...]:
    """The clause of one variable; none if it is blank or compares nothing that is known.

    Raises:
        InputError: with the column of the error.
    """
    if len(text) > LONGEST:
        raise error_at(LONGEST + 1, f"the requirement is longer than {LONGEST} characters")
    alternatives = tuple(every for each in re.finditer(r"[^ ]+", text) if (every := tuple(_comparisons(each))))
    return (Clause(name, alternatives),) if alternatives else ()


def _written(link: Link) -> str:
    """Return the text of the link, with the PCIe path if a tool reported it elsewhere."""
    if Link(link).pcie == link.pcie:
        return str(link)
    return link.pcie.name if link == "?" else f"{link}+{link.pcie.name}"


def _rows(text: str) -> list[list[object]]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TopologyError("it is not valid JSON") from error
    if not isinstance(document, list) or not all(isinstance(row, list) for row in document):
        raise TopologyError("it is not a list of rows")
    return document


def _reader(cells: Iterable[object]) -> Callable[[object, str], Link]:
    kinds = {type(cell) for cell in cells}
    if kinds <= {str}:
        return _named
    if kinds == {int}:
        return _scored
    raise TopologyError('all cells must be link kinds such as "NV2", or all of them whole scores such as 230')


def _named(cell: object, where: str) -> Link:
    text = str(cell).strip()
    if not text or not text.isprintable() or len(text) > LONGEST_KIND:
        raise TopologyError(f"{where} holds no link kind")
    if text == SELF:
        raise TopologyError(f"{where} is X, which is only for a device with itself")
    try:
        return Link.parse(text)
    except TopologyError:
        return Link(text)


def _scored(cell: object, where: str) -> Link:
    score = int(str(cell))
    nvlinks, path = divmod(score, NVLINK_POINTS)
    if not 0 <= nvlinks <= MOST_NVLINKS or path > POINTS or path % 10:
        shown = score if abs(score) < 10**9 else "a number of many digits"
        raise TopologyError(
            f"{where} is {shown}, which no links score: {NVLINK_POINTS} for each of up to {MOST_NVLINKS} NVLinks, "
            f"and 10 to {POINTS} for the PCIe path"
        )
    return Link.of(nvlinks, Pcie(path // 10))


def _warnings(links: tuple[tuple[Link, ...], ...]) -> tuple[str, ...]:
    unknown = dict.fromkeys(
        str(link) for i, row in enumerate(links) for j, link in enumerate(row) if i != j and not _known(link)
    )
    return tuple(f"link kind {kind!r} is not known and counts as no link" for kind in unknown)


def _known(link: Link) -> bool:
    return bool(link.direct or link.pcie) or link == "?"


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


def _labels(view: NodeView) -> dict[str, str]:
    """The labels, by the names that Linkwise uses."""
    labels = {key: value for key, value in view.labels.items() if key.startswith("nvidia.com/")}
    facts = {word: labels.get(key, "") for key, word in FACTS.items()}
    # Where devices are shared GPU Feature Discovery adds this to the name; `replicas` says it already.
    facts["model"] = facts["model"].removesuffix("-SHARED")
    facts |= {word: _version(labels, stems) for word, stems in VERSIONS.items()}
    facts |= {
        key.removeprefix("nvidia.com/"): value
        for key, value in labels.items()
        if key.startswith("nvidia.com/mig.") or (key.startswith("nvidia.com/mig-") and key.endswith(".count"))
    }
    return {word: value for word, value in facts.items() if value}


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


def _counted(count: int, model: str, memory: int) -> tuple[Device, ...]:
    return tuple(Device(f"#{index}", index, model=model, memory=memory) for index in range(count))


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


def _kind(view: NodeView) -> tuple[str | None, str | None, str | None, tuple[tuple[str, str], ...]]:
    """Everything of a node that this dialect reads, except its name."""
    labels = tuple([pair for pair in view.labels.items() if pair[0].startswith("nvidia.com/")])
    return view.capacity.get(RESOURCE), view.allocatable.get(RESOURCE), view.annotations.get(TOPOLOGY), labels


def _comparisons(alternative: re.Match[str]) -> Iterator[Comparison]:
    for part in re.finditer(r"[^,]+", alternative[0]):
        column = alternative.start() + part.start() + 1
        match = _COMPARISON.fullmatch(part[0])
        if match is None:
            raise error_at(column, f"{part[0][:40]!r} is not a comparison such as cuda>=12.2")
        fact = PROPERTIES.get(match[1])
        if fact is None:
            continue
        operator = next(each for each in OPERATORS if each == match[2])
        value = match[3].removeprefix("v") if fact != "brand" else match[3]
        if not value or not value.isprintable():
            raise error_at(column + match.start(3), f"{match[1]} is compared with nothing that can be read")
        yield checked(fact, operator, ((value, column + match.start(3)),), column + match.start(2))
