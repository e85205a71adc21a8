"""The store, as components in the same process use it."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from linkwise.embedded.api_errors import ApiError
from linkwise.embedded.storage.list_watch import ListOptions
from linkwise.embedded.store import Store
from linkwise.embedded.writes.delete import DeleteOptions
from support.embedded.conformance import pod

NOW = DeleteOptions(grace_period_seconds=0)


def test_readers_get_private_copies() -> None:
    store = Store()
    store.create("pods", pod("a"), "default")
    store.get("pods", "a", "default").read()["spec"].clear()
    assert store.get("pods", "a", "default").read()["spec"]["containers"]


def test_a_read_object_can_be_modified_and_written_back() -> None:
    store = Store()
    mine = store.create("pods", pod("a"), "default").read()
    mine["metadata"]["labels"] = {"x": "y"}
    store.update("pods", mine)
    assert store.get("pods", "a", "default").labels == {"x": "y"}


def test_a_concurrent_update_is_a_conflict() -> None:
    store = Store()
    mine = store.create("pods", pod("a"), "default").read()
    store.patch("pods", "a", {"metadata": {"labels": {"x": "y"}}}, "default")
    with pytest.raises(ApiError, match="the object has been modified"):
        store.update("pods", mine | {"metadata": mine["metadata"] | {"labels": {"x": "z"}}})


def test_the_same_seed_generates_the_same_names() -> None:
    names = [Store(seed=7).create("configmaps", {"metadata": {"generateName": "x-"}}, "default").name for _ in "ab"]
    assert names[0] == names[1]


def test_timestamps_use_the_given_clock() -> None:
    made = Store(clock=lambda: 0.0).create("configmaps", {"metadata": {"name": "a"}}, "default")
    assert made.read()["metadata"]["creationTimestamp"] == "1970-01-01T00:00:00Z"


def test_a_watch_starts_with_existing_objects_and_continues() -> None:
    async def story() -> list[tuple[str, str]]:
        store, seen = Store(), list[tuple[str, str]]()
        store.create("pods", pod("a"), "default")
        watch = store.watch("pods")
        store.bind("a", "default", {"target": {"name": "n1"}})
        store.delete("pods", "a", "default", NOW)
        async for event in watch:
            seen.append((event.type, event.object["spec"].get("nodeName", "")))
            if len(seen) == 3:
                watch.close()
        return seen

    assert asyncio.run(story()) == [("ADDED", ""), ("MODIFIED", "n1"), ("DELETED", "n1")]


def test_a_watch_sends_only_selected_objects() -> None:
    async def story() -> list[str]:
        store = Store()
        watch = store.watch("pods", store.select("pods", fields="spec.nodeName="))
        store.create("pods", pod("bound", nodeName="n1"), "default")
        store.create("pods", pod("free"), "default")
        watch.close()
        return [event.stored.name async for event in watch]

    assert asyncio.run(story()) == ["free"]


def test_the_watch_of_a_slow_reader_is_closed() -> None:
    async def story() -> bool:
        store = Store()
        watch = store.watch("configmaps")
        for _ in range(40):
            document = {"metadata": {"generateName": "x-"}, "data": {"x": "x" * (1 << 20)}}
            store.create("configmaps", document, "default")
        return watch.closed

    assert asyncio.run(story())


def test_resource_versions_older_than_the_history_are_expired() -> None:
    store = Store(history=3)
    begin = store.version
    for number in range(4):
        store.create("configmaps", {"metadata": {"name": f"a{number}"}}, "default")
    with pytest.raises(ApiError, match="too old resource version") as caught:
        store.watch("configmaps", version=begin)
    assert (caught.value.code, caught.value.reason) == (410, "Expired")
    assert len(store.watch("configmaps", version=begin + 1).take()) == 3


def test_a_page_of_an_expired_resource_version_is_expired() -> None:
    store = Store(history=3)
    for number in range(3):
        store.create("configmaps", {"metadata": {"name": f"a{number}"}}, "default")
    token = store.list("configmaps", options=ListOptions(limit=1)).continue_token
    for number in range(4):
        store.patch("configmaps", "a1", {"data": {"x": str(number)}}, "default")
    with pytest.raises(ApiError, match="continue parameter is too old") as caught:
        store.list("configmaps", options=ListOptions(limit=1, continue_token=token))
    assert caught.value.code == 410


def test_deleted_objects_leave_no_index_entries() -> None:
    store = Store(history=50)
    before = dict(store.database.keys_by_uid), dict(store.database.namespace_counts)
    owner = store.create("jobs.batch", job("j"), "default")
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": owner.uid}
    for number in range(200):
        document = pod(f"p{number}", labels={"job": "j"})
        document["metadata"]["ownerReferences"] = [reference]
        store.create("pods", document, "default")
        store.bind(f"p{number}", "default", {"target": {"name": "n1"}})
    store.delete("jobs.batch", "j", "default")
    store.garbage_collector.finish()
    for stored in store.list("pods").items:
        store.delete("pods", stored.name, stored.namespace, NOW)
    assert (store.database.keys_by_uid, store.database.namespace_counts) == before
    assert store.database.dependents == {}
    assert len(store.database.collection(store.resource("pods")).log) == 50


def job(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"template": {"spec": {**pod("x")["spec"], "restartPolicy": "Never"}}}}


def test_an_object_created_for_a_deleted_owner_is_deleted() -> None:
    store = Store()
    document = pod("a")
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "gone"}
    document["metadata"]["ownerReferences"] = [reference]
    store.create("pods", document, "default")
    store.garbage_collector.finish()
    assert store.find("pods", "a", "default") is None


def test_nothing_can_be_created_in_a_terminating_namespace() -> None:
    store = Store()
    store.create("namespaces", {"metadata": {"name": "x"}})
    store.create("configmaps", {"metadata": {"name": "a", "finalizers": ["e.x/wait"]}}, "x")
    store.delete("namespaces", "x")
    with pytest.raises(ApiError, match="because it is being terminated"):
        store.create("configmaps", {"metadata": {"name": "b"}}, "x")
    store.garbage_collector.finish()
    store.patch("configmaps", "a", {"metadata": {"finalizers": None}}, "x")
    store.garbage_collector.finish()
    assert store.find("namespaces", "x") is None


def test_all_versions_of_a_custom_resource_serve_the_same_objects() -> None:
    store = Store()
    versions = [{"name": name, "served": True, "storage": name == "v2"} for name in ("v1", "v2")]
    spec = {"group": "e.x", "scope": "Cluster", "names": {"kind": "Thing", "plural": "things"}, "versions": versions}
    store.create("customresourcedefinitions.apiextensions.k8s.io", {"metadata": {"name": "things.e.x"}, "spec": spec})
    first = store.database.kinds.by_path("e.x", "v1", "things")
    store.create(first, {"metadata": {"name": "a"}})
    stored = store.get(first, "a")
    assert stored.read()["apiVersion"] == "e.x/v2"
    assert store.convert(first, stored).read()["apiVersion"] == "e.x/v1"


def test_a_terminating_namespace_waits_only_for_its_finalizer() -> None:
    store = Store()
    store.create("namespaces", {"metadata": {"name": "x", "finalizers": ["e.x/wait"]}})
    store.delete("namespaces", "x")
    store.garbage_collector.finish()
    assert store.get("namespaces", "x").read()["status"]["phase"] == "Terminating"
    store.patch("namespaces", "x", {"metadata": {"finalizers": None}})
    store.garbage_collector.finish()
    assert store.find("namespaces", "x") is None


@pytest.mark.parametrize(
    ("kind", "document", "place"),
    [
        ("namespaces", {"metadata": {"name": "x"}, "spec": 5}, "spec"),
        ("services", {"metadata": {"name": "x"}, "spec": {"ports": ["80"]}}, "spec.ports[0]"),
        ("nodes", {"metadata": {"name": "x"}, "status": {"capacity": {"cpu": []}}}, "status.capacity[cpu]"),
        (
            "leases.coordination.k8s.io",
            {"metadata": {"name": "x"}, "spec": {"holderIdentity": []}},
            "spec.holderIdentity",
        ),
        ("priorityclasses.scheduling.k8s.io", {"metadata": {"name": "x"}, "value": True}, "value"),
    ],
)
def test_a_field_of_the_wrong_type_is_reported_with_its_path(kind: str, document: dict[str, Any], place: str) -> None:
    store = Store()
    with pytest.raises(ApiError, match=re.escape(f"into field {place} of type")) as caught:
        store.create(kind, document, "default")
    assert caught.value.code == 400
