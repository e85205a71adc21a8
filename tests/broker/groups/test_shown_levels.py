"""The numbers of a plan that people read are those of the devices it chose, by the samples of their nodes."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations

import pytest

from linkwise.broker.broker import Broker
from linkwise.sim.sample_nodes import fleet_node
from linkwise.testing.cluster import device_pod, in_group
from linkwise.topology.device_sets import mask_of
from linkwise.topology.fabric import fabric_of
from linkwise.vendors.machine import machine_devices
from linkwise.vendors.machines import profile
from support.profile import examples

MACHINE = profile("dgx1-v100-measured")


def noisy(chance: random.Random) -> list[list[float]]:
    """The machine's bandwidths, each pair a few percent off."""
    rows = [list(row) for row in MACHINE.topology.bandwidth]
    for i, j in combinations(range(len(rows)), 2):
        rows[i][j] = rows[j][i] = min(rows[i][j], rows[j][i]) * chance.uniform(0.92, 1.08)
    return rows


@pytest.mark.parametrize("seed", range(examples(12)))
def test_bandwidth_and_loss_are_those_of_the_devices_of_the_plan(seed: int) -> None:
    chance = random.Random(seed)
    samples = {name: noisy(chance) for name in ("a", "b")}
    broker = Broker()
    for name, rows in samples.items():
        topology = replace(MACHINE.topology, bandwidth=tuple(map(tuple, rows)))
        broker.observe(fleet_node(replace(MACHINE, topology=topology), name), 0.0)
    sizes = chance.choice([(2, 2), (2, 1, 3), (4, 4, 4), (3, 2), (5, 5, 2)])
    plan = broker.dry_plan(in_group(*(device_pod(f"p{number}", size) for number, size in enumerate(sizes))), 1.0)
    assert plan is not None
    shown = {level.name: level.shown for level in plan.levels}
    speeds, inside, lost = list[float](), list[float](), [0.0] * 4
    for name in plan.nodes:
        fabric, order = fabric_of(samples[name]), [device.id for device in machine_devices(MACHINE, name)]
        members = [place.offer.devices for place in plan.placements.values() if place.node == name and place.offer]
        masks = [mask_of(map(order.index, devices)) for devices in members]
        speeds.append(fabric.bottleneck(sum(masks)))
        inside += map(fabric.bottleneck, masks)
        pairs = zip(lost, fabric.left(255), fabric.left(255 & ~sum(masks)), strict=True)
        lost = [total + before - after for total, before, after in pairs]
    assert shown["bottleneck"] == (min(speeds),)
    assert shown["per pod"] == (min(inside),)
    assert shown["residual"] == tuple(lost)
