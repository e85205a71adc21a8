"""Strategies: machines and questions about them, nodes and asks of every policy, views of pods and nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from hypothesis import strategies as st

from linkwise.model.ask import Ask, ContainerAsk
from linkwise.model.device import Device
from linkwise.model.link import SELF, Link, Pcie
from linkwise.model.node import Node, Use
from linkwise.model.topology import Topology
from linkwise.model.views import (
    ContainerView,
    HostPort,
    NodeTerm,
    NodeView,
    Owner,
    PodCondition,
    PodTerm,
    PodView,
    SelectorRequirement,
    SpreadConstraint,
    Taint,
    Toleration,
)

if TYPE_CHECKING:
    from linkwise.model.node import AskMode, Mode

__all__ = ["Question", "asks", "node_views", "nodes", "pod_views", "questions"]

# Few values make ties, many make every pair differ; both kinds of machine exist.
_KINDS = st.sampled_from([(10,), (10, 110), (10, 20, 30, 50, 110, 230, 250), tuple(range(0, 2000, 7))])


class Question(NamedTuple):
    """So many of the available devices of a machine, the required ones among them."""

    matrix: list[list[int]]
    size: int
    available: list[int]
    required: list[int]


@st.composite
def questions(draw: st.DrawFn, most: int = 8) -> Question:
    """A question that has an answer, about a machine with a symmetric matrix."""
    count = draw(st.integers(1, most))
    values = st.sampled_from(draw(_KINDS))
    matrix = [[0] * count for _ in range(count)]
    for i in range(count):
        for j in range(i):
            matrix[i][j] = matrix[j][i] = draw(values)
    available = sorted(draw(st.sets(st.integers(0, count - 1), min_size=1)))
    size = draw(st.integers(1, len(available)))
    required = sorted(draw(st.sets(st.sampled_from(available), max_size=size)))
    return Question(matrix, size, available, required)


_NAMESPACES = st.sampled_from(["team-a", "team-b"])
_LINKS = st.builds(Link.of, st.integers(0, 3), st.sampled_from(list(Pcie)))


@st.composite
def nodes(draw: st.DrawFn, mode: Mode = "whole", most: int = 8, profile: str = "") -> Node:
    """A node of which some devices are faulty, some taken or shared, and some links known."""
    count = draw(st.integers(1, most))
    memory = draw(st.integers(1, 20))
    healthy = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    devices = tuple(Device(f"d{i}", i, memory=memory, healthy=healthy[i]) for i in range(count))
    used = {device.id: draw(_uses(mode, memory)) for device in devices if draw(st.booleans())}
    known = draw(st.sampled_from(["nothing", "links", "bandwidth", "both"]))
    links, samples = _matrices(draw, count)
    topology = Topology(
        tuple(device.id for device in devices),
        links=links if known in {"links", "both"} else (),
        bandwidth=samples if known in {"bandwidth", "both"} else (),
    )
    node = Node("n", devices, used, topology, profile, mode)
    return node if known != "nothing" else replace(node, topology=None)


@st.composite
def asks(draw: st.DrawFn, mode: AskMode = "whole") -> Ask:
    """An ask of one to three containers, whole devices or parts of one."""
    containers = []
    for number in range(draw(st.integers(1, 3))):
        if mode == "whole":
            containers.append(ContainerAsk(f"c{number}", devices=draw(st.integers(0, 4))))
        else:
            share, core = draw(st.integers(0, 8)), draw(st.integers(0, 60))
            containers.append(ContainerAsk(f"c{number}", share=share, core=core))
    return Ask("example.com/x", tuple(containers), draw(_NAMESPACES), mode=mode)


@st.composite
def _uses(draw: st.DrawFn, mode: Mode, memory: int) -> Use:
    if mode == "whole":
        return Use(whole=True)
    # Records may say that more is taken than there is.
    share, core = draw(st.integers(0, memory + 2)), draw(st.integers(0, 120))
    return Use(share, core, domains=frozenset(draw(st.sets(_NAMESPACES, min_size=1))))


def _matrices(draw: st.DrawFn, count: int) -> tuple[tuple[tuple[Link, ...], ...], tuple[tuple[float, ...], ...]]:
    speeds = st.sampled_from([0.0, 16.0, 17.0, 48.0, 49.0, 96.0])
    links = [[SELF] * count for _ in range(count)]
    samples = [[0.0] * count for _ in range(count)]
    for i in range(count):
        for j in range(i):
            links[i][j] = links[j][i] = draw(_LINKS)
            samples[i][j], samples[j][i] = draw(speeds), draw(speeds)
    return tuple(map(tuple, links)), tuple(map(tuple, samples))


T = TypeVar("T")

WORDS: Final = st.text('abcxyz-./0123456789é"\\ ', max_size=8)
NAMES: Final = st.text("abc0-", min_size=1, max_size=6)
TEXTS: Final = st.dictionaries(NAMES, WORDS, max_size=3)
AMOUNTS: Final = st.dictionaries(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "aliyun.com/gpu-mem"]),
    st.sampled_from(["1", "2", "500m", "4Gi"]),
)
TIMES: Final = st.integers(0, 4 * 10**15).map(lambda micros: micros / 1e6)
VERSIONS: Final = st.integers(0, 10**12)
REQUIREMENTS: Final = st.lists(
    st.builds(
        SelectorRequirement, NAMES, st.sampled_from(["In", "Exists", "Gt"]), st.lists(WORDS, max_size=2).map(tuple)
    ),
    max_size=2,
).map(tuple)
POD_TERMS: Final = st.one_of(
    st.builds(PodTerm, NAMES, TEXTS, REQUIREMENTS, st.lists(NAMES, min_size=1, max_size=2).map(tuple)),
    st.builds(PodTerm, NAMES, TEXTS, REQUIREMENTS, st.lists(NAMES, max_size=2).map(tuple), st.just(value=True)),
    st.builds(PodTerm, NAMES, st.just({}), st.just((SelectorRequirement("", "In"),)), st.just(("default",))),
)
PORTS: Final = st.builds(
    HostPort,
    st.integers(1, 65535),
    st.sampled_from(["TCP", "UDP"]),
    st.sampled_from(["0.0.0.0", "10.0.0.1"]),  # noqa: S104 - what a pod may say; nothing listens
)


def node_views() -> st.SearchStrategy[NodeView]:
    """Any node."""
    taints = st.builds(Taint, NAMES, WORDS, st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"]))
    return st.builds(
        NodeView,
        name=NAMES,
        labels=TEXTS,
        annotations=TEXTS,
        capacity=AMOUNTS,
        allocatable=AMOUNTS,
        taints=st.lists(taints, max_size=2).map(tuple),
        unschedulable=st.booleans(),
        ready=st.booleans(),
        version=VERSIONS,
    )


def spread_constraints(namespace: str) -> st.SearchStrategy[SpreadConstraint]:
    """Any required topology spread constraint of a pod in that namespace."""
    terms = st.builds(PodTerm, NAMES, TEXTS, REQUIREMENTS, st.just((namespace,)))
    return st.builds(
        lambda term, *rest: SpreadConstraint(term.topology_key, rest[0], term, *rest[1:]),
        terms,
        st.integers(1, 5),
        st.integers(1, 5),
        st.booleans(),
        st.booleans(),
    )


@st.composite
def pod_views(draw: st.DrawFn) -> PodView:
    """Any pod that an object can tell of: init containers first, ports only where a container can have them."""
    kinds = draw(st.lists(st.sampled_from([(False, False), (True, False), (True, True)]), max_size=4))
    containers = tuple(
        ContainerView(draw(NAMES), draw(AMOUNTS), draw(AMOUNTS), init=init, sidecar=sidecar)
        for init, sidecar in sorted(kinds, key=lambda kind: not kind[0])
    )
    lasting = any(not found.init or found.sidecar for found in containers)
    deleting = draw(st.booleans())
    stopped = deleting and draw(st.booleans())
    namespace = draw(NAMES)
    phase = draw(st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]))
    return PodView(
        namespace=namespace,
        name=draw(NAMES),
        uid=draw(NAMES),
        containers=containers,
        labels=draw(TEXTS),
        annotations=draw(TEXTS),
        node=draw(st.one_of(st.just(""), NAMES)),
        phase=phase,
        rejection=draw(WORDS) if phase == "Failed" else "",
        created=draw(TIMES),
        deleting=deleting,
        priority=draw(st.integers(-10, 10**9)),
        scheduler=draw(WORDS),
        gates=_several(draw, NAMES),
        scheduling_group=draw(WORDS),
        owner=draw(st.one_of(st.none(), st.builds(Owner, NAMES, NAMES, NAMES))),
        node_selector=draw(TEXTS),
        tolerations=_several(draw, st.builds(Toleration, WORDS, st.sampled_from(["Equal", "Exists"]), WORDS, WORDS)),
        claims=_several(draw, NAMES),
        overhead=draw(AMOUNTS),
        hosted_by_claims=_several(draw, NAMES),
        requests=draw(AMOUNTS),
        affinity=draw(st.one_of(st.none(), st.lists(st.builds(NodeTerm, REQUIREMENTS, REQUIREMENTS)).map(tuple))),
        ports=_several(draw, PORTS) if lasting else (),
        apart=_several(draw, POD_TERMS),
        together=_several(draw, POD_TERMS),
        volume_claims=_several(draw, NAMES),
        spread=_several(draw, spread_constraints(namespace)),
        version=draw(VERSIONS),
        stopped=stopped,
        nominated=draw(WORDS),
        begun=stopped or draw(st.booleans()),
        condition=draw(st.one_of(st.none(), st.builds(PodCondition, st.booleans(), WORDS, WORDS, TIMES))),
    )


def _several(draw: st.DrawFn, each: st.SearchStrategy[T]) -> tuple[T, ...]:
    return tuple(draw(st.lists(each, max_size=2)))
