"""Planning a group in steps, while the cluster goes on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.groups.planning.input import network_of, read_network
from linkwise.broker.groups.planning.runs import planning
from linkwise.broker.records.members import GroupView, Run
from linkwise.model.ask import Group
from linkwise.model.views import ContainerView, NodeView, PodTerm, PodView, Taint
from linkwise.sim.sample_nodes import fleet_node
from linkwise.vendors.machines import profile
from support.state import state_of

if TYPE_CHECKING:
    from _collections_abc import dict_items

GROUP = Group("default/g", "koordinator", 2)
ZONE = "topology.kubernetes.io/zone"


class Labels(dict[str, str]):
    """Labels that count how often they are looked at."""

    looked = 0

    def items(self) -> dict_items[str, str]:
        self.looked += 1
        return super().items()


def seen(*names: str, taints: tuple[Taint, ...] = ()) -> Broker:
    broker = Broker()
    for name in names:
        view, inventory = fleet_node(profile("dgx-a100"), name)
        assert isinstance(view, NodeView)
        broker.observe([replace(view, taints=taints if name == "b" else ()), inventory], 0.0)
    return broker


def begun(broker: Broker, devices: int = 8) -> Run:
    box = ContainerView("main", limits={"nvidia.com/gpu": str(devices), "cpu": "4"})
    pods = tuple(PodView("default", f"g-{number}", f"u{number}", (box,), version=1) for number in range(2))
    return Run((GROUP.key,), (), planning(state_of(broker), GroupView(GROUP, pods)))


@pytest.mark.parametrize("steps", range(8))
def test_nodes_may_come_and_go_while_a_plan_is_made(steps: int) -> None:
    broker = seen("a", "b", "c")
    run = begun(broker)
    run.advance(steps)
    state_of(broker).cluster.lose_node("c")
    for name in ("d", "e"):
        broker.observe(fleet_node(profile("dgx-a100"), name), 1.0)
    run.advance(10_000)
    assert run.plan is not None
    assert len(run.plan.nodes) == 2


def test_a_node_that_is_like_another_but_for_a_taint_is_not_taken_for_it() -> None:
    run = begun(seen("a", "b", "c", taints=(Taint("dedicated", "others"),)))
    run.advance(10_000)
    assert run.plan is not None
    assert run.plan.nodes == ("a", "c")


def test_labels_that_change_while_they_are_read_are_read_again() -> None:
    broker = seen("a")
    broker.observe([replace(broker.nodes["a"], labels={ZONE: "x"}, version=1)], 0.0)
    steps = read_network(state_of(broker).cluster, GROUP)
    next(steps)
    broker.observe([replace(broker.nodes["a"], labels={ZONE: "z"}, version=2)], 1.0)
    broker.observe([NodeView("b", {ZONE: "y"})], 1.0)
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value.levels == network_of(state_of(broker).cluster, GROUP).levels == (ZONE,)


def test_whom_all_members_must_be_with_is_looked_for_once() -> None:
    broker, labels = seen("a", "b"), Labels(app="other")
    broker.observe([PodView("default", "x", "ux", labels=labels, node="a", phase="Running", version=1)], 0.0)
    term = PodTerm(ZONE, {"app": "me"}, namespaces=("default",))
    box = ContainerView("main", limits={"nvidia.com/gpu": "1"})
    pods = [PodView("default", f"p{n}", f"u{n}", (box,), {"app": "me"}, together=(term,)) for n in range(16)]
    run = Run((GROUP.key,), (), planning(state_of(broker), GroupView(GROUP, tuple(pods))))
    run.advance(10_000)
    assert run.plan is not None
    assert labels.looked == 1
