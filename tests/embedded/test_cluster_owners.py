"""Pods that the embedded Job controller creates are planned as one group, in namespaces where that is set."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest

from linkwise.model.settings import GroupSettings, PlacingSettings
from support.e2e.service import GRANT, grant
from support.embedded.cluster import ClusterUnderTest, embedded

if TYPE_CHECKING:
    from support.e2e.api_client import Raw
    from support.e2e.service import Granted

GPU: Final = "nvidia.com/gpu"
SETTLE: Final = 0.2  # seconds


def owners(mode: str) -> PlacingSettings:
    return PlacingSettings(group=GroupSettings(owners={"default": mode}, settle=SETTLE))


def create_job(
    cluster: ClusterUnderTest, pods: int, devices: int, mode: str = "Indexed", namespace: str = "default"
) -> str:
    resources = {"limits": {GPU: str(devices)}, "requests": {GPU: str(devices)}}
    container = {"name": "main", "image": "none", "resources": resources}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"parallelism": pods, "completions": pods, "completionMode": mode, "template": template}
    return cluster.store.create("jobs.batch", {"metadata": {"name": "train"}, "spec": spec}, namespace).uid


def pending(cluster: ClusterUnderTest) -> list[Raw]:
    return [pod for pod in cluster.pods() if not pod["spec"].get("nodeName")]


async def placed(cluster: ClusterUnderTest, pods: int) -> list[Granted]:
    def all_bound() -> list[Raw] | None:
        found = [pod for pod in cluster.pods() if pod["spec"].get("nodeName")]
        return found if len(found) == pods else None

    return [grant(pod) for pod in await cluster.until(all_bound, f"{pods} pods have a node") or ()]


def plans(found: list[Granted]) -> set[str]:
    return {json.loads(one.annotations[GRANT]).get("plan", "") for one in found}


@pytest.mark.parametrize("mode", ["Indexed", "NonIndexed"])
@embedded({"dgx1-v100-measured": 3}, placing=owners("group"))
async def test_a_job_is_planned_as_one_group(cluster: ClusterUnderTest, mode: str) -> None:
    uid = create_job(cluster, 4, 4, mode)
    found = await placed(cluster, 4)
    assert plans(found) == {f"default/train.{uid}"}
    assert len({one.node for one in found}) == 2
    await cluster.well()


@embedded({"dgx1-v100-measured": 3}, placing=PlacingSettings(group=GroupSettings(owners={"other": "gang"})))
async def test_a_job_of_another_namespace_is_not_a_group(cluster: ClusterUnderTest) -> None:
    create_job(cluster, 4, 4)
    assert plans(await placed(cluster, 4)) == {""}
    assert cluster.service.broker.group_keys() == []


@embedded({"dgx1-v100-measured": 1}, placing=owners("gang"))
async def test_a_job_that_does_not_fit_starts_none_of_its_pods_where_it_is_a_gang(cluster: ClusterUnderTest) -> None:
    create_job(cluster, 3, 4)
    await cluster.until(lambda: len(pending(cluster)) == 3, "the Job has its pods")
    await cluster.wait_for_event(pending(cluster)[0]["metadata"]["name"], "GroupDoesNotFit")
    assert len(pending(cluster)) == 3
    assert not list(cluster.service.broker.entries()), "nothing is reserved"


@embedded({"dgx1-v100-measured": 1}, placing=owners("group"))
async def test_a_job_that_does_not_fit_starts_as_many_as_do_where_it_is_no_gang(cluster: ClusterUnderTest) -> None:
    create_job(cluster, 3, 4)
    assert len(await placed(cluster, 2)) == 2


@embedded({"dgx1-v100-measured": 2}, placing=owners("gang"))
async def test_a_pod_that_the_job_controller_creates_again_joins_its_siblings(cluster: ClusterUnderTest) -> None:
    create_job(cluster, 2, 2)  # the old pod has its devices until it is gone: there is room beside them
    (node,) = {one.node for one in await placed(cluster, 2)}
    await cluster.gone(cluster.pods()[0]["metadata"]["name"])
    assert {one.node for one in await placed(cluster, 2)} == {node}
    await cluster.well()
