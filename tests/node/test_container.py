"""What a container is given with its devices."""

from __future__ import annotations

import pytest

from linkwise.model.device import Device
from linkwise.node.allocation import Allocated
from linkwise.node.container import HostOptions, cdi_spec, devices_given, needs_of
from linkwise.vendors.container_needs import ContainerNeeds, Mount

DEVICES = {f"GPU-{index}": Device(f"GPU-{index}", index, minor=index + 4, memory=15) for index in range(4)}
PLAIN = HostOptions("nvidia", lambda path: path != "/dev/nvidia-modeset", mounts=(Mount("/usr/bin/nvidia-smi", "/x"),))


def allocated(*indices: int, units: int = 0) -> Allocated:
    devices = tuple(f"GPU-{index}" for index in indices)
    ids = tuple(f"{devices[0]}-_-{unit}" for unit in range(units)) or devices
    return Allocated(ids, devices, None, "adopted")


@pytest.mark.rule("002.nodes")
def test_a_device_is_a_list_of_nodes_that_the_host_has() -> None:
    needs = needs_of(allocated(1), DEVICES, [], PLAIN, shared=False)
    assert needs.device_nodes == ("/dev/nvidia5", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
    assert needs.mounts == PLAIN.mounts


@pytest.mark.rule("001.environment")
def test_siblings_are_visible_and_not_used() -> None:
    needs = needs_of(allocated(0, 1), DEVICES, [DEVICES["GPU-2"]], PLAIN, shared=False)
    assert dict(needs.environment) == {
        "NVIDIA_VISIBLE_DEVICES": "GPU-0,GPU-1,GPU-2",
        "CUDA_VISIBLE_DEVICES": "GPU-0,GPU-1",
    }
    assert "/dev/nvidia6" in needs.device_nodes


def test_with_cdi_names_replace_nodes_and_mounts() -> None:
    host = HostOptions("nvidia", lambda _: True, cdi=True)
    needs = needs_of(allocated(0), DEVICES, [DEVICES["GPU-2"]], host, shared=False)
    assert needs.cdi == ("linkwise.dev/nvidia=GPU-0", "linkwise.dev/nvidia=GPU-2")
    assert (needs.device_nodes, needs.mounts) == ((), ())


@pytest.mark.rule("004.environment")
def test_a_share_has_the_variables_of_gpu_share() -> None:
    host = HostOptions("nvidia", lambda _: True, isolated=False)
    environment = dict(needs_of(allocated(3, units=2), DEVICES, [], host, shared=True).environment)
    assert environment["NVIDIA_VISIBLE_DEVICES"] == "GPU-3"
    assert environment["ALIYUN_COM_GPU_MEM_IDX"] == "3"
    assert environment["ALIYUN_COM_GPU_MEM_CONTAINER"] == "2"
    assert environment["ALIYUN_COM_GPU_MEM_DEV"] == "15"
    assert environment["CGPU_DISABLE"] == "true"


def test_the_cdi_specification_has_every_device_and_the_shared_nodes_once() -> None:
    spec = cdi_spec(
        "nvidia", DEVICES.values(), lambda path: f"/driver{path}", lambda path: "tools" not in path, PLAIN.mounts
    )
    assert [device["name"] for device in spec["devices"]] == [*DEVICES]
    assert spec["devices"][0]["containerEdits"]["deviceNodes"] == [
        {"path": "/dev/nvidia4", "hostPath": "/driver/dev/nvidia4", "permissions": "rw"}
    ]
    shared = [node["path"] for node in spec["containerEdits"]["deviceNodes"]]
    assert shared == ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-modeset"]
    assert spec["containerEdits"]["mounts"][0]["options"] == ["ro", "nosuid", "nodev", "bind"]


def test_a_device_without_a_known_node_is_left_out_of_the_specification() -> None:
    assert cdi_spec("nvidia", [Device("GPU-x", 0)])["devices"] == []


GPUS = {f"GPU-{index}": Device(f"GPU-{index}", index, minor=index + 4) for index in range(3)}
CHIPS = {f"Ascend910-{number}": Device(f"Ascend910-{number}", number, number) for number in range(8)}
RADEONS = {f"u{index}": Device(f"u{index}", index, 128 + index, nodes=(f"/dev/dri/card{index}",)) for index in range(3)}


@pytest.mark.parametrize(
    ("needs", "found"),
    [
        (ContainerNeeds(environment=(("NVIDIA_VISIBLE_DEVICES", "2"),)), ("GPU-2",)),
        (ContainerNeeds(environment=(("NVIDIA_VISIBLE_DEVICES", "GPU-0,GPU-2"),)), ("GPU-0", "GPU-2")),
        (ContainerNeeds(device_nodes=("/dev/nvidiactl", "/dev/nvidia5")), ("GPU-1",)),
        (ContainerNeeds(cdi=("k8s.device-plugin.nvidia.com/gpu=GPU-1",)), ("GPU-1",)),
        (ContainerNeeds(mounts=(Mount("/dev/null", "/var/run/nvidia-container-devices/GPU-2"),)), ("GPU-2",)),
        (
            ContainerNeeds(
                environment=(("NVIDIA_VISIBLE_DEVICES", "GPU-0,GPU-1"), ("CUDA_VISIBLE_DEVICES", "GPU-1")),
                device_nodes=("/dev/nvidia4", "/dev/nvidia5"),
            ),
            ("GPU-1",),
        ),
        (ContainerNeeds(environment=(("NVIDIA_VISIBLE_DEVICES", "no-gpu-has-3GiB-to-run"),)), ()),
        (ContainerNeeds(environment=(("NVIDIA_VISIBLE_DEVICES", "all"),)), ()),
        (ContainerNeeds(environment=(("OTHER", "1"),)), ()),
    ],
)
def test_the_devices_of_a_container_are_those_that_it_was_given(needs: ContainerNeeds, found: tuple[str, ...]) -> None:
    assert devices_given(needs, GPUS, "nvidia") == found


def test_the_chips_of_a_container_are_those_of_its_nodes_or_of_the_variable() -> None:
    nodes = ContainerNeeds(device_nodes=("/dev/davinci_manager", "/dev/davinci4", "/dev/davinci5"))
    variable = ContainerNeeds(environment=(("ASCEND_VISIBLE_DEVICES", "4,5"), ("ASCEND_RUNTIME_OPTIONS", "")))
    for needs in (nodes, variable):
        assert devices_given(needs, CHIPS, "ascend") == ("Ascend910-4", "Ascend910-5")


def test_an_amd_gpu_is_known_by_its_nodes() -> None:
    needs = ContainerNeeds(device_nodes=("/dev/kfd", "/dev/dri/renderD129", "/dev/dri/card1"))
    assert devices_given(needs, RADEONS, "amd") == ("u1",)


def test_a_vendor_without_a_rule_names_no_devices() -> None:
    assert devices_given(ContainerNeeds(environment=(("A", "0"),)), GPUS, "unknown") == ()
