"""Victims for Volcano: those whose chips fit together, not any that make up the number."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.volcano.callbacks import ABSTAIN, PERMIT, REJECT, Victims
from linkwise.testing.cluster import ASCEND, FakeNode, broker_of, device_pod
from support.builders.volcano import volcano_pod

if TYPE_CHECKING:
    from linkwise.model.views import PodView

RING: Final = FakeNode("n", "ring", 8)


def running(name: str, *chips: int, priority: int = 0) -> PodView:
    pod = device_pod(name, len(chips), ASCEND, priority=priority)
    listed = ",".join(f"Ascend910-{chip}" for chip in chips)
    return replace(pod, node="n", annotations={ASCEND: listed}, scheduler="volcano", version=2)


def test_pods_of_one_ring_go_and_not_one_of_each() -> None:
    broker = broker_of(RING)
    pods = [running("a", 0, 1), running("b", 2, 3), running("c", 4, 5, 6), running("d", 7)]
    urgent = replace(volcano_pod("urgent", 4), priority=10)
    broker.observe([*pods, urgent], 0.0)
    found = broker.victims(urgent, [pod.uid for pod in pods], 0.0)
    assert found.verdict == PERMIT
    assert found.uids in {("uid-a", "uid-b"), ("uid-c", "uid-d")}


def test_both_rings_go_for_a_pod_that_needs_the_node() -> None:
    broker, pods = broker_of(RING), [running("a", 0), running("b", 7)]
    urgent = replace(volcano_pod("urgent", 8), priority=10)
    broker.observe([*pods, urgent], 0.0)
    assert broker.victims(urgent, [pod.uid for pod in pods], 0.0) == Victims(PERMIT, ("uid-a", "uid-b"))


def test_no_pod_goes_if_that_would_not_help() -> None:
    broker, pods = broker_of(RING), [running("a", 0), running("b", 7), running("stays", 4)]
    urgent = replace(volcano_pod("urgent", 8), priority=10)
    broker.observe([*pods, urgent], 0.0)
    assert broker.victims(urgent, ["uid-a", "uid-b"], 0.0) == Victims(REJECT)


def test_what_is_not_a_matter_of_devices_is_left_to_others() -> None:
    broker, pod = broker_of(RING), running("a", 0)
    plain, fits = volcano_pod("plain", 0), volcano_pod("fits", 1)
    broker.observe([pod, plain, fits], 0.0)
    assert broker.victims(plain, [pod.uid], 0.0) == Victims(ABSTAIN)
    assert broker.victims(fits, [pod.uid], 0.0) == Victims(ABSTAIN)
    assert broker.victims(fits, ["unknown"], 0.0) == Victims(ABSTAIN)


def test_a_request_that_no_node_can_serve_evicts_nothing() -> None:
    broker, pod, odd = broker_of(RING), running("a", 0), volcano_pod("odd", 3)
    broker.observe([pod, odd], 0.0)
    assert broker.victims(odd, [pod.uid], 0.0) == Victims(REJECT)
