"""The checks that judge a cluster by its API objects notice what is wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from support.e2e.api_client import Api
from support.e2e.invariants import INVENTORIES, nothing_is_sold_twice, records_are_whole
from support.e2e.node_objects import device_ids, gpushare, machine
from support.e2e.pod_objects import pod
from support.e2e.safety_plugin import UnsafeError

if TYPE_CHECKING:
    from support.e2e.api_client import Raw

FIRST, SECOND, *_ = device_ids("a", "dgx1-v100")
GPU, MEMORY = "nvidia.com/gpu", "aliyun.com/gpu-mem"


class FixedApi(Api):
    """A node of whole devices and one of shared cards, and no API server behind them."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:1")
        self._things = [*machine("a", "nvlink"), *gpushare("s")]

    def list(self, path: str) -> list[Raw]:
        kind = "Node" if path.endswith("nodes") else "DeviceInventory"
        return [thing for thing in self._things if thing["kind"] == kind]

    def answers(self, path: str = "/readyz") -> bool:
        del path
        return False


def bound(
    name: str, limits: dict[str, int | str], there: str, devices: list[str], card: str = "0", **other: object
) -> Raw:
    """A bound pod with a record of these devices, which may say other than it should."""
    share = int(limits.get(MEMORY, 0))
    part = {"core": 0, "devices": devices, "share": share}
    record = {"containers": {"main": part}, "mode": "share" if share else "whole", "node": there, "pod": name, **other}
    keys = {"IDX": card, "POD": str(share), "DEV": "22", "ASSUME_TIME": "1"} if share else {}
    annotations = {f"ALIYUN_COM_GPU_MEM_{word}": text for word, text in keys.items()}
    annotations["linkwise.dev/grant"] = json.dumps(record)
    made = pod("default", name, limits, annotations=annotations, nodeName=there)
    return {**made, "metadata": {**made["metadata"], "uid": name}, "status": {}}


def test_what_is_well_is_let_pass() -> None:
    shared = [bound(name, {MEMORY: 11}, "s", ["#0"]) for name in ("c", "d")]
    pods = [bound("a", {GPU: 1}, "a", [FIRST]), bound("b", {GPU: 1}, "a", [SECOND]), *shared]
    nothing_is_sold_twice(FixedApi(), pods)
    records_are_whole(pods, FixedApi().list(INVENTORIES))


@pytest.mark.parametrize(
    ("pods", "word"),
    [
        ([bound("a", {GPU: 1}, "a", [FIRST]), bound("b", {GPU: 2}, "a", [FIRST, SECOND])], "has several pods"),
        ([bound("a", {GPU: 1}, "a", ["GPU-none"])], "has no GPU-none"),
        ([bound("a", {MEMORY: 12}, "s", ["#0"]), bound("b", {MEMORY: 12}, "s", ["#0"])], "has 22 and gave 24"),
    ],
)
def test_a_device_that_was_given_twice_is_noticed(pods: list[Raw], word: str) -> None:
    with pytest.raises(UnsafeError, match=word):
        nothing_is_sold_twice(FixedApi(), pods)


@pytest.mark.parametrize(
    ("found", "word"),
    [
        (bound("a", {GPU: 2}, "a", [FIRST]), "asked for 2 of nvidia.com/gpu"),
        (bound("a", {GPU: 1}, "a", [FIRST], pod="b"), "the record is that of b on a"),
        (bound("a", {GPU: 1}, "a", [FIRST], node="b"), "the record is that of a on b"),
        (bound("a", {MEMORY: 5}, "s", ["#0", "#1"]), "asked for 5 of aliyun.com/gpu-mem"),
        (bound("a", {"cpu": 1}, "a", [FIRST]), "asked for nothing and has a record"),
    ],
)
def test_a_record_that_is_not_what_was_asked_for_is_noticed(found: Raw, word: str) -> None:
    with pytest.raises(UnsafeError, match=word):
        records_are_whole([found], FixedApi().list(INVENTORIES))


@pytest.mark.parametrize(("there", "device"), [("s", "#1"), ("a", SECOND)])
def test_a_card_that_gpu_shares_plugin_reads_and_the_record_does_not_name_is_noticed(there: str, device: str) -> None:
    inventories = FixedApi().list(INVENTORIES)
    records_are_whole([bound("a", {MEMORY: 5}, there, [device], card="1")], inventories)
    with pytest.raises(UnsafeError, match=r"asked for 5 of aliyun\.com/gpu-mem"):
        records_are_whole([bound("a", {MEMORY: 5}, there, [device], card="0")], inventories)


def test_a_bound_pod_without_a_record_is_noticed() -> None:
    found = pod("default", "a", {GPU: 1}, nodeName="a")
    with pytest.raises(UnsafeError, match="has no record"):
        records_are_whole([{**found, "status": {}}], ())
