"""A simulated machine is the profile of its name, on a node of its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from linkwise.broker.watch_events import NodeObject
from linkwise.dialects.linkwise.inventory import inventory_facts
from linkwise.drivers.without_hardware import SimulatedDriver
from linkwise.errors import InputError
from linkwise.sim.sample_nodes import fleet_node
from linkwise.vendors.machines import PROFILES, profile

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_can_be_simulated(name: str) -> None:
    found, machine = SimulatedDriver(name, "gpu-7").discover(), profile(name)
    assert (found.vendor, found.facts["model"], found.faults) == (machine.vendor, machine.model, {})
    assert [device.memory for device in found.devices] == [machine.memory] * machine.devices
    assert found.topology is not None
    assert found.topology.devices == tuple(device.id for device in found.devices)
    assert (found.topology.links, found.topology.bandwidth) == (machine.topology.links, machine.topology.bandwidth)


def test_the_embedded_cluster_has_the_same_devices() -> None:
    _, inventory = fleet_node(profile("dgx1-v100"), "gpu-7")
    assert isinstance(inventory, NodeObject)
    embedded = inventory_facts(inventory.document).devices
    simulated = SimulatedDriver("dgx1-v100", "gpu-7").discover().devices
    assert [(device.id, device.index) for device in embedded] == [(device.id, device.index) for device in simulated]


def test_devices_in_the_file_are_unhealthy_until_they_are_removed_from_it(tmp_path: Path) -> None:
    file = tmp_path / "unhealthy"
    driver = SimulatedDriver("dgx1-v100", "gpu-7", file=file)
    assert driver.discover().faults == {}
    file.write_text("2, 5  # burnt\n", "utf-8")
    found = driver.discover()
    assert [device.index for device in found.devices if not device.healthy] == [2, 5]
    assert found.faults["nvidia-gpu-7-2"] == f"device 2 is unhealthy: listed in {file}"
    file.write_text("", "utf-8")
    assert driver.discover().faults == {}


def test_devices_can_be_unhealthy_from_the_start() -> None:
    found = SimulatedDriver("p40-share", "gpu-7", unhealthy=[1]).discover()
    assert found.faults == {"nvidia-gpu-7-1": "device 1 is unhealthy: simulated"}


def test_what_is_not_an_index_is_a_problem_and_the_rest_counts(tmp_path: Path) -> None:
    file = tmp_path / "unhealthy"
    file.write_text("1 eight 8 -3", "utf-8")
    found = SimulatedDriver("dgx1-v100", "gpu-7", file=file).discover()
    assert list(found.faults) == ["nvidia-gpu-7-1"]
    assert found.problems == (f"{file}: eight, 8, -3: expected indices from 0 to 7",)


def test_an_unknown_profile_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="unknown machine profile 'dgx9'; known profiles: dgx1-v100"):
        SimulatedDriver("dgx9", "gpu-7")
