"""Devices of simulated nodes have ids that every process derives from the node's name."""

from __future__ import annotations

from linkwise.vendors.machine import device_id, machine_devices
from linkwise.vendors.machines import profile


def test_the_same_node_has_the_same_devices_in_every_process() -> None:
    devices = machine_devices(profile("p40-share"), "gpu-7", unhealthy=[2])
    assert [device.id for device in devices] == [f"nvidia-gpu-7-{index}" for index in range(4)]
    assert [device.healthy for device in devices] == [True, True, False, True]


def test_ids_of_long_node_names_fit_kubelet_and_differ_by_node() -> None:
    long = "gpu-worker-" + "x" * 80
    ids = {device_id("nvidia", f"{long}{number}.example.com", 15) for number in range(10)}
    assert len(ids) == 10
    assert max(map(len, ids)) <= 63
