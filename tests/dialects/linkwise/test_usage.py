"""`status.usage` of a DeviceInventory: what is written is read again, and garbage is reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st

from dialects.linkwise.test_crd import faults
from linkwise.dialects.linkwise.usage import usage_fields, usage_in, with_usage
from linkwise.model.usage import DeviceUsage, NodeUsage, PodUsage

MIB = 1 << 20
CRD = Path(__file__).parents[3] / "deploy/crds/deviceinventories.linkwise.dev.yaml"
AMOUNTS = st.one_of(st.none(), st.integers(0, 2**20).map(lambda size: size * MIB))
PERCENTS = st.one_of(st.none(), st.integers(0, 100))
USAGES = st.builds(
    NodeUsage,
    st.lists(st.builds(DeviceUsage, st.sampled_from(["GPU-0", "GPU-1"]), AMOUNTS, AMOUNTS, PERCENTS), max_size=2).map(
        tuple
    ),
    st.lists(
        st.builds(PodUsage, st.just("u"), st.just("ns"), st.just("p"), st.just("GPU-0"), AMOUNTS, PERCENTS, AMOUNTS),
        max_size=2,
    ).map(tuple),
)


def document(usage: object) -> dict[str, object]:
    return {"metadata": {"name": "n"}, "status": {"usage": usage}}


@given(USAGES)
def test_what_is_written_is_read_again_and_fits_the_schema(usage: NodeUsage) -> None:
    fields = usage_fields(usage, "2026-01-01T00:00:00Z")
    assert usage_in(document(fields), "n") == (usage, "2026-01-01T00:00:00Z", ())
    schema = yaml.safe_load(CRD.read_text("utf-8"))["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert list(faults(fields, schema["properties"]["status"]["properties"]["usage"])) == []


def test_an_inventory_without_usage_has_none() -> None:
    assert usage_in({"status": {}}, "n") == (None, "", ())
    assert usage_in(None, "n") == (None, "", ())
    assert with_usage({"spec": {}}, None) == {"spec": {}}


@pytest.mark.parametrize(
    "raw",
    [
        7,
        [],
        {"devices": 7},
        {"devices": [7, {"uuid": 3}, {}]},
        {"devices": [{"uuid": "GPU-0", "memoryUsed": "many", "utilization": -1}]},
        {"pods": [{"podUID": "u"}, {"device": "d"}]},
        {"pods": [{"podUID": "u", "device": "d", "memoryUsed": 2**70}]},
        {"time": {}},
    ],
)
def test_garbage_is_reported_and_the_rest_is_read(raw: Any) -> None:  # noqa: ANN401 - garbage
    _, _, problems = usage_in(document(raw), "n")
    assert problems


def test_a_value_that_is_garbage_is_unknown_and_the_others_are_not() -> None:
    raw = {"devices": [{"uuid": "GPU-0", "memoryTotal": 16, "memoryUsed": "many", "utilization": 7}]}
    usage, _, _ = usage_in(document(raw), "n")
    assert usage is not None
    assert usage.devices == (DeviceUsage("GPU-0", 16 * MIB, None, 7),)
