"""Planned devices on DRA nodes under a real kube-scheduler: a claim names them, and kube-scheduler allocates exactly these.

No DRA driver runs: slices are objects with the attributes of NVIDIA's driver. No feature gate is turned on.
"""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

from support.e2e.api_client import path_of
from support.e2e.claim_nodes import DRIVER, GPU, allocated, claim_node, slice_path, taint, template
from support.e2e.claim_placing import ClaimPlacing
from support.e2e.node_objects import device_ids
from support.e2e.processes import wait_for
from support.e2e.seed_manifests import KEP, KUBERNETES_2016, WORKER
from support.e2e.service import Placing, printed
from support.e2e.webhook import running_webhook
from support.profile import rounds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from support.e2e.api_client import Raw
    from support.e2e.cluster import Cluster
    from support.e2e.webhook import WebhookService

log: Final = logging.getLogger(__name__)

KILLS: Final = rounds(4, 100)
"""the group of seed 001, whose pods request two cards each"""


@pytest.fixture(scope="module")
def webhook(kubernetes: Cluster) -> Iterator[WebhookService]:
    with running_webhook(kubernetes, "claims") as made:
        yield made


@pytest.fixture
def claims(webhook: WebhookService, cluster: Cluster) -> ClaimPlacing:
    """An empty cluster of DRA nodes, planned by a service with its webhook."""
    if not cluster.api.answers("/apis/resource.k8s.io/v1"):
        pytest.skip("this needs resource.k8s.io/v1")
    placing = Placing(cluster, webhook.serve)
    placing.empty()
    return ClaimPlacing(placing)


def positions(found: ClaimPlacing, one: Raw) -> list[int]:
    """Which devices of its node a bound pod has."""
    ids = device_ids(one["spec"]["nodeName"], "dgx1-v100")
    return sorted(ids.index(device) for device in found.devices(one))


@pytest.mark.rule("000.partition", level="R")
def test_the_manifest_of_seed_000_gets_the_best_pair_and_not_the_first(claims: ClaimPlacing) -> None:
    claims.nodes(*claim_node("a"))
    namespace = claims.cluster.namespace()
    claims.cluster.apply(KEP, namespace)
    (found,) = claims.wait_all_bound(namespace, 1)
    assert positions(claims, found) == [0, 3]  # two NVLinks; the first two devices have one
    assert GPU not in str(found["spec"]["containers"])
    claims.all_is_well([namespace])


@pytest.mark.rule("001.gang", "001.group", level="R")
def test_two_workers_of_seed_001_get_four_devices_of_one_machine(claims: ClaimPlacing) -> None:
    claims.nodes(*claim_node("a"), *claim_node("b"))
    namespace = claims.cluster.namespace()
    claims.cluster.apply(WORKER.format(number=0, request=f"{GPU}: 2"), namespace)
    claims.cluster.apply(WORKER.format(number=1, request=f"{GPU}: 2"), namespace)
    found = claims.wait_all_bound(namespace, 2)
    assert len({one["spec"]["nodeName"] for one in found}) == 1
    assert {*positions(claims, found[0]), *positions(claims, found[1])} in ({0, 1, 2, 3}, {4, 5, 6, 7})
    claims.all_is_well([namespace])


@pytest.mark.rule("002.whole", level="R")
def test_the_manifest_of_seed_002_gets_a_device_by_its_old_name(claims: ClaimPlacing) -> None:
    claims.nodes(*claim_node("a"))
    namespace = claims.cluster.namespace()
    claims.cluster.apply(KUBERNETES_2016, namespace)
    (found,) = claims.wait_all_bound(namespace, 1)
    assert len(claims.devices(found)) == 1
    claims.all_is_well([namespace])


@pytest.mark.rule("001.gang", level="R")
def test_a_gang_of_thirty_two_gets_exactly_its_planned_devices(claims: ClaimPlacing) -> None:
    claims.nodes(*(thing for number in range(8) for thing in claim_node(f"n{number}")))
    namespace = claims.cluster.namespace()
    claims.gang(namespace, "wide", 32, 2)
    claims.wait_all_bound(namespace, 32, 60)
    claims.all_is_well([namespace])
    assert len({place for places in allocated(claims.api, namespace).values() for place in places}) == 64


@contextmanager
def planned(claims: ClaimPlacing, namespace: str, name: str, count: int) -> Iterator[set[str]]:
    """A pod whose claim names these devices, while no scheduler runs."""
    claims.cluster.scheduler.stop()
    try:
        claims.placing.create(namespace, name, {GPU: count})
        claims.wait_ungated(namespace, name)
        yield claims.planned(claims.claim(namespace, name))
    finally:
        claims.cluster.scheduler.start()


