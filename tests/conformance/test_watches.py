"""Watches: what is there or what happened since, then what happens, for those whom it concerns."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from support.embedded.conformance import pod

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.embedded.conformance import Space


def told(lines: Iterator[dict[str, Any]], count: int) -> list[tuple[str, str]]:
    """The next lines that are no bookmarks, as type and name."""
    event = ((line["type"], line["object"]["metadata"].get("name", "")) for line in lines if line["type"] != "BOOKMARK")
    return list(islice(event, count))


def watched(space: Space, query: str) -> str:
    return f"{space.path('configmaps')}?watch=1&{query}"


def version(space: Space) -> str:
    return str(space.call("GET", space.path("configmaps"))["metadata"]["resourceVersion"])


def test_a_watch_begins_with_all_that_is_there(space: Space) -> None:
    space.config("a")
    space.config("b")
    with space.watch_all(watched(space, "labelSelector=ours")) as lines:
        assert sorted(told(lines, 2)) == [("ADDED", "a"), ("ADDED", "b")]
        space.config("c")
        assert told(lines, 1) == [("ADDED", "c")]


def test_a_watch_of_any_version_begins_with_all_that_is_there(space: Space) -> None:
    space.config("a")
    version(space)
    with space.watch_all(watched(space, "labelSelector=ours&resourceVersion=0")) as lines:
        assert told(lines, 1) == [("ADDED", "a")]


def test_a_watch_goes_on_from_a_version(space: Space) -> None:
    space.config("a")
    begin = version(space)
    space.patch("configmaps", "a", {"data": {"x": "1"}})
    space.config("b")
    space.call("DELETE", space.path("configmaps", "a"))
    with space.api.watch(watched(space, f"labelSelector=ours&resourceVersion={begin}")) as lines:
        assert told(lines, 3) == [("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]


def test_a_deletion_has_a_version_of_its_own(space: Space) -> None:
    made = space.config("a", x="1")
    begin = version(space)
    space.call("DELETE", space.path("configmaps", "a"))
    with space.api.watch(watched(space, f"labelSelector=ours&resourceVersion={begin}")) as lines:
        last = next(lines)["object"]
    assert last["data"] == {"x": "1"}
    assert int(last["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


def test_who_changes_into_a_selection_is_new_and_who_leaves_it_is_gone(space: Space) -> None:
    space.config("a", {"tier": "web"})
    space.config("b")
    with space.api.watch(watched(space, f"labelSelector=tier%3Dweb&resourceVersion={version(space)}")) as lines:
        space.patch("configmaps", "b", {"metadata": {"labels": {"tier": "web"}}})
        space.patch("configmaps", "a", {"metadata": {"labels": {"tier": "db"}}})
        space.patch("configmaps", "a", {"data": {"x": "1"}})
        space.patch("configmaps", "b", {"data": {"x": "1"}})
        assert told(lines, 3) == [("ADDED", "b"), ("DELETED", "a"), ("MODIFIED", "b")]


def test_a_bound_pod_is_new_to_who_watches_its_node(space: Space) -> None:
    space.make("pods", pod("a"))
    begin = space.call("GET", space.path("pods"))["metadata"]["resourceVersion"]
    query = f"?watch=1&fieldSelector=spec.nodeName%3Dn1&resourceVersion={begin}"
    with space.api.watch(space.path("pods") + query) as lines:
        space.bind("a", "n1")
        assert told(lines, 1) == [("ADDED", "a")]


def test_a_watch_of_one_object_tells_of_no_other(space: Space) -> None:
    query = f"fieldSelector=metadata.name%3Db&resourceVersion={version(space)}"
    with space.api.watch(watched(space, query)) as lines:
        space.config("a")
        space.config("b")
        assert told(lines, 1) == [("ADDED", "b")]


def test_a_watch_ends_when_its_time_is_over(space: Space) -> None:
    query = f"labelSelector=ours&timeoutSeconds=1&resourceVersion={version(space)}"
    with space.api.watch(watched(space, query)) as lines:
        assert told(lines, 1) == []


def test_an_update_that_changes_nothing_is_not_told(space: Space) -> None:
    made = space.config("a", x="1")
    with space.api.watch(watched(space, f"labelSelector=ours&resourceVersion={version(space)}")) as lines:
        space.call("PUT", space.path("configmaps", "a"), made)
        space.config("b")
        assert told(lines, 1) == [("ADDED", "b")]
