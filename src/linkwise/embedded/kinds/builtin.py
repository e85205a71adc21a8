"""Which kinds the API server has from the start, as a table; the others come from CustomResourceDefinitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["BUILT_IN", "Resource"]

_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind under one version."""

    group: str
    """empty for the core"""
    version: str
    plural: str
    kind: str
    short: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    """subresources"""
    fields: Mapping[str, tuple[str, ...]] | None = None
    """what field selectors may name beside name and namespace, and where in the object it is"""
    namespaced: bool = True
    counted: bool = False
    """whether metadata.generation counts changes of what is wished for"""
    custom: bool = False
    """whether a definition made it"""
    strict: bool = False
    """whether an update must name the version that it changes"""
    shown: bool = False
    """whether a delete answers with the object"""
    categories: tuple[str, ...] = ()
    singular: str = ""

    @property
    def api_version(self) -> str:
        """As objects write it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full(self) -> str:
        """As errors and kubectl write it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def place(self) -> str:
        """The path of the version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def one(self) -> str:
        """The word for one of them."""
        return self.singular or self.kind.lower()

    @property
    def verbs(self) -> tuple[str, ...]:
        """What may be done with it."""
        return _VERBS


def _paths(*paths: str, **others: str) -> dict[str, tuple[str, ...]]:
    named = {path: tuple(path.split(".")) for path in paths}
    return named | {name: tuple(path.split(".")) for name, path in others.items()}


_POD: Final = _paths(
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)
_ABOUT: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_EVENT: Final = _paths(
    *(f"involvedObject.{word}" for word in _ABOUT), "reason", "type", "reportingComponent", source="source.component"
)

_STATUS: Final = ("status",)
_SCALED: Final = ("status", "scale")
_RBAC: Final = "rbac.authorization.k8s.io"
_ALL: Final = ("all",)


BUILT_IN: Final = (
    Resource(
        "", "v1", "namespaces", "Namespace", ("ns",), _STATUS, _paths("status.phase"), shown=True, namespaced=False
    ),
    Resource("", "v1", "nodes", "Node", ("no",), _STATUS, _paths("spec.unschedulable"), namespaced=False),
    Resource(
        *("", "v1", "pods", "Pod", ("po",)),
        parts=("status", "binding", "eviction", "log", "ephemeralcontainers", "resize"),
        fields=_POD,
        counted=True,
        shown=True,
        categories=_ALL,
    ),
    Resource("", "v1", "events", "Event", ("ev",), fields=_EVENT),
    Resource("", "v1", "configmaps", "ConfigMap", ("cm",)),
    Resource("", "v1", "secrets", "Secret", fields=_paths("type")),
    Resource("", "v1", "serviceaccounts", "ServiceAccount", ("sa",)),
    Resource("", "v1", "services", "Service", ("svc",), _STATUS, shown=True, categories=_ALL),
    Resource("", "v1", "endpoints", "Endpoints", ("ep",)),
    Resource("", "v1", "persistentvolumes", "PersistentVolume", ("pv",), _STATUS, namespaced=False),
    Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", ("pvc",), _STATUS),
    Resource("", "v1", "limitranges", "LimitRange", ("limits",)),
    Resource("", "v1", "resourcequotas", "ResourceQuota", ("quota",), _STATUS),
    Resource("", "v1", "replicationcontrollers", "ReplicationController", ("rc",), _STATUS, categories=_ALL),
    Resource("apps", "v1", "deployments", "Deployment", ("deploy",), _SCALED, counted=True, categories=_ALL),
    Resource("apps", "v1", "replicasets", "ReplicaSet", ("rs",), _SCALED, counted=True, categories=_ALL),
    Resource("apps", "v1", "statefulsets", "StatefulSet", ("sts",), _SCALED, counted=True, categories=_ALL),
    Resource("apps", "v1", "daemonsets", "DaemonSet", ("ds",), _STATUS, counted=True, categories=_ALL),
    Resource("apps", "v1", "controllerrevisions", "ControllerRevision"),
    Resource("batch", "v1", "jobs", "Job", (), _STATUS, counted=True, categories=_ALL),
    Resource("batch", "v1", "cronjobs", "CronJob", ("cj",), _STATUS, counted=True, categories=_ALL),
    Resource("coordination.k8s.io", "v1", "leases", "Lease", strict=True),
    Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", ("pdb",), _STATUS, counted=True),
    Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", ("pc",), namespaced=False),
    Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", ("sc",), namespaced=False),
    Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False),
    Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    Resource(_RBAC, "v1", "roles", "Role"),
    Resource(_RBAC, "v1", "rolebindings", "RoleBinding"),
    Resource(
        *("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition"),
        *(("crd", "crds"), _STATUS),
        namespaced=False,
        counted=True,
        categories=("api-extensions",),
    ),
)
"""namespaces before what is in them"""
