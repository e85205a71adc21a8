"""Generated views of pods and nodes, as reading Kubernetes objects could give them, for tests with hypothesis."""

from __future__ import annotations

from typing import Final, TypeVar

from hypothesis import strategies as st

from linkwise.model.views import (
    ContainerView,
    HostPort,
    NodeTerm,
    NodeView,
    Owner,
    PodTerm,
    PodView,
    Requirement,
    Taint,
    Toleration,
)

__all__ = ["node_views", "pod_views"]

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
    st.builds(Requirement, NAMES, st.sampled_from(["In", "Exists", "Gt"]), st.lists(WORDS, max_size=2).map(tuple)),
    max_size=2,
).map(tuple)
POD_TERMS: Final = st.one_of(
    st.builds(PodTerm, NAMES, TEXTS, REQUIREMENTS, st.lists(NAMES, min_size=1, max_size=2).map(tuple)),
    st.builds(PodTerm, NAMES, TEXTS, REQUIREMENTS, st.lists(NAMES, max_size=2).map(tuple), st.just(value=True)),
    st.builds(PodTerm, NAMES, st.just({}), st.just((Requirement("", "In"),)), st.just(("default",))),
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
    return PodView(
        namespace=draw(NAMES),
        name=draw(NAMES),
        uid=draw(NAMES),
        containers=containers,
        labels=draw(TEXTS),
        annotations=draw(TEXTS),
        node=draw(st.one_of(st.just(""), NAMES)),
        phase=draw(st.sampled_from(["Pending", "Running", "Succeeded", "Failed"])),
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
        version=draw(VERSIONS),
        stopped=stopped,
        nominated=draw(WORDS),
        begun=stopped or draw(st.booleans()),
    )


def _several(draw: st.DrawFn, each: st.SearchStrategy[T]) -> tuple[T, ...]:
    return tuple(draw(st.lists(each, max_size=2)))
