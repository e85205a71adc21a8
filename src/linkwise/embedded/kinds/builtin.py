"""Built-in resources, as a table; all others come from CustomResourceDefinitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["BUILT_IN", "UNREACHABLE", "Resource"]

UNREACHABLE: Final = "node.kubernetes.io/unreachable"
"""taint of a node that the control plane does not hear from"""

_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource in one API version."""

    group: str
    """empty for the core group"""
    version: str
    plural: str
    kind: str
    short_names: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    selectable_fields: Mapping[str, tuple[str, ...]] | None = None
    """supported field selectors besides metadata.name and metadata.namespace, and their paths in the object"""
    namespaced: bool = True
    has_generation: bool = False
    """whether metadata.generation counts changes of the spec"""
    custom: bool = False
    """whether a CustomResourceDefinition defines it"""
    requires_resource_version: bool = False
    """whether an update must name the resourceVersion that it replaces (no unconditional updates)"""
    returns_deleted_object: bool = False
    """whether a delete returns the object instead of a Status"""
    categories: tuple[str, ...] = ()
    singular: str = ""
    create_only: bool = False
    """whether its objects are questions, which are answered and not stored"""

    @property
    def api_version(self) -> str:
        """The apiVersion of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """The name in kubectl and in errors: `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def path(self) -> str:
        """The path of its API version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def singular_name(self) -> str:
        """The singular name; the lower-case kind unless a CRD sets it."""
        return self.singular or self.kind.lower()

    @property
    def verbs(self) -> tuple[str, ...]:
        """The supported verbs."""
        return ("create",) if self.create_only else _VERBS


def _field_paths(*paths: str, **others: str) -> dict[str, tuple[str, ...]]:
    named = {path: tuple(path.split(".")) for path in paths}
    return named | {name: tuple(path.split(".")) for name, path in others.items()}


_POD_FIELDS: Final = _field_paths(
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)
_REFERENCE_FIELDS: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_EVENT_FIELDS: Final = _field_paths(
    *(f"involvedObject.{key}" for key in _REFERENCE_FIELDS),
    "reason",
    "type",
    "reportingComponent",
    source="source.component",
)

_STATUS: Final = ("status",)
_STATUS_AND_SCALE: Final = ("status", "scale")
_RBAC: Final = "rbac.authorization.k8s.io"
_ALL: Final = ("all",)
_REVIEWS: Final = (
    ("authentication.k8s.io", "TokenReview"),
    ("authentication.k8s.io", "SelfSubjectReview"),
    ("authorization.k8s.io", "SubjectAccessReview"),
    ("authorization.k8s.io", "SelfSubjectAccessReview"),
    ("authorization.k8s.io", "LocalSubjectAccessReview"),
    ("authorization.k8s.io", "SelfSubjectRulesReview"),
)


BUILT_IN: Final = (
    Resource(
        "",
        "v1",
        "namespaces",
        "Namespace",
        ("ns",),
        _STATUS,
        _field_paths("status.phase"),
        returns_deleted_object=True,
        namespaced=False,
    ),
    Resource("", "v1", "nodes", "Node", ("no",), _STATUS, _field_paths("spec.unschedulable"), namespaced=False),
    Resource(
        *("", "v1", "pods", "Pod", ("po",)),
        subresources=("status", "binding", "eviction", "log", "ephemeralcontainers", "resize"),
        selectable_fields=_POD_FIELDS,
        has_generation=True,
        returns_deleted_object=True,
        categories=_ALL,
    ),
    Resource("", "v1", "events", "Event", ("ev",), selectable_fields=_EVENT_FIELDS),
    Resource("", "v1", "configmaps", "ConfigMap", ("cm",)),
    Resource("", "v1", "secrets", "Secret", selectable_fields=_field_paths("type")),
    Resource("", "v1", "serviceaccounts", "ServiceAccount", ("sa",), ("token",)),
    Resource("", "v1", "services", "Service", ("svc",), _STATUS, returns_deleted_object=True, categories=_ALL),
    Resource("", "v1", "endpoints", "Endpoints", ("ep",)),
    Resource("", "v1", "persistentvolumes", "PersistentVolume", ("pv",), _STATUS, namespaced=False),
    Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", ("pvc",), _STATUS),
    Resource("", "v1", "limitranges", "LimitRange", ("limits",)),
    Resource("", "v1", "resourcequotas", "ResourceQuota", ("quota",), _STATUS),
    Resource(
        "",
        "v1",
        "replicationcontrollers",
        "ReplicationController",
        ("rc",),
        _STATUS_AND_SCALE,
        has_generation=True,
        categories=_ALL,
    ),
    Resource(
        "apps", "v1", "deployments", "Deployment", ("deploy",), _STATUS_AND_SCALE, has_generation=True, categories=_ALL
    ),
    Resource(
        "apps", "v1", "replicasets", "ReplicaSet", ("rs",), _STATUS_AND_SCALE, has_generation=True, categories=_ALL
    ),
    Resource(
        "apps", "v1", "statefulsets", "StatefulSet", ("sts",), _STATUS_AND_SCALE, has_generation=True, categories=_ALL
    ),
    Resource("apps", "v1", "daemonsets", "DaemonSet", ("ds",), _STATUS, has_generation=True, categories=_ALL),
    Resource("apps", "v1", "controllerrevisions", "ControllerRevision"),
    Resource("batch", "v1", "jobs", "Job", (), _STATUS, has_generation=True, categories=_ALL),
    Resource("batch", "v1", "cronjobs", "CronJob", ("cj",), _STATUS, has_generation=True, categories=_ALL),
    Resource("coordination.k8s.io", "v1", "leases", "Lease", requires_resource_version=True),
    Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", ("pdb",), _STATUS, has_generation=True),
    Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", ("pc",), namespaced=False),
    Resource(
        *("resource.k8s.io", "v1", "resourceslices", "ResourceSlice"),
        selectable_fields=_field_paths("spec.nodeName", "spec.driver"),
        namespaced=False,
        has_generation=True,
    ),
    Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False, has_generation=True),
    Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", (), _STATUS),
    Resource("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate"),
    Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", ("sc",), namespaced=False),
    *(
        Resource(
            "admissionregistration.k8s.io",
            "v1",
            f"{kind.lower()}s",
            kind,
            namespaced=False,
            has_generation=True,
            categories=("api-extensions",),
        )
        for kind in (
            "MutatingWebhookConfiguration",
            "ValidatingWebhookConfiguration",
            "ValidatingAdmissionPolicyBinding",
        )
    ),
    Resource(
        *(
            "admissionregistration.k8s.io",
            "v1",
            "validatingadmissionpolicies",
            "ValidatingAdmissionPolicy",
            (),
            _STATUS,
        ),
        namespaced=False,
        has_generation=True,
        categories=("api-extensions",),
    ),
    Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False),
    Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    Resource(_RBAC, "v1", "roles", "Role"),
    Resource(_RBAC, "v1", "rolebindings", "RoleBinding"),
    *(
        Resource(group, "v1", f"{kind.lower()}s", kind, namespaced=kind.startswith("Local"), create_only=True)
        for group, kind in _REVIEWS
    ),
    Resource(
        *("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition"),
        *(("crd", "crds"), _STATUS),
        namespaced=False,
        has_generation=True,
        categories=("api-extensions",),
    ),
)
"""namespaces come before the resources in them"""
