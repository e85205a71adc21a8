"""Built-in ClusterRoles and their bindings, created at start.

Source: Kubernetes, "Using RBAC Authorization", default roles; only rules for resources that are served here. Users may edit
jobs of operators and Volcano, as where their operators aggregate such rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.dialects.kubernetes.pod_templates import OPERATOR_JOBS

if TYPE_CHECKING:
    from linkwise.embedded.storage.collection import Raw

__all__ = ["RBAC", "built_in_bindings", "built_in_roles"]

RBAC: Final = "rbac.authorization.k8s.io"
_LABELS: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_READ: Final = ("get", "list", "watch")
_WRITE: Final = ("create", "delete", "deletecollection", "patch", "update")

_VIEWED: Final = {
    "": (
        *(
            "configmaps",
            "endpoints",
            "events",
            "limitranges",
            "namespaces",
            "persistentvolumeclaims",
            "pods",
            "pods/log",
        ),
        *("pods/status", "replicationcontrollers", "resourcequotas", "serviceaccounts", "services", "services/status"),
    ),
    "apps": (
        *("controllerrevisions", "daemonsets", "deployments", "deployments/scale", "deployments/status"),
        *("replicasets", "replicasets/scale", "replicasets/status", "statefulsets", "statefulsets/scale"),
    ),
    "batch": ("cronjobs", "cronjobs/status", "jobs", "jobs/status"),
    "policy": ("poddisruptionbudgets", "poddisruptionbudgets/status"),
    "resource.k8s.io": ("resourceclaims", "resourceclaims/status", "resourceclaimtemplates"),
}
_EDITED: Final = {
    "": (
        *("configmaps", "endpoints", "events", "persistentvolumeclaims", "pods", "replicationcontrollers", "secrets"),
        *("serviceaccounts", "services", "services/proxy"),
    ),
    "apps": ("daemonsets", "deployments", "deployments/scale", "replicasets", "replicasets/scale", "statefulsets"),
    "batch": ("cronjobs", "jobs"),
    "policy": ("poddisruptionbudgets",),
    "resource.k8s.io": ("resourceclaims", "resourceclaimtemplates"),
}
_REVIEWS: Final = ("localsubjectaccessreviews",)


_OPERATED: Final = {
    **{job.group: tuple(each.resource for each in OPERATOR_JOBS if each.group == job.group) for job in OPERATOR_JOBS},
    "batch.volcano.sh": ("jobs",),
}


def _rule(groups: tuple[str, ...], resources: tuple[str, ...], verbs: tuple[str, ...]) -> Raw:
    return {"apiGroups": list(groups), "resources": list(resources), "verbs": list(verbs)}


def _rules(table: dict[str, tuple[str, ...]], verbs: tuple[str, ...]) -> list[Raw]:
    return [_rule((group,), resources, verbs) for group, resources in table.items()]


_EVERYTHING: Final = [_rule(("*",), ("*",), ("*",)), {"nonResourceURLs": ["*"], "verbs": ["*"]}]
_VIEW: Final = _rules({**_VIEWED, **_OPERATED}, _READ)
_EDIT: Final = [
    *_VIEW,
    *_rules({**_EDITED, **_OPERATED}, _WRITE),
    _rule(("",), ("secrets", "services/proxy"), _READ),
    _rule(("",), ("pods/eviction", "serviceaccounts/token"), ("create",)),
]
_ADMIN: Final = [
    *_EDIT,
    _rule((RBAC,), ("rolebindings", "roles"), (*_READ, *_WRITE)),
    _rule(("authorization.k8s.io",), _REVIEWS, ("create",)),
]
_DISCOVERY: Final = [
    {
        "nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/version", "/version/"],
        "verbs": ["get"],
    }
]
_BASIC: Final = [
    _rule(("authorization.k8s.io",), ("selfsubjectaccessreviews", "selfsubjectrulesreviews"), ("create",)),
    _rule(("authentication.k8s.io",), ("selfsubjectreviews",), ("create",)),
]
_DELEGATOR: Final = [
    _rule(("authentication.k8s.io",), ("tokenreviews",), ("create",)),
    _rule(("authorization.k8s.io",), ("subjectaccessreviews",), ("create",)),
]
_ROLES: Final = {
    "cluster-admin": _EVERYTHING,
    "admin": _ADMIN,
    "edit": _EDIT,
    "view": _VIEW,
    "system:auth-delegator": _DELEGATOR,
    "system:basic-user": _BASIC,
    "system:discovery": _DISCOVERY,
}
_GRANTED: Final = {
    "cluster-admin": "system:masters",
    "system:basic-user": "system:authenticated",
    "system:discovery": "system:authenticated",
}
"""the group that each of these roles is bound to"""


def built_in_roles() -> list[Raw]:
    """The built-in ClusterRoles."""
    return [{"metadata": {"name": name, "labels": dict(_LABELS)}, "rules": rules} for name, rules in _ROLES.items()]


def built_in_bindings() -> list[Raw]:
    """The built-in ClusterRoleBindings."""
    return [
        {
            "metadata": {"name": name, "labels": dict(_LABELS)},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": group}],
        }
        for name, group in _GRANTED.items()
    ]
