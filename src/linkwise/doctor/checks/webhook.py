"""Checks of the admission webhook: its configurations, the certificate behind them, and whom they leave out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.config.webhook_manifests import IGNORE, OPT_OUT
from linkwise.dialects.registry import managed_resources
from linkwise.doctor.checks.extender import DAY, ready_addresses, validity
from linkwise.doctor.facts import Check, problem, skipped, warning
from linkwise.doctor.objects import is_selected, items_at, labels, name, namespace, object_at, text_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.doctor.facts import Facts, Finding
    from linkwise.doctor.objects import Raw

__all__ = ["CHECKS"]

GROUP: Final = "Webhook"
_PRINT: Final = "`linkwise manifests webhook` prints it"
_OPTIONAL: Final = ("names.", "operator-jobs.", "all-pods.")
"""webhooks that are shipped with failurePolicy Ignore: they only warn, or hide devices"""
_SOURCES: Final = ("mutating", "validating")


def _hooks(facts: Facts) -> list[tuple[str, Raw]]:
    """All webhooks, each with its configuration."""
    return [
        (f"{kind}webhookconfiguration/{name(each)}", hook)
        for kind in _SOURCES
        for each in facts.items(kind)
        for hook in items_at(each, "webhooks")
    ]


def _absent(facts: Facts) -> bool:
    return not any(facts.items(kind) for kind in _SOURCES)


def configurations(facts: Facts) -> Iterator[Finding]:
    """Both configurations exist where the webhook is on."""
    missing = [kind for kind in _SOURCES if not facts.items(kind)]
    wanted, configuration = facts.settings.webhook.enabled, facts.settings.webhook.configuration
    if len(missing) == len(_SOURCES) and not wanted:
        yield skipped(
            "the webhook is not installed: pods need schedulerName and have no records checked", f"to use it, {_PRINT}"
        )
        return
    for kind in missing:
        found = f"there is no {kind.capitalize()}WebhookConfiguration {configuration}, so pods are not {_PURPOSE[kind]}"
        yield problem(f"{kind}webhookconfiguration/{configuration}", found, f"apply it: {_PRINT}")
    if not missing and facts.settings_place and not wanted:
        found = "the configurations exist, and the setting webhook.enabled is false: no replica answers them"
        yield problem(
            f"mutatingwebhookconfiguration/{configuration}", found, "set webhook.enabled, or delete both configurations"
        )


_PURPOSE: Final = {"mutating": "given a scheduler and gates", "validating": "checked"}


def certificate(facts: Facts) -> Iterator[Finding]:
    """The API server trusts the certificate that the webhook serves."""
    if _absent(facts):
        yield skipped("the webhook is not installed")
        return
    empty = sorted({place for place, hook in _hooks(facts) if not text_at(hook, "clientConfig", "caBundle")})
    for place in empty:
        found = "caBundle is empty, so the API server does not trust the webhook"
        yield problem(
            place, found, "the service writes it: check that it runs, its log, and its role (`--check rbac-service`)"
        )
    if empty:
        return
    secret = facts.settings.webhook.secret
    bundle, serving = facts.certificates.get("bundle", ()), facts.certificates.get("serving", ())
    if not bundle:
        found = "caBundle holds no certificate that can be read"
        yield problem(_hooks(facts)[0][0], found, "delete the field: the service writes it again")
    elif all(each.ends <= facts.api_now for each in bundle):
        found = f"every authority in caBundle has expired, the last {_ago(facts, max(each.ends for each in bundle))}"
        yield problem(
            _hooks(facts)[0][0], found, f"delete Secret {secret}: the service creates an authority and trusts it"
        )
    for each in serving:
        yield from validity(
            facts,
            each,
            f"secret/{secret}",
            "the service renews it: check that a replica runs, and its rights on the Secret",
        )
    if bundle and not serving:
        yield skipped(f"Secret {secret} has no certificate, as with webhook.cert_file: only caBundle was examined")
    if facts.trusted is False:
        found = f"the certificate in Secret {secret} was not issued by an authority in caBundle: every call fails"
        yield problem(
            f"secret/{secret}",
            found,
            "delete the Secret: the service creates another, and writes its authority into caBundle",
        )


def _ago(facts: Facts, when: float) -> str:
    return f"{(facts.api_now - when) / DAY:.1f} day(s) ago"


def failure_policy(facts: Facts) -> Iterator[Finding]:
    """Pods that Linkwise manages are never admitted unchecked."""
    if _absent(facts):
        yield skipped("the webhook is not installed")
        return
    for place, hook in _hooks(facts):
        hook_name = text_at(hook, "name")
        if text_at(hook, "failurePolicy") == "Ignore" and not hook_name.startswith(_OPTIONAL):
            found = f"failurePolicy of {hook_name} is Ignore: while the service is down, pods pass unchecked and without our scheduler"
            yield warning(place, found, "set failurePolicy: Fail; conditions select only pods that Linkwise manages")


def endpoints(facts: Facts) -> Iterator[Finding]:
    """A webhook whose failure refuses pods has a ready endpoint."""
    failing = [(place, hook) for place, hook in _hooks(facts) if text_at(hook, "failurePolicy") != "Ignore"]
    services: dict[str, set[str]] = {}
    for place, hook in failing:
        if text_at(hook, "clientConfig", "service", "namespace") == facts.namespace:
            services.setdefault(text_at(hook, "clientConfig", "service", "name"), set()).add(place)
    if not services:
        yield skipped("no webhook is called through a Service of this namespace")
        return
    for service, places in services.items():
        if not ready_addresses(facts, service):
            found = f"Service {service} has no ready endpoint, and failurePolicy Fail refuses every pod that Linkwise manages"
            remedy = f"start the service, or delete the configurations meanwhile: `kubectl delete {' '.join(sorted(places))}`"
            yield problem(f"service/{service}", found, remedy)


def namespaces(facts: Facts) -> Iterator[Finding]:
    """No namespace whose pods request devices is left out."""
    if _absent(facts):
        yield skipped("the webhook is not installed")
        return
    spaces = {name(each): labels(each) for each in facts.items("namespaces")}
    left_out: dict[str, set[str]] = {}
    for place, hook in _hooks(facts):
        if not text_at(hook, "name").startswith("pods."):
            continue
        selector = object_at(hook, "namespaceSelector")
        for pod in facts.items("pending"):
            where = namespace(pod)
            if where in {"kube-system", facts.namespace} or not _requests_devices(pod):
                continue
            if not is_selected(selector, {"kubernetes.io/metadata.name": where} | spaces.get(where, {})):
                left_out.setdefault(where, set()).add(place)
    for where in sorted(left_out):
        found = f"namespaceSelector leaves out namespace {where}, where pods that request devices are pending"
        remedy = "change the label linkwise.dev/webhook of the namespace, or set schedulerName and the scheduling gate of its pods"
        yield warning(f"namespace/{where}", found, remedy)


def opt_out(facts: Facts) -> Iterator[Finding]:
    """No pod escapes AcceleratorPolicies by its own label."""
    policies = [name(each) for each in facts.items("policies")]
    if not policies:
        yield skipped("there are no AcceleratorPolicies")
        return
    places = sorted({place for place, hook in _hooks(facts) if _pods_opt_out(hook)})
    for place in places:
        found = (
            f"pods with the label {OPT_OUT}={IGNORE} are not sent to the webhook: any user can leave them to another scheduler, and"
            f" limits such as that of AcceleratorPolicy {policies[0]} do not stop it"
        )
        remedy = "`webhook.podOptOut=false` in the chart, or `linkwise manifests webhook` without --pod-opt-out"
        yield warning(place, found, remedy)


def _pods_opt_out(hook: Raw) -> bool:
    """Whether the label of a pod keeps it from a webhook that gives it a scheduler or checks it."""
    if not text_at(hook, "name").startswith("pods."):
        return False
    unlabelled = object_at(hook, "objectSelector")
    return bool(unlabelled) and not is_selected(unlabelled, {OPT_OUT: IGNORE})


def _requests_devices(pod: Raw) -> bool:
    known = {each for names in managed_resources().values() for each in names}
    asked = {
        key for container in items_at(pod, "spec", "containers") for key in object_at(container, "resources", "limits")
    }
    return bool(asked & known)


CHECKS: Final = (
    Check(
        "webhook-configuration",
        GROUP,
        "both webhook configurations exist",
        configurations,
        (*_SOURCES, "settings"),
    ),
    Check(
        "webhook-certificate",
        GROUP,
        "the API server trusts the certificate of the webhook",
        certificate,
        (*_SOURCES, "webhook-secret", "settings"),
    ),
    Check("webhook-failure-policy", GROUP, "no pod passes unchecked", failure_policy, _SOURCES),
    Check(
        "webhook-endpoints",
        GROUP,
        "the webhook has a ready endpoint",
        endpoints,
        (*_SOURCES, "services"),
        ("slices", "endpoints"),
    ),
    Check(
        "webhook-namespaces",
        GROUP,
        "no namespace with pods that request devices is left out",
        namespaces,
        (*_SOURCES, "namespaces", "pending"),
    ),
    Check(
        "webhook-opt-out",
        GROUP,
        "pods can't escape AcceleratorPolicies",
        opt_out,
        (*_SOURCES, "policies"),
    ),
)
