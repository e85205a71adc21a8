"""Checks of RBAC: what the service accounts are allowed, against the table of features that their roles are made from."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from linkwise.config.rbac import TENANTS_PORT
from linkwise.doctor.findings import Check, problem, skipped, warning
from linkwise.doctor.objects import find, items_at, name, text_at
from linkwise.doctor.permissions import AGENT, SCHEDULER, SERVICE, needed, of_users

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.doctor.facts import Facts
    from linkwise.doctor.findings import Finding
    from linkwise.doctor.permissions import Need, Permission

__all__ = ["CHECKS"]

GROUP: Final = "Access"
_COMMANDS: Final = {
    SERVICE: "linkwise manifests rbac{flags} --namespace {namespace} | kubectl apply -f -",
    AGENT: "linkwise manifests rbac --agent{flags} --namespace {namespace} | kubectl apply -f -",
    SCHEDULER: "kubectl create clusterrolebinding linkwise-scheduler --clusterrole=system:kube-scheduler"
    " --serviceaccount={namespace}:linkwise-scheduler",
}
_CREATED_BEFORE: Final = {"leases": ("leases",), "secrets": ("webhook-secret", "tls-secrets")}
"""resources whose objects an installation may contain, so that no role has to create them, with the sources of these objects"""
_FLAGS: Final = {
    "evict": " --evict",
    "rank-tables": " --rank-tables",
    "tls": " --tls",
}
_FLAGS_OF_AGENT: Final = {"koordinator": " --koordinator", "device-info": " --device-info"}


def rights(account: str, facts: Facts) -> Iterator[Finding]:
    """A service account may do what its features need."""
    if find(facts.items("accounts"), account) is None:
        yield skipped(f"there is no ServiceAccount {account} in namespace {facts.namespace}")
        return
    for need in needed(facts.settings, facts.namespace, facts.groups):
        asked = [each for each in need.permissions if each in facts.allowed] if need.account == account else []
        missing = [each for each in asked if not facts.allowed[each] and not _exists(each, need, facts)]
        if not missing:
            continue
        flags = (_FLAGS_OF_AGENT if account == AGENT else _FLAGS).get(need.feature, "")
        command = _COMMANDS[account].format(flags=flags, namespace=facts.namespace)
        if need.feature.startswith("webhook"):
            command = f"linkwise manifests webhook --namespace {facts.namespace} | kubectl apply -f -"
        subject = f"serviceaccount/{account}"
        found = f"it may not {', '.join(map(str, missing))} (feature {need.feature}: {need.why})"
        if need.required or len(missing) < len(asked):
            yield problem(subject, found, f"grant it: `{command}`", map(str, missing))
        else:
            yield warning(
                subject, found, f"grant it: `{command}`; nothing to do if the feature was left out on purpose"
            )


def _exists(permission: Permission, need: Need, facts: Facts) -> bool:
    """Whether the objects exist that the account would have to create otherwise, as far as they could be read."""
    sources = _CREATED_BEFORE.get(permission.resource, ()) if permission.verb == "create" else ()
    wanted = {each.name for each in need.permissions if each.resource == permission.resource and each.name}
    found = {name(item) for source in sources for item in facts.items(source)}
    return bool(wanted and sources) and (wanted <= found or any(source in facts.unread for source in sources))


def tenants(facts: Facts) -> Iterator[Finding]:
    """Users reach their port of the service through the API server."""
    service = find(facts.items("services"), SERVICE)
    if not facts.settings.explain.tenants or service is None:
        yield skipped(f"explain.tenants is off, or there is no Service {SERVICE} in namespace {facts.namespace}")
        return
    found = "users with rights in single namespaces can't ask why their pods are pending"
    if TENANTS_PORT not in {text_at(port, "name") for port in items_at(service, "spec", "ports")}:
        remedy = f"set features.tenants in the chart, or explain.port, and name its port of the Service {TENANTS_PORT}"
        yield warning(f"service/{SERVICE}", f"it has no port {TENANTS_PORT}: {found}", remedy)
    if facts.allowed.get(right := of_users(facts.settings, facts.namespace)) is False:
        flags = " --tls" if facts.settings.tls.enabled else ""
        command = _COMMANDS[SERVICE].format(flags=flags, namespace=facts.namespace)
        yield warning(f"role/{SERVICE}-tenants", f"users may not {right}: {found}", f"grant it: `{command}`")


CHECKS: Final = (
    *(
        Check(
            f"rbac-{word}",
            GROUP,
            f"ServiceAccount {account} may do what it needs to",
            partial(rights, account),
            ("accounts", "access", "settings"),
            ("groups", "leases", "webhook-secret", "tls-secrets"),
        )
        for word, account in (("service", SERVICE), ("agent", AGENT), ("scheduler", SCHEDULER))
    ),
    Check(
        "rbac-tenants",
        GROUP,
        "users reach the service through the API server",
        tenants,
        ("services", "accounts", "access", "settings"),
    ),
)
