"""What every dialect must satisfy, whatever a cluster's users wrote."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from linkwise import Ask, ContainerView, Device, Grant, NodeView, Offer, Part, PodView
from linkwise.dialects.dialect import Dialect, Writing
from linkwise.dialects.registry import DIALECTS, cleared_records, held_by, understand
from linkwise.model.verdict import Problem
from support.profile import examples

RESOURCES = (
    *("nvidia.com/gpu", "amd.com/gpu", "huawei.com/Ascend910", "huawei.com/npu", "aliyun.com/gpu-mem"),
    *("koordinator.sh/gpu", "koordinator.sh/gpu-memory-ratio", "koordinator.sh/gpu-core", "kubernetes.io/gpu-memory"),
    *("alpha.kubernetes.io/nvidia-gpu", "aliyun.com/gpu-count", "cpu", "nvidia.com/mig-1g.5gb"),
)
KEYS = (
    *("ALIYUN_COM_GPU_MEM_IDX", "ALIYUN_COM_GPU_MEM_POD", "scheduler.framework.gpushare.allocation", "predicate-time"),
    *("huawei.com/Ascend910", "huawei.com/AscendReal", "topology.scheduling.koordinator.sh/gpu", "linkwise.dev/grant"),
    *("scheduling.koordinator.sh/device-allocated", "linkwise.dev/group-plan", "linkwise.dev/gpu-topology"),
    *("gang.scheduling.koordinator.sh/name", "gang.scheduling.koordinator.sh/min-available", "pod-group-name"),
    *("gputopology.scheduling.koordinator.sh/name", "gputopology.scheduling.koordinator.sh/replica"),
    *("scheduling.k8s.io/group-name", "kueue.x-k8s.io/pod-group-name", "huawei.com/schedule_policy"),
)
AMOUNTS = st.sampled_from(["0", "1", "2", "50", "150", "200", "16Gi", "-1", "x", "1.5", "9" * 30])
TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["0", "-1", "{}", "[]", "null", '{"0":["1"]}', "Ascend910-0,Ascend910-1", "[[1,2],[3]]", "[[", "1e999"]
    ),
)
CONTAINERS = st.lists(
    st.builds(
        ContainerView,
        name=st.sampled_from(["a", "b", "c"]),
        limits=st.dictionaries(st.sampled_from(RESOURCES), AMOUNTS, max_size=3),
        init=st.booleans(),
        sidecar=st.booleans(),
    ),
    max_size=3,
)
PODS = st.builds(
    PodView,
    namespace=st.just("default"),
    name=st.just("p"),
    uid=st.just("u"),
    containers=CONTAINERS.map(tuple),
    labels=st.dictionaries(st.sampled_from(KEYS), TEXTS, max_size=4),
    annotations=st.dictionaries(st.sampled_from(KEYS), TEXTS, max_size=4),
    phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed", ""]),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["spec", "status", "devices", "topologies", "gpu", "data", "id", "minor"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.fixture(params=DIALECTS, ids=lambda dialect: dialect.name, scope="session")
def dialect(request: pytest.FixtureRequest) -> Dialect:
    found: Dialect = request.param
    return found


def test_dialects_have_names_of_their_own() -> None:
    assert len({dialect.name for dialect in DIALECTS}) == len(DIALECTS)


def test_a_resource_belongs_to_one_dialect_at_most() -> None:
    for resource in RESOURCES:
        assert sum(dialect.owns(resource) for dialect in DIALECTS) <= 1


@settings(max_examples=examples(120), deadline=None)
@given(pod=PODS)
def test_any_pod_is_an_ask_a_problem_or_nothing(dialect: Dialect, pod: PodView) -> None:
    asked = dialect.ask(pod)
    assert asked is None or isinstance(asked, Ask | Problem)
    if isinstance(asked, Ask):
        assert asked.devices > 0 or asked.share > 0
        assert {found.container for found in asked.containers} <= {found.name for found in pod.containers}
    if isinstance(asked, Problem):
        assert asked.where == "pod default/p"
        assert asked.sentence


@settings(max_examples=examples(120), deadline=None)
@given(pod=PODS)
def test_a_finished_pod_holds_nothing_and_others_what_they_say_or_a_problem(dialect: Dialect, pod: PodView) -> None:
    held = dialect.held(pod)
    if pod.phase in {"Succeeded", "Failed"}:
        assert held.grant is None
    for problem in held.problems:
        assert problem.key


@settings(max_examples=examples(100), deadline=None)
@given(
    kind=st.sampled_from(["Device", "DeviceInventory", "ConfigMap/mindx-dl-deviceinfo-n", "ConfigMap/unhealthy-gpu-n"]),
    raw=st.dictionaries(st.sampled_from(["spec", "status", "data", "metadata"]), JSON, max_size=3),
    annotations=st.dictionaries(st.sampled_from(KEYS), TEXTS, max_size=3),
    capacity=st.dictionaries(st.sampled_from(RESOURCES), AMOUNTS, max_size=3),
)
def test_any_node_is_facts_or_nothing(
    dialect: Dialect, kind: str, raw: dict[str, object], annotations: dict[str, str], capacity: dict[str, str]
) -> None:
    view = NodeView("n", annotations=annotations, capacity=capacity, allocatable=capacity)
    facts = dialect.node(view, {kind: raw})
    if facts is not None:
        assert facts.source == dialect.name
        assert len({device.id for device in facts.devices}) == len(facts.devices)


@settings(max_examples=examples(100), deadline=None)
@given(pod=PODS)
def test_what_a_pod_says_in_all_dialects_together_never_raises(pod: PodView) -> None:
    understood = understand(pod)
    assert understood.ask is None or understood.dialect
    held_by(pod)


@settings(max_examples=examples(300), deadline=None)
@given(pod=PODS)
def test_a_cleared_record_is_read_as_none(dialect: Dialect, pod: PodView) -> None:
    cleared = replace(pod, annotations={**pod.annotations, **cleared_records(pod)}, node="n", phase="Running")
    if dialect.name != "linkwise":  # its grant is written with every bind
        assert dialect.held(cleared).grant is None
    assert not {problem.key for problem in dialect.held(cleared).problems} & cleared_records(pod).keys()


def test_two_systems_words_in_one_pod_are_a_problem_that_names_both() -> None:
    mixed = PodView("d", "p", "u", (ContainerView("a", limits={"nvidia.com/gpu": "1", "aliyun.com/gpu-mem": "3"}),))
    understood = understand(mixed)
    assert understood.ask is None
    assert "nvidia and aliyun" in understood.problems[0].sentence


def test_a_resource_of_which_nothing_is_asked_is_no_second_system() -> None:
    zero = PodView("d", "p", "u", (ContainerView("a", limits={"nvidia.com/gpu": "1", "aliyun.com/gpu-mem": "0"}),))
    assert understand(zero).dialect == "nvidia"


def test_our_own_record_is_believed_before_other_keys() -> None:
    devices = {"GPU-1": Device("GPU-1", 0, minor=0, memory=100)}
    pod = PodView("d", "p", "u", (ContainerView("a", limits={"nvidia.com/gpu": "1"}),), node="n")
    grant = Grant("u", "link-affinity", Offer("n", (Part("a", ("GPU-1",)),)))
    annotations: dict[str, str] = {"ALIYUN_COM_GPU_MEM_IDX": "7"}
    for dialect in DIALECTS:
        if dialect.name in {"linkwise", "nvidia"}:
            annotations |= dialect.write(Writing(pod, grant, devices, now=1))
    written = PodView("d", "p", "u", pod.containers, annotations=annotations, node="n", phase="Running")
    assert held_by(written).grant == grant
