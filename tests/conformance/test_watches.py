"""Watches: initial objects, resumption from a resourceVersion, live events and selectors."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from support.embedded.conformance import pod

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.embedded.conformance import Space


def watch_events(lines: Iterator[dict[str, Any]], count: int) -> list[tuple[str, str]]:
    """The next lines that are no bookmarks, as type and name."""
    event = ((line["type"], line["object"]["metadata"].get("name", "")) for line in lines if line["type"] != "BOOKMARK")
    return list(islice(event, count))


def watched(space: Space, query: str) -> str:
    return f"{space.path('configmaps')}?watch=1&{query}"


def version(space: Space) -> str:
    return str(space.call("GET", space.path("configmaps"))["metadata"]["resourceVersion"])


def test_a_watch_starts_with_existing_objects(space: Space) -> None:
    space.config("a")
    space.config("b")
    with space.watch_all(watched(space, "labelSelector=ours")) as lines:
        assert sorted(watch_events(lines, 2)) == [("ADDED", "a"), ("ADDED", "b")]
        space.config("c")
        assert watch_events(lines, 1) == [("ADDED", "c")]


def test_a_watch_at_resource_version_zero_starts_with_existing_objects(space: Space) -> None:
    space.config("a")
    version(space)
    with space.watch_all(watched(space, "labelSelector=ours&resourceVersion=0")) as lines:
        assert watch_events(lines, 1) == [("ADDED", "a")]


def test_a_watch_resumes_from_a_resource_version(space: Space) -> None:
    space.config("a")
    begin = version(space)
    space.patch("configmaps", "a", {"data": {"x": "1"}})
    space.config("b")
    space.call("DELETE", space.path("configmaps", "a"))
    with space.api.watch(watched(space, f"labelSelector=ours&resourceVersion={begin}")) as lines:
        assert watch_events(lines, 3) == [("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]


def test_a_delete_increments_the_resource_version(space: Space) -> None:
    made = space.config("a", x="1")
    begin = version(space)
    space.call("DELETE", space.path("configmaps", "a"))
    with space.api.watch(watched(space, f"labelSelector=ours&resourceVersion={begin}")) as lines:
        last = next(lines)["object"]
    assert last["data"] == {"x": "1"}
    assert int(last["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


def test_objects_that_start_or_stop_matching_are_added_and_deleted(space: Space) -> None:
    space.config("a", {"tier": "web"})
    space.config("b")
    with space.api.watch(watched(space, f"labelSelector=tier%3Dweb&resourceVersion={version(space)}")) as lines:
        space.patch("configmaps", "b", {"metadata": {"labels": {"tier": "web"}}})
        space.patch("configmaps", "a", {"metadata": {"labels": {"tier": "db"}}})
        space.patch("configmaps", "a", {"data": {"x": "1"}})
        space.patch("configmaps", "b", {"data": {"x": "1"}})
        assert watch_events(lines, 3) == [("ADDED", "b"), ("DELETED", "a"), ("MODIFIED", "b")]


def test_a_bound_pod_is_added_to_watches_of_its_node(space: Space) -> None:
    space.make("pods", pod("a"))
    begin = space.call("GET", space.path("pods"))["metadata"]["resourceVersion"]
    query = f"?watch=1&fieldSelector=spec.nodeName%3Dn1&resourceVersion={begin}"
    with space.api.watch(space.path("pods") + query) as lines:
        space.bind("a", "n1")
        assert watch_events(lines, 1) == [("ADDED", "a")]


def test_a_watch_of_one_object_sends_no_other(space: Space) -> None:
    query = f"fieldSelector=metadata.name%3Db&resourceVersion={version(space)}"
    with space.api.watch(watched(space, query)) as lines:
        space.config("a")
        space.config("b")
        assert watch_events(lines, 1) == [("ADDED", "b")]


def test_a_watch_ends_at_its_timeout(space: Space) -> None:
    query = f"labelSelector=ours&timeoutSeconds=1&resourceVersion={version(space)}"
    with space.api.watch(watched(space, query)) as lines:
        assert watch_events(lines, 1) == []


def test_a_no_op_update_sends_no_event(space: Space) -> None:
    made = space.config("a", x="1")
    with space.api.watch(watched(space, f"labelSelector=ours&resourceVersion={version(space)}")) as lines:
        space.call("PUT", space.path("configmaps", "a"), made)
        space.config("b")
        assert watch_events(lines, 1) == [("ADDED", "b")]
