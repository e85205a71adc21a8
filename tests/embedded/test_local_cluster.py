"""The local cluster of `linkwise up` and the demo: what users meet at `kubectl apply`, as on a real cluster."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Final

import pytest

from linkwise.model.access_policy import Requester
from linkwise.net.http.client import Http, Origin
from support.embedded.local import SECONDS, Trial, trial

JANE: Final = Requester("jane", ("system:authenticated",))
GPU: Final = "nvidia.com/gpu"
ANY: Final = "linkwise.dev/accelerator"
OLD: Final = "alpha.kubernetes.io/nvidia-gpu"


def pod(name: str, limits: dict[str, int], **meta: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    container = {"name": "main", "image": "example.com/none:1", "resources": {"limits": limits}}
    return {"metadata": {"name": name, **meta}, "spec": {"containers": [container]}}


def job(name: str, limits: dict[str, int], parallelism: int = 1) -> dict[str, Any]:
    template = pod("", limits)
    template["spec"]["restartPolicy"] = "Never"
    return {
        "metadata": {"name": name},
        "spec": {"parallelism": parallelism, "completions": parallelism, "template": {"spec": template["spec"]}},
    }


@pytest.mark.rule("002.name")
@trial(dgx1_v100=1)
async def test_a_pod_that_asks_by_the_old_name_runs(tried: Trial) -> None:
    made = await tried.create("pods", pod("old", {OLD: 2}), JANE)
    assert made["spec"]["containers"][0]["resources"]["limits"] == {GPU: "2"}
    assert any(OLD in warning and GPU in warning for warning in tried.warnings)
    runs = await tried.running()
    assert "linkwise.dev/grant" in runs["metadata"]["annotations"]


@pytest.mark.rule("002.name")
@trial(dgx1_v100=1)
async def test_a_job_that_asks_by_the_old_name_runs(tried: Trial) -> None:
    await tried.create("jobs.batch", job("old", {OLD: 1}), JANE)
    runs = await tried.running()
    assert runs["spec"]["containers"][0]["resources"]["limits"] == {GPU: "1"}
    assert runs["metadata"]["annotations"]["linkwise.dev/user"] == "jane"


@trial(dgx1_v100=1)
async def test_an_invalid_access_policy_is_refused_by_its_schema(tried: Trial) -> None:
    spec = {"subjects": {"namespaces": ["default"]}, "maxDevices": 4}
    for wrong in ({"subjects": ["default"]}, {"maxDevices": -1}, {"sharing": {"with": "everybody"}}):
        policy = {"metadata": {"name": "p"}, "spec": spec | wrong}
        assert f"spec.{next(iter(wrong))}" in await tried.refused("acceleratorpolicies.linkwise.dev", policy, JANE)
    await tried.create("acceleratorpolicies.linkwise.dev", {"metadata": {"name": "p"}, "spec": spec}, JANE)


@pytest.mark.rule("002.agnostic")
@trial(dgx1_v100=1, atlas_800=1)
async def test_a_pod_that_any_vendor_can_serve_runs_on_devices_of_one(tried: Trial) -> None:
    made = await tried.create("pods", pod("any", {ANY: 3}), JANE)
    assert made["spec"]["containers"][0]["resources"]["limits"] == {GPU: "3"}  # rings have 1, 2, 4 or 8
    assert f"{ANY}: replaced by {GPU}; its devices can serve the request" in tried.warnings
    runs = await tried.running()
    assert "linkwise.dev/grant" in runs["metadata"]["annotations"]


@pytest.mark.rule("002.agnostic")
@trial(atlas_800=1)
async def test_a_job_that_any_vendor_can_serve_runs_and_one_that_none_can_is_refused(tried: Trial) -> None:
    await tried.create("jobs.batch", job("any", {ANY: 2}), JANE)
    runs = await tried.running()
    assert runs["spec"]["containers"][0]["resources"]["limits"] == {"huawei.com/Ascend910": "2"}
    message = await tried.refused("jobs.batch", job("none", {ANY: 3}), JANE)
    assert f"{ANY}: no vendor's devices can serve this request. huawei.com/Ascend910: " in message


@pytest.mark.rule("003.valid-job")
@trial(atlas_800=1)
async def test_a_number_of_chips_that_no_ring_has_is_refused_at_creation(tried: Trial) -> None:
    message = await tried.refused("pods", pod("three", {"huawei.com/Ascend910": 3}))
    assert message.startswith('admission webhook "pods.webhook.linkwise.dev" denied the request: ')
    assert "request 1, 2, 4 or 8" in message
    assert tried.store.find("pods", "three", "default") is None


@pytest.mark.rule("003.valid-job")
@trial(atlas_800=1)
async def test_a_job_of_a_wrong_shape_is_refused_at_creation(tried: Trial) -> None:
    message = await tried.refused("jobs.batch", job("three", {"huawei.com/Ascend910": 3}))
    assert "request 1, 2, 4 or 8" in message


@pytest.mark.rule("001.gang")
@trial(dgx1_v100=2)
async def test_a_gang_waits_behind_gates_and_starts_whole(tried: Trial) -> None:
    gang = {"gang.scheduling.koordinator.sh/name": "g", "gang.scheduling.koordinator.sh/min-available": "2"}
    first = await tried.create("pods", pod("first", {GPU: 8}, annotations=gang), JANE)
    assert first["spec"]["schedulingGates"] == [{"name": "linkwise.dev/gang"}]
    await tried.create("pods", pod("second", {GPU: 8}, annotations=gang), JANE)
    nodes: dict[str, str] = {}
    async with asyncio.timeout(SECONDS):
        async for event in tried.store.watch("pods"):
            if event.object["status"]["phase"] == "Running":
                nodes[event.object["metadata"]["name"]] = event.object["spec"]["nodeName"]
            if len(nodes) == 2:
                break
    assert len(set(nodes.values())) == 2


@trial(dgx1_v100=1)
async def test_a_misspelt_resource_is_warned_about(tried: Trial) -> None:
    await tried.create("pods", pod("typo", {"nvidia.com/gpus": 1}))
    assert any("did you mean nvidia.com/gpu?" in warning for warning in tried.warnings)


@trial(dgx1_v100=1)
async def test_a_forged_grant_is_refused(tried: Trial) -> None:
    forged = pod("forged", {GPU: 1}, annotations={"linkwise.dev/grant": "{}"})
    assert "linkwise.dev/grant" in await tried.refused("pods", forged, JANE)


@trial(dgx1_v100=1)
async def test_pods_without_devices_are_left_alone(tried: Trial) -> None:
    made = await tried.create("pods", pod("plain", {}))
    assert made["spec"]["schedulerName"] == "default-scheduler"
    assert "annotations" not in made["metadata"]
    assert tried.warnings == []


@trial(dgx1_v100=1)
async def test_managed_pods_get_the_scheduler_and_their_user(tried: Trial) -> None:
    made = await tried.create("pods", pod("mine", {GPU: 1}), JANE)
    assert made["spec"]["schedulerName"] == "linkwise-scheduler"
    assert made["metadata"]["annotations"]["linkwise.dev/user"] == "jane"


@trial(dgx1_v100=1)
async def test_the_service_has_only_the_rights_of_its_roles(tried: Trial) -> None:
    api = tried.local.cluster.api
    token = api.tokens.add(Requester("system:serviceaccount:linkwise-system:linkwise", ("system:authenticated",)))
    http = Http(Origin("127.0.0.1", api.port, tls=_trust(api.certificate)))
    head = f"Authorization: Bearer {token}\r\n".encode()
    try:
        listed = await http.call("GET", "/api/v1/pods", head)
        removed = await http.call("DELETE", "/api/v1/namespaces/default/pods", head)
    finally:
        await http.close()
    assert (listed.status, removed.status) == (200, 403)


@trial(dgx1_v100=1)
async def test_the_service_is_reached_through_the_service_proxy(tried: Trial) -> None:
    api = tried.local.cluster.api
    http = Http(Origin("127.0.0.1", api.port, tls=_trust(api.certificate)))
    head = f"Authorization: Bearer {api.token}\r\n".encode()
    try:
        answer = await http.call("GET", "/api/v1/namespaces/linkwise-system/services/linkwise:39999/proxy/readyz", head)
    finally:
        await http.close()
    assert answer.status == 200


@trial(dgx1_v100=1)
async def test_a_user_with_rights_in_one_namespace_asks_the_service_about_it_and_no_other(tried: Trial) -> None:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    jane = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}
    binding = {"metadata": {"name": "jane"}, "roleRef": role, "subjects": [jane]}
    await tried.create("rolebindings.rbac.authorization.k8s.io", binding)
    await tried.create("pods", pod("p", {GPU: 1}))
    await tried.running("p")
    api = tried.local.cluster.api
    token = api.tokens.add(JANE)
    http = Http(Origin("127.0.0.1", api.port, tls=_trust(api.certificate)))
    head = f"Authorization: Bearer {token}\r\nX-Linkwise-Token: {token}\r\n".encode()
    root = "/api/v1/namespaces/linkwise-system/services/linkwise:tenants/proxy/v1/namespaces"
    try:
        own = await http.call("GET", f"{root}/default/pods", head)
        other = await http.call("GET", f"{root}/kube-system/pods", head)
    finally:
        await http.close()
    assert (own.status, other.status) == (200, 403)
    assert b'"p"' in own.body


def _trust(certificate: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=certificate)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
