"""Lists: order, label and field selectors, pagination and resourceVersions."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from support.embedded.conformance import pod

if TYPE_CHECKING:
    from support.embedded.conformance import Space

OURS = "labelSelector=ours"


def listed(space: Space, query: str = "") -> dict[str, object]:
    return space.call("GET", f"{space.path('configmaps')}?{OURS}{query}")


def test_a_list_is_sorted_by_name(space: Space) -> None:
    for name in ("b", "c", "a"):
        space.config(name)
    assert space.names("configmaps", OURS) == ["a", "b", "c"]


def test_a_list_has_a_kind_and_a_resource_version(space: Space) -> None:
    made = space.config("a")
    found = space.call("GET", f"{space.path('configmaps')}?{OURS}")
    assert (found["kind"], found["apiVersion"]) == ("ConfigMapList", "v1")
    assert int(found["metadata"]["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])


def test_a_list_across_namespaces_has_all_objects(space: Space) -> None:
    space.config("a")
    found = space.call("GET", f"/api/v1/configmaps?{OURS}")["items"]
    assert (space.name, "a") in {(one["metadata"]["namespace"], one["metadata"]["name"]) for one in found}


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("tier=web", ["a"]),
        ("tier==web", ["a"]),
        ("tier!=web", ["b", "c"]),
        ("tier in (web, db)", ["a", "b"]),
        ("tier notin (web)", ["b", "c"]),
        ("tier", ["a", "b"]),
        ("!tier", ["c"]),
        ("tier=web,zone=1", []),
        ("zone in (1),tier", ["b"]),
        ("zone=", []),
    ],
)
def test_label_selectors_filter_lists(space: Space, selector: str, names: list[str]) -> None:
    space.config("a", {"tier": "web"})
    space.config("b", {"tier": "db", "zone": "1"})
    space.config("c", {"zone": "1"})
    assert space.names("configmaps", f"labelSelector={quote(f'ours,{selector}')}") == names


@pytest.mark.parametrize("selector", ["a in", "=x", "a in (b", "a=b=c", "(a)"])
def test_an_invalid_label_selector_is_a_bad_request(space: Space, selector: str) -> None:
    error = space.refused("GET", f"{space.path('configmaps')}?labelSelector={quote(selector)}")
    assert (error.status, error.reason) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("spec.nodeName=n1", ["a"]),
        ("spec.nodeName!=n1", ["b", "c"]),
        ("spec.nodeName=", ["b", "c"]),
        ("metadata.name=b", ["b"]),
        ("status.phase=Pending,spec.nodeName=", ["b", "c"]),
        ("status.phase=Running", []),
        ("spec.schedulerName=ours", ["c"]),
    ],
)
def test_field_selectors_filter_pods(space: Space, selector: str, names: list[str]) -> None:
    space.make("pods", pod("a", nodeName="n1"))
    space.make("pods", pod("b"))
    space.make("pods", pod("c", schedulerName="ours"))
    assert space.names("pods", f"fieldSelector={quote(selector)}") == names


def test_field_selectors_filter_events(space: Space) -> None:
    for name in ("a", "b"):
        about = {"kind": "Pod", "name": name, "namespace": space.name}
        event = {"metadata": {"name": f"{name}.1"}, "involvedObject": about, "reason": "Reported", "type": "Normal"}
        space.make("events", event)
    assert space.names("events", f"fieldSelector={quote('involvedObject.name=a,involvedObject.kind=Pod')}") == ["a.1"]


def test_an_unsupported_field_selector_is_a_bad_request(space: Space) -> None:
    error = space.refused("GET", f"{space.path('pods')}?fieldSelector=spec.hostname%3Dx")
    assert error.status == 400
    assert "field label not supported: spec.hostname" in error.message


def test_a_list_is_paginated(space: Space) -> None:
    for name in "abcde":
        space.config(name)
    names, rest, pages = [], "", 0
    while pages == 0 or rest:
        page = space.call("GET", f"{space.path('configmaps')}?{OURS}&limit=2&continue={quote(rest)}")
        names += [found["metadata"]["name"] for found in page["items"]]
        rest, pages = page["metadata"].get("continue", ""), pages + 1
    assert (names, pages) == (list("abcde"), 3)


def test_all_pages_have_the_resource_version_of_the_first(space: Space) -> None:
    for name in "abcd":
        space.config(name, x="old")
    first = space.call("GET", f"{space.path('configmaps')}?{OURS}&limit=2")
    space.config("bb")
    space.patch("configmaps", "c", {"data": {"x": "new"}})
    space.call("DELETE", space.path("configmaps", "d"))
    rest = quote(first["metadata"]["continue"])
    second = space.call("GET", f"{space.path('configmaps')}?{OURS}&limit=5&continue={rest}")
    assert [(found["metadata"]["name"], found["data"]["x"]) for found in second["items"]] == [
        ("c", "old"),
        ("d", "old"),
    ]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_an_invalid_continue_token_is_a_bad_request(space: Space) -> None:
    assert space.refused("GET", f"{space.path('configmaps')}?limit=1&continue=nonsense").status == 400


def test_a_list_at_an_exact_resource_version_has_the_objects_of_that_version(space: Space) -> None:
    space.config("a")
    version = space.call("GET", f"{space.path('configmaps')}?{OURS}")["metadata"]["resourceVersion"]
    space.config("b")
    query = f"{OURS}&resourceVersion={version}&resourceVersionMatch=Exact"
    assert space.names("configmaps", query) == ["a"]


def test_a_list_at_resource_version_zero_is_served(space: Space) -> None:
    space.config("a")
    assert space.call("GET", f"{space.path('configmaps')}?resourceVersion=0")["kind"] == "ConfigMapList"


def test_a_list_not_older_than_a_resource_version_has_the_writes_up_to_it(space: Space) -> None:
    version = space.config("a")["metadata"]["resourceVersion"]
    assert space.names("configmaps", f"{OURS}&resourceVersion={version}") == ["a"]


def test_a_non_numeric_resource_version_is_rejected(space: Space) -> None:
    assert space.refused("GET", f"{space.path('configmaps')}?resourceVersion=yesterday").status in {400, 422}
