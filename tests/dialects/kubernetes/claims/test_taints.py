"""Taints of devices, and the rules that add them."""

from __future__ import annotations

import pytest

from linkwise.dialects.kubernetes.claims.objects import rule_document, rule_of, slice_document, slice_of
from linkwise.dialects.kubernetes.claims.pools import with_rules
from linkwise.dialects.kubernetes.claims.taints import Taint, TaintRule
from support.builders.dra_objects import device, resource_slice, taint_rule

SINCE = "2026-11-19T08:00:00Z"
XID = {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule", "timeAdded": SINCE}


def test_a_taint_is_written_as_kubectl_writes_it_with_its_rule_and_its_time() -> None:
    assert str(Taint("a.example/broken")) == "taint a.example/broken:NoSchedule"
    taint = Taint("a.example/broken", "fan", "NoExecute", SINCE, "repair")
    assert str(taint) == f"taint a.example/broken=fan:NoExecute of DeviceTaintRule repair since {SINCE}"


@pytest.mark.parametrize(
    ("effect", "blocks"), [("NoSchedule", True), ("NoExecute", True), ("None", False), ("", False), ("Later", False)]
)
def test_only_effects_that_kubernetes_knows_keep_claims_away(effect: str, blocks: bool) -> None:  # noqa: FBT001
    found = slice_of("s", resource_slice("n", [device("gpu-0", taints=[{**XID, "effect": effect}])]))
    assert found is not None
    assert found.devices[0].tainted is blocks


def test_taints_of_a_slice_survive_being_written() -> None:
    found = slice_of("s", resource_slice("n", [device("gpu-0", taints=[XID, {"key": "k", "effect": "None"}])]))
    assert found is not None
    assert found.devices[0].taints == (
        Taint("gpu.nvidia.com/xid", "79", "NoSchedule", SINCE),
        Taint("k", effect="None"),
    )
    assert slice_of("s", slice_document(found)) == found


def test_a_rule_survives_being_written() -> None:
    found = rule_of("repair", taint_rule("repair", {"driver": "d", "device": "gpu-3"}, XID))
    assert found == TaintRule(Taint("gpu.nvidia.com/xid", "79", "NoSchedule", SINCE, "repair"), "d", "", "gpu-3")
    assert rule_of("repair", rule_document(found)) == found


@pytest.mark.parametrize(
    "selector", [None, [], {"deviceClassName": "gpu"}, {"selectors": [{"cel": {}}]}, {"driver": 3}, {"pool": ""}]
)
def test_a_rule_without_a_selector_or_with_one_that_is_not_known_selects_nothing(selector: object) -> None:
    assert rule_of("r", taint_rule("r", selector, XID)) is None


@pytest.mark.parametrize(
    ("selector", "tainted"),
    [
        ({}, ["gpu-0", "gpu-1"]),
        ({"device": "gpu-1"}, ["gpu-1"]),
        ({"driver": "gpu.nvidia.com", "pool": "n"}, ["gpu-0", "gpu-1"]),
        ({"driver": "gpu.nvidia.com", "pool": "n", "device": "gpu-0"}, ["gpu-0"]),
        ({"pool": "m"}, []),
        ({"driver": "other", "device": "gpu-0"}, []),
    ],
)
def test_a_rule_taints_the_devices_that_all_words_of_its_selector_name(
    selector: dict[str, str], tainted: list[str]
) -> None:
    found, rule = slice_of("s", resource_slice("n", 2)), rule_of("r", taint_rule("r", selector, XID))
    assert found is not None
    assert rule is not None
    (after,) = with_rules([found], [rule])
    assert [each.name for each in after.devices if each.tainted] == tainted
