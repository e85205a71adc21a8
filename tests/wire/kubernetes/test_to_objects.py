"""Views written as Kubernetes objects read as the same views."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hypothesis import given

from linkwise.model.views import ContainerView, PodView
from linkwise.wire.kubernetes.objects import decode_node, decode_pod, node_view, pod_view
from linkwise.wire.kubernetes.to_objects import node_object, pod_object
from support.properties.strategies import node_views, pod_views

if TYPE_CHECKING:
    from linkwise.model.views import NodeView


@given(pod_views())
def test_a_pod_reads_as_it_was_written(view: PodView) -> None:
    assert pod_view(pod_object(view)) == view


@given(pod_views())
def test_a_pod_survives_json(view: PodView) -> None:
    assert decode_pod(json.dumps(pod_object(view)).encode()) == view


@given(node_views())
def test_a_node_reads_as_it_was_written(view: NodeView) -> None:
    assert node_view(node_object(view)) == view
    assert decode_node(json.dumps(node_object(view)).encode()) == view


def test_only_what_a_view_holds_is_written() -> None:
    view = PodView("team", "train", "u-1", (ContainerView("main", limits={"nvidia.com/gpu": "2"}),), created=1.5)
    assert pod_object(view) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": "team",
            "name": "train",
            "uid": "u-1",
            "creationTimestamp": "1970-01-01T00:00:01.500000Z",
        },
        "spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]},
        "status": {"phase": "Pending"},
    }
