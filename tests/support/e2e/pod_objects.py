"""Builders of pods and of definitions of other systems' objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from support.e2e.api_client import Raw

__all__ = ["GROUP_WORDS", "device_definition", "pod", "pod_group"]

GROUP_WORDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "koordinator": {
        "annotations": {
            "gang.scheduling.koordinator.sh/name": "job",
            "gang.scheduling.koordinator.sh/min-available": "2",
        }
    },
    "kueue": {
        "labels": {"kueue.x-k8s.io/pod-group-name": "job"},
        "annotations": {"kueue.x-k8s.io/pod-group-total-count": "2"},
    },
    "volcano": {
        "annotations": {"scheduling.k8s.io/group-name": "job", "scheduling.volcano.sh/group-min-member": "2"},
    },
}
"""how pods of a group of two say so in other systems, as further words of `pod`"""


def pod(  # noqa: PLR0913 - a builder: every field but two has a default
    namespace: str,
    name: str,
    limits: Mapping[str, int | str] | None = None,
    *,
    scheduler: str = "default-scheduler",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,  # noqa: ANN401 - further fields of the spec as they are
) -> Raw:
    """A pod of one container that asks for this; it goes at once when it is deleted."""
    amounts = {resource: str(amount) for resource, amount in (limits or {}).items()}
    container = {"name": "main", "image": "example.com/none", "resources": {"limits": amounts, "requests": amounts}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
        },
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            **spec,
        },
    }


def pod_group(namespace: str, name: str) -> Raw:
    """A PodGroup of scheduler-plugins that is not a gang."""
    about = {"name": name, "namespace": namespace}
    return {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": about, "spec": {}}


def device_definition(*, prunes: bool = False) -> Raw:
    """A definition of Koordinator's Device; one that `prunes` forgets topologies, as that of its releases does."""
    names = {"kind": "Device", "listKind": "DeviceList", "plural": "devices", "singular": "device"}
    card = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    spec: Raw = {"type": "object", "properties": {"devices": {"type": "array", "items": card}}}
    if not prunes:
        spec["x-kubernetes-preserve-unknown-fields"] = True
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    version = {"name": "v1alpha1", "served": True, "storage": True, "subresources": {"status": {}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "devices.scheduling.koordinator.sh"},
        "spec": {
            "group": "scheduling.koordinator.sh",
            "scope": "Cluster",
            "names": names,
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }
