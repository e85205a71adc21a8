"""Builders of nodes as Kubernetes objects: the Node, and the objects that report its devices.

Every builder returns a list for `Cluster.create`. Device ids are derived from the name of the node and are the same in
every run.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import NAMESPACE_DNS, uuid5

from linkwise.dialects.linkwise.inventory import SOURCE, inventory_object
from linkwise.dialects.nvidia import TOPOLOGY, matrix_annotation
from linkwise.model.device import Device
from linkwise.model.inventory import NodeFacts
from linkwise.model.topology import Topology
from linkwise.vendors.machines import profile

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from linkwise.model.node import Mode
    from linkwise.vendors.machines import MachineProfile
    from support.e2e.api_client import Raw

__all__ = ["KINDS", "RESOURCE", "ascend", "device_ids", "gpushare", "koordinator", "machine", "node"]

RESOURCE: Final = {"nvidia": "nvidia.com/gpu", "ascend": "huawei.com/Ascend910", "amd": "amd.com/gpu"}
"""of whole devices, by the vendor of a machine profile"""

KINDS: Final = {
    "nvlink": "dgx1-v100",
    "switch": "hgx-h100",
    "mixed": "a100-bridged",
    "pcie": "v100-pcie",
    "measured": "dgx1-v100-measured",
}
"""profiles by how their devices are linked"""

DeviceSource = Literal["inventory", "annotation", "labels", "count"]
"""what reports the devices: our agent, an annotation with the links, GPU Feature Discovery, or the kubelet's count alone"""

ChipSource = Literal["config map", "annotation"]
"""where Huawei's device plugin reports its chips"""

GIB: Final = 1024  # MiB


def node(
    name: str,
    resources: Mapping[str, int | str] | None = None,
    *,
    allocatable: Mapping[str, int | str] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Raw:
    """A Node that is ready; what is allocatable differs from its capacity only where that is said."""
    capacity = {"cpu": "64", "memory": "512Gi", "pods": "110", **_texts(resources)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
            "annotations": dict(annotations or {}),
        },
        "status": {
            "capacity": capacity,
            "allocatable": {**capacity, **_texts(allocatable)},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "a test's word"}],
        },
    }


def device_ids(name: str, machine: str | MachineProfile) -> tuple[str, ...]:
    """The ids of a node's devices, in the order of their indices."""
    found = profile(machine) if isinstance(machine, str) else machine
    prefix = "GPU" if found.vendor == "nvidia" else "NPU" if found.vendor == "ascend" else "AMD"
    return tuple(f"{prefix}-{uuid5(NAMESPACE_DNS, f'{name}/{index}')}" for index in range(found.devices))


def machine(  # noqa: PLR0913 - a builder: every field but two has a default
    name: str,
    kind: str,
    *,
    source: DeviceSource = "inventory",
    links: bool = True,
    unhealthy: Collection[int] = (),
    labels: Mapping[str, str] | None = None,
    allocations: Mapping[str, tuple[str, ...]] | None = None,
) -> list[Raw]:
    """A node of a machine profile, or of a word of KINDS; without its links if so said.

    An unhealthy device is not allocatable. `allocations` are ids of devices by pod UID, as an agent has seen them in use.
    """
    found = profile(KINDS.get(kind, kind))
    resources = _resources(found, found.devices)
    usable = resources if found.shared else _resources(found, found.devices - len(unhealthy))
    about = {**_labels(found, source), **(labels or {})}
    keys = {TOPOLOGY: matrix_annotation(found.topology)} if source == "annotation" and links else {}
    host: dict[str, int | str] = {"cpu": found.cpus, "memory": f"{found.host_memory}Gi"}
    made = node(name, {**host, **resources}, allocatable=usable, labels=about, annotations=keys)
    if source != "inventory":
        return [made]
    facts = _facts(name, found, links=links, unhealthy=unhealthy, allocations=allocations or {})
    return [made, inventory_object(name, facts, enforced=True)]


def gpushare(name: str, cards: int = 4, memory: int = 22, *, unhealthy: Collection[int] = ()) -> list[Raw]:
    """A node whose cards are allocated by memory, as the gpushare device plugin reports it, without an inventory."""
    resources = {"aliyun.com/gpu-mem": cards * memory, "aliyun.com/gpu-count": cards}
    made = [node(name, resources, labels={"gpushare": "true"})]
    if unhealthy:
        made.append(_config_map(f"unhealthy-gpu-{name}", {"gpus": ",".join(map(str, sorted(unhealthy)))}))
    return made


