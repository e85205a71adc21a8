from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings, strategies as st

from linkwise.engine.reasons.catalog import refusal, short_refusal
from linkwise.model.node import NumaAlignment
from linkwise.model.verdict import Offer, Reject
from linkwise.policies.bandwidth import Bandwidth
from linkwise.policies.link_affinity import LinkAffinity
from linkwise.policies.ring_affinity import RingAffinity
from linkwise.policies.whole_device import WholeDevice
from linkwise.testing.nodes import ask, node
from linkwise.topology.numa import aligned_nodes, devices_by_node, on_fewest_nodes
from linkwise.vendors.machines import profile
from support.profile import examples

if TYPE_CHECKING:
    from linkwise.model.node import Node
    from linkwise.policies.policy import Policy

POLICIES = (LinkAffinity(), Bandwidth(), WholeDevice())
HALVES = (0, 0, 0, 0, 1, 1, 1, 1)
SINGLE, RESTRICTED = NumaAlignment("single-numa-node"), NumaAlignment("restricted")
NVSWITCH = profile("hgx-h100").topology


def places(machine: Node, offer: Offer) -> set[int | None]:
    return {device.numa for device in machine.devices if device.id in offer.devices}


def picked(policy: Policy, machine: Node, *sizes: int) -> Offer:
    offer = policy.pick(ask(*sizes), machine)
    assert isinstance(offer, Offer), offer
    return offer


def rejected(policy: Policy, machine: Node, *sizes: int) -> Reject:
    offer = policy.pick(ask(*sizes), machine)
    assert isinstance(offer, Reject), offer
    return offer


FREE = st.sets(st.integers(0, 7), min_size=1)
NUMA = st.lists(st.sampled_from([0, 1, 2, None]), min_size=8, max_size=8)


@pytest.mark.rule("002.affinity")
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_devices_without_link_data_are_taken_from_as_few_numa_nodes_as_possible(policy: Policy) -> None:
    machine = node(numa=HALVES, free=[3, 4, 5, 6, 7])
    assert places(machine, picked(policy, machine, 2)) == {1}
    assert places(machine, picked(policy, machine, 1)) == {0}
    assert places(machine, picked(policy, machine, 5)) == {0, 1}
    containers = picked(policy, node(numa=[0, 1] * 4), 4, 4)
    assert [len({int(device[-1]) % 2 for device in part.devices}) for part in containers.parts] == [1, 1]


@settings(max_examples=examples(300))
@given(NUMA, st.integers(1, 8), st.sets(st.integers(0, 7), max_size=3))
def test_no_choice_is_on_fewer_numa_nodes(numa: list[int | None], count: int, required: set[int]) -> None:
    required = set(sorted(required)[:count])
    found = on_fewest_nodes(numa, count, required)
    assert len(set(found)) == count
    assert required <= set(found)
    best = min(len({numa[i] for i in some}) for some in combinations(range(8), count) if required <= set(some))
    assert len({numa[i] for i in found}) == best


@pytest.mark.rule("002.affinity")
@settings(max_examples=examples(150))
@given(st.sampled_from(POLICIES), st.sampled_from([SINGLE, RESTRICTED]), NUMA, FREE, st.integers(1, 8))
def test_what_is_placed_is_what_the_kubelet_admits(
    policy: Policy, alignment: NumaAlignment, numa: list[int | None], free: set[int], size: int
) -> None:
    machine = node(numa=numa, free=free, alignment=alignment, topology=NVSWITCH)
    totals, idle = devices_by_node(machine.devices), devices_by_node(machine.free())
    offer = policy.pick(ask(size), machine)
    if not totals:
        assert isinstance(offer, Offer) == (size <= len(free))
        return
    admitted = aligned_nodes(alignment.policy, [(totals, idle, size)]) if size <= len(free) else None
    assert isinstance(offer, Offer) == (admitted is not None)
    if isinstance(offer, Offer) and admitted:
        assert places(machine, offer) <= set(admitted)
        assert alignment is RESTRICTED or len(places(machine, offer)) == 1


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_the_pick_is_on_the_numa_node_that_the_kubelet_chooses(policy: Policy) -> None:
    machine = node(numa=HALVES, free=[2, 3, 4, 5, 6], alignment=SINGLE, topology=NVSWITCH)
    assert picked(policy, machine, 2).devices == ("d2", "d3")
    assert places(machine, picked(policy, machine, 3)) == {1}


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_containers_are_aligned_one_by_one_and_in_the_pod_scope_together(policy: Policy) -> None:
    machine = node(numa=HALVES, alignment=SINGLE, topology=NVSWITCH)
    first, second = picked(policy, machine, 3, 3).parts
    assert (set(first.devices) < {"d0", "d1", "d2", "d3"}, set(second.devices) < {"d4", "d5", "d6", "d7"}) == (
        True,
        True,
    )
    together = node(numa=HALVES, alignment=NumaAlignment("single-numa-node", "pod"), topology=NVSWITCH)
    assert rejected(policy, together, 3, 3).final
    assert places(together, picked(policy, together, 2, 2)) == {0}


def test_a_refusal_has_the_free_devices_of_each_numa_node() -> None:
    busy = rejected(WholeDevice(), node(numa=HALVES, free=[3, 4], alignment=SINGLE), 2)
    assert not busy.final
    assert short_refusal(busy.reason) == "node(s) had no NUMA node with enough free devices"
    assert refusal(busy.reason) == (
        "2 devices requested, but NUMA node 0 has 1, NUMA node 1 has 1; the node's Topology Manager has the policy "
        "single-numa-node and would reject the pod"
    )
    too_large = rejected(WholeDevice(), node(numa=HALVES, alignment=SINGLE), 8)
    assert too_large.final
    spread = rejected(WholeDevice(), node(numa=HALVES, free=[0, 1, 2, 4, 5], alignment=RESTRICTED), 4)
    assert "only on more NUMA nodes" in short_refusal(spread.reason)


