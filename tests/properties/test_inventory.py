"""Whatever a node and the objects beside it say, a stock comes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, strategies as st

from linkwise.broker.cluster.inventory import merge_inventory
from linkwise.dialects.registry import DIALECTS, vendor_group
from support.builders.inventory_facts import (
    AMD,
    ASCEND,
    COUNT,
    GFD,
    MEMORY,
    NVIDIA,
    TOPOLOGY,
    card,
    cards,
    ids,
    inventory,
    listed,
    matrix,
    node,
    stock,
)

TEXTS = st.sampled_from(["0", "1", "2", "8", "-1", "1.5", "16Gi", "1e999", "9" * 30, "", "x", "{}", "[]", "[[", "true"])

MATRICES = st.sampled_from([matrix(1), matrix(2), matrix(8), "[[0,1],[2,0]]", "[[0,1],[2]]"])

AMOUNTS = st.dictionaries(
    st.sampled_from([NVIDIA, AMD, ASCEND, MEMORY, COUNT, "huawei.com/npu", "koordinator.sh/gpu", "cpu"]),
    TEXTS,
    max_size=4,
)

LABELS = st.dictionaries(
    st.sampled_from(
        [*GFD, "nvidia.com/gpu.count", "nvidia.com/gpu.replicas", "amd.com/gpu.vram", "gpushare", "accelerator-type"]
    ),
    TEXTS | st.text(max_size=4),
    max_size=4,
)

ANNOTATIONS = st.dictionaries(
    st.sampled_from([TOPOLOGY, ASCEND, f"{ASCEND}-Unhealthy", f"{ASCEND}-Fault", "huawei.com/npu.base-device-infos"]),
    TEXTS | MATRICES | st.text(max_size=4) | st.just("Ascend910-0,Ascend910-1"),
    max_size=3,
)

WORDS = st.sampled_from(
    [
        "metadata",
        "spec",
        "status",
        "devices",
        "uuid",
        "index",
        "minor",
        "id",
        "type",
        "healthy",
        "health",
        "memory",
        "unit",
        "mode",
        "rows",
        "links",
        "bandwidth",
        "rings",
        "facts",
        "unhealthy",
        "allocations",
        "data",
        "gpus",
        "resources",
        "topologies",
        "gpu",
        "topology",
        "name",
        "DeviceInfoCfg",
        "podUID",
        "entries",
        "minors",
        "profile",
    ]
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | MATRICES | st.sampled_from(["gpu", "n1", "%"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=10,
)

LISTED = st.builds(listed, st.integers(0, 3), memory=st.integers(0, 200) | JSON, healthy=st.booleans() | JSON)

CARDS = st.builds(card, st.integers(0, 3), id=st.sampled_from(["GPU-0", "GPU-1", "", "#7"]) | JSON, health=JSON)

INVENTORIES = st.builds(
    lambda devices, spec: inventory(*devices, **spec),
    st.lists(LISTED, max_size=3),
    st.dictionaries(
        st.sampled_from(["mode", "unit", "rows", "links", "bandwidth", "rings", "facts", "profile"]),
        JSON
        | st.sampled_from(["share", "percent", "MiB", "%"])
        | st.sampled_from([[["X", "NV1"], ["NV1", "X"]], [[0, 5], [5, 0]]]),
    ),
)

OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "DeviceInventory": INVENTORIES | JSON,
        "Device": st.builds(lambda found, text: cards(*found, matrix=text), st.lists(CARDS, max_size=3), MATRICES)
        | JSON,
        "ConfigMap/unhealthy-gpu-n1": JSON,
        "ConfigMap/mindx-dl-deviceinfo-n1": JSON,
    },
)


@given(AMOUNTS, AMOUNTS, LABELS, ANNOTATIONS, OBJECTS)
def test_nothing_that_a_node_or_an_object_holds_raises(
    capacity: dict[str, str],
    allocatable: dict[str, str],
    labels: dict[str, str],
    annotations: dict[str, str],
    objects: dict[str, Any],
) -> None:
    found = stock(node(capacity, allocatable, labels=labels, annotations=annotations), **objects)
    assert len(set(ids(found))) == len(found.devices)
    assert found.unidentified >= 0
    assert found.topology is None or len(found.topology.devices) == len(found.devices)
    vendors = {vendor_group(dialect.name) for dialect in DIALECTS if dialect.vendor}
    assert sum(bool(found.words & vendor) for vendor in vendors) <= 1
    assert all(device.memory > 0 for device in found.devices) or "koordinator" not in found.words or found.mode != "any"
    assert (
        merge_inventory(replace(node(capacity, allocatable), labels=labels, annotations=annotations), objects) == found
    )
