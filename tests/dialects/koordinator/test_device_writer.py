"""Koordinator's Device object is left to other writers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from linkwise.dialects.koordinator.device_object import device_object, other_writer
from linkwise.model.device import Device
from linkwise.model.inventory import Discovery
from support.builders.discoveries import box, dgx1

OURS = {"metadata": {"name": "n", "labels": {"linkwise.dev/managed-by": "linkwise-agent"}}}


def managed(manager: str, fields: object = None) -> dict[str, Any]:
    entry = {"manager": manager, "fieldsV1": {"f:spec": {}} if fields is None else fields}
    return {"metadata": {**OURS["metadata"], "managedFields": [entry]}}


@pytest.mark.parametrize(
    ("document", "writer"),
    [
        (None, ""),
        (OURS, ""),
        (managed("linkwise-agent"), ""),
        (managed("koordlet"), "koordlet"),
        (managed("koordlet", {"f:status": {}}), ""),
        (managed("koordlet", "odd"), ""),
        ({"metadata": {**OURS["metadata"], "managedFields": ["odd", None]}}, ""),
        ({"metadata": {"labels": {}}}, "an unknown writer"),
        ({"metadata": None}, "an unknown writer"),
        ({}, "an unknown writer"),
    ],
)
def test_another_writer_is_recognized(document: dict[str, Any] | None, writer: str) -> None:
    assert other_writer(document) == writer


def test_the_object_that_is_written_is_ours() -> None:
    assert other_writer(device_object("n", dgx1(), {})) == ""


def test_the_matrix_is_written_as_in_the_seed() -> None:
    spec: Any = device_object("n", dgx1(), {})["spec"]
    (matrix,) = spec["topologies"]["gpu"]
    assert matrix["name"] == "bandwidth"
    assert matrix["topology"].startswith("[[750.48,48.39,48.39,96.46,")


def test_without_measured_bandwidth_there_is_no_matrix() -> None:
    spec: Any = device_object("n", box(2), {})["spec"]
    assert "topologies" not in spec


def test_what_is_not_known_of_a_device_is_left_out_or_written_as_koordlet_does() -> None:
    devices = (Device("GPU-0", 0, healthy=False), Device("GPU-1", 1, 3, bus_id="0000:03:00.0", memory=1024))
    spec: Any = device_object("n", replace(Discovery("nvidia"), devices=devices), {})["spec"]
    assert spec["devices"] == [
        {
            "type": "gpu",
            "id": "GPU-0",
            "minor": 0,
            "health": False,
            "resources": {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"},
        },
        {
            "type": "gpu",
            "id": "GPU-1",
            "minor": 3,
            "health": True,
            "resources": {
                "koordinator.sh/gpu-core": "100",
                "koordinator.sh/gpu-memory-ratio": "100",
                "koordinator.sh/gpu-memory": "1073741824",
            },
            "topology": {"socketID": -1, "nodeID": -1, "pcieID": "", "busID": "0000:03:00.0"},
        },
    ]


@pytest.mark.parametrize(("vendor", "name"), [("nvidia", "nvidia"), ("ascend", "huawei")])
def test_vendors_have_koordinators_names(vendor: str, name: str) -> None:
    metadata: Any = device_object("n", box(1, vendor=vendor), {})["metadata"]
    assert metadata["labels"]["node.koordinator.sh/gpu-vendor"] == name
