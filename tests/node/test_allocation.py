"""Which pod a call of the kubelet is for, and which devices it gets."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.model.device import Device
from linkwise.model.node import Node
from linkwise.model.views import ContainerView, PodView
from linkwise.node.allocation import Allocated, Allocations, Listed, Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

GPU = "nvidia.com/gpu"
MEMORY = "aliyun.com/gpu-mem"
DEVICES = {f"GPU-{index}": Device(f"GPU-{index}", index, memory=4) for index in range(4)}
UNITS = [f"GPU-{index}-_-{unit}" for index in range(4) for unit in range(4)]


def grant(uid: str, mode: str = "whole", **containers: tuple[int, ...]) -> dict[str, str]:
    share = 2 if mode == "share" else 0
    parts = {
        name: {"core": 0, "devices": [f"GPU-{index}" for index in own], "share": share}
        for name, own in containers.items()
    }
    record = {
        "containers": parts,
        "generation": 0,
        "mode": mode,
        "node": "n",
        "plan": "",
        "pod": uid,
        "policy": "link-affinity",
        "version": 1,
    }
    return {"linkwise.dev/grant": json.dumps(record, separators=(",", ":"))}


def pod(name: str, count: int, *, resource: str = GPU, **record: tuple[int, ...]) -> PodView:
    uid = f"uid-{name}"
    mode = "share" if resource == MEMORY else "whole"
    annotations = grant(uid, mode, **record) if record else {}
    main = ContainerView("main", limits={resource: str(count)})
    return PodView("default", name, uid, (main,), annotations=annotations, node="n")


def first(available: Sequence[str], required: Sequence[str], size: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*required, *sorted(available))))[:size]


def whole(*pods: PodView) -> Allocations:
    allocations = Allocations(GPU, shared=False, pick=first, devices=DEVICES)
    for each in pods:
        allocations.observe(each)
    return allocations


def shared(*pods: PodView) -> Allocations:
    allocations = Allocations(MEMORY, shared=True, pick=first, devices=DEVICES)
    for each in pods:
        allocations.observe(each)
    return allocations


def listed(name: str, *ids: str) -> Listed:
    return Listed("default", name, "main", ids)


@pytest.mark.rule("000.agree")
def test_the_kubelet_is_steered_to_the_recorded_devices() -> None:
    allocations = whole(pod("a", 2, main=(1, 3)))
    assert allocations.preferred([*DEVICES], [], 2) == ("GPU-1", "GPU-3")


def test_without_a_record_the_scheduler_s_choice_is_made_among_devices_that_are_not_promised() -> None:
    allocations = whole(pod("stranger", 2), pod("b", 2, main=(0, 1)))
    assert allocations.preferred([*DEVICES], [], 2) == ("GPU-2", "GPU-3")


def test_promised_devices_are_preferred_if_nothing_else_is_left() -> None:
    allocations = whole(pod("stranger", 2), pod("b", 2, main=(0, 1)))
    assert allocations.preferred(["GPU-0", "GPU-1"], [], 2) == ("GPU-0", "GPU-1")


def test_a_preferred_allocation_never_fails() -> None:
    assert whole().preferred(["GPU-0"], [], 3) == ("GPU-0",)
    assert shared().preferred(UNITS[:6], [], 6) == tuple(UNITS[:6])


def test_required_ids_are_always_part_of_the_preferred_ones() -> None:
    allocations = whole(pod("a", 2, main=(1, 3)))
    assert set(allocations.preferred([*DEVICES], ["GPU-0"], 2)) == {"GPU-0", "GPU-2"}


@pytest.mark.rule("004.allocate")
def test_the_earliest_pod_of_the_same_size_is_served_first() -> None:
    allocations = shared(pod("a", 2, resource=MEMORY, main=(3,)), pod("b", 2, resource=MEMORY, main=(1,)))
    ids = allocations.preferred(UNITS, [], 2)
    assert ids == ("GPU-3-_-0", "GPU-3-_-1")
    answer = allocations.allocate(ids, 0.0)
    assert isinstance(answer, Allocated)
    assert answer.claim is not None
    assert answer.claim.pod.name == "a"
    assert allocations.preferred(UNITS[:12], [], 2) == ("GPU-1-_-0", "GPU-1-_-1")


@pytest.mark.rule("004.allocate")
def test_the_last_units_of_the_recorded_device_are_enough() -> None:
    allocations = shared(pod("a", 2, resource=MEMORY, main=(3,)))
    left = [*(unit for unit in UNITS if not unit.startswith("GPU-3")), "GPU-3-_-11", "GPU-3-_-2"]
    assert allocations.preferred(left, [], 2) == ("GPU-3-_-2", "GPU-3-_-11")


@pytest.mark.rule("004.allocate")
def test_units_of_two_devices_are_not_preferred_whatever_is_required_or_left() -> None:
    allocations = shared(pod("a", 2, resource=MEMORY, main=(3,)))
    assert allocations.preferred(UNITS, ["GPU-3-_-3"], 2) == ("GPU-3-_-3", "GPU-3-_-0")
    assert allocations.preferred(UNITS, ["GPU-1-_-0"], 2) == ("GPU-1-_-0", "GPU-1-_-1")
    assert "GPU-3-_-0" not in allocations.preferred(UNITS[:13], [], 2)


def test_pods_that_the_kubelet_serves_in_another_order_swap_their_records() -> None:
    allocations = whole(pod("a", 1, main=(0,)), pod("b", 1, main=(1,)))
    allocations.allocate(["GPU-0"], 0.0)
    allocations.allocate(["GPU-1"], 0.0)
    corrections = allocations.settle([listed("a", "GPU-1"), listed("b", "GPU-0")], 1.0)
    assert [(each.pod.name, each.grant.offer.devices, each.swapped) for each in corrections] == [
        ("a", ("GPU-1",), True),
        ("b", ("GPU-0",), True),
    ]


def test_devices_other_than_the_recorded_ones_correct_the_record() -> None:
    allocations = whole(pod("a", 1, main=(0,)))
    answer = allocations.allocate(["GPU-2"], 0.0)
    assert isinstance(answer, Allocated)
    assert answer.how == "other devices"
    (correction,) = allocations.settle([listed("a", "GPU-2")], 1.0)
    assert correction.grant.offer.devices == ("GPU-2",)
    assert not correction.swapped


def test_a_pod_on_its_recorded_devices_needs_no_correction() -> None:
    allocations = whole(pod("a", 2, main=(0, 1)))
    allocations.allocate(["GPU-1", "GPU-0"], 0.0)
    assert allocations.settle([listed("a", "GPU-0", "GPU-1")], 1.0) == ()
    assert [each.name for each in allocations.complete()] == ["a"]
    assert allocations.in_use() == {"uid-a": ("GPU-0", "GPU-1")}


def test_devices_are_in_index_order_whatever_order_the_kubelet_lists_them_in() -> None:
    allocations = whole(pod("a", 2, main=(0, 1)))
    answer = allocations.allocate(["GPU-1", "GPU-0"], 0.0)
    assert isinstance(answer, Allocated)
    assert answer.devices == ("GPU-0", "GPU-1")
    allocations.settle([listed("a", "GPU-1", "GPU-0")], 1.0)
    assert allocations.in_use() == {"uid-a": ("GPU-0", "GPU-1")}


def test_whole_devices_of_an_unknown_pod_are_adopted() -> None:
    answer = whole().allocate(["GPU-0"], 0.0)
    assert isinstance(answer, Allocated)
    assert (answer.claim, answer.how) == (None, "adopted")


def test_a_share_without_a_record_is_refused() -> None:
    answer = shared().allocate(UNITS[:2], 0.0)
    assert isinstance(answer, Refused)
    assert "must be scheduled by Linkwise" in answer.sentence


def test_a_pod_without_a_record_gets_no_share_and_does_not_stand_in_the_way_of_the_next() -> None:
    allocations = shared(pod("stranger", 2, resource=MEMORY), pod("b", 2, resource=MEMORY, main=(1,)))
    refused = allocations.allocate(allocations.preferred(UNITS, [], 2), 0.0)
    assert isinstance(refused, Refused)
    assert "must be scheduled by Linkwise" in refused.sentence
    answer = allocations.allocate(allocations.preferred(UNITS, [], 2), 0.0)
    assert isinstance(answer, Allocated)
    assert (answer.devices, answer.how) == (("GPU-1",), "recorded")


def test_shares_of_two_devices_are_refused() -> None:
    answer = shared(pod("a", 2, resource=MEMORY, main=(0,))).allocate(["GPU-0-_-0", "GPU-1-_-0"], 0.0)
    assert isinstance(answer, Refused)
    assert "must be on one device" in answer.sentence


def test_devices_are_in_use_from_the_record_of_a_waiting_container_to_the_end_of_its_pod() -> None:
    allocations = whole(pod("a", 1, main=(0,)), pod("b", 1, main=(1,)))
    allocations.allocate(["GPU-0"], 0.0)
    has, waits = {"GPU-0": "pod default/a has it"}, {"GPU-1": "pod default/b is about to get it"}
    assert allocations.users([]) == ({**has, **waits}, "")
    assert allocations.users([listed("other", "GPU-2")]) == ({**has, **waits, "GPU-2": "pod default/other has it"}, "")
    allocations.forget("uid-b")
    assert allocations.users([]) == (has, "")


def test_a_device_that_is_gone_is_not_among_those_of_its_pod() -> None:
    allocations = whole(pod("a", 2, main=(0, 1)))
    allocations.allocate(["GPU-0", "GPU-1"], 0.0)
    allocations.devices = {"GPU-1": DEVICES["GPU-1"]}
    assert allocations.devices_of("uid-a") == (DEVICES["GPU-1"],)
    assert allocations.devices_of("unknown") == ()


def test_any_device_may_be_that_of_a_waiting_container_without_a_record() -> None:
    busy, unknown = whole(pod("a", 1, main=(0,)), pod("b", 1)).users([])
    assert busy == {"GPU-0": "pod default/a is about to get it"}
    assert unknown == "pod default/b is about to get devices, and it is not known which"


def test_an_unhealthy_or_unknown_device_is_refused_and_nothing_changes() -> None:
    allocations = whole(pod("a", 1, main=(0,)))
    allocations.devices = {**DEVICES, "GPU-0": Device("GPU-0", 0, healthy=False)}
    assert isinstance(allocations.allocate(["GPU-0"], 0.0), Refused)
    assert isinstance(allocations.allocate(["GPU-9"], 0.0), Refused)
    assert allocations.expects(1)


def test_an_answer_that_the_kubelet_never_lists_is_taken_back() -> None:
    allocations = whole(pod("a", 1, main=(0,)))
    allocations.allocate(["GPU-0"], 10.0)
    allocations.settle([], 11.0)
    assert not allocations.expects(1)
    allocations.settle([], 20.0)
    assert allocations.expects(1)


def test_an_answer_that_was_for_another_pod_is_taken_back_at_once() -> None:
    allocations = whole(pod("a", 1, main=(0,)), pod("b", 1, main=(1,)))
    allocations.allocate(["GPU-0"], 0.0)
    (correction,) = allocations.settle([listed("b", "GPU-0")], 1.0)
    assert (correction.pod.name, correction.swapped) == ("b", True)
    assert allocations.in_use() == {"uid-b": ("GPU-0",)}
    assert allocations.expects(1)


def test_a_kubelet_that_lost_its_checkpoint_gives_a_pod_the_same_devices_again() -> None:
    allocations = whole(pod("a", 1, main=(2,)))
    allocations.settle([listed("a", "GPU-2")], 1.0)
    allocations.settle([], 20.0)
    assert allocations.preferred([*DEVICES], [], 1) == ("GPU-2",)


def test_containers_of_one_pod_get_their_own_lists() -> None:
    two = (ContainerView("one", limits={GPU: "1"}), ContainerView("two", limits={GPU: "2"}))
    allocations = whole(PodView("default", "a", "u", two, annotations=grant("u", one=(3,), two=(0, 1)), node="n"))
    assert allocations.preferred([*DEVICES], [], 2) == ("GPU-0", "GPU-1")
    allocations.allocate(["GPU-0", "GPU-1"], 0.0)
    assert allocations.complete() == ()
    assert allocations.preferred(["GPU-2", "GPU-3"], [], 1) == ("GPU-3",)


def test_an_init_container_uses_the_devices_of_the_containers_after_it() -> None:
    containers = (ContainerView("init", limits={GPU: "1"}, init=True), ContainerView("main", limits={GPU: "2"}))
    allocations = whole(PodView("default", "a", "u", containers, annotations=grant("u", main=(2, 3)), node="n"))
    assert allocations.preferred([*DEVICES], [], 1) == ("GPU-2",)


def test_an_init_container_uses_the_devices_of_the_sidecar_that_starts_next() -> None:
    containers = (
        ContainerView("init", limits={GPU: "1"}, init=True),
        ContainerView("sidecar", limits={GPU: "1"}, init=True, sidecar=True),
        ContainerView("main", limits={GPU: "2"}),
    )
    record = grant("u", sidecar=(1,), main=(2, 3))
    allocations = whole(PodView("default", "a", "u", containers, annotations=record, node="n"))
    assert allocations.preferred([*DEVICES], [], 1) == ("GPU-1",)


def test_an_init_container_keeps_its_devices_while_the_next_container_is_served() -> None:
    containers = (ContainerView("init", limits={GPU: "1"}, init=True), ContainerView("main", limits={GPU: "2"}))
    allocations = whole(PodView("default", "a", "u", containers, annotations=grant("u", main=(2, 3)), node="n"))
    allocations.allocate(["GPU-2"], 0.0)
    assert allocations.preferred([*DEVICES], ["GPU-2"], 2) == ("GPU-2", "GPU-3")
    assert not allocations.expects(1)


def test_finished_pods_have_no_claims() -> None:
    running = pod("a", 1, main=(0,))
    allocations = whole(running)
    allocations.observe(PodView("default", "a", "uid-a", running.containers, node="n", phase="Succeeded"))
    assert allocations.claims() == ()


def test_pods_of_one_name_are_distinguished_by_uid() -> None:
    old = pod("a", 1, main=(0,))
    allocations = whole(old)
    allocations.allocate(["GPU-0"], 0.0)
    allocations.keep(frozenset({"uid-new"}))
    allocations.observe(PodView("default", "a", "uid-new", old.containers, node="n"))
    assert allocations.expects(1)


def test_ids_of_other_plugins_are_understood() -> None:
    allocations = whole(pod("index", 1), pod("slice", 1))
    allocations.settle([listed("index", "2"), listed("slice", "GPU-3::1")], 1.0)
    assert allocations.in_use() == {"uid-index": ("GPU-2",), "uid-slice": ("GPU-3",)}


def requiring(pod: PodView, text: str) -> PodView:
    return replace(pod, annotations={**pod.annotations, "linkwise.dev/require": text})


def with_facts(allocations: Allocations) -> Allocations:
    """Of four devices with CUDA 12.2 the last two are H100."""
    models = {name: "NVIDIA H100" if device.index > 1 else "NVIDIA A100" for name, device in DEVICES.items()}
    devices = tuple(replace(device, model=models[name]) for name, device in DEVICES.items())
    allocations.facts = Node("n", devices, facts={"cuda": "12.2"})
    return allocations


@pytest.mark.rule("002.versions")
def test_devices_that_do_not_meet_what_the_pod_requires_are_refused_and_the_next_pod_is_served() -> None:
    allocations = with_facts(whole(requiring(pod("new", 1), "cuda>=12.4"), pod("any", 1)))
    refused = allocations.allocate(["GPU-0"], 0.0)
    assert refused == Refused(
        "pod default/new: cuda>=12.4 is required by linkwise.dev/require, but the node has CUDA version 12.2"
    )
    served = allocations.allocate(["GPU-0"], 1.0)
    assert isinstance(served, Allocated)
    assert served.claim
    assert served.claim.pod.name == "any"


@pytest.mark.rule("002.versions")
def test_devices_that_meet_it_are_preferred_where_no_record_has_chosen() -> None:
    allocations = with_facts(whole(requiring(pod("h", 2), "model=H100")))
    assert allocations.preferred(sorted(DEVICES), (), 2) == ("GPU-2", "GPU-3")
    assert isinstance(allocations.allocate(["GPU-2", "GPU-3"], 0.0), Allocated)


@pytest.mark.rule("002.versions")
def test_a_preferred_allocation_never_fails_for_a_requirement() -> None:
    allocations = with_facts(whole(requiring(pod("h", 2), "model=V100")))
    assert len(allocations.preferred(sorted(DEVICES), (), 2)) == 2
    assert isinstance(allocations.allocate(["GPU-0", "GPU-1"], 0.0), Refused)


@pytest.mark.rule("002.versions")
def test_shares_meet_requirements_too() -> None:
    allocations = with_facts(shared(requiring(pod("p", 2, resource=MEMORY, main=(0,)), "model=H100")))
    assert isinstance(allocations.allocate(UNITS[:2], 0.0), Refused)


@pytest.mark.rule("002.versions")
def test_a_requirement_that_cant_be_read_is_refused_with_its_column() -> None:
    refused = with_facts(whole(requiring(pod("p", 1), "cuda>=?"))).allocate(["GPU-0"], 0.0)
    assert refused == Refused("pod default/p: linkwise.dev/require: column 7: unexpected character '?'")
