"""JSON patch, merge patch, strategic merge patch and server-side apply."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.embedded.conformance import APPLY, JSON_PATCH, MERGE, STRATEGIC, pod

if TYPE_CHECKING:
    from support.embedded.conformance import Space


def test_a_merge_patch_merges_maps_and_null_removes_a_field(space: Space) -> None:
    space.config("a", x="1", y="2")
    found = space.patch("configmaps", "a", {"data": {"x": None, "z": "3"}})
    assert found["data"] == {"y": "2", "z": "3"}


def test_a_merge_patch_with_an_old_resource_version_is_a_conflict(space: Space) -> None:
    version = space.config("a")["metadata"]["resourceVersion"]
    space.patch("configmaps", "a", {"data": {"x": "1"}})
    change = {"metadata": {"resourceVersion": version}, "data": {"x": "2"}}
    assert space.refused("PATCH", space.path("configmaps", "a"), change, MERGE).status == 409


def test_a_no_op_patch_keeps_the_resource_version(space: Space) -> None:
    made = space.config("a", x="1")
    found = space.patch("configmaps", "a", {"data": {"x": "1"}})
    assert found["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_a_json_patch_applies_its_operations_in_order(space: Space) -> None:
    space.config("a", x="1", y="2")
    steps = [
        {"op": "test", "path": "/data/x", "value": "1"},
        {"op": "replace", "path": "/data/x", "value": "9"},
        {"op": "remove", "path": "/data/y"},
        {"op": "add", "path": "/metadata/annotations", "value": {"e.x/a": "b"}},
        {"op": "add", "path": "/metadata/annotations/e.x~1c", "value": "d"},
        {"op": "copy", "from": "/data/x", "path": "/data/z"},
        {"op": "move", "from": "/data/z", "path": "/data/w"},
    ]
    found = space.patch("configmaps", "a", steps, JSON_PATCH)
    assert found["data"] == {"x": "9", "w": "9"}
    assert found["metadata"]["annotations"] == {"e.x/a": "b", "e.x/c": "d"}


def test_a_json_patch_whose_test_fails_changes_nothing(space: Space) -> None:
    space.config("a", x="1")
    steps = [{"op": "replace", "path": "/data/x", "value": "2"}, {"op": "test", "path": "/data/x", "value": "1"}]
    assert space.refused("PATCH", space.path("configmaps", "a"), steps, JSON_PATCH).status == 422
    assert space.get("configmaps", "a")["data"] == {"x": "1"}


@pytest.mark.parametrize("steps", [{"data": {}}, [{"op": "jump", "path": "/data"}], "text"])
def test_an_invalid_json_patch_is_rejected(space: Space, steps: object) -> None:
    space.config("a")
    assert space.refused("PATCH", space.path("configmaps", "a"), steps, JSON_PATCH).status in {400, 422}


def test_a_strategic_merge_patch_merges_lists_by_key(space: Space) -> None:
    template = pod("x", labels={"app": "x"})
    container = {"name": "main", "image": "x:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    spec["template"] = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container]}}
    space.make("deployments", {"metadata": {"name": "a"}, "spec": spec}, "apps/v1")
    change = {"name": "main", "env": [{"name": "A", "$patch": "delete"}, {"name": "B", "value": "3"}, {"name": "C"}]}
    more = {"spec": {"template": {"spec": {"containers": [change, {"name": "side", "image": "y"}]}}}}
    found = space.call("PATCH", space.path("deployments", "a", group="apps/v1"), more, STRATEGIC)
    containers = {one["name"]: one for one in found["spec"]["template"]["spec"]["containers"]}
    assert set(containers) == {"main", "side"}
    assert containers["main"]["image"] == "x:1"
    assert [(one["name"], one.get("value")) for one in containers["main"]["env"]] == [("B", "3"), ("C", None)]


def test_a_strategic_merge_patch_honours_the_replace_directive(space: Space) -> None:
    space.config("a", x="1")
    found = space.patch("configmaps", "a", {"data": {"$patch": "replace", "y": "2"}}, STRATEGIC)
    assert found["data"] == {"y": "2"}


def test_a_strategic_merge_patch_adds_to_finalizers(space: Space) -> None:
    space.make("configmaps", {"metadata": {"name": "a", "finalizers": ["x.y/one"]}})
    space.patch("configmaps", "a", {"metadata": {"finalizers": ["x.y/two"]}}, STRATEGIC)
    less = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.y/one"]}}
    assert space.patch("configmaps", "a", less, STRATEGIC)["metadata"]["finalizers"] == ["x.y/two"]


def test_server_side_apply_creates_and_then_updates(space: Space) -> None:
    path = f"{space.path('configmaps', 'a')}?fieldManager=me"
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1", "y": "1"}}
    status, _ = space.api.raw("PATCH", path, str(document).replace("'", '"').encode(), APPLY)
    space.patch("configmaps", "a", {"data": {"z": "by another"}})
    found = space.call("PATCH", path, {**document, "data": {"x": "2"}}, APPLY)
    assert status == 201
    assert found["data"] == {"x": "2", "z": "by another"}


def test_server_side_apply_requires_a_field_manager(space: Space) -> None:
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    error = space.refused("PATCH", space.path("configmaps", "a"), document, APPLY)
    assert error.status in {400, 422}
    assert "fieldManager" in error.message


def test_a_patch_of_a_missing_object_is_not_found(space: Space) -> None:
    assert space.refused("PATCH", space.path("configmaps", "a"), {}, MERGE).status == 404
