"""Cleanup of a cluster between tests: deletes controllers first, so that they create nothing again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from support.e2e.api_client import LABEL
from support.e2e.processes import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.e2e.api_client import Api

__all__ = ["clear", "clear_marked"]

KEPT: Final = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
WORKLOADS: Final = (
    "/apis/batch.volcano.sh/v1alpha1/{}/jobs",
    "/apis/batch/v1/{}/cronjobs",
    "/apis/batch/v1/{}/jobs",
    "/apis/apps/v1/{}/deployments",
    "/apis/apps/v1/{}/statefulsets",
    "/apis/apps/v1/{}/daemonsets",
    "/apis/apps/v1/{}/replicasets",
    "/api/v1/{}/replicationcontrollers",
    "/api/v1/{}/pods",
)
SETTINGS: Final = (
    "/api/v1/{}/limitranges",
    "/api/v1/{}/resourcequotas",
    "/api/v1/{}/configmaps",
    "/apis/policy/v1/{}/poddisruptionbudgets",
    "/apis/scheduling.volcano.sh/v1beta1/{}/podgroups",
)
CLUSTER_WIDE: Final = (
    "/api/v1/nodes",
    "/apis/linkwise.dev/v1alpha1/deviceinventories",
    "/apis/linkwise.dev/v1alpha1/acceleratorpolicies",
    "/apis/scheduling.koordinator.sh/v1alpha1/devices",
    "/apis/resource.k8s.io/v1/resourceslices",
    "/apis/resource.k8s.io/v1/deviceclasses",
)
MARKED: Final = (
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/scheduling.volcano.sh/v1beta1/queues",
    "/api/v1/namespaces/kube-system/configmaps",
)
"""collections that hold things of the cluster's own as well"""

BY_LABEL: Final = f"?labelSelector={LABEL.replace('/', '%2F')}%3Dtrue"
SECONDS: Final = 60.0


def clear(api: Api) -> None:
    """Empty a cluster of our own: all pods, nodes and what describes them, and namespaces but those it started with."""
    _clear_namespaces(api, "")
    for path in CLUSTER_WIDE:
        api.delete(path)
    for path in MARKED:
        api.delete(f"{path}{BY_LABEL}")
    wait_for(lambda: not _left(api, ""), SECONDS, "pods and nodes are gone")


def clear_marked(api: Api) -> None:
    """Remove from a cluster what has the label of the tests, and namespaces that do with all that is in them."""
    _clear_namespaces(api, BY_LABEL)
    for path in (*CLUSTER_WIDE, *MARKED):
        api.delete(f"{path}{BY_LABEL}")
    wait_for(lambda: not _left(api, BY_LABEL), SECONDS, "pods and nodes of the tests are gone")


def _clear_namespaces(api: Api, query: str) -> None:
    """Namespaces themselves take seconds to go: this does not wait for that, since their names are not used again."""
    found = api.list(f"/api/v1/namespaces{query}")
    names = [space["metadata"]["name"] for space in found if space["status"]["phase"] == "Active"]
    for name in names:
        for path in _collections(name):
            api.delete(path)
        if name not in KEPT:
            api.delete(f"/api/v1/namespaces/{name}")


def _collections(namespace: str) -> Iterator[str]:
    within = f"namespaces/{namespace}"
    if namespace not in KEPT - {"default"}:
        yield from (path.format(within) for path in (*WORKLOADS, *SETTINGS))


def _left(api: Api, query: str) -> list[str]:
    """What is still there; pods of finished controllers may come once more, and are removed again."""
    pods = [pod["metadata"] for pod in api.list(f"/api/v1/pods{query}")]
    for pod in pods:
        api.delete(f"/api/v1/namespaces/{pod['namespace']}/pods/{pod['name']}")
    return [pod["name"] for pod in pods] + _names(api, f"/api/v1/nodes{query}")


def _names(api: Api, path: str) -> list[str]:
    return [str(found["metadata"]["name"]) for found in api.list(path)]
