"""What is published on pods, for users with rights in one namespace where the service can't be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from linkwise.assembly.published_pods import published_explanation, published_pods
from linkwise.errors import ClusterError, NotFoundError
from linkwise.testing.cluster import device_pod
from linkwise.wire.kubernetes.to_objects import pod_object
from support.fakes.scripted_api import Reply, ScriptedApi, listed, play

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from linkwise.kube.client.api import Connection

PODS = "/api/v1/namespaces/default/pods"
EVENTS = "GET /api/v1/namespaces/default/events"
CONDITION = {
    "type": "linkwise.dev/Schedulable",
    "status": "False",
    "reason": "NoRoom",
    "message": "pod default/p is pending: no room",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
POD: dict[str, Any] = {**pod_object(device_pod("p", 2)), "status": {"phase": "Pending", "conditions": [CONDITION]}}
WEB = {"metadata": {"name": "web", "namespace": "default", "uid": "w"}, "spec": {"containers": [{"name": "main"}]}}


def read(work: Callable[[Connection], Awaitable[Any]], **scripts: Reply) -> Any:  # noqa: ANN401 - what the work returns
    """What a user reads; `pod`, `pods` and `events` are what the API server answers."""
    paths = {"pod": f"GET {PODS}/p", "pods": f"GET {PODS}", "events": EVENTS}

    async def scenario(api: ScriptedApi, connection: Connection) -> Any:  # noqa: ANN401 - same
        for name, reply in scripts.items():
            api.script(paths[name], reply)
        return await work(connection)

    return play(scenario)


def test_the_condition_and_events_of_a_pod_are_shown() -> None:
    event = {"metadata": {}, "type": "Normal", "reason": "Pending", "message": "no room", "lastTimestamp": "2026"}
    shown = read(lambda one: published_explanation(one, "default", "p"), pod=Reply(200, POD), events=listed(event))
    assert shown["code"] == "NoRoom"
    assert shown["lines"] == ["pod default/p is pending: no room", "event Pending: no room"]


def test_without_rights_on_the_pod_the_error_names_the_role() -> None:
    with pytest.raises(ClusterError, match=r"may not read pod default/p: .*ask an administrator for the role view"):
        read(lambda one: published_explanation(one, "default", "p"), pod=Reply(403, {"message": "forbidden"}))


def test_pods_that_request_devices_are_listed_with_their_reasons() -> None:
    section = read(lambda one: published_pods(one, "default", "", (), 0.0), pods=listed(POD, WEB))
    (row,) = section.rows
    cells = {name: cell.text for name, cell in row.cells.items()}
    assert (cells["name"], cells["state"], cells["code"]) == ("p", "Pending", "NoRoom")
    assert cells["reason"] == "pod default/p is pending: no room"
    assert row.document()["code"] == "NoRoom"


def test_a_named_pod_is_listed_alone_and_a_missing_one_is_reported() -> None:
    section = read(lambda one: published_pods(one, "default", "", ("p",), 0.0), pods=listed(POD, WEB))
    assert section.alone
    with pytest.raises(NotFoundError, match="pod default/web not found"):
        read(lambda one: published_pods(one, "default", "", ("web",), 0.0), pods=listed(POD, WEB))
