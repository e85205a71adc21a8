"""Patches: differences in three forms, and what is applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.embedded.conformance import APPLY, JSON_PATCH, MERGE, STRATEGIC, pod

if TYPE_CHECKING:
    from support.embedded.conformance import Space


def test_a_merge_patch_joins_maps_and_null_takes_away(space: Space) -> None:
    space.config("a", x="1", y="2")
    found = space.patch("configmaps", "a", {"data": {"x": None, "z": "3"}})
    assert found["data"] == {"y": "2", "z": "3"}


def test_a_merge_patch_of_an_old_version_is_a_conflict(space: Space) -> None:
    version = space.config("a")["metadata"]["resourceVersion"]
    space.patch("configmaps", "a", {"data": {"x": "1"}})
    change = {"metadata": {"resourceVersion": version}, "data": {"x": "2"}}
    assert space.refused("PATCH", space.path("configmaps", "a"), change, MERGE).status == 409


def test_a_patch_that_changes_nothing_makes_no_version(space: Space) -> None:
    made = space.config("a", x="1")
    found = space.patch("configmaps", "a", {"data": {"x": "1"}})
    assert found["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_a_json_patch_is_done_step_by_step(space: Space) -> None:
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
def test_a_json_patch_that_is_none_is_refused(space: Space, steps: object) -> None:
    space.config("a")
    assert space.refused("PATCH", space.path("configmaps", "a"), steps, JSON_PATCH).status in {400, 422}


def test_a_strategic_patch_joins_lists_by_name(space: Space) -> None:
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


def test_a_strategic_patch_replaces_where_it_says_so(space: Space) -> None:
    space.config("a", x="1")
    found = space.patch("configmaps", "a", {"data": {"$patch": "replace", "y": "2"}}, STRATEGIC)
    assert found["data"] == {"y": "2"}


def test_a_strategic_patch_adds_to_finalizers(space: Space) -> None:
    space.make("configmaps", {"metadata": {"name": "a", "finalizers": ["x.y/one"]}})
    space.patch("configmaps", "a", {"metadata": {"finalizers": ["x.y/two"]}}, STRATEGIC)
    less = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.y/one"]}}
    assert space.patch("configmaps", "a", less, STRATEGIC)["metadata"]["finalizers"] == ["x.y/two"]


def test_what_is_applied_is_made_and_then_changed(space: Space) -> None:
    path = f"{space.path('configmaps', 'a')}?fieldManager=me"
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1", "y": "1"}}
    status, _ = space.api.raw("PATCH", path, str(document).replace("'", '"').encode(), APPLY)
    space.patch("configmaps", "a", {"data": {"z": "by another"}})
    found = space.call("PATCH", path, {**document, "data": {"x": "2"}}, APPLY)
    assert status == 201
    assert found["data"] == {"x": "2", "z": "by another"}


def test_who_applies_says_who_it_is(space: Space) -> None:
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    error = space.refused("PATCH", space.path("configmaps", "a"), document, APPLY)
    assert error.status in {400, 422}
    assert "fieldManager" in error.message


def test_a_patch_of_what_is_not_there_is_not_found(space: Space) -> None:
    assert space.refused("PATCH", space.path("configmaps", "a"), {}, MERGE).status == 404
