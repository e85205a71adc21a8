"""Checks of access: what the service accounts may do, by the features in use, and who may write records."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from linkwise.config.protection import POLICIES
from linkwise.config.rbac import TENANTS_PORT
from linkwise.doctor.facts import Check, problem, skipped, warning
from linkwise.doctor.objects import find, items_at, name, text_at, texts_at
from linkwise.doctor.permissions import AGENT, SCHEDULER, SERVICE, needed, of_users

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from linkwise.doctor.facts import Facts, Finding
    from linkwise.doctor.permissions import Need, Permission

__all__ = ["CHECKS"]

GROUP: Final = "Access"
_COMMANDS: Final = {
    SERVICE: "linkwise manifests rbac{flags} --namespace {namespace} | kubectl apply -f -",
    AGENT: "linkwise manifests rbac --agent{flags} --namespace {namespace} | kubectl apply -f -",
    SCHEDULER: "kubectl create clusterrolebinding linkwise-scheduler --clusterrole=system:kube-scheduler"
    " --serviceaccount={namespace}:linkwise-scheduler",
}
_CREATED_BEFORE: Final = "leases"
"""the resource whose objects an installation may contain, so that no role has to create them"""
_FLAGS: Final = {
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
        absent = _absent(missing, need, facts)
        if absent:
            places = f"{facts.namespace}: {', '.join(absent)}"
            found = (
                f"leases that the installation contains, and that no role may create, are missing in namespace {places}"
            )
            remedy = "create them again, empty: `helm upgrade` does; the service fills them"
            yield problem(f"lease/{absent[0]}", found, remedy, absent)
            continue
        subject = f"serviceaccount/{account}"
        found = f"it may not {', '.join(map(str, missing))} (feature {need.feature}: {need.why})"
        if need.required or len(missing) < len(asked):
            yield problem(subject, found, f"grant it: `{command}`", map(str, missing))
        else:
            yield warning(
                subject, found, f"grant it: `{command}`; nothing to do if the feature was left out on purpose"
            )


def _absent(missing: Sequence[Permission], need: Need, facts: Facts) -> list[str]:
    """The names of deleted Leases, if the account may do all with them but create them."""
    if any((each.verb, each.resource) != ("create", _CREATED_BEFORE) for each in missing):
        return []
    wanted = {each.name for each in need.permissions if each.resource == _CREATED_BEFORE and each.name}
    return sorted(wanted - {name(item) for item in facts.items(_CREATED_BEFORE)})


def _exists(permission: Permission, need: Need, facts: Facts) -> bool:
    """Whether the Leases exist that the account would have to create otherwise, as far as they could be read."""
    if (permission.verb, permission.resource) != ("create", _CREATED_BEFORE):
        return False
    wanted = {each.name for each in need.permissions if each.resource == permission.resource and each.name}
    found = {name(item) for item in facts.items(_CREATED_BEFORE)}
    return bool(wanted) and (wanted <= found or _CREATED_BEFORE in facts.unread)


def protected(facts: Facts) -> Iterator[Finding]:
    """The API server refuses changes of records by users."""
    if facts.embedded:
        yield skipped("the embedded cluster has no policies of its API server")
        return
    remedy = "`linkwise manifests protection | kubectl apply -f -`, or `helm upgrade` with protection.enabled"
    there = {name(each) for each in facts.items("protection")}
    bound = {text_at(each, "spec", "policyName"): each for each in facts.items("protection-bindings")}
    risk = "users who may change pods can change which devices they record, and the service believes it after a restart"
    if not there:
        yield warning("", f"no ValidatingAdmissionPolicy protects records of devices: {risk}", remedy)
        return
    for kind in POLICIES:
        policy = next((each for each in there if each.endswith(f"-{kind}")), "")
        subject = f"validatingadmissionpolicy/{policy or f'{SERVICE}-{kind}'}"
        if not policy:
            yield problem(subject, f"it does not exist, and others of its kind do: {risk}", remedy)
        elif policy not in bound:
            yield problem(subject, f"no ValidatingAdmissionPolicyBinding turns it on: {risk}", remedy)
        elif "Deny" not in texts_at(bound[policy], "spec", "validationActions"):
            found = f"it only warns: {risk}"
            yield warning(
                subject, found, "set protection.audit to false, or leave out --audit, once it warns of nothing wanted"
            )


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
            ("groups", "leases"),
        )
        for word, account in (("service", SERVICE), ("agent", AGENT), ("scheduler", SCHEDULER))
    ),
    Check(
        "records-protected",
        GROUP,
        "the API server protects records of devices",
        protected,
        ("protection", "protection-bindings"),
    ),
    Check(
        "rbac-tenants",
        GROUP,
        "users reach the service through the API server",
        tenants,
        ("services", "accounts", "access", "settings"),
    ),
)
