from __future__ import annotations

import pytest

from linkwise.errors import InputError
from linkwise.model.device import Device
from linkwise.model.verdict import Part
from linkwise.vendors.container_needs import ContainerNeeds, Isolation, Mount, container_needs, needs_rules

FIRST = Device("GPU-aa", index=0, minor=3)
SECOND = Device("GPU-bb", index=1, minor=1)


class Fence:
    def limit(self, part: Part) -> Isolation:
        return Isolation((("FENCE_MEMORY", str(part.share)),), (Mount("/opt/fence.so", "/usr/lib/fence.so"),))


class Thief:
    def limit(self, part: Part) -> Isolation:
        return Isolation((("NVIDIA_VISIBLE_DEVICES", part.container),))


@pytest.mark.rule("002.nodes")
def test_nvidia_devices_are_nodes_by_minor_and_names_by_uuid() -> None:
    assert container_needs("nvidia", [FIRST, SECOND]) == ContainerNeeds(
        device_nodes=("/dev/nvidia3", "/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm"),
        environment=(("NVIDIA_VISIBLE_DEVICES", "GPU-aa,GPU-bb"), ("CUDA_VISIBLE_DEVICES", "GPU-aa,GPU-bb")),
        cdi=("nvidia.com/gpu=GPU-aa", "nvidia.com/gpu=GPU-bb"),
        optional_nodes=("/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"),
    )


@pytest.mark.rule("002.nodes")
def test_ascend_devices_are_named_by_ascending_ids() -> None:
    needs = container_needs("ascend", [Device("Ascend910-10", 10), Device("Ascend910-4", 4)])
    assert needs.device_nodes == (
        "/dev/davinci10",
        "/dev/davinci4",
        "/dev/davinci_manager",
        "/dev/devmm_svm",
        "/dev/hisi_hdc",
    )
    assert needs.environment == (("ASCEND_VISIBLE_DEVICES", "4,10"),)
    assert needs.cdi == ("huawei.com/npu=4", "huawei.com/npu=10")


@pytest.mark.rule("002.nodes")
def test_amd_devices_are_render_nodes_and_need_no_variable() -> None:
    needs = container_needs("amd", [Device("a", 0, minor=128, nodes=("/dev/dri/card1",)), Device("b", 1, minor=136)])
    assert needs.device_nodes == ("/dev/dri/renderD128", "/dev/dri/card1", "/dev/dri/renderD136", "/dev/kfd")
    assert (needs.environment, needs.cdi) == ((), ("amd.com/gpu=0", "amd.com/gpu=1"))


@pytest.mark.parametrize("vendor", needs_rules())
def test_a_container_without_devices_needs_nothing(vendor: str) -> None:
    assert container_needs(vendor, []) == ContainerNeeds()


@pytest.mark.parametrize("vendor", needs_rules())
def test_a_device_given_twice_counts_once(vendor: str) -> None:
    assert container_needs(vendor, [FIRST, FIRST]) == container_needs(vendor, [FIRST])


def test_a_minor_is_never_guessed_where_a_guess_may_open_another_device() -> None:
    with pytest.raises(InputError, match="minor number of device 'GPU-cc' is not known"):
        container_needs("nvidia", [Device("GPU-cc", 0)])


def test_a_device_without_a_uuid_can_not_be_named_by_it() -> None:
    with pytest.raises(InputError, match="'#0' has no UUID"):
        container_needs("nvidia", [Device("#0", 0, minor=0)])


def test_an_unknown_vendor_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="'acme' is not known: nvidia, ascend, amd"):
        container_needs("acme", [FIRST])


def test_a_share_gets_what_the_isolation_provider_adds() -> None:
    needs = container_needs("nvidia", [FIRST], Part("main", ("GPU-aa",), share=4), Fence())
    own = {"NVIDIA_VISIBLE_DEVICES": "GPU-aa", "CUDA_VISIBLE_DEVICES": "GPU-aa"}
    assert dict(needs.environment) == {**own, "FENCE_MEMORY": "4"}
    assert needs.mounts == (Mount("/opt/fence.so", "/usr/lib/fence.so"),)


def test_whole_devices_are_not_fenced() -> None:
    whole = Part("main", ("GPU-aa",))
    assert container_needs("nvidia", [FIRST], whole, Fence()) == container_needs("nvidia", [FIRST])


def test_without_a_provider_nothing_is_added_to_a_share() -> None:
    share = Part("main", ("GPU-aa",), share=4)
    assert container_needs("nvidia", [FIRST], share) == container_needs("nvidia", [FIRST])


def test_a_provider_can_not_change_which_devices_are_visible() -> None:
    with pytest.raises(InputError, match="would change NVIDIA_VISIBLE_DEVICES"):
        container_needs("nvidia", [FIRST], Part("main", ("GPU-aa",), share=4), Thief())
