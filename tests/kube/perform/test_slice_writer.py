"""Slices of a node are created for its Node, replaced as the API server has them, and every failure is a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from linkwise.dialects.kubernetes.claims.driver import devices_part, slice_object
from linkwise.kube.perform.node_writer import NodeWriter
from linkwise.kube.perform.slice_writer import SliceWriter
from support.fakes.scripted_api import Reply, ScriptedApi, play

if TYPE_CHECKING:
    from linkwise.kube.client.api import Connection

DOCUMENT = slice_object("worker", 0, devices_part([]), 1, 1)
NAME = "worker-gpu.linkwise.dev-0"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLAIM = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/train"


def stored(version: str, uid: str = "uid-1") -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": NAME, "uid": uid, "resourceVersion": version, "labels": {"of": "others"}}
    return {**DOCUMENT, "metadata": metadata}


def test_a_new_slice_belongs_to_its_node() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> None:
        api.script("GET /api/v1/nodes/worker", Reply(200, {"metadata": {"name": "worker", "uid": "uid-of-node"}}))
        api.script(f"POST {SLICES}", Reply(201, stored("1")))
        written = await SliceWriter(NodeWriter(connection, "worker")).write_slice(DOCUMENT, None)
        assert written.document == stored("1")
        (owner,) = api.asked("POST")[0].document["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("Node", "uid-of-node")

    play(scenario)


def test_a_known_slice_is_replaced_only_as_it_is_known() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> None:
        api.script(f"PUT {SLICES}/{NAME}", Reply(409, {"message": "changed"}), Reply(200, stored("4")))
        api.script(f"GET {SLICES}/{NAME}", Reply(200, stored("3")))
        written = await SliceWriter(NodeWriter(connection, "worker")).write_slice(DOCUMENT, stored("2"))
        assert written.document == stored("4")
        sent = [request.document["metadata"] for request in api.asked("PUT")]
        assert [(one["resourceVersion"], one["labels"]) for one in sent] == [
            ("2", {"of": "others"}),
            ("3", {"of": "others"}),
        ]

    play(scenario)


def test_a_slice_that_is_gone_is_created_and_one_that_is_there_is_replaced() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> None:
        api.script("GET /api/v1/nodes/worker", Reply(404, {"message": "no such node"}))
        api.script(f"PUT {SLICES}/{NAME}", Reply(404, {"message": "gone"}), Reply(200, stored("9")))
        api.script(f"POST {SLICES}", Reply(201, stored("8")), Reply(409, {"message": "exists"}))
        api.script(f"GET {SLICES}/{NAME}", Reply(200, stored("8")))
        writer = SliceWriter(NodeWriter(connection, "worker"))
        assert (await writer.write_slice(DOCUMENT, stored("7"))).document == stored("8")
        assert (await writer.write_slice(DOCUMENT, None)).document == stored("9")

    play(scenario)


def test_a_cluster_without_the_api_is_named_and_not_asked_again_at_once() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> None:
        api.script("GET /api/v1/nodes/worker", Reply(404, {"message": "no such node"}))
        api.script(f"POST {SLICES}", Reply(404, {"message": "the server could not find the requested resource"}))
        written = await SliceWriter(NodeWriter(connection, "worker")).write_slice(DOCUMENT, None)
        assert (written.outcome, written.wait) == ("refused", 60.0)
        assert written.sentence == "this cluster does not serve resource.k8s.io/v1, which Kubernetes has since 1.34"

    play(scenario)


@pytest.mark.parametrize(("status", "outcome"), [(200, "done"), (404, "done"), (403, "refused"), (500, "unreachable")])
def test_a_slice_that_is_gone_counts_as_deleted(status: int, outcome: str) -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> None:
        api.script(f"DELETE {SLICES}/{NAME}", Reply(status, {"message": "words"}))
        assert (await SliceWriter(NodeWriter(connection, "worker")).delete_slice(NAME)).outcome == outcome

    play(scenario)


def test_a_claim_is_read_as_it_is_and_a_refusal_says_what_to_grant() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> None:
        found = {"metadata": {"name": "train", "uid": "uid-train"}}
        api.script(f"GET {CLAIM}", Reply(200, found), Reply(403, {"message": "forbidden"}), Reply(200, b"[]"))
        writer = SliceWriter(NodeWriter(connection, "worker"))
        assert (await writer.claim("default", "train")).document == found
        assert "grant get on resourceclaims" in (await writer.claim("default", "train")).sentence
        assert (await writer.claim("default", "train")).outcome == "unreachable"

    play(scenario)