def test_a_device_that_a_foreign_pod_takes_between_plan_and_commit_is_replaced(claims: ClaimPlacing) -> None:
    claims.nodes(*claim_node("a"))
    namespace = claims.cluster.namespace()
    with planned(claims, namespace, "train", 2) as devices:
        lost = min(devices)
        foreign_claim(claims, namespace, "foreign", lost)
        spec: dict[str, Any] = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "foreign"}]}
        # kube-scheduler tries the pod of the highest priority first.
        claims.placing.create(namespace, "foreign", priorityClassName="system-node-critical", **spec)
    claims.wait_all_bound(namespace, 2)
    found = claims.cluster.pod(namespace, "train")
    assert lost not in claims.devices(found)
    claims.all_is_well([namespace])


def foreign_claim(claims: ClaimPlacing, namespace: str, name: str, device: str) -> None:
    """A claim of a user for one device."""
    expression = f'device.attributes["{DRIVER}"].uuid == "{device}"'
    request = {"deviceClassName": DRIVER, "count": 1, "selectors": [{"cel": {"expression": expression}}]}
    claims.cluster.create(
        [
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"devices": {"requests": [{"name": "gpu", "exactly": request}]}},
            }
        ]
    )


def test_a_tainted_device_is_given_to_nobody_and_a_plan_with_it_is_made_again(claims: ClaimPlacing) -> None:
    claims.nodes(*claim_node("a", taints={0: [taint("gpu.nvidia.com/xid", "79")]}))
    namespace = claims.cluster.namespace()
    ids = device_ids("a", "dgx1-v100")
    with planned(claims, namespace, "train", 4) as devices:
        assert devices == {*ids[4:]}
        published = claims.api.get(slice_path("a"))
        published["spec"]["devices"][4]["taints"] = [taint("gpu.nvidia.com/gpu-lost")]
        claims.api.call("PUT", slice_path("a"), published)
        wait_for(lambda: named_without(claims, namespace, ids[4]), 20, "the plan is made again")
    (found,) = claims.wait_all_bound(namespace, 1)
    assert not claims.devices(found) & {ids[0], ids[4]}
    claims.all_is_well([namespace])
    claims.placing.create(namespace, "more", {GPU: 3})
    said = wait_for(
        lambda: next((line for line in claims.placing.explain(namespace, "more").splitlines() if "Xid 79" in line), ""),
        15,
        "the explanation names the fault",
    )
    assert "taint gpu.nvidia.com/xid=79:NoSchedule since 20" in said


def named_without(claims: ClaimPlacing, namespace: str, device: str) -> bool:
    """Whether the claim of the pod names other devices; it is deleted and created again meanwhile."""
    found = claims.claims(namespace)
    return bool(found) and device not in claims.planned(found[0])


def test_a_pod_of_higher_priority_gets_the_devices_of_evicted_pods(claims: ClaimPlacing) -> None:
    claims.nodes(*claim_node("a"))
    about = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    claims.cluster.create([{**about, "metadata": {"name": "e2e-high"}, "value": 1000}])
    namespace = claims.cluster.namespace()
    for number in range(4):
        claims.placing.create(namespace, f"low-{number}", {GPU: 2})
    claims.wait_all_bound(namespace, 4)
    claims.placing.create(namespace, "high", {GPU: 4}, priorityClassName="e2e-high")
    claims.cluster.wait_bound(namespace, "high", 40)
    assert len(claims.pods(namespace)) == 3
    claims.all_is_well([namespace])


@pytest.mark.soak
@pytest.mark.timeout(120 + 15 * KILLS)
def test_a_service_killed_between_claims_and_ungating_leaves_nothing_stuck_and_nothing_twice(
    claims: ClaimPlacing,
) -> None:
    claims.nodes(*(thing for number in range(4) for thing in claim_node(f"n{number}")))
    chance, between = Random(100), 0
    for number in range(3 * KILLS):
        if number >= KILLS and between:
            break
        namespace = claims.cluster.namespace()
        claims.gang(namespace, "train", 32, 1)  # many writes, so that kills fall between them
        wait_for(lambda: claims.claims(namespace), 20, "the first claim is written")  # noqa: B023
        time.sleep(chance.choice((0.0, 0.02, 0.05)))
        claims.placing.serve.process.kill()
        pods = claims.pods(namespace)
        between += len(claims.gated(namespace)) > 0 or len(claims.claims(namespace)) < len(pods)
        claims.placing.serve.restart()
        claims.wait_all_bound(namespace, 32, 60)
        claims.all_is_well([namespace])
        claims.placing.gone(namespace, *(one["metadata"]["name"] for one in pods))
        wait_for(lambda: not claims.claims(namespace), 20, f"the claims of round {number} are gone")  # noqa: B023
    log.info("%d kills, %d of them between claims and ungating", number, between)
    assert between


