"""Containers of a group's members see the devices of their group on the node, if the administrator lets them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import pytest

from linkwise.dialects.koordinator.dialect import TOPOLOGY, VISIBLE_SIBLINGS
from linkwise.dialects.linkwise.dialect import GRANT, grant_text
from linkwise.model.device import Device
from linkwise.model.settings import Visibility
from linkwise.model.verdict import Grant, Offer, Part
from linkwise.model.views import ContainerView, PodView
from linkwise.node.container import visible_devices

if TYPE_CHECKING:
    from collections.abc import Sequence

DEVICES = tuple(Device(f"GPU-{letter}", index) for index, letter in enumerate("abcdefgh"))
OWN = ("GPU-e", "GPU-f")
GROUP = ("GPU-e", "GPU-f", "GPU-g", "GPU-h")


def member(*parts: Part, visible: str = '["4","5","6","7"]', says: str | None = None) -> PodView:
    """A bound member of a group, with its record."""
    parts = parts or (Part("main", OWN),)
    grant = Grant("uid", "bandwidth", Offer("n", parts), mode="share" if parts[0].share else "whole")
    record = grant_text(grant, devices={device.id: device for device in DEVICES})
    words = {GRANT: record, TOPOLOGY: f'{{"allocatedGPUs":{{"0":["4","5"]}},"visibleGPUs":{visible}}}'}
    annotations = words if says is None else {**words, VISIBLE_SIBLINGS: says}
    return PodView("team", "train-0", "uid", (ContainerView("main"),), annotations=annotations, node="n")


def seen(pod: PodView, own: Sequence[str] = OWN, *, visibility: Visibility = "group") -> tuple[str, ...]:
    return visible_devices(pod, own, DEVICES, visibility)


@pytest.mark.rule("001.environment", level="L")
@pytest.mark.parametrize(
    ("visibility", "says", "expected"),
    [
        ("group", None, GROUP),
        ("group", "true", GROUP),
        ("group", "false", OWN),
        ("group", "yes", OWN),
        ("opt-in", None, OWN),
        ("opt-in", "true", GROUP),
        ("opt-in", "yes", OWN),
        ("never", None, OWN),
        ("never", "true", OWN),
    ],
)
def test_the_setting_and_the_pod_decide_whether_containers_see_their_group(
    visibility: Visibility, says: str | None, expected: tuple[str, ...]
) -> None:
    assert seen(member(says=says), visibility=visibility) == expected


@pytest.mark.rule("001.environment", level="L")
def test_a_container_sees_the_other_containers_of_its_pod_too() -> None:
    two = member(Part("main", OWN), Part("side", ("GPU-a",)), visible='["0","4","5"]')
    assert seen(two, ("GPU-a",)) == ("GPU-a", "GPU-e", "GPU-f")


def test_indices_are_translated_by_the_devices_of_the_node() -> None:
    backwards = tuple(replace(device, index=7 - device.index) for device in DEVICES)
    pod = member()
    moved = replace(pod, annotations={**pod.annotations, GRANT: pod.annotations[GRANT].replace("[4,5]", "[3,2]")})
    shown = replace(moved, annotations={**moved.annotations, TOPOLOGY: '{"visibleGPUs":["0","1","2","3"]}'})
    assert visible_devices(shown, OWN, backwards, "group") == ("GPU-h", "GPU-g", "GPU-f", "GPU-e")


def test_a_record_whose_indices_have_shifted_shows_no_others() -> None:
    left = tuple(replace(device, index=index) for index, device in enumerate(DEVICES[1:]))
    assert visible_devices(member(), OWN, left, "group") == OWN


def test_a_container_that_got_other_devices_than_recorded_sees_only_these() -> None:
    assert seen(member(), ("GPU-a", "GPU-b")) == ("GPU-a", "GPU-b")


def test_a_swap_of_devices_among_members_changes_nothing() -> None:
    assert seen(member(), ("GPU-g", "GPU-h")) == GROUP


def test_failed_devices_of_others_are_not_shown_and_own_ones_are() -> None:
    failed = tuple(replace(device, healthy=device.id not in {"GPU-e", "GPU-h"}) for device in DEVICES)
    assert visible_devices(member(), OWN, failed, "group") == ("GPU-e", "GPU-f", "GPU-g")


def test_a_pod_with_a_part_of_a_device_sees_no_others() -> None:
    assert seen(member(Part("main", ("GPU-e",), share=4)), ("GPU-e",)) == ("GPU-e",)


@pytest.mark.parametrize("visible", ['["6","7"]', '"all"', "[]", '["4","5","99"]'])
def test_an_invalid_record_shows_only_the_containers_own_devices(visible: str) -> None:
    assert seen(member(visible=visible)) == OWN


@pytest.mark.parametrize("visibility", get_args(Visibility))
def test_a_pod_without_a_record_sees_its_own_devices(visibility: Visibility) -> None:
    assert seen(PodView("team", "alone", "uid"), visibility=visibility) == OWN
    bare = replace(member(), annotations={TOPOLOGY: '{"allocatedGPUs":{"0":["4","5"]},"visibleGPUs":["4","5","6"]}'})
    assert seen(bare, visibility=visibility) == OWN
