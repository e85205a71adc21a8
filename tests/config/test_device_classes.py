"""DeviceClasses of the agent's driver: one for single devices and one for each size of its sets."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from linkwise.config.device_classes import CLASSES, device_classes_yaml
from linkwise.dialects.kubernetes.claims.driver import DRIVER, slice_object
from linkwise.dialects.kubernetes.claims.objects import class_of, slice_of
from linkwise.dialects.kubernetes.claims.pools import devices_on, pool_problem
from linkwise.dialects.kubernetes.claims.selectors import selects
from linkwise.node.dra.pool import pool_of
from linkwise.node.dra.sets import SET_NAMES
from support.builders.discoveries import dgx1


def classes(resource: str = "") -> dict[str, Any]:
    return {one["metadata"]["name"]: one for one in yaml.safe_load_all(device_classes_yaml(resource))}


def test_each_type_of_device_that_is_published_has_a_class() -> None:
    parts: Any = pool_of(dgx1(), {}).parts
    types = {device["attributes"]["type"]["string"] for part in parts for device in part.get("devices", ())}
    assert types == {kind for kind, _ in CLASSES.values()} == {"device", *SET_NAMES.values()}


def test_only_single_devices_have_an_extended_resource_and_only_on_request() -> None:
    assert not [name for name, one in classes().items() if "extendedResourceName" in one["spec"]]
    named = {
        name: one["spec"]["extendedResourceName"]
        for name, one in classes("nvidia.com/gpu").items()
        if "extendedResourceName" in one["spec"]
    }
    assert named == {"gpu.linkwise.dev": "nvidia.com/gpu"}


def test_a_class_selects_the_devices_of_its_type_and_no_others() -> None:
    devices = [device for one in read() for device in one.devices]
    for name, (kind, _) in CLASSES.items():
        (selector,) = classes()[name]["spec"]["selectors"]
        chosen = [each for each in devices if selects(selector["cel"]["expression"], DRIVER, each)]
        assert chosen == [each for each in devices if each.attribute(f"{DRIVER}/type") == kind]


@pytest.mark.parametrize(("allocated", "left"), [((), 8), (("gpu-0",), 8), (("pair-0-3", "four-4-5-6-7"), 2)])
def test_the_published_pool_is_complete_and_counts_as_the_devices_that_can_be_had(
    allocated: tuple[str, ...], left: int
) -> None:
    """Those of sets that claims have are no longer to be had on their own."""
    slices, wanted = read(), class_of(DRIVER, classes("nvidia.com/gpu")[DRIVER])
    assert wanted is not None
    assert pool_problem(slices) == ""
    assert len(devices_on("gpu-1", slices, wanted, allocated)) == left


def read() -> list[Any]:
    """The slices of a machine, as the service reads them."""
    parts = pool_of(dgx1(), {}).parts
    documents = [slice_object("gpu-1", number, part, 1, len(parts)) for number, part in enumerate(parts)]
    return [slice_of(str(number), document) for number, document in enumerate(documents)]
