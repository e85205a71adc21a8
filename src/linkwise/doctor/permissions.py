"""Permissions: what the service accounts of an installation must be allowed, by the features that its settings turn on."""

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

__all__ = ["AGENT", "SCHEDULER", "SERVICE", "USERS", "Need", "Permission", "needed", "of_users"]

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
