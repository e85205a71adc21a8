"""The policy of jobs on several nodes leaves out devices that other nodes can't reach."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.engine.reasons.catalog import refusal
from linkwise.model.verdict import Offer, Reject
from linkwise.policies.policy import AcrossNodes
from linkwise.policies.ring_affinity import RingAffinity
from linkwise.policies.whole_device import WholeDevice
from linkwise.testing.nodes import ask, node

if TYPE_CHECKING:
    from linkwise.model.node import Node


def with_unreachable(machine: Node, *indices: int) -> Node:
    return replace(
        machine, devices=tuple(replace(device, reachable=device.index not in indices) for device in machine.devices)
    )


@pytest.mark.rule("003.faulty")
def test_unreachable_devices_are_left_out() -> None:
    offer = AcrossNodes(WholeDevice()).pick(ask(2), with_unreachable(node(4), 0, 2))
    assert isinstance(offer, Offer)
    assert offer.devices == ("d1", "d3")


@pytest.mark.rule("003.faulty")
def test_a_refusal_names_the_unreachable_devices_if_they_alone_are_the_reason() -> None:
    refused = AcrossNodes(WholeDevice()).pick(ask(3), with_unreachable(node(4), 0, 2))
    assert isinstance(refused, Reject)
    assert refused.final
    assert refusal(refused.reason) == (
        "3 devices requested by a pod of a job of several pods, but other nodes can't reach devices 0, 2: "
        "the network ports of these devices are faulty"
    )


def test_a_refusal_that_a_single_pod_would_get_too_does_not_speak_of_the_network() -> None:
    machine = with_unreachable(node(4, free=(0,)), 0)
    refused = AcrossNodes(WholeDevice()).pick(ask(2), machine)
    assert refused == WholeDevice().pick(ask(2), machine)


@pytest.mark.rule("003.faulty")
def test_an_unreachable_device_does_not_lower_the_health_of_its_node() -> None:
    machine, policy = node(8, profile="ascend-910"), RingAffinity()
    torn = with_unreachable(machine, 7)
    across = AcrossNodes(policy)
    offer = across.pick(ask(4), torn)
    assert isinstance(offer, Offer)
    assert across.score(ask(4), torn, offer)[0] == policy.score(ask(4), machine, offer)[0] == 8


def test_a_node_that_is_reachable_as_a_whole_is_the_same_node() -> None:
    machine = node(4)
    assert machine.reachable() is machine