def test_a_gang_that_a_quota_refuses_has_no_claims_and_starts_when_it_may(claims: ClaimPlacing) -> None:
    claims.nodes(*claim_node("a"))
    namespace = claims.cluster.namespace()
    quota(claims, namespace, 6)
    names = claims.gang(namespace, "train", 4, 2)
    said = wait_for(lambda: quota_text(claims, namespace, names), 20, "the quota is named")
    assert "quota" in said
    wait_for(lambda: not claims.claims(namespace), 20, "no claim is left")
    assert claims.gated(namespace) == set(names)
    path = f"/api/v1/namespaces/{namespace}/resourcequotas/most"
    claims.api.patch(path, {"spec": {"hard": {f"requests.{GPU}": "8"}}})
    claims.wait_all_bound(namespace, 4, 90)
    claims.all_is_well([namespace])


def quota(claims: ClaimPlacing, namespace: str, most: int) -> None:
    about = {"name": "most", "namespace": namespace}
    hard = {f"requests.{GPU}": str(most)}
    claims.api.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": about, "spec": {"hard": hard}})
    path = f"/api/v1/namespaces/{namespace}/resourcequotas/most"
    wait_for(lambda: (claims.api.get(path).get("status") or {}).get("hard"), 20, "the quota is counted")


def quota_text(claims: ClaimPlacing, namespace: str, names: list[str]) -> str:
    """The first event that names the quota."""
    said = [text for name in names for text in claims.cluster.events(namespace, name)]
    return next((text for text in said if "quota" in text), "")


def test_without_the_service_pods_are_served_by_plain_claims(claims: ClaimPlacing, webhook: WebhookService) -> None:
    claims.nodes(*claim_node("a"))
    namespace, serve = claims.cluster.namespace(), claims.placing.serve
    before = with_policies(claims, webhook)
    serve.stop()
    try:
        claims.cluster.scheduler.run(claims.cluster.scheduling())
        claims.placing.create(namespace, "plain", {GPU: 2})
        found = claims.cluster.wait_bound(namespace, "plain", 30)
        assert found["status"]["extendedResourceClaimStatus"]["resourceClaimName"].startswith("plain-")
    finally:
        serve.start()
        with_policies(claims, webhook, before)
        way = ["--kubeconfig", str(claims.cluster.kubeconfig("scheduler")), "--no-leader-elect"]
        claims.cluster.scheduler.run(printed("config", "scheduler", "--url", serve.url, "--default-scheduler", *way))


def with_policies(
    claims: ClaimPlacing, webhook: WebhookService, policies: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Set what the API server does with objects while the webhook does not answer, by hook; what it was before."""
    before: dict[str, str] = {}
    for found in webhook.configurations():
        before |= {hook["name"]: hook["failurePolicy"] for hook in found["webhooks"]}
        for hook in found["webhooks"]:
            hook["failurePolicy"] = policies[hook["name"]] if policies else "Ignore"
        claims.api.call("PUT", path_of(found), found)
    return before


def test_first_fit_takes_the_first_devices_where_nobody_plans(claims: ClaimPlacing) -> None:
    claims.nodes(*claim_node("a"))
    namespace = claims.cluster.namespace()
    claims.placing.create(namespace, "plain", {GPU: 2}, annotations={"linkwise.dev/dra": "false"})
    claims.cluster.wait_bound(namespace, "plain", 30)
    (places,) = allocated(claims.api, namespace).values()
    assert sorted(places) == [("a", "gpu-0"), ("a", "gpu-1")]


def test_a_template_of_a_user_is_left_to_kube_scheduler_and_its_devices_count(claims: ClaimPlacing) -> None:
    claims.nodes(*claim_node("a"))
    namespace = claims.cluster.namespace()
    claims.cluster.create([template(namespace, "four", 4)])
    own: dict[str, Any] = {"resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "four"}]}
    claims.placing.create(namespace, "theirs", **own)
    claims.cluster.wait_bound(namespace, "theirs", 30)
    claims.placing.create(namespace, "train", {GPU: 4})
    found = claims.cluster.wait_bound(namespace, "train", 30)
    taken = {place for places in allocated(claims.api, namespace).values() for place in places}
    assert len(taken) == len(claims.devices(found)) + 4 == 8
    claims.all_is_well([namespace])


def test_pods_of_kueue_keep_the_request_that_kueue_counts(claims: ClaimPlacing) -> None:
    claims.nodes(*claim_node("a"))
    namespace = claims.cluster.namespace()
    made = claims.placing.create(namespace, "train", {GPU: 2}, labels={"kueue.x-k8s.io/managed": "true"})
    assert made["spec"]["containers"][0]["resources"]["limits"] == {GPU: "2"}
    assert not claims.claim_name(made)
    found = claims.cluster.wait_bound(namespace, "train", 30)
    assert found["status"]["extendedResourceClaimStatus"]
