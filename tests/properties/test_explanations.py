"""Whatever the cluster looks like: what is said would help does help, and asking changes nothing."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from hypothesis import given, settings, strategies as st

from linkwise.broker.broker import Broker
from linkwise.broker.sample_nodes import fleet_node
from linkwise.broker.watch_events import PodDeleted
from linkwise.explain.inspect import inspect_nodes
from linkwise.explain.node import explain_node
from linkwise.explain.pod import explain_pod, explanation_lines
from linkwise.model.views import ContainerView, PodView
from linkwise.sim.replay import Runner
from linkwise.vendors.machines import profile
from support.profile import examples
from support.properties.broker_calls import Caller, calls
from support.state import state_of

if TYPE_CHECKING:
    from linkwise.explain.reports.pod import Explanation, Remedy
    from support.properties.broker_calls import Call

MACHINES = st.sampled_from(["dgx1-v100", "v100-pcie", "p40-share", "atlas-800"])
ASKS = st.one_of(
    st.tuples(st.just("nvidia.com/gpu"), st.sampled_from([1, 1, 2, 4, 8])),
    st.tuples(st.just("huawei.com/Ascend910"), st.sampled_from([1, 1, 2, 4, 8])),
    st.tuples(st.just("aliyun.com/gpu-mem"), st.integers(1, 22)),
)
PODS = st.lists(st.tuples(ASKS, st.integers(0, 30), st.sampled_from(["one", "two"])), min_size=10, max_size=40)


def world(machines: list[str], pods: list[tuple[tuple[str, int], int, str]]) -> Runner:
    """A cluster as full as it gets, and pods that wait."""
    runner = Runner(Broker(), 1_000.0)
    for number, machine in enumerate(machines):
        runner.show(*fleet_node(profile(machine), f"n{number}"))
    for number, ((resource, count), cpu, namespace) in enumerate(pods):
        limits = {resource: str(count), "cpu": str(cpu)}
        view = PodView(namespace, f"p{number}", f"u{number}", (ContainerView("main", limits=limits),))
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


def would_help(runner: Runner, told: Explanation, remedy: Remedy) -> bool:
    view = runner.pod(told.uid)
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
        told = explain_pod(runner.broker, view.uid, runner.now)
        assert told is not None
        assert (told.state == "schedulable") == bool(runner.broker.dry_run(view, runner.now).ranking)
        assert [remedy for remedy in told.remedies if not would_help(runner, told, remedy)] == []


@settings(max_examples=examples(60), deadline=None)
@given(calls())
def test_everything_can_be_explained_and_asking_changes_nothing(made: list[Call]) -> None:
    caller = Caller(Broker())
    for call in made:
        caller.make(call)
    broker, now = caller.broker, caller.now
    explain_node(broker, "n0", now)
    before = broker.snapshot(now)
    told = [explain_pod(broker, uid, now) for uid in (*broker.pods, *(queued.uid for queued in state_of(broker).queue))]
    nodes = [explain_node(broker, name, now) for name in broker.nodes]
    for found in (*told, *nodes):
        assert found is not None
        assert all(explanation_lines(found))
        json.dumps(asdict(found))
    assert told == [
        explain_pod(broker, uid, now) for uid in (*broker.pods, *(queued.uid for queued in state_of(broker).queue))
    ]
    assert broker.snapshot(now) == before


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