def ascend(
    name: str,
    *,
    source: ChipSource = "config map",
    used: Collection[int] = (),
    unhealthy: Collection[int] = (),
    count: int = 8,
) -> list[Raw]:
    """A node of 910A chips as Huawei's device plugin reports it: today in a ConfigMap, before in annotations."""
    resource = RESOURCE["ascend"]
    free = [number for number in range(count) if number not in {*used, *unhealthy}]
    lists = {resource: _chips(free), f"{resource}-Unhealthy": _chips(unhealthy), f"{resource}-NetworkUnhealthy": ""}
    made = node(
        name,
        {resource: count},
        allocatable={resource: count - len(unhealthy)},
        labels={"accelerator": "huawei-Ascend910", "accelerator-type": "module", "host-arch": "huawei-arm"},
        annotations=lists if source == "annotation" else {},
    )
    if source == "annotation":
        return [made]
    report = {"DeviceInfo": {"DeviceList": {**lists, f"{resource}-Fault": "[]"}, "UpdateTime": 1700000000}}
    text = json.dumps({**report, "SuperPodID": -1, "ServerIndex": -1, "CheckCode": ""})
    labels = {"mx-consumer-volcano": "true", "mx-consumer-cim": "true"}
    return [made, _config_map(f"mindx-dl-deviceinfo-{name}", {"DeviceInfoCfg": text}, labels)]


def koordinator(
    name: str, kind: str = "measured", *, links: bool = True, unhealthy: Collection[int] = (), whole: bool = False
) -> list[Raw]:
    """A node as Koordinator reports it: a Device object, percents as resources, and `nvidia.com/gpu` too if `whole`.

    Bandwidth, which only measured profiles have, is written as in seed 001; without `links` it is left out, as by Koordinator.
    """
    found = profile(KINDS.get(kind, kind))
    sound = found.devices - len(unhealthy)
    resources = {f"koordinator.sh/{word}": 100 * sound for word in ("gpu", "gpu-core", "gpu-memory-ratio")}
    resources["koordinator.sh/gpu-memory"] = sound * found.memory * 2**20
    resources |= {RESOURCE[found.vendor]: sound} if whole else {}
    labels = {"node.koordinator.sh/gpu-vendor": found.vendor, "node.koordinator.sh/gpu-model": _word(found.model)}
    cards = [_card(name, found, index, healthy=index not in unhealthy) for index in range(found.devices)]
    spec: Raw = {"devices": cards}
    if links and found.topology.bandwidth:
        spec["topologies"] = {"gpu": [{"name": "bandwidth", "topology": json.dumps(found.topology.bandwidth)}]}
    device = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device", "spec": spec}
    return [node(name, resources, labels=labels), {**device, "metadata": {"name": name, "labels": labels}}]


def _texts(amounts: Mapping[str, int | str] | None) -> dict[str, str]:
    return {name: str(amount) for name, amount in (amounts or {}).items()}


def _resources(found: MachineProfile, count: int) -> dict[str, int | str]:
    if found.shared:  # in GiB, the unit of gpushare's own plugin
        return {"aliyun.com/gpu-mem": count * (found.memory // GIB), "aliyun.com/gpu-count": count}
    return {RESOURCE[found.vendor]: count}


def _labels(found: MachineProfile, source: DeviceSource) -> dict[str, str]:
    if source not in {"labels", "annotation"} or found.vendor != "nvidia":
        return {}
    return {
        "nvidia.com/gpu.product": _word(found.model),
        "nvidia.com/gpu.count": str(found.devices),
        "nvidia.com/gpu.memory": str(found.memory),
    }


def _facts(
    name: str,
    found: MachineProfile,
    *,
    links: bool,
    unhealthy: Collection[int],
    allocations: Mapping[str, tuple[str, ...]],
) -> NodeFacts:
    ids, known = device_ids(name, found), found.topology
    unit, memory = ("GiB", found.memory // GIB) if found.shared else ("MiB", found.memory)
    devices = tuple(
        Device(one, i, i, None, _bus(i), found.model, memory, healthy=i not in unhealthy) for i, one in enumerate(ids)
    )
    topology = Topology(ids, known.links, known.bandwidth, known.rings) if links else None
    mode: Mode = "share" if found.shared else "whole"
    return NodeFacts(SOURCE, devices, topology, found.hardware, mode, unit, allocations=allocations)


def _card(name: str, found: MachineProfile, index: int, *, healthy: bool) -> Raw:
    return {
        "type": "gpu",
        "id": device_ids(name, found)[index],
        "minor": index,
        "health": healthy,
        "resources": {
            "koordinator.sh/gpu-core": "100",
            "koordinator.sh/gpu-memory-ratio": "100",
            "koordinator.sh/gpu-memory": f"{found.memory}Mi",
        },
        "topology": {
            "socketID": 0,
            "nodeID": index * 2 // found.devices,
            "pcieID": str(index // 2),
            "busID": _bus(index),
        },
    }


def _config_map(name: str, data: Mapping[str, str], labels: Mapping[str, str] | None = None) -> Raw:
    about: dict[str, Any] = {"name": name, "namespace": "kube-system", "labels": dict(labels or {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": dict(data)}


def _chips(numbers: Collection[int]) -> str:
    return ",".join(f"Ascend910-{number}" for number in sorted(numbers))


def _bus(index: int) -> str:
    return f"0000:{0x1A + 8 * index:02x}:00.0"


def _word(text: str) -> str:
    """A text as a label can hold it."""
    return text.replace(" ", "-")
