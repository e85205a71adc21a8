"""A row of a bandwidth test belongs to one device for certain, or the output is refused."""

from __future__ import annotations

import pytest

from linkwise.drivers.measured_bandwidth import bound_rows
from linkwise.errors import InputError
from linkwise.model.device import Device
from linkwise.vendors.reader import DeviceFacts, Reading

ZEROS = ((0.0,) * 3,) * 3


def device(index: int, bus: str = "", model: str = "V100") -> Device:
    return Device(f"GPU-{index}", index, bus_id=bus, model=model)


def reading(*facts: DeviceFacts, rows: int = 3) -> Reading:
    return Reading("test", "ok", tuple(f"GPU{row}" for row in range(rows)), bandwidth=ZEROS, facts=facts)


def ids(rows: tuple[Device, ...]) -> list[str]:
    return [one.id for one in rows]


THREE = [device(0, "0000:0b:00.0"), device(1, "0000:07:00.0"), device(2, "0000:0f:00.0")]


def test_a_row_belongs_to_the_device_at_the_printed_bus_id() -> None:
    facts = [DeviceFacts(f"GPU{row}", bus_id=f"00000000:{bus}:00.0") for row, bus in enumerate(("0F", "0b", "07"))]
    assert ids(bound_rows(THREE, reading(*facts))) == ["GPU-2", "GPU-0", "GPU-1"]


def test_some_devices_may_have_no_row_if_bus_ids_are_printed() -> None:
    facts = [DeviceFacts(f"GPU{row}", bus_id=f"00000000:{bus}:00.0") for row, bus in enumerate(("0f", "07"))]
    assert ids(bound_rows(THREE, reading(*facts, rows=2))) == ["GPU-2", "GPU-1"]


def test_without_bus_ids_the_order_is_that_of_the_bus() -> None:
    assert ids(bound_rows(THREE, reading())) == ["GPU-1", "GPU-0", "GPU-2"]


def test_the_order_may_be_named_by_index_and_uuid() -> None:
    assert ids(bound_rows(THREE, reading(), ["2", "GPU-0", "1"])) == ["GPU-2", "GPU-0", "GPU-1"]


@pytest.mark.parametrize(
    ("read", "named", "sentence"),
    [
        (reading(rows=2), (), "it has 2 rows for 3 devices"),
        (reading(rows=2), ("0", "1", "2"), "it has 2 rows, but 3 devices are named"),
        (reading(), ("0", "1", "7"), "unknown device '7'; this node has the devices 0, 1, 2"),
        (reading(), ("0", "1", "GPU-0"), "device 0 is named twice"),
        (
            reading(DeviceFacts("GPU0", bus_id="00000000:99:00.0"), rows=1),
            (),
            "it has a row for 0000:99:00.0, where this node has no device",
        ),
        (
            reading(DeviceFacts("GPU0", bus_id="00000000:0f:00.0"), rows=1),
            ("0",),
            "row 0 is of the device at 0000:0f:00.0, but the named device 0 is at 0000:0b:00.0",
        ),
        (reading(DeviceFacts("GPU1", model="NVIDIA A100")), (), "row GPU1 is of a NVIDIA A100, but device 0 is a V100"),
        (
            reading(*(DeviceFacts(f"GPU{row}", bus_id="00000000:0f:00.0") for row in range(3))),
            (),
            "two of its rows are of the same bus id",
        ),
    ],
)
def test_rows_of_other_devices_are_refused(read: Reading, named: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(InputError) as error:
        bound_rows(THREE, read, named)
    assert str(error.value) == sentence


def test_devices_of_several_models_need_bus_ids_or_a_named_order() -> None:
    mixed = [device(0, model="A100"), device(1, model="V100")]
    with pytest.raises(InputError, match="CUDA orders devices of different models"):
        bound_rows(mixed, reading(rows=2))
    assert ids(bound_rows(mixed, reading(rows=2), ["1", "0"])) == ["GPU-1", "GPU-0"]


def test_the_vendor_in_a_model_name_makes_no_difference() -> None:
    assert bound_rows([device(0, model="Tesla V100")], reading(DeviceFacts("GPU0", model="NVIDIA Tesla V100"), rows=1))
