"""Usage on the local cluster of `linkwise up`: simulated, and published as agents publish it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from embedded.test_local_cluster import GPU, pod
from linkwise.dialects.linkwise.usage import usage_in
from linkwise.embedded.nodes.device_reports import INVENTORIES
from support.embedded.local import Trial, trial

if TYPE_CHECKING:
    from linkwise.model.usage import NodeUsage

GIB = 1 << 30


def usage(tried: Trial, node: str) -> NodeUsage:
    found, _, problems = usage_in(tried.store.get(INVENTORIES, node).read(), node)
    assert found is not None
    assert problems == ()
    return found


@pytest.mark.rule("002.usage")
@trial(dgx1_v100=2)
async def test_devices_are_idle_until_a_pod_uses_them_and_after_it(tried: Trial) -> None:
    assert [(one.used, one.utilization) for one in usage(tried, "dgx1-v100-1").devices] == [(0, 0)] * 8
    await tried.create("pods", pod("train", {GPU: 2}))
    runs = await tried.running("train")
    found = usage(tried, runs["spec"]["nodeName"])
    assert [one.name for one in found.pods] == ["train", "train"]
    assert sum(one.used or 0 for one in found.devices) == sum(one.used or 0 for one in found.pods) > 16 * GIB
    assert sum(one.utilization == 0 for one in found.devices) == 6
    tried.store.delete("pods", "train", "default")
    async for event in tried.store.watch(INVENTORIES):
        if event.type == "MODIFIED" and event.object["status"]["usage"]["pods"] == []:
            break
    assert all(one.used == 0 for one in usage(tried, runs["spec"]["nodeName"]).devices)


@pytest.mark.parametrize(
    ("mode", "limits", "share"),
    [
        ("share", {"aliyun.com/gpu-mem": 4}, 4 * GIB),
        ("percent", {"koordinator.sh/gpu": 25}, 4040 << 20),
    ],
)
def test_a_pod_with_a_part_of_a_device_stays_within_its_share(mode: str, limits: dict[str, int], share: int) -> None:
    @trial(**{f"dgx1-v100/{mode}": 1})
    async def story(tried: Trial) -> None:
        made: dict[str, Any] = pod("part", limits)
        await tried.create("pods", made)
        runs = await tried.running("part")
        (found,) = usage(tried, runs["spec"]["nodeName"]).pods
        assert found.share == share
        assert 0 < (found.used or 0) < share

    story()
