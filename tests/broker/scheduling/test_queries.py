"""Questions that change nothing: may this pod be made, and where would it go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from linkwise.engine.reasons.catalog import refusal
from linkwise.model.views import ContainerView, Taint
from linkwise.testing.cluster import ASCEND, KOORDINATOR, MEMORY, NVIDIA, FakeNode, binds, broker_of, device_pod, place
from support.properties.broker_invariants import claims

NOW = 100.0


def test_a_pod_that_makes_sense_is_admitted() -> None:
    broker = broker_of()
    for amount, resource in ((1, NVIDIA), (8, MEMORY), (50, KOORDINATOR), (8, ASCEND), (0, NVIDIA)):
        assert broker.admit(device_pod(f"{resource}{amount}", amount, resource)).refusal == ""


@pytest.mark.parametrize(("amount", "resource"), [("1.5", NVIDIA), ("-4", MEMORY), (150, KOORDINATOR), (3, ASCEND)])
def test_a_pod_that_makes_no_sense_to_any_node_is_not_admitted(amount: int | str, resource: str) -> None:
    assert len(broker_of().admit(device_pod("a", amount, resource)).refusal) > 20


def test_a_wish_that_can_not_be_followed_is_a_warning() -> None:
    pod = replace(device_pod("a"), annotations={"linkwise.dev/policy": "magic"})
    admitted = broker_of().admit(pod)
    assert admitted.refusal == ""
    assert "'magic' is not registered" in admitted.warnings[0].sentence


def test_a_dry_run_ranks_the_nodes_that_fit_and_says_why_the_others_do_not() -> None:
    broker = broker_of(FakeNode("a", count=4), FakeNode("b", count=4), FakeNode("c", count=1), FakeNode("d", "amd"))
    place(broker, device_pod("x", 2), "b")
    found = broker.dry_run(device_pod("new", 2), NOW)
    assert [name for name, _ in found.ranking] == ["b", "a"]
    assert found.offer is not None
    assert (found.offer.node, found.offer.devices) == ("b", ("b-d2", "b-d3"))
    assert {name: refusal(reason) for name, reason in found.refused.items()} == {
        "c": "2 devices requested, but the node has 1",
        "d": "nvidia.com/gpu requested, but the node does not provide it",
    }


def test_a_dry_run_looks_at_the_nodes_named_and_no_others() -> None:
    broker = broker_of(FakeNode("a"), FakeNode("b"))
    found = broker.dry_run(device_pod("new"), NOW, ["b", "never-seen"])
    assert [name for name, _ in found.ranking] == ["b"]
    assert found.refused == {}


def test_idle_devices_behind_full_processors_are_stranded() -> None:
    broker = broker_of(FakeNode("n", cpu="4"), FakeNode("full", cpu="4"))
    hog = replace(device_pod("hog", 0, cpu="3"), node="n", version=2)
    broker.observe([hog], NOW)
    place(broker, device_pod("x", 2, cpu="3"), "full")
    found = broker.dry_run(device_pod("new", 1, cpu="2"), NOW)
    assert found.ranking == ()
    assert found.offer is None
    assert {name: refusal(reason) for name, reason in found.stranded.items()} == {
        "n": "2 cpu requested, but only 1 of 4 is free"
    }
    assert refusal(found.refused["full"]) == "1 device requested, but none of 2 is free"


def test_what_is_promised_counts_beside_devices_before_it_is_seen() -> None:
    broker = broker_of(FakeNode("n", cpu="4"))
    broker.observe([device_pod("a", cpu="3")], NOW)
    assert binds(broker.bind("uid-a", "n", NOW).effects)
    assert broker.dry_run(device_pod("new", cpu="2"), NOW).stranded.keys() == {"n"}
    again = broker.dry_run(device_pod("a", cpu="3"), NOW)
    assert again.stranded == {}  # it does not stand in its own way


def test_taints_and_nodes_that_are_not_ready_keep_a_pod_away() -> None:
    tainted = replace(FakeNode("t").view(), taints=(Taint("key", "value"),))
    broker = broker_of(FakeNode("n", ready=False), FakeNode("t"))
    broker.observe([tainted], NOW)
    found = broker.dry_run(device_pod("new"), NOW)
    assert {name: reason.kind for name, reason in found.stranded.items()} == {"n": "not ready", "t": "taint"}


def test_a_dry_run_of_a_pod_without_devices_looks_at_all_else() -> None:
    broker = broker_of(FakeNode("n", cpu="4"), FakeNode("m", cpu="1"))
    plain = replace(device_pod("web"), containers=(ContainerView("main", limits={"cpu": "2"}),))
    found = broker.dry_run(plain, NOW)
    assert found.ranking == (("n", ()),)
    assert found.refused.keys() == {"m"}


def test_a_dry_run_of_a_pod_that_makes_no_sense_offers_nothing() -> None:
    broker = broker_of(FakeNode("n"), FakeNode("r", "ring", 8))
    for pod in (device_pod("a", "1.5"), device_pod("b", 3, ASCEND)):
        found = broker.dry_run(pod, NOW)
        assert (found.offer, found.ranking) == (None, ())


def test_questions_change_nothing() -> None:
    broker = broker_of(FakeNode("n", count=4))
    place(broker, device_pod("a"), "n")
    before, kept = claims(broker), broker.snapshot(NOW)
    broker.dry_run(device_pod("new", 2), NOW)
    broker.admit(device_pod("new", 2))
    broker.prioritize(device_pod("new", 2), ["n"], NOW)
    assert (claims(broker), broker.snapshot(NOW)) == (before, kept)
