"""CRDs, workloads, namespaces, owner references and discovery."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.embedded.conformance import MERGE, STRATEGIC, pod

if TYPE_CHECKING:
    from support.embedded.conformance import Space

INVENTORIES = "/apis/linkwise.dev/v1alpha1/deviceinventories"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def inventory(space: Space, **spec: object) -> dict[str, Any]:
    meta = {"name": f"{space.name}-n", "labels": {"linkwise.dev/e2e": "true"}}
    wished = {"mode": "whole", "enforced": True, "devices": [], **spec}
    return {"apiVersion": "linkwise.dev/v1alpha1", "kind": "DeviceInventory", "metadata": meta, "spec": wished}


def workload(replicas: int = 0, **spec: object) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pod("x")["spec"]}
    wished = {"replicas": replicas, "selector": {"matchLabels": {"app": "x"}}, "template": template, **spec}
    return {"metadata": {"name": "a"}, "spec": wished}


def test_the_status_of_a_custom_resource_is_a_subresource(space: Space) -> None:
    made = space.call("POST", INVENTORIES, {**inventory(space), "status": {"conditions": []}})
    assert "status" not in made
    path = f"{INVENTORIES}/{made['metadata']['name']}"
    status: dict[str, Any] = {"allocations": []}
    found = space.call("PUT", f"{path}/status", {**made, "status": status, "spec": {**made["spec"], "mode": "share"}})
    assert (found["status"], found["spec"]["mode"]) == (status, "whole")
    assert found["metadata"]["generation"] == 1


def test_only_spec_changes_increment_the_generation(space: Space) -> None:
    made = space.call("POST", INVENTORIES, inventory(space))
    path = f"{INVENTORIES}/{made['metadata']['name']}"
    assert space.call("PATCH", path, {"metadata": {"labels": {"x": "y"}}}, MERGE)["metadata"]["generation"] == 1
    assert space.call("PATCH", path, {"spec": {"mode": "share"}}, MERGE)["metadata"]["generation"] == 2


def test_a_custom_resource_is_validated_against_its_schema(space: Space) -> None:
    for spec, sentence in (
        ({"mode": "strange"}, 'spec.mode: Unsupported value: "strange"'),
        ({"devices": "none"}, "spec.devices: Invalid value"),
        ({"devices": [{"uuid": "x", "index": 0}]}, "spec.devices[0].healthy: Required value"),
        ({"deviceCount": -1}, "spec.deviceCount: Invalid value: -1"),
    ):
        error = space.refused("POST", INVENTORIES, inventory(space, **spec))
        assert (error.status, error.reason) == (422, "Invalid")
        assert sentence in error.message


def test_fields_outside_of_the_schema_are_pruned(space: Space) -> None:
    assert "surprise" not in space.call("POST", INVENTORIES, inventory(space, surprise="x"))["spec"]


def test_an_update_of_a_custom_resource_requires_a_resource_version(space: Space) -> None:
    space.call("POST", INVENTORIES, inventory(space))
    error = space.refused("PUT", f"{INVENTORIES}/{space.name}-n", inventory(space))
    assert error.status == 422
    assert "metadata.resourceVersion" in error.message


def test_a_custom_resource_rejects_strategic_merge_patches(space: Space) -> None:
    space.call("POST", INVENTORIES, inventory(space))
    assert space.refused("PATCH", f"{INVENTORIES}/{space.name}-n", {}, STRATEGIC).status == 415


def test_a_custom_resource_is_served_while_its_crd_exists(space: Space) -> None:
    group = f"{space.name}.example.com"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {
        "group": group,
        "scope": "Namespaced",
        "names": {"kind": "Thing", "plural": "things"},
        "versions": [version],
    }
    path = f"{DEFINITIONS}/things.{group}"
    space.call("POST", DEFINITIONS, {"metadata": {"name": f"things.{group}"}, "spec": spec})
    things = space.path("things", group=f"{group}/v1")
    space.until(lambda: space.api.raw("GET", things)[0] == 200, "things are served")
    thing = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "a"}, "any": {"thing": 1}}
    assert space.call("POST", things, thing)["any"] == {"thing": 1}
    space.call("DELETE", path)
    space.until(lambda: space.api.raw("GET", things)[0] == 404, "things are not served")
    space.until(lambda: space.api.raw("GET", path)[0] == 404, "the definition is gone")


def test_discovery_lists_our_custom_resource(space: Space) -> None:
    group = space.call("GET", "/apis/linkwise.dev")
    assert group["preferredVersion"] == {"groupVersion": "linkwise.dev/v1alpha1", "version": "v1alpha1"}
    found = {one["name"]: one for one in space.call("GET", "/apis/linkwise.dev/v1alpha1")["resources"]}
    assert found["deviceinventories"]["kind"] == "DeviceInventory"
    assert found["deviceinventories"]["namespaced"] is False
    assert found["deviceinventories"]["shortNames"] == ["dinv"]
    assert "deviceinventories/status" in found


def test_discovery_lists_the_verbs_and_subresources_of_pods(space: Space) -> None:
    found = {one["name"]: one for one in space.call("GET", "/api/v1")["resources"]}
    assert {"pods", "pods/binding", "pods/eviction", "pods/status", "pods/log"} <= set(found)
    assert set(found["pods"]["verbs"]) >= {"create", "delete", "deletecollection", "get", "list", "patch", "watch"}


def test_an_unknown_group_is_not_found(space: Space) -> None:
    assert space.api.raw("GET", "/apis/unknown.example.com")[0] == 404


def test_the_server_reports_its_version_and_health(space: Space) -> None:
    assert space.call("GET", "/version")["gitVersion"].startswith("v1.")
    for path in ("/healthz", "/livez", "/readyz"):
        assert space.api.raw("GET", path) == (200, b"ok")


def test_a_workload_gets_defaults(space: Space) -> None:
    made = space.make("deployments", workload(), "apps/v1")
    assert made["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": "25%", "maxUnavailable": "25%"}
    assert made["spec"]["template"]["spec"]["restartPolicy"] == "Always"


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"selector": {"matchLabels": {"app": "y"}}}, "`selector` does not match template `labels`"),
        ({"selector": None}, "spec.selector: Required value"),
        ({"replicas": -1}, "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
    ],
)
def test_an_invalid_workload_is_rejected(space: Space, spec: dict[str, Any], sentence: str) -> None:
    error = space.refused("POST", space.path("deployments", group="apps/v1"), workload(**spec))
    assert error.status == 422
    assert sentence in error.message


def test_the_selector_of_a_workload_is_immutable(space: Space) -> None:
    space.make("deployments", workload(), "apps/v1")
    labels = {"app": "x", "more": "y"}
    change = {"spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}}
    error = space.refused("PATCH", space.path("deployments", "a", group="apps/v1"), change, MERGE)
    assert error.status == 422
    assert "field is immutable" in error.message


def test_workloads_have_a_scale_subresource(space: Space) -> None:
    space.make("deployments", workload(), "apps/v1")
    path = space.path("deployments", "a", "scale", "apps/v1")
    assert space.call("GET", path)["spec"] == {}
    change = {"spec": {"replicas": 0}}
    assert space.call("PATCH", path, change, MERGE)["status"]["selector"] == "app=x"
    space.call("PATCH", path, {"spec": {"replicas": 2}}, MERGE)
    found = space.call("GET", space.path("deployments", "a", group="apps/v1"))
    assert (found["spec"]["replicas"], found["metadata"]["generation"]) == (2, 2)
    space.call("DELETE", space.path("deployments", "a", group="apps/v1"))


def test_a_job_selects_its_pods_by_its_uid(space: Space) -> None:
    template = {"spec": {**pod("x")["spec"], "restartPolicy": "Never"}}
    made = space.make("jobs", {"metadata": {"name": "a"}, "spec": {"template": template, "suspend": True}}, "batch/v1")
    uid, key = made["metadata"]["uid"], "batch.kubernetes.io/controller-uid"
    assert made["spec"]["selector"] == {"matchLabels": {key: uid}}
    assert made["spec"]["template"]["metadata"]["labels"][key] == uid
    assert (made["spec"]["completions"], made["spec"]["parallelism"], made["spec"]["backoffLimit"]) == (1, 1, 6)


def test_a_job_whose_pods_always_restart_is_invalid(space: Space) -> None:
    document = {"metadata": {"name": "a"}, "spec": {"template": {"spec": pod("x")["spec"]}}}
    error = space.refused("POST", space.path("jobs", group="batch/v1"), document)
    assert error.status == 422
    assert "spec.template.spec.restartPolicy" in error.message


def test_a_node_is_created_with_its_status(space: Space) -> None:
    name = f"{space.name}-node"
    ready = {"type": "Ready", "status": "True"}
    status = {"capacity": {"cpu": "4", "nvidia.com/gpu": "8"}, "conditions": [ready]}
    meta = {"name": name, "labels": {"linkwise.dev/e2e": "true"}}
    made = space.call("POST", "/api/v1/nodes", {"metadata": meta, "status": status})
    assert made["status"]["allocatable"] == {"cpu": "4", "nvidia.com/gpu": "8"}
    change = {"spec": {"unschedulable": True}, "status": {"capacity": {"cpu": "99"}}}
    found = space.call("PATCH", f"/api/v1/nodes/{name}", change, MERGE)
    assert (found["spec"]["unschedulable"], found["status"]["capacity"]["cpu"]) == (True, "4")
    space.call("DELETE", f"/api/v1/nodes/{name}")


def test_deleting_a_namespace_deletes_its_contents(space: Space) -> None:
    name = f"{space.name}-x"
    made = space.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert made["status"] == {"phase": "Active"}
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": name}
    space.call("POST", f"/api/v1/namespaces/{name}/configmaps", {"metadata": {"name": "a"}})
    space.call("DELETE", f"/api/v1/namespaces/{name}")
    space.until(lambda: space.api.raw("GET", f"/api/v1/namespaces/{name}")[0] == 404, "the namespace is gone")
    assert space.api.raw("GET", f"/api/v1/namespaces/{name}/configmaps/a")[0] == 404


def owned(space: Space, name: str, owner: dict[str, Any]) -> None:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    space.make("configmaps", {"metadata": {"name": name, "ownerReferences": [reference]}})


def test_dependents_are_deleted_with_their_owner(space: Space) -> None:
    owned(space, "a", space.config("owner"))
    space.call("DELETE", f"{space.path('configmaps', 'owner')}?propagationPolicy=Background")
    space.until(lambda: space.is_gone("configmaps", "a"), "the dependent is gone")


def test_dependents_can_be_orphaned(space: Space) -> None:
    owned(space, "a", space.config("owner"))
    space.call("DELETE", f"{space.path('configmaps', 'owner')}?propagationPolicy=Orphan")
    space.until(lambda: space.is_gone("configmaps", "owner"), "the owner is gone")
    assert "ownerReferences" not in space.get("configmaps", "a")["metadata"]


def test_foreground_deletion_waits_for_dependents(space: Space) -> None:
    owned(space, "a", space.config("owner"))
    space.call("DELETE", f"{space.path('configmaps', 'owner')}?propagationPolicy=Foreground")
    space.until(lambda: space.is_gone("configmaps", "owner"), "the owner is gone")
    assert space.is_gone("configmaps", "a")


def test_the_count_of_an_event_can_be_patched(space: Space) -> None:
    about = {"kind": "Pod", "name": "a", "namespace": space.name}
    space.make("events", {"metadata": {"name": "a.1"}, "involvedObject": about, "count": 1})
    assert space.patch("events", "a.1", {"count": 2})["count"] == 2