def test_exclusive_cpus_decide_on_the_numa_node_too() -> None:
    cpus = NumaAlignment("single-numa-node", cpus=((0, 2), (1, 16)), total_cpus=((0, 16), (1, 16)))
    machine = node(numa=HALVES, alignment=cpus, topology=NVSWITCH)
    wanted = ask(2)
    exclusive_container = type(wanted.containers[0])("c0", devices=2, cpus=8)
    exclusive = type(wanted)(wanted.resource, (exclusive_container,), cpus=8)
    offer = LinkAffinity().pick(exclusive, machine)
    assert isinstance(offer, Offer)
    assert places(machine, offer) == {1}
    busy = node(numa=HALVES, free=[0, 1, 2, 3], alignment=cpus)
    reject = LinkAffinity().pick(exclusive, busy)
    assert isinstance(reject, Reject)
    assert "8 exclusive CPUs requested" in refusal(reject.reason)
    assert places(machine, picked(LinkAffinity(), machine, 2)) == {0}


def test_devices_of_unknown_use_may_be_on_any_numa_node() -> None:
    machine = node(numa=HALVES, alignment=SINGLE)
    unsure = type(machine)(machine.name, machine.devices, unattributed=1, alignment=SINGLE)
    assert isinstance(WholeDevice().pick(ask(3), unsure), Offer)
    assert isinstance(WholeDevice().pick(ask(4), unsure), Reject)


def test_rings_are_placed_on_the_numa_nodes_that_the_kubelet_chooses() -> None:
    pairs = (0, 0, 1, 1, 2, 2, 3, 3)
    machine = node(numa=pairs, free=[0, 2, 3, 4, 5, 6, 7], profile="ascend-910", alignment=RESTRICTED)
    assert rejected(RingAffinity(), machine, 4).reason.rule == "003.predicate"  # the kubelet would take 2, 3, 4 and 5
    idle = node(numa=pairs, profile="ascend-910", alignment=RESTRICTED)
    assert places(idle, picked(RingAffinity(), idle, 4)) == {0, 1}
    assert rejected(RingAffinity(), node(numa=pairs, profile="ascend-910", alignment=SINGLE), 4).final


@pytest.mark.parametrize("alignment", [None, NumaAlignment("none"), NumaAlignment("best-effort")])
def test_without_a_strict_policy_nothing_is_refused(alignment: NumaAlignment | None) -> None:
    machine = node(numa=(0, 1, 0, 1, None, None, None, None), alignment=alignment, topology=NVSWITCH)
    assert len(picked(LinkAffinity(), machine, 7).devices) == 7


def test_garbage_numa_nodes_cost_no_time() -> None:
    machine = node(64, numa=range(64), alignment=RESTRICTED)
    assert len(picked(WholeDevice(), machine, 32).devices) == 32


# -- locality without a strict policy


@pytest.mark.rule("002.affinity")
@settings(max_examples=examples(100))
@given(st.lists(st.sampled_from([0, 1]), min_size=8, max_size=8), FREE, st.integers(2, 4), st.sets(st.integers(0, 7)))
def test_of_equal_links_the_pick_has_the_fewest_numa_nodes_then_the_most_nics(
    numa: list[int], free: set[int], size: int, nics: set[int]
) -> None:
    """On a machine with equal links every set is equal by links, so that locality decides alone."""
    if len(free) < size:
        return
    machine = node(numa=numa, free=free, topology=NVSWITCH, nics=nics)
    offer = picked(Bandwidth(nic=True), machine, size)
    sets = list(combinations(sorted(free), size))

    def cost(chosen: tuple[int, ...]) -> tuple[int, int]:
        return len({numa[one] for one in chosen}), -sum(one in nics for one in chosen)

    chosen = tuple(int(name[1:]) for name in offer.devices)
    assert cost(chosen) == min(map(cost, sets))


def test_a_pair_on_one_numa_node_goes_before_one_on_two() -> None:
    policy = LinkAffinity()
    machine = node(numa=HALVES, free=[3, 4, 5], topology=NVSWITCH)
    assert picked(policy, machine, 2).devices == ("d4", "d5")
    split = node(numa=HALVES, free=[3, 4], topology=NVSWITCH)
    terms = dict(zip(policy.terms, policy.score(ask(2), split, picked(policy, split, 2)), strict=True))
    assert (terms["numa"], terms["nic"]) == (-1, 0)


def test_links_go_before_numa_nodes() -> None:
    crossed = (0, 1, 1, 0, 0, 1, 1, 0)
    for policy in (LinkAffinity(), Bandwidth()):
        aligned, unknown = (
            node(numa=crossed, topology=profile("dgx1-v100").topology),
            node(topology=profile("dgx1-v100").topology),
        )
        best, plain = picked(policy, aligned, 4), picked(policy, unknown, 4)
        assert policy.score(ask(4), aligned, best)[:2] == policy.score(ask(4), unknown, plain)[:2]


def test_nics_count_only_by_setting() -> None:
    machine = node(free=[0, 1, 2, 3], topology=NVSWITCH, nics=[2, 3])
    assert picked(LinkAffinity(), machine, 2).devices == ("d0", "d1")
    near = LinkAffinity(nic=True)
    assert picked(near, machine, 2).devices == ("d2", "d3")
    assert picked(near, machine, 1).devices == ("d2",)
    assert dict(zip(near.terms, near.score(ask(2), machine, picked(near, machine, 2)), strict=True))["nic"] == 2
