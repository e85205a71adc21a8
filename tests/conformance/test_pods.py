"""Pods: defaults, validation, immutable fields, binding, deletion and eviction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.embedded.conformance import MERGE, STRATEGIC, gated, pod

if TYPE_CHECKING:
    from support.embedded.conformance import Space


def test_a_new_pod_gets_defaults(space: Space) -> None:
    made = space.make("pods", pod("a", schedulerName=""))
    usual = {
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "priority": 0,
    }
    assert {key: made["spec"][key] for key in usual} == usual
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert made["metadata"]["generation"] == 1


def test_requests_default_to_limits(space: Space) -> None:
    made = space.make("pods", pod("a", limits={"nvidia.com/gpu": 2, "cpu": "1"}))
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"nvidia.com/gpu": "2", "cpu": "1"}


def test_a_new_pod_can_not_set_its_status(space: Space) -> None:
    made = space.make("pods", {**pod("a"), "status": {"phase": "Running", "podIP": "10.0.0.1"}})
    assert made["status"]["phase"] == "Pending"
    assert "podIP" not in made["status"]


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("spec.containers: Required value", {"containers": []}),
    ("spec.containers[0].name: Required value", {"containers": [{"image": "x"}]}),
    ("spec.containers[0].image: Required value", {"containers": [{"name": "x"}]}),
    ("spec.containers[1].name: Duplicate value", {"containers": [{"name": "x", "image": "y"}] * 2}),
    ("spec.containers[0].name: Invalid value", {"containers": [{"name": "X_", "image": "y"}]}),
    ("spec.restartPolicy: Unsupported value", {"restartPolicy": "Sometimes"}),
    ("spec.schedulingGates[1]: Duplicate value", {"schedulingGates": [{"name": "x.y/z"}, {"name": "x.y/z"}]}),
    ("spec.nodeName: Forbidden", {"schedulingGates": [{"name": "x.y/z"}], "nodeName": "n1"}),
]


@pytest.mark.parametrize(("sentence", "spec"), WRONG, ids=[sentence for sentence, _ in WRONG])
def test_an_invalid_pod_is_rejected(space: Space, sentence: str, spec: dict[str, Any]) -> None:
    error = space.refused("POST", space.path("pods"), pod("a", **spec))
    assert (error.status, error.reason) == (422, "Invalid")
    assert sentence in error.message


@pytest.mark.parametrize(
    "resources",
    [
        {"limits": {"nvidia.com/gpu": "1500m"}},
        {"requests": {"nvidia.com/gpu": "1"}},
        {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}},
        {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
        {"limits": {"gpus": "1"}},
        {"limits": {"cpu": "-1"}},
    ],
)
def test_invalid_quantities_are_rejected(space: Space, resources: dict[str, Any]) -> None:
    container = {"name": "main", "image": "x", "resources": resources}
    assert space.refused("POST", space.path("pods"), pod("a", containers=[container])).status == 422


def test_an_unknown_priority_class_is_forbidden(space: Space) -> None:
    error = space.refused("POST", space.path("pods"), pod("a", priorityClassName="urgent"))
    assert (error.status, error.reason) == (403, "Forbidden")
    assert "no PriorityClass with name urgent was found" in error.message


def test_a_pod_has_the_priority_of_its_class(space: Space) -> None:
    name = f"{space.name}-high"
    document = {"metadata": {"name": name, "labels": {"linkwise.dev/e2e": "true"}}, "value": 1000}
    space.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", document)
    assert space.make("pods", pod("a", priorityClassName=name))["spec"]["priority"] == 1000


def test_a_bind_writes_node_and_annotations_together(space: Space) -> None:
    made = space.make("pods", pod("a"))
    answer = space.bind("a", "n1", uid=made["metadata"]["uid"], annotations={"linkwise.dev/grant": "x"})
    found = space.get("pods", "a")
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert found["spec"]["nodeName"] == "n1"
    assert found["metadata"]["annotations"]["linkwise.dev/grant"] == "x"
    assert [(one["type"], one["status"]) for one in found["status"]["conditions"]] == [("PodScheduled", "True")]


def test_annotations_of_a_bind_replace_those_of_the_pod(space: Space) -> None:
    document = pod("a")
    document["metadata"]["annotations"] = {"x": "old", "y": "kept"}
    space.make("pods", document)
    space.bind("a", annotations={"x": "new"})
    assert space.get("pods", "a")["metadata"]["annotations"] == {"x": "new", "y": "kept"}


def test_a_bound_pod_is_not_bound_again(space: Space) -> None:
    space.make("pods", pod("a"))
    space.bind("a", "n1")
    with pytest.raises(Exception, match=r'409 Conflict: .*pods/binding "a": pod a is already assigned to node "n1"'):
        space.bind("a", "n1")


def test_a_gated_pod_is_not_bound(space: Space) -> None:
    space.make("pods", gated("a"))
    with pytest.raises(Exception, match=r"409 Conflict: .*has non-empty .spec.schedulingGates"):
        space.bind("a")


def test_a_pod_that_is_being_deleted_is_not_bound(space: Space) -> None:
    document = pod("a")
    document["metadata"]["finalizers"] = ["example.com/wait"]
    space.make("pods", document)
    space.call("DELETE", space.path("pods", "a"))
    with pytest.raises(Exception, match=r"409 Conflict: .*is being deleted, cannot be assigned to a host"):
        space.bind("a")
    space.patch("pods", "a", {"metadata": {"finalizers": None}})


def test_another_pod_of_the_same_name_is_not_bound(space: Space) -> None:
    space.make("pods", pod("a"))
    with pytest.raises(Exception, match=r"409 Conflict: .*UID in precondition: other"):
        space.bind("a", uid="other")


def test_a_binding_of_a_missing_pod_is_not_found(space: Space) -> None:
    with pytest.raises(Exception, match='404 NotFound: pods "a" not found'):
        space.bind("a")


def test_a_binding_without_a_node_is_rejected(space: Space) -> None:
    space.make("pods", pod("a"))
    with pytest.raises(Exception, match=r"target\.name: Required value"):
        space.bind("a", "")
    assert "nodeName" not in space.get("pods", "a")["spec"]


def test_a_binding_clears_the_nominated_node(space: Space) -> None:
    space.make("pods", pod("a"))
    space.patch("pods", "a", {"status": {"nominatedNodeName": "n2"}}, part="status")
    space.bind("a", "n1")
    assert "nominatedNodeName" not in space.get("pods", "a")["status"]


def test_a_gated_pod_has_a_scheduling_gated_condition(space: Space) -> None:
    (condition,) = space.make("pods", gated("a"))["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulingGated")


def test_scheduling_gates_can_only_be_removed(space: Space) -> None:
    space.make("pods", gated("a", "x.y/one", "x.y/two"))
    more = {"spec": {"schedulingGates": [{"name": "x.y/three"}]}}
    error = space.refused("PATCH", space.path("pods", "a"), more, STRATEGIC)
    assert error.status == 422
    found = space.patch("pods", "a", {"spec": {"schedulingGates": [{"name": "x.y/one"}]}})
    assert found["spec"]["schedulingGates"] == [{"name": "x.y/one"}]
    assert "schedulingGates" not in space.patch("pods", "a", {"spec": {"schedulingGates": None}})["spec"]


def test_the_node_constraints_of_a_gated_pod_can_be_tightened(space: Space) -> None:
    space.make("pods", {**gated("a")})
    space.patch("pods", "a", {"spec": {"nodeSelector": {"zone": "1"}}})
    error = space.refused(
        "PATCH", space.path("pods", "a"), {"spec": {"nodeSelector": {"zone": "2"}}}, "application/merge-patch+json"
    )
    assert error.status == 422
    assert space.get("pods", "a")["spec"]["nodeSelector"] == {"zone": "1"}


def test_a_gated_pod_is_pinned_and_ungated_in_one_patch_and_then_its_affinity_is_immutable(space: Space) -> None:
    zone = {"key": "zone", "operator": "In", "values": ["x"]}
    name = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"

    def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
        return {"nodeAffinity": {required: {"nodeSelectorTerms": list(terms)}}}

    made = gated("a")
    terms = affinity({"matchExpressions": [zone]}, {"matchExpressions": [{**zone, "values": ["y"]}]})
    uid = space.make("pods", {**made, "spec": {**made["spec"], "affinity": terms}})["metadata"]["uid"]
    fewer = {"spec": {"affinity": affinity({"matchFields": [name]})}}
    assert space.refused("PATCH", space.path("pods", "a"), fewer, MERGE).status == 422
    pinned = [{"matchExpressions": [{**zone, "values": [each]}], "matchFields": [name]} for each in "xy"]
    patch = {"metadata": {"uid": uid}, "spec": {"schedulingGates": None, "affinity": affinity(*pinned)}}
    spec = space.patch("pods", "a", patch)["spec"]
    assert "schedulingGates" not in spec
    assert spec["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"] == pinned
    moved = {"spec": {"affinity": affinity({"matchFields": [{**name, "values": ["n2"]}]})}}
    assert space.refused("PATCH", space.path("pods", "a"), moved, MERGE).status == 422


def test_the_node_selector_of_an_ungated_pod_is_immutable(space: Space) -> None:
    space.make("pods", pod("a"))
    change = {"spec": {"nodeSelector": {"zone": "1"}}}
    error = space.refused("PATCH", space.path("pods", "a"), change, "application/merge-patch+json")
    assert error.status == 422
    assert "pod updates may not change fields other than" in error.message


@pytest.mark.parametrize(
    "change",
    [
        {"nodeName": "n1"},
        {"schedulerName": "other"},
        {"restartPolicy": "Never"},
        {"containers": [{"name": "main", "command": ["x"]}]},
        {"containers": [{"name": "more", "image": "x"}]},
    ],
)
def test_the_spec_of_a_pod_is_immutable(space: Space, change: dict[str, Any]) -> None:
    space.make("pods", pod("a"))
    error = space.refused("PATCH", space.path("pods", "a"), {"spec": change}, STRATEGIC)
    assert (error.status, error.reason) == (422, "Invalid")


def test_the_image_of_a_container_can_be_changed(space: Space) -> None:
    space.make("pods", pod("a"))
    found = space.patch("pods", "a", {"spec": {"containers": [{"name": "main", "image": "x:2"}]}}, STRATEGIC)
    assert found["spec"]["containers"][0]["image"] == "x:2"
    assert found["metadata"]["generation"] == 2


def test_tolerations_can_only_be_added(space: Space) -> None:
    own = {"key": "a", "operator": "Exists"}
    made = space.make("pods", pod("a", tolerations=[own]))
    more = [*made["spec"]["tolerations"], {"key": "b", "operator": "Exists"}]
    assert len(space.patch("pods", "a", {"spec": {"tolerations": more}})["spec"]["tolerations"]) == len(more)
    error = space.refused(
        "PATCH", space.path("pods", "a"), {"spec": {"tolerations": []}}, "application/merge-patch+json"
    )
    assert error.status == 422


def test_a_status_update_changes_only_the_status(space: Space) -> None:
    made = space.make("pods", pod("a"))
    wanted = {**made, "status": {"phase": "Running"}, "spec": {**made["spec"], "restartPolicy": "Never"}}
    found = space.call("PUT", space.path("pods", "a", "status"), wanted)
    assert found["status"]["phase"] == "Running"
    assert found["spec"]["restartPolicy"] == "Always"
    assert found["metadata"]["generation"] == 1


def test_a_pod_update_does_not_change_the_status(space: Space) -> None:
    made = space.make("pods", pod("a"))
    wanted = {**made, "status": {"phase": "Running"}, "metadata": {**made["metadata"], "labels": {"x": "y"}}}
    found = space.call("PUT", space.path("pods", "a"), wanted)
    assert (found["status"]["phase"], found["metadata"]["labels"]) == ("Pending", {"x": "y"})


def test_conditions_are_merged_by_type(space: Space) -> None:
    space.make("pods", pod("a"))
    for kind in ("Ready", "Initialized", "Ready"):
        change = {"status": {"conditions": [{"type": kind, "status": "True"}]}}
        space.patch("pods", "a", change, STRATEGIC, "status")
    types = [found["type"] for found in space.get("pods", "a")["status"]["conditions"]]
    assert sorted(types) == ["Initialized", "Ready"]


def test_a_pod_without_a_node_is_removed_immediately(space: Space) -> None:
    space.make("pods", pod("a"))
    found = space.call("DELETE", space.path("pods", "a"))
    assert (found["kind"], found["metadata"]["name"]) == ("Pod", "a")
    assert space.is_gone("pods", "a")


def test_a_pod_on_a_node_gets_its_grace_period(space: Space) -> None:
    space.make("pods", pod("a", terminationGracePeriodSeconds=20))
    space.bind("a")
    space.call("DELETE", space.path("pods", "a"))
    meta = space.get("pods", "a")["metadata"]
    assert meta["deletionGracePeriodSeconds"] == 20
    assert meta["deletionTimestamp"]
    space.call("DELETE", f"{space.path('pods', 'a')}?gracePeriodSeconds=0")
    assert space.is_gone("pods", "a")


def test_the_grace_period_can_only_be_shortened(space: Space) -> None:
    space.make("pods", pod("a"))
    space.bind("a")
    for grace, left in ((10, 10), (60, 10), (5, 5)):
        space.call("DELETE", space.path("pods", "a"), {"gracePeriodSeconds": grace})
        assert space.get("pods", "a")["metadata"]["deletionGracePeriodSeconds"] == left
    space.call("DELETE", f"{space.path('pods', 'a')}?gracePeriodSeconds=0")


def test_a_finished_pod_is_removed_immediately(space: Space) -> None:
    space.make("pods", pod("a"))
    space.bind("a")
    space.patch("pods", "a", {"status": {"phase": "Succeeded"}}, part="status")
    space.call("DELETE", space.path("pods", "a"))
    assert space.is_gone("pods", "a")


def test_an_evicted_pod_is_deleted(space: Space) -> None:
    space.make("pods", pod("a"))
    about = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    assert space.call("POST", space.path("pods", "a", "eviction"), about)["status"] == "Success"
    assert space.is_gone("pods", "a")


def test_an_exhausted_disruption_budget_rejects_an_eviction(space: Space) -> None:
    space.make("pods", pod("a", labels={"app": "x"}))
    space.bind("a")
    space.patch("pods", "a", {"status": {"phase": "Running"}}, part="status")
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}}
    space.make("poddisruptionbudgets", budget, "policy/v1")
    about = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    error = space.refused("POST", space.path("pods", "a", "eviction"), about)
    assert (error.status, error.reason) == (429, "TooManyRequests")
    assert "disruption budget" in error.message
    space.call("DELETE", f"{space.path('pods', 'a')}?gracePeriodSeconds=0")


def test_a_gated_pod_is_nominated_by_a_patch_of_its_status(space: Space) -> None:
    uid = space.make("pods", gated("a"))["metadata"]["uid"]
    change = {"metadata": {"uid": uid}, "status": {"nominatedNodeName": "n1"}}
    found = space.patch("pods", "a", change, part="status")
    assert found["status"]["nominatedNodeName"] == "n1"
    assert found["spec"]["schedulingGates"] == [{"name": "example.com/wait"}]
    again = space.patch("pods", "a", change, part="status")
    assert again["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"], "nothing has changed"
    assert (
        "nominatedNodeName"
        not in space.patch("pods", "a", {"status": {"nominatedNodeName": None}}, part="status")["status"]
    )


def test_one_gate_of_several_is_removed_with_an_annotation_unless_the_pod_has_changed(space: Space) -> None:
    old = space.make("pods", gated("a", "x.y/ours", "x.y/theirs"))["metadata"]
    version = space.patch("pods", "a", {"metadata": {"labels": {"x": "y"}}})["metadata"]["resourceVersion"]
    meta = {"uid": old["uid"], "annotations": {"x.y/plan": "{}"}}
    spec = {"schedulingGates": [{"name": "x.y/theirs"}]}
    stale = {"metadata": {**meta, "resourceVersion": old["resourceVersion"]}, "spec": spec}
    assert space.refused("PATCH", space.path("pods", "a"), stale, MERGE).status == 409
    found = space.patch("pods", "a", {"metadata": {**meta, "resourceVersion": version}, "spec": spec})
    assert found["spec"]["schedulingGates"] == [{"name": "x.y/theirs"}]
    assert found["metadata"]["annotations"] == {"x.y/plan": "{}"}
    last = {"metadata": {"uid": old["uid"]}, "spec": {"schedulingGates": None}}
    assert "schedulingGates" not in space.patch("pods", "a", last)["spec"]
    wrong = {"metadata": {"uid": "another"}, "spec": {"schedulingGates": None}}
    assert space.refused("PATCH", space.path("pods", "a"), wrong, MERGE).status in {409, 422}
