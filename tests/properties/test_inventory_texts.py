"""Over generated inventories: they are read back, and a cut anywhere never makes a wrong value."""

from __future__ import annotations

import string
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from hypothesis import example, given, settings, strategies as st

from linkwise.vendors import ascend as ascend_inventory
from linkwise.vendors.nvidia import inventory as nvidia_inventory
from linkwise.vendors.reader import DeviceFacts
from linkwise.vendors.readers import clean
from support.profile import examples

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.vendors.reader import Reading

READERS = {reader.kind: reader for reader in (*nvidia_inventory.READERS, *ascend_inventory.INVENTORY_READERS)}
ALPHABET = string.ascii_letters + string.digits
BORDER = "+======+========+========+"

Rendered = tuple[str, str, tuple[DeviceFacts, ...]]
"""the kind, the text, and what it tells"""

words = st.text(ALPHABET, min_size=1, max_size=8)
models = st.lists(words, min_size=1, max_size=3).map(" ".join)
memories = st.integers(1, 999_999)
uuids = st.uuids().map(str)
buses = st.integers(0, 0xFFFFFF).map(lambda n: f"{n >> 8 & 0xFFFF:04X}:{n & 0xFF:02X}:00.0")


@st.composite
def machines(draw: st.DrawFn, vendor: str) -> tuple[DeviceFacts, ...]:
    numbers = sorted(draw(st.sets(st.integers(0, 120), min_size=1, max_size=5)))
    driver = draw(words)
    return tuple(
        DeviceFacts(
            f"{vendor}{number}",
            uuid=f"GPU-{draw(uuids)}",
            model=draw(models),
            bus_id=f"{number:04X}{draw(buses)}",
            memory=draw(memories),
            memory_used=draw(memories),
            health=draw(st.sampled_from(["OK", "Warning", "Alarm"])),
            driver=driver,
            parts=tuple(f"MIG-{part}" for part in draw(st.lists(uuids, max_size=2))),
        )
        for number in numbers
    )


def only(device: DeviceFacts, *names: str) -> DeviceFacts:
    plain = DeviceFacts(device.name)
    return replace(
        device, **{field.name: getattr(plain, field.name) for field in fields(device) if field.name not in names}
    )


def number(device: DeviceFacts) -> str:
    return device.name.lstrip(string.ascii_letters)


def gpu_list(devices: tuple[DeviceFacts, ...]) -> Rendered:
    lines = []
    for device in devices:
        lines.append(f"GPU {number(device)}: {device.model} (UUID: {device.uuid})")
        lines += [f"  MIG 1g.5gb     Device  {at}: (UUID: {part})" for at, part in enumerate(device.parts)]
    return "nvidia-smi -L", "\n".join([*lines, ""]), tuple(only(d, "name", "uuid", "model", "parts") for d in devices)


def gpu_log(devices: tuple[DeviceFacts, ...]) -> Rendered:
    lines = ["====NVSMI LOG====", "", f"Driver Version  : {devices[0].driver}", f"Attached GPUs : {len(devices)}"]
    for device in devices:
        lines += [
            f"GPU {device.bus_id}",
            f"    Product Name : {device.model}",
            "    MIG Device",
            "        FB Memory Usage",
            "            Total : 17 MiB",
            f"    GPU UUID     : {device.uuid}",
            "    FB Memory Usage",
            f"        Total    : {device.memory} MiB",
            f"        Used     : {device.memory_used} MiB",
            "    BAR1 Memory Usage",
            "        Total    : 3 MiB",
        ]
    expected = (only(d, "uuid", "model", "bus_id", "memory", "memory_used", "driver") for d in devices)
    return "nvidia-smi -q", "\n".join([*lines, ""]), tuple(replace(d, name=f"GPU{at}") for at, d in enumerate(expected))


def gpu_table(devices: tuple[DeviceFacts, ...]) -> Rendered:
    lines = ["driver_version, index, pstate, uuid, memory.total [MiB], name, pci.bus_id, memory.used [MiB]"]
    lines += [
        f"{d.driver}, {number(d)}, P0, {d.uuid}, {d.memory} MiB, {d.model}, {d.bus_id}, {d.memory_used}"
        for d in devices
    ]
    expected = tuple(only(d, "name", "driver", "uuid", "memory", "model", "bus_id", "memory_used") for d in devices)
    return "nvidia-smi --query-gpu", "\n".join([*lines, ""]), expected


def gpu_links(devices: tuple[DeviceFacts, ...]) -> Rendered:
    lines = []
    for device in devices:
        lines += [f"GPU {number(device)}: {device.model} (UUID: {device.uuid})", "\t Link 0: 25.781 GB/s"]
    return "nvidia-smi nvlink -s", "\n".join([*lines, ""]), tuple(only(d, "name", "uuid", "model") for d in devices)


