"""Sources: the table of what is read of a cluster, each with the verb that it takes and a bound on its size.

A source is read only if a selected check needs it. Lists are read in pages; the number of requests does not depend on the
number of pods, and grows with nodes only by these pages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PARTS", "SOURCES", "Source"]


@dataclass(frozen=True, slots=True)
class Source:
    """Objects of one kind."""

    resource: str
    """as RBAC writes it: the plural, and the API group after a dot"""
    version: str
    place: str = ""
    """namespace: `own` for that of Linkwise, empty for all"""
    names: tuple[str, ...] = ()
    """the objects to get; empty lists them. Words in braces are settings"""
    query: str = ""
    """selectors of a list"""
    selections: tuple[str, ...] = ()
    """values of the query, one list for each"""
    pages: int = 0
    """of 500 objects, after which the rest is left out; 0 for all"""

    @property
    def verb(self) -> str:
        """The verb to grant."""
        return "get" if self.names else "list"

    @property
    def group(self) -> str:
        """The API group; empty for the core."""
        return self.resource.partition(".")[2]

    @property
    def plural(self) -> str:
        """The resource without its group."""
        return self.resource.partition(".")[0]


OWN: Final = "own"
FOREIGN_SCHEDULERS: Final = ("gpushare-schd-extender", "hami-scheduler", "volcano-scheduler", "koord-scheduler")
_OURS: Final = "labelSelector=app.kubernetes.io%2Fname%3Dlinkwise"
_ADMISSION: Final = "admissionregistration.k8s.io"

SOURCES: Final[Mapping[str, Source]] = {
    "nodes": Source("nodes", "v1"),
    "inventories": Source("deviceinventories.linkwise.dev", "v1alpha1"),
    "pending": Source("pods", "v1", query="fieldSelector=status.phase%3DPending", pages=4),
    "own-pods": Source("pods", "v1", OWN, query=_OURS),
    "kube-schedulers": Source("pods", "v1", "kube-system", query="labelSelector=component%3Dkube-scheduler"),
    "daemon-sets": Source("daemonsets.apps", "v1"),
    "deployments": Source("deployments.apps", "v1", OWN),
    "foreign-schedulers": Source(
        "deployments.apps", "v1", query="fieldSelector=metadata.name%3D", selections=FOREIGN_SCHEDULERS
    ),
    "volcano": Source("configmaps", "v1", "volcano-system", names=("volcano-scheduler-configmap",)),
    "events": Source("events", "v1", query="fieldSelector=reason%3DFailedScheduling", pages=4),
    "leases": Source("leases.coordination.k8s.io", "v1", OWN),
    "node-leases": Source("leases.coordination.k8s.io", "v1", "kube-node-lease"),
    "services": Source("services", "v1", OWN),
    "slices": Source("endpointslices.discovery.k8s.io", "v1", OWN),
    "endpoints": Source("endpoints", "v1", OWN),
    "config-maps": Source("configmaps", "v1", OWN),
    "webhook-secret": Source("secrets", "v1", OWN, names=("{secret}",)),
    "tls-secrets": Source("secrets", "v1", OWN, names=("{tls_secret}", "{client_secret}")),
    "mutating": Source(f"mutatingwebhookconfigurations.{_ADMISSION}", "v1", names=("{configuration}",)),
    "validating": Source(f"validatingwebhookconfigurations.{_ADMISSION}", "v1", names=("{configuration}",)),
    "protection": Source(f"validatingadmissionpolicies.{_ADMISSION}", "v1", query=_OURS),
    "protection-bindings": Source(f"validatingadmissionpolicybindings.{_ADMISSION}", "v1", query=_OURS),
    "policies": Source("acceleratorpolicies.linkwise.dev", "v1alpha1", pages=1),
    "crds": Source(
        "customresourcedefinitions.apiextensions.k8s.io",
        "v1",
        names=("deviceinventories.linkwise.dev", "acceleratorpolicies.linkwise.dev"),
    ),
    "device-slices": Source("resourceslices.resource.k8s.io", "v1"),
    "budgets": Source("poddisruptionbudgets.policy", "v1", OWN),
    "namespaces": Source("namespaces", "v1"),
    "accounts": Source("serviceaccounts", "v1", OWN),
}

PARTS: Final[Mapping[str, str]] = {
    "clock": "the time of the API server",
    "readyz": "the service's /readyz, through the API server's service proxy",
    "metrics": "the service's /metrics, likewise",
    "access": "SubjectAccessReviews about the service accounts",
    "kubelets": "/configz of kubelets, through the API server's node proxy",
    "foreign-pods": "pods of device plugins of other vendors",
    "groups": "the API groups that are served",
    "settings": "the settings in the ConfigMap linkwise",
    "scheduler-files": "configurations of kube-scheduler",
    "connections": "connections to the addresses in --scheduler-config",
}
"""what is read and is not a list of objects"""
