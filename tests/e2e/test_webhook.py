"""The admission webhook over TLS, called by a real API server."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from support.e2e.api_client import ApiError
from support.e2e.node_objects import gpushare, machine
from support.e2e.pod_objects import pod
from support.e2e.processes import wait_for
from support.e2e.seed_manifests import GPU_SHARE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from support.e2e.service import Placing
    from support.e2e.webhook import WebhookService

GPU, ASCEND = "nvidia.com/gpu", "huawei.com/Ascend910"
OLD = "alpha.kubernetes.io/nvidia-gpu"
TENANT = [
    {"apiGroups": ["", "apps", "batch"], "resources": ["*"], "verbs": ["*"]},
]
"""full rights on what a namespace has; the cluster role is bound for all of them"""

VOLCANO_JOBS: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "jobs.batch.volcano.sh"},
    "spec": {
        "group": "batch.volcano.sh",
        "scope": "Namespaced",
        "names": {"kind": "Job", "listKind": "JobList", "plural": "jobs", "singular": "job"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


def workload(kind: str, spec: Mapping[str, Any], version: str = "batch/v1") -> str:
    return json.dumps({"apiVersion": version, "kind": kind, "metadata": {"name": "job"}, "spec": spec})


def template(limits: Mapping[str, int], **spec: Any) -> dict[str, Any]:  # noqa: ANN401 - as `pod` has them
    made = pod("x", "x", limits, **spec)
    return {"metadata": {"labels": {"app": "x"}}, "spec": {**made["spec"], "restartPolicy": "Never"}}


def deployment(limits: Mapping[str, int]) -> str:
    made = template(limits)
    made["spec"]["restartPolicy"] = "Always"
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "x"}}, "template": made}
    return workload("Deployment", spec, "apps/v1")


def applied(placing: Placing, namespace: str, text: str, user: str = "admin") -> str:
    """What kubectl says besides its output, of an object that is admitted."""
    words = ("apply", "--namespace", namespace, "--filename", "-")
    code, _, said = placing.cluster.run_kubectl(*words, user=user, stdin=text)
    assert code == 0, said
    return said


def refused(placing: Placing, namespace: str, text: str, user: str = "admin") -> str:
    """What kubectl says of an object that is not admitted."""
    words = ("apply", "--namespace", namespace, "--filename", "-")
    code, _, said = placing.cluster.run_kubectl(*words, user=user, stdin=text)
    assert code == 1, said
    return said


def pods_of(placing: Placing, namespace: str) -> list[dict[str, Any]]:
    return placing.cluster.api.list(f"/api/v1/namespaces/{namespace}/pods")


@pytest.mark.rule("002.name")
def test_a_pod_with_the_resource_name_of_2016_is_rewritten_warned_about_and_placed(admitting: Placing) -> None:
    admitting.nodes(*machine("gpu", "nvlink"))
    namespace = admitting.namespace()
    said = applied(admitting, namespace, json.dumps(pod(namespace, "old", {OLD: 2})))
    assert f"Warning: {OLD}: replaced by {GPU}; Kubernetes no longer accepts the old name" in said
    granted = admitting.placed(namespace, "old")
    assert (granted.node, len(granted.devices)) == ("gpu", 2)
    found = admitting.cluster.pod(namespace, "old")
    assert found["spec"]["schedulerName"] == "linkwise-scheduler"
    assert found["spec"]["containers"][0]["resources"]["limits"] == {GPU: "2"}


@pytest.mark.rule("004.manifests")
def test_the_sample_of_gpu_share_is_corrected_and_placed(admitting: Placing) -> None:
    admitting.nodes(*gpushare("share"))
    namespace = admitting.namespace()
    applied(admitting, namespace, GPU_SHARE)
    (made,) = wait_for(lambda: pods_of(admitting, namespace), 15, "the pod of the sample")
    granted = admitting.placed(namespace, made["metadata"]["name"])
    assert granted.node == "share"
    found = admitting.cluster.pod(namespace, made["metadata"]["name"])
    assert found["spec"]["schedulerName"] == "linkwise-scheduler"
    assert not found["spec"]["containers"][0].get("env")
    assert found["metadata"]["annotations"]["linkwise.dev/user"] == "admin"


@pytest.mark.rule("003.count")
@pytest.mark.parametrize("count", [3, 5, 6, 7])
def test_a_number_of_chips_that_rings_do_not_have_is_refused_at_apply(admitting: Placing, count: int) -> None:
    namespace = admitting.namespace()
    sentence = f"{count} devices can't be allocated on ascend-910; request 1, 2, 4 or 8"
    for text in (
        json.dumps(pod(namespace, "chips", {ASCEND: count})),
        workload("Job", {"template": template({ASCEND: count})}),
        workload(
            "CronJob", {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": template({ASCEND: count})}}}
        ),
    ):
        assert sentence in refused(admitting, namespace, text)
    assert not pods_of(admitting, namespace)


@pytest.mark.rule("003.one-pod")
def test_job_shapes_are_refused_at_apply(admitting: Placing) -> None:
    namespace = admitting.namespace()
    admitting.cluster.define(VOLCANO_JOBS)
    try:
        said = refused(admitting, namespace, workload("Job", {"parallelism": 2, "template": template({ASCEND: 4})}))
        assert "8 devices requested by 2 pods; a job of up to 8 devices must be one pod" in said
        tasks = [{"name": "worker", "replicas": 3, "template": template({ASCEND: 4}, scheduler="volcano")}]
        spec = {"schedulerName": "volcano", "tasks": tasks}
        said = refused(admitting, namespace, workload("Job", spec, "batch.volcano.sh/v1alpha1"))
        assert "12 devices requested in total; a job of more than 8 must request a multiple of 8" in said
        tasks[0] |= {"replicas": 2, "template": template({ASCEND: 8}, scheduler="volcano")}
        applied(admitting, namespace, workload("Job", spec, "batch.volcano.sh/v1alpha1"))
        path = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs/job"
        (task,) = admitting.cluster.api.get(path)["spec"]["tasks"]
        assert task["template"]["metadata"]["annotations"]["linkwise.dev/user"] == "admin"
    finally:
        admitting.cluster.undefine(VOLCANO_JOBS)


@pytest.mark.rule("001.gang-words")
def test_labels_that_differ_are_warnings_and_a_replica_that_is_no_number_is_refused(admitting: Placing) -> None:
    namespace = admitting.namespace()
    names = {"gputopology.scheduling.koordinator.sh/name": "job", "gputopology.scheduling.koordinator.sh/replica": "4"}
    words = {"gang.scheduling.koordinator.sh/name": "other", "gang.scheduling.koordinator.sh/min-available": "2"}
    said = applied(admitting, namespace, json.dumps(pod(namespace, "a", {GPU: 1}, labels=names, annotations=words)))
    assert "min-available: it is 2, but gputopology.scheduling.koordinator.sh/replica is 4" in said
    wrong = {**names, "gputopology.scheduling.koordinator.sh/replica": "many"}
    said = refused(admitting, namespace, json.dumps(pod(namespace, "b", {GPU: 1}, labels=wrong)))
    assert "'many' is not a number; write a whole number of 1 or more" in said


def test_a_misspelt_resource_is_a_warning(admitting: Placing) -> None:
    namespace = admitting.namespace()
    said = applied(admitting, namespace, json.dumps(pod(namespace, "typo", {"nvidia.com/gpus": 1})))
    assert "Warning: nvidia.com/gpus: unknown resource; did you mean nvidia.com/gpu?" in said


@pytest.mark.parametrize(
    "key", ["linkwise.dev/grant", "huawei.com/AscendReal", "scheduler.framework.gpushare.allocation"]
)
def test_a_forged_record_is_refused_for_a_user_with_full_rights(admitting: Placing, key: str) -> None:
    namespace = admitting.namespace()
    admitting.cluster.grant("tenant", TENANT)
    forged = json.dumps(pod(namespace, "forged", {GPU: 1}, annotations={key: "{}"}))
    assert f"{key}: remove this annotation" in refused(admitting, namespace, forged, "tenant")
    inner = template({GPU: 1})
    inner["metadata"]["annotations"] = {key: "{}"}
    assert f"{key}: remove this annotation" in refused(
        admitting, namespace, workload("Job", {"template": inner}), "tenant"
    )


def test_pods_of_a_users_job_carry_the_user_and_not_the_one_that_a_template_says(admitting: Placing) -> None:
    admitting.nodes(*machine("gpu", "nvlink"))
    namespace = admitting.namespace()
    admitting.cluster.grant("tenant", TENANT)
    forged = template({GPU: 1})
    forged["metadata"]["annotations"] = {"linkwise.dev/user": "admin"}
    applied(admitting, namespace, workload("Job", {"template": forged}), "tenant")
    (made,) = wait_for(lambda: pods_of(admitting, namespace), 15, "the pod of the job")
    assert made["metadata"]["annotations"]["linkwise.dev/user"] == "tenant"
    admitting.placed(namespace, made["metadata"]["name"])


def test_members_of_a_gang_are_gated_with_and_without_devices(admitting: Placing) -> None:
    namespace = admitting.namespace()
    words = {"gang.scheduling.koordinator.sh/name": "job", "gang.scheduling.koordinator.sh/min-available": "2"}
    for name, limits in (("launcher", {}), ("worker", {GPU: 1})):
        admitting.create(namespace, name, limits, annotations=words)
        spec = admitting.cluster.pod(namespace, name)["spec"]
        assert spec["schedulingGates"] == [{"name": "linkwise.dev/gang"}]
        assert spec["schedulerName"] == "linkwise-scheduler"


def test_every_place_where_a_pod_can_request_devices_is_seen(admitting: Placing) -> None:
    namespace = admitting.namespace()
    plain = {"name": "plain", "image": "example.com/none"}
    asking = {**plain, "name": "asking", "resources": {"limits": {OLD: "1"}}}
    many = [{**plain, "name": f"plain-{number}"} for number in range(60)]
    keys = {f"example.com/key-{number}": "x" * 100 for number in range(200)}
    for name, spec in (
        ("init", {"containers": [plain], "initContainers": [asking]}),
        ("last", {"containers": [*many, asking], "initContainers": [{**plain, "name": "first"}]}),
        ("request", {"containers": [{**asking, "resources": {"requests": {"kubernetes.io/gpu-memory-ratio": "50"}}}]}),
    ):
        admitting.create(namespace, name, {}, annotations=keys, labels={"a": "b"}, **spec)
        found = admitting.cluster.pod(namespace, name)
        assert found["metadata"]["annotations"]["linkwise.dev/user"] == "admin", name
        assert "kubernetes.io/" not in json.dumps(found["spec"].get("initContainers", []) + found["spec"]["containers"])


@pytest.mark.rule("000.skip")
def test_pods_that_are_not_managed_and_those_that_opt_out_are_not_changed(admitting: Placing) -> None:
    cluster, namespace = admitting.cluster, admitting.namespace()
    ignored = admitting.namespace()
    cluster.kubectl("label", "namespace", ignored, "linkwise.dev/webhook=ignore")
    before = admitting.metric('linkwise_requests_total{code="200",verb="mutate"}')
    for where, name, words in (
        (namespace, "plain", {}),
        (namespace, "mig", {"limits": {"nvidia.com/mig-1g.5gb": 1}}),
        (namespace, "label", {"limits": {GPU: 1}, "labels": {"linkwise.dev/webhook": "ignore"}}),
        ("kube-system", "system", {"limits": {GPU: 1}}),
    ):
        admitting.create(where, name, **words)
        assert "linkwise.dev/user" not in (cluster.pod(where, name)["metadata"].get("annotations") or {})
    wait_for(lambda: unmanaged(admitting, ignored), 10, "the label of the namespace is seen")
    assert admitting.metric('linkwise_requests_total{code="200",verb="mutate"}') <= before + 50
    cluster.api.delete("/api/v1/namespaces/kube-system/pods/system")


def unmanaged(placing: Placing, namespace: str) -> bool:
    """Whether a pod with devices is created there without the webhook."""
    dry = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    made = placing.cluster.api.call("POST", dry, pod(namespace, "free", {GPU: 1}))
    return "linkwise.dev/user" not in (made["metadata"].get("annotations") or {})


def test_scaling_and_annotating_a_managed_deployment_keeps_its_user_and_its_pods(admitting: Placing) -> None:
    admitting.nodes(*machine("gpu", "nvlink"))
    cluster, namespace = admitting.cluster, admitting.namespace()
    cluster.grant("tenant", TENANT)
    applied(admitting, namespace, deployment({GPU: 1}), "tenant")
    (first,) = wait_for(lambda: pods_of(admitting, namespace), 15, "the first pod")
    cluster.kubectl("annotate", "--namespace", namespace, "deployment/job", "a=b")
    cluster.kubectl("scale", "--namespace", namespace, "deployment/job", "--replicas=2")
    wait_for(lambda: len(pods_of(admitting, namespace)) == 2, 15, "two pods")
    found = pods_of(admitting, namespace)
    assert {made["metadata"]["annotations"]["linkwise.dev/user"] for made in found} == {"tenant"}
    assert first["metadata"]["uid"] in {made["metadata"]["uid"] for made in found}


def test_without_the_webhook_managed_pods_are_refused_and_others_are_created_at_once(
    admitting: Placing, webhook: WebhookService
) -> None:
    cluster, namespace = admitting.cluster, admitting.namespace()
    webhook.serve.kill()
    try:
        with pytest.raises(ApiError, match="failed calling webhook") as failed:
            admitting.create(namespace, "managed", {GPU: 1})
        assert failed.value.status == 500
        started = time.monotonic()
        for number in range(10):
            admitting.create(namespace, f"plain-{number}")
        admitting.create("kube-system", "system", {GPU: 1})
        admitting.create(namespace, "typo", {"nvidia.com/gpus": 1})
        applied(admitting, namespace, deployment({"cpu": 1}))
        assert time.monotonic() - started < 5
        wait_for(lambda: len(pods_of(admitting, namespace)) == 12, 15, "the pod of the Deployment")
        cluster.api.delete("/api/v1/namespaces/kube-system/pods/system")
    finally:
        webhook.serve.start()
        webhook.wait_trusted()
    admitting.create(namespace, "managed", {GPU: 1})


def test_metrics_count_verdicts_and_show_when_the_certificate_expires(admitting: Placing) -> None:
    admitting.create(admitting.namespace(), "fine", {GPU: 1})
    assert admitting.metric('linkwise_admissions_total{call="mutate",verdict="changed"}') >= 1
    assert admitting.metric("linkwise_webhook_certificate_expiry_timestamp_seconds") > time.time()