def npu_table(layout: str) -> Callable[[tuple[DeviceFacts, ...]], Rendered]:
    heads = {
        "card": "| NPU Name | Health | Power |\n| Chip | Bus-Id | HBM |",
        "chip": "| NPU Name | Health | Power |\n| Chip Phy-ID | Bus-Id | HBM |",
        "newest": "| NPU ID | Name | Health | Power |\n| | | Bus-Id | HBM |",
    }
    firsts = {"card": "{n} {d.model}", "chip": "7 {d.model}", "newest": "{n} | {d.model}"}
    seconds = {"card": "0", "chip": "1 {n}", "newest": " | "}

    def rendered(devices: tuple[DeviceFacts, ...]) -> Rendered:
        lines = [f"| npu-smi 1   Version: {devices[0].driver} |", BORDER, heads[layout], BORDER]
        for d in devices:
            lines.append(f"| {firsts[layout].format(n=number(d), d=d)}   | {d.health}  | 1.0  40   3 / 4 |")
            lines.append(
                f"| {seconds[layout].format(n=number(d))}  | {d.bus_id[4:]} | 0   0  / 0   {d.memory_used}/ {d.memory} |"
            )
            lines.append(BORDER)
        expected = (only(d, "name", "model", "health", "driver", "bus_id", "memory", "memory_used") for d in devices)
        return "npu-smi info", "\n".join([*lines, ""]), tuple(replace(d, bus_id=d.bus_id[4:]) for d in expected)

    return rendered


def npu_map(devices: tuple[DeviceFacts, ...]) -> Rendered:
    lines = ["\tNPU ID      Chip ID      Chip Logic ID      Chip Name"]
    for d in devices:
        lines += [
            f"\t{number(d)}           0            {number(d)}           {d.model}",
            f"\t{number(d)}    1     -     Mcu",
        ]
    return "npu-smi info -m", "\n".join([*lines, ""]), tuple(only(d, "name", "model") for d in devices)


def npu_list(devices: tuple[DeviceFacts, ...]) -> Rendered:
    lines = [f"\tTotal Count      : {len(devices)}", ""]
    for d in devices:
        lines += [f"\tNPU ID       : {number(d)}", f"\tProduct Name : {d.model}", "\tChip Count   : 1", ""]
    return "npu-smi info -l", "\n".join(lines), tuple(only(d, "name", "model") for d in devices)


STYLES = {
    "GPU": (gpu_list, gpu_log, gpu_table, gpu_links),
    "NPU": (*map(npu_table, ("card", "chip", "newest")), npu_map, npu_list),
}
texts = st.sampled_from([(vendor, style) for vendor, styles in STYLES.items() for style in styles]).flatmap(
    lambda chosen: machines(chosen[0]).map(chosen[1])
)


def read(kind: str, text: str) -> Reading:
    return READERS[kind].read(clean(text))


@settings(max_examples=examples(300), deadline=None)
@given(texts)
def test_an_inventory_is_read_back(rendered: Rendered) -> None:
    kind, text, expected = rendered
    found = read(kind, text)
    assert next(reader.kind for reader in READERS.values() if reader.recognises(clean(text))) == kind
    assert (found.status, found.problems) == ("no matrix", ())
    assert found.facts == expected
    assert found.devices == tuple(device.name for device in expected)


@settings(max_examples=examples(60), deadline=None)
@given(texts)
def test_a_cut_anywhere_leaves_values_right_empty_or_absent(rendered: Rendered) -> None:
    kind, text, expected = rendered
    known = {device.name: device for device in expected}
    for end in range(len(text)):
        found = read(kind, text[:end])
        assert len(set(found.devices)) == len(found.devices)
        for device in found.facts:
            assert_true(device, known[device.name])
        if found.status == "no matrix" and found.facts:
            assert found.facts == expected[: len(found.facts)] or "parts" in differing(found.facts[-1], expected)


def differing(device: DeviceFacts, expected: tuple[DeviceFacts, ...]) -> set[str]:
    whole = next(other for other in expected if other.name == device.name)
    return {field.name for field in fields(device) if getattr(device, field.name) != getattr(whole, field.name)}


def assert_true(device: DeviceFacts, whole: DeviceFacts) -> None:
    for field in fields(device):
        value, right = getattr(device, field.name), getattr(whole, field.name)
        if field.name == "parts":
            assert value == right[: len(value)]
        else:
            assert value in {right, "", None}, (field.name, value, right)


pieces = st.sampled_from(
    [
        *("GPU 0: A (UUID: GPU-1)", "  MIG 1g Device 0: (UUID: M)", " Link 0: 1 GB/s", "GPU 0000:00:00.0", "NVSMI LOG"),
        *(
            "index, name",
            "0, A",
            "| NPU Name | Health |",
            "| 0 A | OK | 1 |",
            "| 0 | NA | 1/2 |",
            "NPU ID Chip ID Chip Name",
        ),
        *(
            "Total Count : 2",
            "NPU ID : 1",
            "...",
            "|",
            ":",
            ",",
            "\n",
            "\n",
            "\n",
            " ",
            "\t",
            "9" * 5000,
            "٣",
            "²",
            "\u2028",
        ),
    ]
)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(pieces | st.text(max_size=5), max_size=30).map("".join))
@example("index, name\n" + "9" * 5000 + ", A\n")
@example("| NPU ID | Name | Health |\n| 1 | 2 | NA | 1 / 2 |\n||||\n")
def test_no_text_makes_a_reader_fail(text: str) -> None:
    for reader in READERS.values():
        reader.recognises(text)
        found = reader.read(text)
        assert (found.kind, len(found.facts)) == (reader.kind, len(found.devices))
        assert bool(found.problems) == (found.status in {"incomplete", "error"})
