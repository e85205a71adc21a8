"""Only the programs that write records can set, change or remove them: each attack, on a real API server.

The attacker is a tenant who may do anything in a namespace, to pods also by their status, their bindings, and the rest.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from linkwise.config.protection import POLICIES as PROTECTION
from linkwise.dialects.registry import record_keys
from support.e2e.api_client import MERGE, Api, ApiError, path_of
from support.e2e.config_files import NODE, USERS
from support.e2e.node_objects import machine
from support.e2e.pod_objects import pod
from support.e2e.processes import wait_for
from support.e2e.protection import GATE, GRANT, GROUPS, USER, pod_path, protected, refusal, tenant_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.e2e.api_client import Raw
    from support.e2e.cluster import Cluster
    from support.e2e.service import Placing

GPU = "nvidia.com/gpu"
REAL = "huawei.com/AscendReal"
PATTERNED = ("huawei.com/npu-core", "huawei.com/Ascend910-16c", "hami.io/vgpu-devices-to-allocate")
PLUGIN = "vendor-plugin"
JSON_PATCH = "application/json-patch+json"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"


@pytest.fixture(scope="module", autouse=True)
def policies(kubernetes: Cluster) -> Iterator[str]:
    name = USERS["scheduler"].name
    with protected(kubernetes, "--identity", name, "--identity-group", "system:nodes", "--controller", name) as printed:
        yield printed


@pytest.fixture
def tenant(cluster: Cluster, namespace: str) -> Api:
    return tenant_of(cluster, namespace)


def annotated(annotations: dict[str, str | None]) -> Raw:
    return {"metadata": {"annotations": annotations}}


def deployment(namespace: str, annotations: dict[str, str], replicas: int = 1) -> Raw:
    made = pod(namespace, "work", labels={"app": "work"}, annotations=annotations)
    about = {"labels": made["metadata"]["labels"], "annotations": annotations}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "work"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "work", "namespace": namespace},
        "spec": {
            **spec,
            "template": {"metadata": about, "spec": {**made["spec"], "schedulerName": "another-scheduler"}},
        },
    }


def binding(name: str, annotations: dict[str, str]) -> Raw:
    about = {"name": name, "annotations": annotations}
    target = {"apiVersion": "v1", "kind": "Node", "name": "gpu"}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": about, "target": target}


# forged at creation


@pytest.mark.parametrize("key", [*record_keys(), *PATTERNED])
def test_a_forged_record_is_refused_at_creation(tenant: Api, namespace: str, key: str) -> None:
    text = refusal(tenant, "POST", f"/api/v1/namespaces/{namespace}/pods", pod(namespace, "p", annotations={key: "1"}))
    assert f"annotation(s) {key}: " in text
    assert "leave them out of a new pod" in text
    assert " may set, change or remove " in text


def test_all_forged_records_of_a_pod_are_named(tenant: Api, namespace: str) -> None:
    forged = pod(namespace, "p", annotations={REAL: "0", "predicate-time": "1", "team": "a"})
    text = refusal(tenant, "POST", f"/api/v1/namespaces/{namespace}/pods", forged)
    assert f"annotation(s) {REAL}, predicate-time: device plugins take them for allocated devices" in text
    assert "and not tenant; " in text


def test_an_administrator_forges_no_record_either(cluster: Cluster, namespace: str) -> None:
    forged = pod(namespace, "p", annotations={GRANT: "{}"})
    assert GRANT in refusal(cluster.api, "POST", f"/api/v1/namespaces/{namespace}/pods", forged)


def test_a_pod_that_brings_its_node_brings_no_record(tenant: Api, namespace: str) -> None:
    """A pod of 8 devices with a record of 1 would make 7 devices look free, and one of 1 with a record of 8 blocks them."""
    for count, devices in ((8, ["GPU-0"]), (1, [f"GPU-{index}" for index in range(8)])):
        record = {"containers": {"main": {"core": 0, "devices": devices, "share": 0}}}
        forged = pod(namespace, "p", {GPU: count}, annotations={GRANT: json.dumps(record)}, nodeName="gpu")
        assert GRANT in refusal(tenant, "POST", f"/api/v1/namespaces/{namespace}/pods", forged)


def test_no_namespace_is_exempt(cluster: Cluster) -> None:
    for namespace in ("kube-system", "default"):
        forged = pod(namespace, "p", annotations={REAL: "Ascend910-0"})
        assert REAL in refusal(cluster.api, "POST", f"/api/v1/namespaces/{namespace}/pods", forged)


def test_a_controller_does_not_launder_a_record(cluster: Cluster, namespace: str) -> None:
    controllers = cluster.connect("controllers")
    cluster.grant("controllers", [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}])
    path, forged = f"/api/v1/namespaces/{namespace}/pods", pod(namespace, "p", annotations={GRANT: "{}"})
    assert GRANT in refusal(controllers, "POST", path, forged)


@pytest.mark.parametrize("key", [GRANT, REAL, "huawei.com/Ascend910-16c"])
def test_a_record_in_a_template_is_refused_with_the_workload(tenant: Api, namespace: str, key: str) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    text = refusal(tenant, "POST", path, deployment(namespace, {key: "x"}))
    assert f"annotation(s) {key} in the pod template" in text
    tenant.call("POST", path, deployment(namespace, {}, replicas=0))
    change = {"spec": {"template": annotated({key: "x"})}}
    assert key in refusal(tenant, "PATCH", f"{path}/work", change, MERGE)


def test_a_record_in_the_template_of_a_cron_job_is_refused(tenant: Api, namespace: str) -> None:
    template = deployment(namespace, {REAL: "0"})["spec"]["template"]
    template["spec"]["restartPolicy"] = "Never"
    spec = {"schedule": "@yearly", "jobTemplate": {"spec": {"template": template}}}
    job = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c", "namespace": namespace}, "spec": spec}
    assert REAL in refusal(tenant, "POST", f"/apis/batch/v1/namespaces/{namespace}/cronjobs", job)


def test_a_template_that_had_a_record_can_be_changed_and_cleaned(
    cluster: Cluster, tenant: Api, namespace: str, policies: str
) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    made = deployment(namespace, {REAL: "0"}, replicas=0)
    unprotected(cluster, policies, "linkwise-templates", made)
    tenant.patch(f"{path}/work", {"spec": {"template": annotated({"team": "a"})}})
    found = tenant.patch(f"{path}/work", {"spec": {"template": annotated({REAL: None})}})
    assert found["spec"]["template"]["metadata"]["annotations"] == {"team": "a"}


def unprotected(cluster: Cluster, policies: str, policy: str, made: Raw) -> None:
    """Make an object that was there before the policy, whose binding is away meanwhile."""
    cluster.api.delete(f"{POLICIES.removesuffix('policies')}policybindings/{policy}")

    def created() -> bool:
        try:
            cluster.api.create(made)
        except ApiError as error:
            if error.status == 403:
                return False
            raise
        return True

    wait_for(created, 10, "the policy is not in force")
    cluster.apply(policies)
    probe = {**made, "metadata": {**made["metadata"], "name": "probe"}}
    path = path_of(made).rpartition("/")[0]

    def refused() -> bool:
        try:
            cluster.api.call("POST", f"{path}?dryRun=All", probe)
        except ApiError as error:
            return error.status == 403
        return False

    wait_for(refused, 10, "the policy is in force again")


# forged after binding


@pytest.fixture
def granted(placing: Placing) -> tuple[str, Api]:
    """A pod `trainer` that the service has placed, in a namespace of the tenant."""
    namespace = placing.namespace()
    placing.nodes(*machine("gpu", "nvlink"))
    assert placing.place(namespace, "trainer", {GPU: 2}).devices
    return namespace, tenant_of(placing.cluster, namespace)


@pytest.mark.parametrize("way", ["", "status"])
@pytest.mark.parametrize("value", ["{}", None])
def test_the_grant_of_a_bound_pod_is_not_changed_or_removed(
    granted: tuple[str, Api], way: str, value: str | None
) -> None:
    """Otherwise the service would believe it after a restart, and allocate the real devices to another pod."""
    namespace, tenant = granted
    path = pod_path(namespace, "trainer", *filter(None, [way]))
    before = tenant.get(pod_path(namespace, "trainer"))["metadata"]["annotations"][GRANT]
    text = refusal(tenant, "PATCH", path, annotated({GRANT: value}), MERGE)
    assert "as they are on an existing one" in text
    assert tenant.get(pod_path(namespace, "trainer"))["metadata"]["annotations"][GRANT] == before


@pytest.mark.parametrize("way", ["", "status"])
@pytest.mark.parametrize("key", [REAL, "scheduler.framework.gpushare.allocation", "huawei.com/npu-core"])
def test_no_record_is_added_to_a_bound_pod(granted: tuple[str, Api], way: str, key: str) -> None:
    namespace, tenant = granted
    path = pod_path(namespace, "trainer", *filter(None, [way]))
    assert key in refusal(tenant, "PATCH", path, annotated({key: "0"}), MERGE)


def test_a_replaced_pod_keeps_its_records(granted: tuple[str, Api]) -> None:
    namespace, tenant = granted
    path = pod_path(namespace, "trainer")
    whole = tenant.get(path)
    bare = {**whole, "metadata": {**whole["metadata"], "annotations": {}}}
    assert GRANT in refusal(tenant, "PUT", path, bare)
    tenant.call("PUT", path, {**whole, "metadata": {**whole["metadata"], "labels": {"team": "a"}}})


@pytest.mark.parametrize("way", ["resize", "ephemeralcontainers"])
def test_no_other_subresource_changes_a_record(granted: tuple[str, Api], way: str) -> None:
    namespace, tenant = granted
    path = pod_path(namespace, "trainer", way)
    before = tenant.get(pod_path(namespace, "trainer"))["metadata"]["annotations"]
    status, _ = tenant.raw("PATCH", path, json.dumps(annotated({GRANT: "{}", REAL: "0"})).encode(), MERGE)
    assert status in {200, 403}
    assert tenant.get(pod_path(namespace, "trainer"))["metadata"]["annotations"] == before


@pytest.mark.parametrize("way", ["pods/{}/binding", "bindings"])
def test_a_binding_brings_no_record(cluster: Cluster, tenant: Api, namespace: str, way: str) -> None:
    cluster.create(machine("gpu", "nvlink"))
    tenant.create(pod(namespace, "p", {GPU: 1}, scheduler="another-scheduler"))
    path = f"/api/v1/namespaces/{namespace}/{way.format('p')}"
    for key in (GRANT, "linkwise.dev/group-plan", REAL, USER):
        assert key in refusal(tenant, "POST", path, binding("p", {key: "tenant"}))
    tenant.call("POST", path, binding("p", {"team": "a"}))
    found = cluster.pod(namespace, "p")
    assert (found["spec"]["nodeName"], found["metadata"]["annotations"]) == ("gpu", {"team": "a"})


# the user of a pod


def test_a_pod_names_only_the_user_who_creates_it(cluster: Cluster, tenant: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    text = refusal(tenant, "POST", path, pod(namespace, "p", annotations={USER: "admin"}))
    assert f"annotation(s) {USER} are the user who created the pod and groups of that user" in text
    assert text.endswith("leave them out of a new pod, which tenant creates")
    tenant.create(pod(namespace, "p", annotations={USER: "tenant"}))
    for value in ("admin", "system:serviceaccount:kube-system:job-controller", None):
        assert USER in refusal(tenant, "PATCH", f"{path}/p", annotated({USER: value}), MERGE)
    assert USER in refusal(cluster.api, "PATCH", f"{path}/p", annotated({USER: "admin"}), MERGE)


@pytest.mark.parametrize(
    ("groups", "fine"),
    [
        ("system:authenticated", True),
        ("system:masters", False),
        ("system:authenticated\nsystem:masters", False),
        ("system:authenticated,system:masters", False),
        ("system:authenticated ", False),
        ("", True),
    ],
)
def test_a_pod_names_only_groups_of_the_user_who_creates_it(
    tenant: Api, namespace: str, groups: str, *, fine: bool
) -> None:
    path, made = f"/api/v1/namespaces/{namespace}/pods", pod(namespace, "p", annotations={GROUPS: groups})
    if fine:
        tenant.create(made)
        assert GROUPS in refusal(tenant, "PATCH", f"{path}/p", annotated({GROUPS: "system:masters"}), MERGE)
    else:
        assert GROUPS in refusal(tenant, "POST", path, made)


def test_the_controller_of_another_system_keeps_the_user_of_a_template(cluster: Cluster, namespace: str) -> None:
    cluster.grant("scheduler", [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "patch"]}])
    controller = cluster.connect("scheduler")  # the policies name it as a controller too
    made = controller.create(pod(namespace, "p", annotations={USER: "tenant", GROUPS: "interns"}))
    assert made["metadata"]["annotations"][USER] == "tenant"
    assert USER in refusal(controller, "PATCH", pod_path(namespace, "p"), annotated({USER: "admin"}), MERGE)


def test_templates_of_volcano_jobs_are_protected(cluster: Cluster, namespace: str) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"kind": "Job", "listKind": "JobList", "plural": "jobs", "singular": "job"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "jobs.batch.volcano.sh"},
        "spec": {
            "group": "batch.volcano.sh",
            "scope": "Namespaced",
            "names": names,
            "versions": [{"name": "v1alpha1", "served": True, "storage": True, "schema": schema}],
        },
    }
    cluster.define(definition)
    try:
        path = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs"
        for key in (GRANT, USER, "huawei.com/npu-core"):
            tasks = [{"name": "a", "template": {"spec": {}}}, {"name": "b", "template": annotated({key: "x"})}]
            about = {"name": "j", "namespace": namespace}
            job = {
                "apiVersion": "batch.volcano.sh/v1alpha1",
                "kind": "Job",
                "metadata": about,
                "spec": {"tasks": tasks},
            }
            assert f"annotation(s) {key} in the pod template" in refusal(cluster.api, "POST", path, job)
    finally:
        cluster.undefine(definition)


def test_a_template_names_only_the_user_who_creates_the_workload(tenant: Api, namespace: str) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    assert USER in refusal(tenant, "POST", path, deployment(namespace, {USER: "admin"}))
    tenant.call("POST", path, deployment(namespace, {USER: "tenant"}, replicas=0))
    change = {"spec": {"template": annotated({USER: "admin"})}}
    assert USER in refusal(tenant, "PATCH", f"{path}/work", change, MERGE)


def test_pods_of_a_deployment_keep_the_user_of_its_template(cluster: Cluster, tenant: Api, namespace: str) -> None:
    tenant.create(deployment(namespace, {USER: "tenant"}, replicas=2))
    pods = wait_for(lambda: both(cluster, namespace), 20, "two pods of the deployment")
    assert [found["metadata"]["annotations"] for found in pods] == [{USER: "tenant"}] * 2


def both(cluster: Cluster, namespace: str) -> list[Raw] | None:
    found = cluster.api.list(f"/api/v1/namespaces/{namespace}/pods")
    return found if len(found) == 2 else None


# the gate of gang members


def test_only_the_service_removes_the_gate_of_a_gang(cluster: Cluster, tenant: Api, namespace: str) -> None:
    gates = [{"name": GATE}, {"name": "example.com/other"}]
    # A running service keeps the gate of a member whose gang is incomplete.
    gang = {f"gang.scheduling.koordinator.sh/{key}": text for key, text in (("name", "g"), ("min-available", "2"))}
    tenant.create(pod(namespace, "member", {GPU: 1}, annotations=gang, schedulingGates=gates))
    path, open_it = pod_path(namespace, "member"), {"spec": {"schedulingGates": [{"name": "example.com/other"}]}}
    for user in (tenant, cluster.api):
        text = refusal(user, "PATCH", path, open_it, MERGE)
        assert f"scheduling gate {GATE}: only linkwise removes it" in text
        assert text.endswith("delete the pod to give it up")
    tenant.patch(path, {"spec": {"schedulingGates": [{"name": GATE}]}})
    cluster.grant("linkwise", [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "patch"]}])
    linkwise = cluster.connect("linkwise")
    assert not linkwise.patch(path, {"spec": {"schedulingGates": None}})["spec"].get("schedulingGates")


# who may


def test_a_granted_pod_is_updated_by_its_owner(granted: tuple[str, Api]) -> None:
    namespace, tenant = granted
    found = tenant.patch(
        pod_path(namespace, "trainer"), {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}
    )
    assert found["metadata"]["labels"]["a"] == "b"
    assert GRANT in found["metadata"]["annotations"]


def test_kubectl_applies_and_changes_what_is_not_a_record(placing: Placing) -> None:
    namespace = placing.namespace()
    placing.nodes(*machine("gpu", "nvlink"))
    tenant_of(placing.cluster, namespace)
    made = pod(namespace, "trainer", {GPU: 2})
    placing.cluster.apply(json.dumps(made), namespace, user="tenant")
    placing.placed(namespace, "trainer")
    made["metadata"]["labels"] = {"team": "a"}
    placing.cluster.apply(json.dumps(made), namespace, user="tenant")
    found = placing.cluster.pod(namespace, "trainer")
    assert found["metadata"]["labels"] == {"team": "a"}
    assert GRANT in found["metadata"]["annotations"]


def test_the_status_of_a_granted_pod_is_written_as_by_its_kubelet(granted: tuple[str, Api], cluster: Cluster) -> None:
    namespace, _ = granted
    cluster.grant("tenant", [{"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]}])
    for phase in ("Running", "Succeeded"):
        written = cluster.api.patch(pod_path(namespace, "trainer", "status"), {"status": {"phase": phase}})
        assert written["status"]["phase"] == phase


def test_a_group_that_the_service_plans_is_bound(placing: Placing) -> None:
    namespace = placing.namespace()
    placing.nodes(*machine("gpu", "nvlink"))
    words = {f"gputopology.scheduling.koordinator.sh/{key}": text for key, text in (("name", "ring"), ("replica", "2"))}
    for number in range(2):
        placing.create(namespace, f"ring-{number}", {GPU: 4}, labels=words)
    assert [len(placing.placed(namespace, f"ring-{number}").devices) for number in range(2)] == [4, 4]


def test_the_plugin_of_another_system_writes_its_records_and_not_ours(cluster: Cluster, namespace: str) -> None:
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "get", "patch"]}
    cluster.grant("scheduler", [rule])
    plugin, path = cluster.connect("scheduler"), pod_path(namespace, "p")
    cluster.api.create(pod(namespace, "p", scheduler="another-scheduler"))
    plugin.patch(path, annotated({REAL: "Ascend910-0", "huawei.com/npu-core": "0"}))
    plugin.patch(path, annotated({REAL: None}))
    assert GRANT in refusal(plugin, "PATCH", path, annotated({GRANT: "{}"}), MERGE)


def test_a_member_of_an_allowed_group_writes_records_of_its_system(cluster: Cluster, namespace: str) -> None:
    if "node" not in _users(cluster):
        pytest.skip("no test may act as a node here")
    node = cluster.connect("node")
    cluster.create([_plain_node()])
    cluster.api.create(pod(namespace, "p", scheduler="another-scheduler", nodeName=NODE))
    path = pod_path(namespace, "p", "status")
    wait_for(lambda: _patched(node, path), 10, "the node sees its pod")
    assert GRANT in refusal(node, "PATCH", path, annotated({GRANT: "{}"}), MERGE)


def _patched(node: Api, path: str) -> bool:
    change = json.dumps(annotated({"ALIYUN_COM_GPU_MEM_ASSIGNED": "true"})).encode()
    return node.raw("PATCH", path, change, MERGE)[0] == 200


def _users(cluster: Cluster) -> set[str]:
    return {"node"} if cluster.own else set()


def _plain_node() -> Raw:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}


# what the policies are


def test_the_api_server_finds_nothing_wrong_with_the_policies(cluster: Cluster) -> None:
    names = [f"linkwise-{word}" for word in PROTECTION]
    for name in names:
        status: dict[str, Any] = cluster.api.get(f"{POLICIES}/{name}")["status"]
        assert status["typeChecking"] == {}, name


def many_annotations(count: int) -> dict[str, str]:
    return {f"example.com/annotation-{number:05}": "x" * 8 for number in range(count)}


def test_a_pod_with_a_thousand_annotations_is_checked_and_one_with_more_refused(tenant: Api, namespace: str) -> None:
    """The API server evaluates patterns in a time that grows with the square of their number."""
    many = {f"example.com/annotation-{number:05}": "x" * 40 for number in range(999)}
    tenant.create(pod(namespace, "p", {GPU: 1}, scheduler="another-scheduler", annotations=many))
    path = pod_path(namespace, "p")
    tenant.patch(path, {"metadata": {"labels": {"a": "b"}}})
    for key in (GRANT, *PATTERNED):
        assert key in refusal(tenant, "PATCH", path, annotated({key: "{}"}), MERGE)
    more = annotated({"one": "", "two": ""})
    assert "more than 1000 annotations" in refusal(tenant, "PATCH", path, more, MERGE)
    large = pod(namespace, "q", {GPU: 1}, annotations={f"a{number:05}": "" for number in range(20_000)})
    assert "remove some" in refusal(tenant, "POST", f"/api/v1/namespaces/{namespace}/pods", large)


def test_devices_of_an_init_container_count_as_well(tenant: Api, namespace: str) -> None:
    large = pod(namespace, "p", annotations=many_annotations(1001))
    first = {**large["spec"]["containers"][0], "name": "first", "resources": {"limits": {GPU: "1"}}}
    large["spec"]["initContainers"] = [first]
    assert "remove some" in refusal(tenant, "POST", f"/api/v1/namespaces/{namespace}/pods", large)


@pytest.mark.parametrize("count", [1001, 5000])
def test_a_pod_without_devices_may_have_any_number_of_annotations(tenant: Api, namespace: str, count: int) -> None:
    path = pod_path(namespace, "p")
    tenant.create(pod(namespace, "p", scheduler="another-scheduler", annotations=many_annotations(count)))
    tenant.patch(path, annotated({"one": "more"}))
    tenant.patch(path, annotated(dict.fromkeys(many_annotations(count))))
    tenant.patch(path, annotated(dict(many_annotations(count))))
    assert GRANT in refusal(tenant, "PATCH", path, annotated({GRANT: "{}"}), MERGE)
