"""Tables, as kubectl get prints them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from support.embedded.conformance import gated, pod

if TYPE_CHECKING:
    from support.embedded.conformance import Space

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def table(space: Space, path: str) -> dict[str, Any]:
    status, data = space.api.raw("GET", path, accept=TABLE)
    assert status == 200, data
    return dict(json.loads(data))


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/api/v1/pods", ["Name", "Ready", "Status", "Restarts", "Age"]),
        ("/api/v1/nodes", ["Name", "Status", "Roles", "Age", "Version"]),
        ("/api/v1/events", ["Last Seen", "Type", "Reason", "Object", "Message"]),
        ("/api/v1/namespaces", ["Name", "Status", "Age"]),
        ("/api/v1/configmaps", ["Name", "Data", "Age"]),
        ("/apis/apps/v1/deployments", ["Name", "Ready", "Up-to-date", "Available", "Age"]),
        ("/apis/apps/v1/replicasets", ["Name", "Desired", "Current", "Ready", "Age"]),
        ("/apis/batch/v1/jobs", ["Name", "Status", "Completions", "Duration", "Age"]),
        ("/apis/resource.k8s.io/v1/resourceclaims", ["Name", "State", "Age"]),
        ("/apis/resource.k8s.io/v1/resourceclaimtemplates", ["Name", "Age"]),
        ("/apis/resource.k8s.io/v1/resourceslices", ["Name", "Node", "Driver", "Pool", "Age"]),
        ("/apis/resource.k8s.io/v1/deviceclasses", ["Name", "Age"]),
        ("/apis/coordination.k8s.io/v1/leases", ["Name", "Holder", "Age"]),
        ("/apis/linkwise.dev/v1alpha1/deviceinventories", ["Name", "Mode", "Devices", "Healthy", "Enforced", "Age"]),
    ],
)
def test_a_table_has_the_columns_of_kubectl(space: Space, path: str, names: list[str]) -> None:
    columns = table(space, path)["columnDefinitions"]
    assert [column["name"] for column in columns if column["priority"] == 0] == names


def test_a_row_has_the_status_of_the_pod(space: Space) -> None:
    space.make("pods", pod("a", nodeName="n1"))
    space.make("pods", gated("b"))
    rows = table(space, space.path("pods"))["rows"]
    assert [row["cells"][:4] for row in rows] == [["a", "0/1", "Pending", "0"], ["b", "0/1", "SchedulingGated", "0"]]
    assert rows[0]["cells"][6] == "n1"
    assert rows[0]["object"]["kind"] == "PartialObjectMetadata"


def test_a_single_object_can_be_a_table(space: Space) -> None:
    space.config("a", x="1")
    (row,) = table(space, space.path("configmaps", "a"))["rows"]
    assert row["cells"][:2] == ["a", 1]


def test_a_watch_can_send_tables(space: Space) -> None:
    space.config("a")
    path = f"{space.path('configmaps')}?watch=1&labelSelector=ours"
    with space.watch_all(path, TABLE) as lines:
        first = next(lines)
    assert (first["type"], first["object"]["kind"]) == ("ADDED", "Table")
    assert first["object"]["rows"][0]["cells"][0] == "a"


def test_a_row_has_the_state_of_the_claim(space: Space) -> None:
    request = {"name": "main", "exactly": {"deviceClassName": "gpu.example.com"}}
    made = {"metadata": {"name": "a"}, "spec": {"devices": {"requests": [request]}}}
    space.make("resourceclaims", made, "resource.k8s.io/v1")
    path = space.path("resourceclaims", group="resource.k8s.io/v1")
    assert table(space, path)["rows"][0]["cells"][:2] == ["a", "pending"]
    result = {"request": "main", "driver": "gpu.example.com", "pool": "p", "device": "gpu-0"}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "1"}],
    }
    space.call("PATCH", f"{path}/a/status", {"status": status}, "application/merge-patch+json")
    assert table(space, path)["rows"][0]["cells"][:2] == ["a", "allocated,reserved"]
