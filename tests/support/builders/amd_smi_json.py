"""JSON of amd-smi and rocm-smi for a machine of the stub, as the tools of ROCm 6 and 7 print it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from support.amdsmi_stub.machine import StubAmd

__all__ = ["amd_smi_json", "rocm_smi_json"]

_TYPES = {1: "PCIE", 2: "XGMI"}


def amd_smi_json(machine: StubAmd, command: str, *, wrapped: bool = False) -> str:
    """The answer to `amd-smi list`, `static`, `topology`, `metric --ecc` (metric) or `metric --usage --mem-usage` (usage).

    `wrapped` as since ROCm 7.
    """
    commands = {"list": _listed, "static": _static, "topology": _topology, "metric": _metric, "usage": _usage}
    records = commands[command](machine)
    return json.dumps({"gpu_data": records} if wrapped else records, indent=4) + "\n"


def rocm_smi_json(machine: StubAmd, command: str) -> str:
    """The answer to `rocm-smi --showuniqueid ... --json` (list), `--showtopo` (topology) or `--showuse --showmeminfo vram` (usage)."""
    if command == "usage":
        return json.dumps(
            {
                f"card{number}": {
                    "GPU use (%)": "N/A" if one.busy is None else str(one.busy),
                    "VRAM Total Memory (B)": str(one.vram),
                    "VRAM Total Used Memory (B)": str(one.used),
                }
                for number, one in enumerate(machine.gpus)
            }
        )
    if command == "topology":
        keys = {one.key: number for number, one in enumerate(machine.gpus)}
        pairs: dict[str, str] = {}
        for (a, b), (kind, weight, hops) in machine.links.items():
            between = f"between DRM devices {keys[a]} and {keys[b]}"
            pairs[f"(Topology) Weight {between}"] = str(weight)
            pairs[f"(Topology) Hops {between}"] = str(hops)
            pairs[f"(Topology) Link type {between}"] = _TYPES[kind]
        numa = {f"card{n}": {"(Topology) Numa Node": str(one.numa)} for n, one in enumerate(machine.gpus)}
        return json.dumps({"system": pairs, **numa})
    listed = {
        f"card{number}": {
            "Unique ID": f"0x{one.uuid[:2]}{one.uuid[21:23]}{one.uuid[24:]}" if one.uuid else "N/A",
            "PCI Bus": f"0000:{one.bus:02X}:00.{one.partition}",
            "Card Series": one.model or "N/A",
            "VRAM Total Memory (B)": str(one.vram),
            "VRAM Total Used Memory (B)": "298307584",
        }
        for number, one in enumerate(machine.gpus)
    }
    return json.dumps({**listed, "system": {"Driver version": machine.gpus[0].driver}})


def _bdf(machine: StubAmd, number: int) -> str:
    one = machine.gpus[number]
    return f"0000:{one.bus:02x}:00.{one.partition}"


def _listed(machine: StubAmd) -> list[dict[str, Any]]:
    return [
        {
            "gpu": n,
            "bdf": _bdf(machine, n),
            "uuid": one.uuid,
            "kfd_id": 100 + n,
            "node_id": 1 + n,
            "partition_id": one.partition,
        }
        for n, one in enumerate(machine.gpus)
    ]


def _static(machine: StubAmd) -> list[dict[str, Any]]:
    return [
        {
            "gpu": n,
            "asic": {"market_name": one.model or "N/A", "vendor_id": "0x1002", "asic_serial": "N/A"},
            "bus": {"bdf": _bdf(machine, n), "max_pcie_width": 16},
            "driver": {"name": "amdgpu", "version": one.driver or "N/A"},
            "vram": {"type": "HBM3", "size": {"value": one.vram >> 20, "unit": "MB"} if one.vram else "N/A"},
            "numa": {"node": one.numa, "affinity": one.numa},
            "partition": {"accelerator_partition": one.compute, "memory_partition": one.memory_mode},
        }
        for n, one in enumerate(machine.gpus)
    ]


def _topology(machine: StubAmd) -> list[dict[str, Any]]:
    found = {**machine.links, **{(b, a): link for (a, b), link in machine.links.items()}}
    records = []
    for n, one in enumerate(machine.gpus):
        links: list[dict[str, Any]] = []
        for m, other in enumerate(machine.gpus):
            link: dict[str, Any] = {"gpu": m, "bdf": _bdf(machine, m), "link_status": "ENABLED"}
            kind, weight, hops = found.get((one.key, other.key), (0, 0, 0))
            link |= {"weight": weight, "link_type": _TYPES.get(kind, "SELF" if n == m else "N/A"), "num_hops": hops}
            links.append(link)
        records.append({"gpu": n, "bdf": _bdf(machine, n), "links": links})
    return records


def _metric(machine: StubAmd) -> list[dict[str, Any]]:
    return [
        {
            "gpu": n,
            "ecc": {"total_correctable_count": one.ecc[0], "total_uncorrectable_count": one.ecc[1]}
            if one.ecc
            else "N/A",
        }
        for n, one in enumerate(machine.gpus)
    ]


def _usage(machine: StubAmd) -> list[dict[str, Any]]:
    return [
        {
            "gpu": n,
            "usage": {"gfx_activity": _with_unit(one.busy, "%"), "umc_activity": "N/A"},
            "mem_usage": {
                "total_vram": _with_unit(one.vram and one.vram >> 20, "MB"),
                "used_vram": _with_unit(one.used and one.used >> 20, "MB"),
            },
        }
        for n, one in enumerate(machine.gpus)
    ]


def _with_unit(value: int | None, unit: str) -> object:
    return "N/A" if value is None else {"value": value, "unit": unit}
