"""Local volumes: constraints that only schedulers evaluate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from support.e2e.api_client import marked

if TYPE_CHECKING:
    from support.e2e.api_client import Raw
    from support.e2e.cluster import Cluster

__all__ = ["claimed", "local_volume"]

CLASS: Final = "kept-in-place"


def claimed(number: int) -> Raw:
    """The volume of a pod by its claim."""
    return {"name": "data", "persistentVolumeClaim": {"claimName": f"data-{number}"}}


def local_volume(cluster: Cluster, namespace: str, number: int, node: str) -> None:
    """A volume on one node, and the claim that is bound to it."""
    here = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": CLASS}
    spec = {
        **common,
        "capacity": {"storage": "1Gi"},
        "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}},
        "claimRef": {"namespace": namespace, "name": f"data-{number}"},
    }
    name = f"{namespace}-{number}"
    claim = {**common, "resources": {"requests": {"storage": "1Gi"}}, "volumeName": name}
    own = {"name": f"data-{number}", "namespace": namespace}
    for thing in (
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": own, "spec": claim},
    ):
        cluster.api.create(marked(thing))
