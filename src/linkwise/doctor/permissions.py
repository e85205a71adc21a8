"""Permissions: what service accounts must be allowed, by the features in use, and what is read of a cluster.

A source is read only if a selected check needs it. Lists are read in pages; the number of requests does not depend on the
number of pods, and grows with nodes only by these pages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from linkwise.config.rbac import (
    AGENT_FEATURES,
    FEATURES,
    OWN_NAMESPACE,
    Feature,
    Rule,
    proxied_service,
    webhook_features,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from linkwise.config.settings import ServeSettings

__all__ = [
    "AGENT",
    "PARTS",
    "SCHEDULER",
    "SERVICE",
    "SOURCES",
    "USERS",
    "Need",
    "Permission",
    "Source",
    "needed",
    "of_users",
]

SERVICE, AGENT, SCHEDULER = "linkwise", "linkwise-agent", "linkwise-scheduler"
"""names of the service accounts"""
USERS: Final = "system:authenticated"
"""the account of what every user needs"""
_SCHEDULER_FEATURES: Final[Mapping[str, Feature]] = {
    "scheduler": Feature(
        "Schedule pods, as the cluster roles system:kube-scheduler and system:volume-scheduler allow.",
        (
            Rule(("",), ("nodes", "namespaces", "persistentvolumeclaims", "persistentvolumes")),
            Rule(("",), ("pods",), ("get", "list", "watch", "delete")),
            Rule(("",), ("pods/binding",), ("create",)),
            Rule(("",), ("pods/status",), ("patch", "update")),
            Rule(("events.k8s.io",), ("events",), ("create", "patch")),
            Rule(("storage.k8s.io",), ("storageclasses", "csinodes", "csidrivers", "csistoragecapacities")),
            Rule(("policy",), ("poddisruptionbudgets",)),
        ),
    ),
}
"""a part of these cluster roles without which no pod is scheduled"""
_ALWAYS: Final = frozenset({"extender", "inventory", "pods", "scheduler"})
"""features that nothing works without"""
OWN: Final = "own"
FOREIGN_SCHEDULERS: Final = ("gpushare-schd-extender", "hami-scheduler", "volcano-scheduler", "koord-scheduler")
_OURS: Final = "labelSelector=app.kubernetes.io%2Fname%3Dlinkwise"
_ADMISSION: Final = "admissionregistration.k8s.io"
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


@dataclass(frozen=True, slots=True)
class Permission:
    """One verb on one resource, for a service account or for all users."""

    account: str
    verb: str
    group: str
    resource: str
    """with its subresource after a slash"""
    namespace: str = ""
    """empty for the cluster"""
    name: str = ""
    """of the only object that it is for"""

    def __str__(self) -> str:
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {kind}{f' {self.name}' if self.name else ''}{where}"


@dataclass(frozen=True, slots=True)
class Need:
    """A feature of one account, with its permissions."""

    account: str
    feature: str
    why: str
    required: bool
    """whether the settings demand it; any other may have been left out on purpose"""
    permissions: tuple[Permission, ...]


def of_users(settings: ServeSettings, namespace: str) -> Permission:
    """What every user must be allowed to reach the port for tenants."""
    name = proxied_service(SERVICE, tls=settings.tls.enabled)[0]
    return Permission(USERS, "get", "", "services/proxy", namespace, name)


def needed(settings: ServeSettings, namespace: str, groups: frozenset[str]) -> Iterator[Need]:
    """What each account must be allowed; features about API groups that the cluster does not serve are left out."""
    on = _turned_on(settings)
    webhook = settings.webhook
    tables: list[tuple[str, Mapping[str, Feature]]] = [(SERVICE, FEATURES), (AGENT, AGENT_FEATURES)]
    if webhook.enabled and not webhook.cert_file:
        made = webhook_features(
            namespace=webhook.namespace or namespace, secret=webhook.secret, configuration=webhook.configuration
        )
        tables.append((SERVICE, made))
        on |= {(SERVICE, key): True for key in made}
    tables.append((SCHEDULER, _SCHEDULER_FEATURES))
    for account, features in tables:
        for key, feature in features.items():
            wanted = on.get((account, key))
            if wanted is False or (feature.opt_in and wanted is None):
                continue
            place = namespace if feature.namespace == OWN_NAMESPACE else feature.namespace
            permissions = tuple(each for rule in feature.rules for each in _permissions(account, rule, place, groups))
            if permissions:
                yield Need(account, key, feature.why, bool(wanted) or key in _ALWAYS, permissions)


def _turned_on(settings: ServeSettings) -> dict[tuple[str, str], bool]:
    """Features that settings turn on or off, by account."""
    placing, agent = settings.placing, settings.agent
    service = {
        "conditions": settings.explain.publish,
        "tenants": settings.explain.tenants,
        "evict": placing.preemption.evict or placing.group.evict_half_bound,
        "rank-tables": placing.rank_tables,
        "leader": settings.leader.enabled,
        "tls": settings.tls.enabled and not settings.tls.cert_file,
        **dict.fromkeys(settings.kube.without, False),
    }
    node = {"koordinator": agent.koordinator_device, "device-info": agent.ascend.device_info}
    return {(SERVICE, key): value for key, value in service.items()} | {
        (AGENT, key): value for key, value in node.items()
    }


def _permissions(account: str, rule: Rule, place: str, groups: frozenset[str]) -> Iterator[Permission]:
    for group in rule.groups:
        if groups and group and group not in groups:
            continue
        for resource in rule.resources:
            for verb in rule.verbs:
                for each in rule.names or ("",):
                    yield Permission(account, verb, group, resource, place, each)


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
