"""Whatever the cluster looks like: what is said would help does help, and asking changes nothing."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings, strategies as st

from linkwise.broker.broker import Broker
from linkwise.broker.watch_events import PodDeleted
from linkwise.explain.inspect import inspect_nodes
from linkwise.explain.node import explain_node
from linkwise.explain.pod import explain_pod, explanation_lines
from linkwise.model.views import ContainerView, PodView
from linkwise.sim.replay import Runner
from linkwise.sim.sample_nodes import fleet_node
from linkwise.testing.cluster import device_pod, in_gang
from linkwise.vendors.machines import profile
from support.profile import examples
from support.properties.broker_calls import Caller, calls
from support.properties.readers import answers, node_answers
from support.state import state_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.explain.reports import Explanation, Remedy
    from support.properties.broker_calls import Call

MACHINES = st.sampled_from(["dgx1-v100", "v100-pcie", "p40-share", "atlas-800"])
ASKS = st.one_of(
    st.tuples(st.just("nvidia.com/gpu"), st.sampled_from([1, 1, 2, 4, 8])),
    st.tuples(st.just("huawei.com/Ascend910"), st.sampled_from([1, 1, 2, 4, 8])),
    st.tuples(st.just("aliyun.com/gpu-mem"), st.integers(1, 22)),
)
PODS = st.lists(st.tuples(ASKS, st.integers(0, 30), st.sampled_from(["team-a", "team-b"])), min_size=10, max_size=40)


def world(machines: list[str], pods: list[tuple[tuple[str, int], int, str]]) -> Runner:
    """A cluster as full as it gets, and pods that wait."""
    runner = Runner(Broker(), 1_000.0)
    for number, machine in enumerate(machines):
        runner.show(*fleet_node(profile(machine), f"n{number}"))
    for number, ((resource, count), cpu, namespace) in enumerate(pods):
        limits = {resource: str(count), "cpu": str(cpu)}
        name = f"{namespace}-p{number}"
        view = PodView(namespace, name, f"uid-{name}", (ContainerView("main", limits=limits),))
        runner.show(replace(view, created=float(number)))
        runner.place(replace(view, created=float(number)))
    return runner


def without(runner: Runner, remedy: Remedy) -> Broker:
    """The same cluster after the pods that a remedy names have ended."""
    broker = Broker.restore(runner.broker.snapshot(runner.now))
    for leaver in remedy.pods:
        view = broker.pod(leaver.uid)
        broker.observe([replace(view, phase="Succeeded") if view and view.node else PodDeleted(leaver.uid)], runner.now)
    return broker


def less(view: PodView, amount: int) -> PodView:
    (container,) = view.containers
    resource, *_ = container.limits
    limits = {**container.limits, resource: str(amount)}
    return replace(view, name="less", uid="", containers=(replace(container, limits=limits),))


def would_help(runner: Runner, explanation: Explanation, remedy: Remedy) -> bool:
    view = runner.pod(explanation.uid)
    assert view is not None
    if remedy.kind == "pods end":
        return remedy.node in dict(without(runner, remedy).dry_run(view, runner.now).ranking)
    if remedy.kind in {"fewer devices", "less memory"}:
        return remedy.node in dict(runner.broker.dry_run(less(view, remedy.amount), runner.now).ranking)
    found = runner.broker.dry_run(view, runner.now)
    return remedy.node in (found.stranded if remedy.kind == "beside devices" else found.refused)


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(MACHINES, min_size=1, max_size=3), PODS)
def test_what_is_said_to_help_does(machines: list[str], pods: list[tuple[tuple[str, int], int, str]]) -> None:
    runner = world(machines, pods)
    for view in runner.waiting():
        explanation = explain_pod(runner.broker, view.uid, runner.now)
        assert explanation is not None
        assert (explanation.state == "schedulable") == bool(runner.broker.dry_run(view, runner.now).ranking)
        assert [remedy for remedy in explanation.remedies if not would_help(runner, explanation, remedy)] == []


@settings(max_examples=examples(60), deadline=None)
@given(calls())
def test_everything_can_be_explained_and_asking_changes_nothing(made: list[Call]) -> None:
    caller = Caller(Broker())
    for call in made:
        caller.make(call)
    broker, now = caller.broker, caller.now
    explain_node(broker, "n0", now)
    before = broker.snapshot(now)
    explanations = [
        explain_pod(broker, uid, now) for uid in (*broker.pods, *(queued.uid for queued in state_of(broker).queue))
    ]
    nodes = [explain_node(broker, name, now) for name in broker.nodes]
    for found in (*explanations, *nodes):
        assert found is not None
        assert all(explanation_lines(found))
        json.dumps(asdict(found))
    assert explanations == [
        explain_pod(broker, uid, now) for uid in (*broker.pods, *(queued.uid for queued in state_of(broker).queue))
    ]
    assert broker.snapshot(now) == before


def differences(one: Any, other: Any) -> Iterator[tuple[object, object]]:  # noqa: ANN401 - JSON
    """The leaves in which two documents of the same shape differ."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for key in one.keys() - {"other"}:
            yield from differences(one[key], other[key])
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        for here, there in zip(one, other, strict=True):
            yield from differences(here, there)
    elif one != other:
        yield one, other


GANGS = st.lists(st.tuples(st.sampled_from(["team-a", "team-b"]), st.integers(2, 3), st.integers(1, 8)), max_size=3)


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(MACHINES, min_size=1, max_size=3), PODS, GANGS, st.sets(st.integers(0, 39), max_size=4))
def test_a_tenant_gets_what_an_administrator_gets_without_names_of_other_namespaces(
    machines: list[str],
    pods: list[tuple[tuple[str, int], int, str]],
    gangs: list[tuple[str, int, int]],
    ending: set[int],
) -> None:
    runner = world(machines, pods)
    for number, (namespace, members, devices) in enumerate(gangs):
        names = [f"{namespace}-g{number}-{member}" for member in range(members)]
        created = [device_pod(name, devices, namespace=namespace) for name in names]
        runner.show(*in_gang(*created, least=members, name=f"{namespace}-g{number}"))
        runner.broker.step(runner.now, 1000)
    bound = [pod for pod in runner.broker.pods.values() if pod.node]
    runner.show(*(replace(pod, deleting=True) for number, pod in enumerate(bound) if number in ending))
    broker, now = runner.broker, runner.now
    tenant, administrator = (answers(broker, now, "team-a", only) for only in (frozenset({"team-a"}), None))
    assert "team-b" not in json.dumps(tenant)
    assert [pair for pair in differences(tenant, administrator) if "team-b" not in json.dumps(pair[1])] == []
    assert "team-b" not in json.dumps(node_answers(broker, now, "team-a"))


@settings(max_examples=examples(60), deadline=None)
@given(calls())
def test_what_is_inspected_adds_up_to_what_is_taken(made: list[Call]) -> None:
    caller = Caller(Broker())
    for call in made:
        caller.make(call)
    for found in inspect_nodes(caller.broker, None, caller.now):
        for device in found.devices:
            assert device.share == sum(pod.share for pod in device.pods)
            assert device.whole == any(pod.whole for pod in device.pods)
