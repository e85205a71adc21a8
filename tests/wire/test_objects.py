from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from linkwise import InputError, Owner
from linkwise.wire.objects import node_view, pod_view

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "trainer-0",
        "namespace": "team-a",
        "uid": "u-1",
        "labels": {"app": "t"},
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "deletionTimestamp": "2026-01-02T03:05:05Z",
        "ownerReferences": [
            {"kind": "X", "name": "x", "uid": "1"},
            {"kind": "Job", "name": "j", "uid": "2", "controller": True},
        ],
    },
    "spec": {
        "nodeName": "n1",
        "initContainers": [
            {"name": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}},
            {"name": "s", "restartPolicy": "Always"},
        ],
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}, "limits": {"nvidia.com/gpu": 2}}}],
        "schedulingGates": [{"name": "g"}],
        "resourceClaims": [{"name": "claim"}],
        "tolerations": [{"key": "k", "operator": "Exists"}],
    },
    "status": {"phase": "Running"},
}


def test_a_pod_is_read_as_far_as_placing_goes() -> None:
    pod = pod_view(POD)
    assert (pod.namespace, pod.name, pod.uid, pod.node, pod.phase, pod.deleting) == (
        *("team-a", "trainer-0", "u-1", "n1", "Running"),
        True,
    )
    assert [(c.name, c.init, c.sidecar) for c in pod.containers] == [
        ("i", True, False),
        ("s", True, True),
        ("c", False, False),
    ]
    assert pod.containers[2].limits == {"nvidia.com/gpu": "2"}
    assert pod.owner == Owner("Job", "j", "2")
    assert (pod.created, pod.gates, pod.claims) == (1767323045.0, ("g",), ("claim",))


@pytest.mark.parametrize(
    ("spec", "group"),
    [
        ({"schedulingGroup": {"podGroupName": "g"}}, "g"),
        ({"workloadRef": {"name": "job", "podGroup": "workers", "podGroupReplicaKey": "3"}}, "job.workers.3"),
        ({}, ""),
    ],
)
def test_the_group_that_a_spec_points_to_is_read(spec: dict[str, object], group: str) -> None:
    assert pod_view({"spec": spec}).scheduling_group == group


def test_a_node_is_read_with_its_readiness() -> None:
    node = node_view(
        {
            "metadata": {"name": "n"},
            "spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoExecute"}]},
            "status": {"capacity": {"cpu": 8}, "conditions": [{"type": "Ready", "status": "False"}]},
        }
    )
    assert (node.name, node.unschedulable, node.ready, node.capacity) == ("n", True, False, {"cpu": "8"})


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"spec": {"containers": "x"}}, "spec.containers: expected a list"),
        ({"metadata": {"labels": {"a": 1}}}, "metadata.labels"),
        ({"metadata": {"creationTimestamp": "yesterday"}}, "metadata.creationTimestamp: 'yesterday' is no time"),
        ([], "expected an object"),
    ],
)
def test_a_broken_field_is_named(document: object, text: str) -> None:
    with pytest.raises(InputError, match=text):
        pod_view(document)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.sampled_from(["metadata", "spec", "status"]), JSON)
def test_any_object_is_a_view_or_an_input_error(part: str, value: object) -> None:
    for read in (pod_view, node_view):
        try:
            read({part: value})
        except InputError:
            continue
