"""Usage on the local cluster of `linkwise up`: simulated, and published as agents publish it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from embedded.test_local_cluster import GPU, JANE, pod
from linkwise.dialects.linkwise.usage import usage_in
from linkwise.embedded.nodes.device_reports import INVENTORIES
from linkwise.net.http.client import Http, Origin
from support.embedded.local import SECONDS, Trial, trial

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


@pytest.mark.rule("002.usage")
@trial(dgx1_v100=1)
async def test_a_tenant_sees_the_usage_of_the_pods_of_its_own_namespace(tried: Trial) -> None:
    await two_tenants(tried)
    code, shown, errors = await tried.command("top", "pods", "--no-headers", user=JANE, namespace="team-a")
    assert (code, errors, [line.split()[:2] for line in shown.splitlines()]) == (0, "", [["mine", "2"]])
    assert "<unknown>" not in shown


@trial(dgx1_v100=1)
async def test_a_tenant_sees_no_usage_of_pods_in_other_namespaces(tried: Trial) -> None:
    await two_tenants(tried)
    for words, sentence in (
        (("pods", "-n", "team-b"), "user jane may not list pods in namespace team-b"),
        (("pods", "rival"), "pod team-a/rival not found"),
    ):
        code, shown, errors = await tried.command("top", *words, user=JANE, namespace="team-a")
        assert (code, shown, sentence in errors) == (1, "", True), errors
    for listed in (("pods", "-A"), ("nodes",)):
        code, shown, errors = await tried.command("top", *listed, user=JANE, namespace="team-a")
        assert (code, "rival" in shown + errors, "team-b" in shown + errors) == (0, False, False), shown + errors


async def two_tenants(tried: Trial) -> None:
    """A pod in each of two namespaces, of which Jane reads one."""
    for namespace, name in (("team-a", "mine"), ("team-b", "rival")):
        await tried.create("namespaces", {"metadata": {"name": namespace}}, namespace="")
        await tried.create("pods", pod(name, {GPU: 2}), namespace=namespace)
        await tried.running(name)
        await known_to_the_service(tried, namespace)
    await tried.create("rolebindings.rbac.authorization.k8s.io", view_of(JANE.user), namespace="team-a")


def view_of(user: str) -> dict[str, Any]:
    """A RoleBinding by which the user reads a namespace."""
    rbac = "rbac.authorization.k8s.io"
    return {
        "metadata": {"name": user},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": user}],
    }


async def known_to_the_service(tried: Trial, namespace: str) -> None:
    """Wait until the service has read the usage of the pods of a namespace."""
    head = f"X-Linkwise-Token: {tried.local.cluster.api.token}\r\n".encode()
    http = Http(Origin("127.0.0.1", int(tried.local.url.rpartition(":")[2])))
    try:
        async with asyncio.timeout(SECONDS):
            known = False
            while not known:
                answer = await http.call("GET", f"/v1/namespaces/{namespace}/usage", head)
                items = json.loads(answer.body)["items"]
                known = bool(items) and all(item["used"] for item in items)
    finally:
        await http.close()
