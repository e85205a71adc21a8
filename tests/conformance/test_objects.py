"""Create, get, update and delete of objects, and the errors that kubectl users know."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.embedded.conformance import MERGE, STRATEGIC, pod

if TYPE_CHECKING:
    from support.embedded.conformance import Space


def test_a_new_object_gets_a_uid_a_timestamp_and_a_resource_version(space: Space) -> None:
    meta = space.config("a", x="1")["metadata"]
    assert meta["namespace"] == space.name
    assert len(meta["uid"]) == 36
    assert meta["creationTimestamp"].endswith("Z")
    assert int(meta["resourceVersion"]) > 0


def test_an_object_is_read_as_it_was_written(space: Space) -> None:
    made = space.config("a", x="1")
    found = space.get("configmaps", "a")
    assert found["data"] == {"x": "1"}
    assert found["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert (found["apiVersion"], found["kind"]) == ("v1", "ConfigMap")


def test_a_second_object_of_the_same_name_is_refused(space: Space) -> None:
    space.config("a")
    with pytest.raises(Exception, match='409 AlreadyExists: configmaps "a" already exists'):
        space.config("a")


def test_a_missing_object_is_not_found(space: Space) -> None:
    found = space.status("GET", space.path("pods", "nope"))
    assert (found["code"], found["reason"]) == (404, "NotFound")
    assert found["message"] == 'pods "nope" not found'
    assert found["details"] == {"name": "nope", "kind": "pods"}


def test_not_found_names_the_api_group(space: Space) -> None:
    found = space.status("GET", space.path("deployments", "nope", group="apps/v1"))
    assert found["message"] == 'deployments.apps "nope" not found'
    assert found["details"] == {"name": "nope", "group": "apps", "kind": "deployments"}


def test_names_are_generated_from_generate_name(space: Space) -> None:
    about = {"metadata": {"generateName": "job-"}}
    names = {space.make("configmaps", about)["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("job-") and len(name) == 9 for name in names)


def test_clients_can_not_set_uid_and_creation_timestamp(space: Space) -> None:
    about = {"name": "a", "uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z"}
    made = space.make("configmaps", {"metadata": about})["metadata"]
    assert made["uid"] != "mine"
    assert not made["creationTimestamp"].startswith("2001")


@pytest.mark.parametrize("name", ["Upper", "under_score", "-dash", "a" * 254, "a..b"])
def test_malformed_names_are_invalid(space: Space, name: str) -> None:
    error = space.refused("POST", space.path("configmaps"), {"metadata": {"name": name}})
    assert (error.status, error.reason) == (422, "Invalid")
    assert "metadata.name: Invalid value" in error.message


def test_an_object_without_a_name_is_invalid(space: Space) -> None:
    error = space.refused("POST", space.path("configmaps"), {"metadata": {}})
    assert error.status == 422
    assert "metadata.name: Required value: name or generateName is required" in error.message


@pytest.mark.parametrize("labels", [{"a b": "c"}, {"a": "b c"}, {"/x": "y"}, {"a": "b" * 64}, {"x.y/z/w": "1"}])
def test_malformed_labels_are_invalid(space: Space, labels: dict[str, str]) -> None:
    error = space.refused("POST", space.path("configmaps"), {"metadata": {"name": "a", "labels": labels}})
    assert error.status == 422
    assert "metadata.labels: Invalid value" in error.message


def test_all_validation_errors_are_reported_together(space: Space) -> None:
    document = {"metadata": {"name": "A", "labels": {"a b": "c"}}}
    causes = space.status("POST", space.path("configmaps"), document)["details"]["causes"]
    assert {cause["field"] for cause in causes} == {"metadata.name", "metadata.labels"}


def test_objects_can_not_be_created_in_a_missing_namespace(space: Space) -> None:
    error = space.refused("POST", "/api/v1/namespaces/nowhere/configmaps", {"metadata": {"name": "a"}})
    assert error.status == 404
    assert error.message == 'namespaces "nowhere" not found'


def test_the_namespace_of_object_and_path_must_agree(space: Space) -> None:
    about = {"name": "a", "namespace": "elsewhere"}
    error = space.refused("POST", space.path("configmaps"), {"metadata": about})
    assert error.status == 400
    assert "does not match the namespace sent on the request" in error.message


def test_an_api_version_that_differs_from_the_path_is_rejected(space: Space) -> None:
    document = {"apiVersion": "apps/v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    error = space.refused("POST", space.path("configmaps"), document)
    assert (error.status, error.reason) == (400, "BadRequest")


def test_a_kind_that_differs_from_the_path_is_rejected(space: Space) -> None:
    document = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}
    error = space.refused("POST", space.path("configmaps"), document)
    assert error.status == 400
    assert "cannot be handled as a ConfigMap" in error.message


def test_an_unknown_kind_is_not_found(space: Space) -> None:
    assert space.api.raw("GET", space.path("unknowns"))[0] == 404
    assert space.api.raw("GET", "/apis/unknown.example.com/v1/things")[0] == 404


def test_an_unsupported_method_is_not_allowed(space: Space) -> None:
    space.config("a")
    assert space.refused("POST", space.path("configmaps", "a"), {}).status == 405
    assert space.refused("PUT", space.path("configmaps"), {}).status == 405
    assert space.refused("POST", "/api/v1/configmaps", {}).status == 405


def test_half_written_json_is_a_bad_request(space: Space) -> None:
    found = space.status("POST", space.path("configmaps"), b'{"metadata": {"name": "a"')
    assert (found["code"], found["reason"]) == (400, "BadRequest")


def test_half_written_yaml_is_a_bad_request(space: Space) -> None:
    found = space.status("POST", space.path("configmaps"), b"metadata: {name: a\ndata: x\n", "application/yaml")
    assert (found["code"], found["reason"]) == (400, "BadRequest")
    assert "yaml: line " in found["message"]


def test_yaml_is_read_as_well(space: Space) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {at: '2001-01-01'}\n"
    assert space.api.raw("POST", space.path("configmaps"), text, "application/yaml")[0] == 201
    assert space.get("configmaps", "a")["data"] == {"at": "2001-01-01"}


def test_an_oversized_body_is_refused(space: Space) -> None:
    body = b'{"metadata": {"name": "a"}, "data": {"x": "%s"}}' % (b"x" * (3 << 20))
    found = space.status("POST", space.path("configmaps"), body)
    assert (found["code"], found["reason"]) == (413, "RequestEntityTooLarge")


def test_a_body_in_an_unknown_format_is_refused(space: Space) -> None:
    space.config("a")
    assert space.refused("PATCH", space.path("configmaps", "a"), {}, "application/json").status == 415
    assert space.refused("POST", space.path("configmaps"), {}, "text/csv").status == 415


def test_requests_without_a_token_are_unauthorized(space: Space) -> None:
    stranger = space.api.another("wrong")
    with pytest.raises(Exception, match="401 Unauthorized: Unauthorized"):
        stranger.get(space.path("configmaps"))
    stranger.close()


def test_unknown_fields_are_dropped(space: Space) -> None:
    made = space.make("pods", pod("a", surprise="x"))
    assert "surprise" not in made["spec"]


def test_unknown_fields_are_rejected_with_strict_validation(space: Space) -> None:
    error = space.refused("POST", f"{space.path('pods')}?fieldValidation=Strict", pod("a", surprise="x"))
    assert error.status == 400
    assert 'strict decoding error: unknown field "spec.surprise"' in error.message


def test_a_field_of_the_wrong_type_is_a_bad_request(space: Space) -> None:
    error = space.refused("POST", space.path("configmaps"), {"metadata": {"name": "a", "labels": {"a": 1}}})
    assert (error.status, error.reason) == (400, "BadRequest")
    assert space.refused("POST", space.path("pods"), pod("a", containers="none")).status == 400


def test_a_dry_run_writes_nothing(space: Space) -> None:
    made = space.make("configmaps", {"metadata": {"name": "a"}}, query="?dryRun=All")
    assert made["metadata"]["uid"]
    assert space.is_gone("configmaps", "a")


def test_an_update_increments_the_resource_version(space: Space) -> None:
    made = space.config("a", x="1")
    found = space.call("PUT", space.path("configmaps", "a"), {**made, "data": {"x": "2"}})
    assert found["data"] == {"x": "2"}
    assert int(found["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


def test_an_update_with_an_old_resource_version_is_a_conflict(space: Space) -> None:
    made = space.config("a", x="1")
    space.call("PUT", space.path("configmaps", "a"), {**made, "data": {"x": "2"}})
    error = space.refused("PUT", space.path("configmaps", "a"), {**made, "data": {"x": "3"}})
    assert (error.status, error.reason) == (409, "Conflict")
    assert "the object has been modified; please apply your changes to the latest version" in error.message


def test_an_update_without_a_resource_version_is_unconditional(space: Space) -> None:
    space.config("a", x="1")
    found = space.call("PUT", space.path("configmaps", "a"), {"metadata": {"name": "a"}, "data": {"x": "2"}})
    assert found["data"] == {"x": "2"}


def test_some_kinds_require_a_resource_version_in_updates(space: Space) -> None:
    document = {"metadata": {"name": "a"}, "spec": {}}
    space.make("leases", document, "coordination.k8s.io/v1")
    error = space.refused("PUT", space.path("leases", "a", group="coordination.k8s.io/v1"), document)
    assert error.status == 422
    assert "metadata.resourceVersion" in error.message
    assert "must be specified for an update" in error.message


def test_a_no_op_update_keeps_the_resource_version(space: Space) -> None:
    made = space.config("a", x="1")
    found = space.call("PUT", space.path("configmaps", "a"), made)
    assert found["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_an_update_of_a_missing_object_is_not_found(space: Space) -> None:
    assert space.refused("PUT", space.path("configmaps", "a"), {"metadata": {"name": "a"}}).status == 404


def test_an_update_with_another_uid_is_a_conflict(space: Space) -> None:
    space.config("a")
    error = space.refused("PUT", space.path("configmaps", "a"), {"metadata": {"name": "a", "uid": "other"}})
    assert error.status == 409
    assert "UID in precondition: other" in error.message


def test_a_patch_with_another_uid_is_invalid(space: Space) -> None:
    space.config("a")
    error = space.refused("PATCH", space.path("configmaps", "a"), {"metadata": {"uid": "other"}}, MERGE)
    assert (error.status, error.reason) == (422, "Invalid")
    assert "metadata.uid" in error.message


def test_a_name_can_not_be_changed(space: Space) -> None:
    made = space.config("a")
    other = {**made, "metadata": {**made["metadata"], "name": "b"}}
    assert space.refused("PUT", space.path("configmaps", "a"), other).status == 400


def test_the_creation_timestamp_is_immutable(space: Space) -> None:
    made = space.config("a")
    found = space.patch("configmaps", "a", {"metadata": {"labels": {"x": "y"}, "creationTimestamp": None}}, STRATEGIC)
    assert found["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]


def test_a_deleted_object_is_gone(space: Space) -> None:
    made = space.config("a")
    found = space.call("DELETE", space.path("configmaps", "a"))
    assert (found["kind"], found["status"]) == ("Status", "Success")
    assert found["details"]["uid"] == made["metadata"]["uid"]
    assert space.is_gone("configmaps", "a")


def test_delete_preconditions_are_checked(space: Space) -> None:
    made = space.config("a")
    path = space.path("configmaps", "a")
    assert space.refused("DELETE", path, {"preconditions": {"uid": "other"}}).status == 409
    assert space.refused("DELETE", path, {"preconditions": {"resourceVersion": "1"}}).status == 409
    space.call("DELETE", path, {"preconditions": {"uid": made["metadata"]["uid"]}})
    assert space.is_gone("configmaps", "a")


def test_a_collection_is_deleted_by_label_selector(space: Space) -> None:
    for name, word in (("a", "x"), ("b", "x"), ("c", "y")):
        space.config(name, {"kind": word})
    space.call("DELETE", f"{space.path('configmaps')}?labelSelector=kind%3Dx")
    assert space.names("configmaps", "labelSelector=ours") == ["c"]


def test_finalizers_block_the_removal_of_an_object(space: Space) -> None:
    space.make("configmaps", {"metadata": {"name": "a", "finalizers": ["example.com/wait"]}})
    space.call("DELETE", space.path("configmaps", "a"))
    assert space.get("configmaps", "a")["metadata"]["deletionTimestamp"]
    space.patch("configmaps", "a", {"metadata": {"finalizers": None}})
    assert space.is_gone("configmaps", "a")
