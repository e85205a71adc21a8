"""Manifests of the admission webhook: configurations, Service, and certificates of cert-manager, with comments.

The conditions select what Linkwise manages, and the API server evaluates them itself: no other object is sent, or waits
while Linkwise is down. They are written so that they can't fail: an error would count as a failed call.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from linkwise.config.rbac import webhook_rbac_yaml
from linkwise.config.settings import WebhookSettings
from linkwise.config.yaml_documents import yaml_with_comments
from linkwise.dialects.groups.conventions import KUEUE
from linkwise.dialects.groups.membership import KEYS
from linkwise.dialects.kubernetes.pod_templates import OPERATOR_JOBS, WORKLOAD_KINDS
from linkwise.dialects.nvidia import OPAQUE
from linkwise.dialects.registry import is_native, managed_resources, record_keys, record_patterns, resource_patterns
from linkwise.model.access_policy import CONTROLLERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from linkwise.dialects.kubernetes.pod_templates import Workload

__all__ = ["WebhookFile", "managed_condition", "webhook_configurations", "webhook_yaml"]

OPT_OUT: Final = "linkwise.dev/webhook"
IGNORE, ENABLED = "ignore", "enabled"
_DOMAIN: Final = "webhook.linkwise.dev"
_API: Final = "admissionregistration.k8s.io/v1"
_DEFAULTS: Final = WebhookSettings()
_OWN_KEYS: Final = "linkwise.dev/"
_MIRROR: Final = "kubernetes.io/config.mirror"
_DEFAULT: Final = ("", "default-scheduler")
_NAMES: Final = {"app.kubernetes.io/name": "linkwise"}


@dataclass(frozen=True, slots=True)
class WebhookFile:
    """Options of the manifests."""

    name: str = _DEFAULTS.configuration
    namespace: str = "linkwise-system"
    scheduler: str = _DEFAULTS.scheduler
    url: str = ""
    """where the API server calls the webhook; empty for the Service"""
    authority: str = ""
    """PEM certificates to trust; empty for those that the service writes itself"""
    opt_in: bool = False
    """whether only namespaces with a label are selected"""
    pod_opt_out: bool = False
    """whether the label that opts out works on pods, not only on namespaces"""
    cert_manager: bool = False
    hide_devices: bool = False
    """whether pods without devices are selected too, for webhook.hide_devices"""
    account: str = "linkwise"
    user: str = ""
    """whom the roles are bound to instead of the service account"""


def webhook_yaml(wanted: WebhookFile) -> str:
    """The manifests as YAML text."""
    texts = [] if wanted.url else [yaml_with_comments(_service(wanted), {})]
    if wanted.cert_manager:
        texts += [yaml_with_comments(document, notes) for document, notes in _certificates(wanted)]
    elif not wanted.authority:
        roles = webhook_rbac_yaml(
            namespace=wanted.namespace,
            account=wanted.account,
            secret=_DEFAULTS.secret,
            configuration=wanted.name,
            user=wanted.user,
        )
        texts.append(roles)
    texts += [yaml_with_comments(*_configuration(wanted, mutating=mutating)) for mutating in (True, False)]
    return "---\n".join(texts)


def managed_condition(pod: str = "object", scheduler: str = _DEFAULTS.scheduler) -> str:
    """A CEL expression that is true if a pod, or the pod template at this path, is managed by Linkwise."""
    default = f"{pod}.spec.schedulerName in {_list(dict.fromkeys([*_DEFAULT, scheduler]))}"
    groups = f"k in {_list(sorted(KEYS - {KUEUE}))}"
    records = " || ".join(
        [
            f"k.startsWith({_text(_OWN_KEYS)})",
            f"k in {_list(key for key in record_keys() if not key.startswith(_OWN_KEYS))}",
            *(f"k.matches({_text(f'^(?:{pattern})$')})" for pattern in record_patterns()),
        ]
    )
    grouped = f"({_keys(pod, 'labels', groups)}) || ({_keys(pod, 'annotations', groups)})"
    # Pods of Kueue without devices name no scheduler unless they are meant for ours.
    named = f"has({pod}.spec.schedulerName) && {pod}.spec.schedulerName == {_text(scheduler)}"
    kueue = f"({named} && {_keys(pod, 'labels', f'k == {_text(KUEUE)}')})"
    return " || ".join(
        [
            _requests(pod, f"r in {_list(_resources())} || {_parts('r')}"),
            f"({_keys(pod, 'annotations', records)})",
            f"((!has({pod}.spec.schedulerName) || {default}) && ({grouped}))",
            *([] if scheduler in _DEFAULT else [kueue]),
        ]
    )


def _misspelt_condition() -> str:
    """True for a pod with a resource in one of our domains that is not ours: its name may be misspelt."""
    domains = sorted({name.partition("/")[0] for name in _resources() if not is_native(name)})
    near = " || ".join(f"r.startsWith({_text(f'{domain}/')})" for domain in domains)
    known = " || ".join([f"r in {_list(_resources())}", *(f"r.startsWith({_text(stem)})" for stem in OPAQUE)])
    return _requests("object", f"({near}) && !({known} || {_parts('r')})")


def _requests(pod: str, matches: str) -> str:
    """True if a container or init container names a resource `r` that matches."""
    containers = f"({pod}.spec.containers + (has({pod}.spec.initContainers) ? {pod}.spec.initContainers : []))"
    named = " || ".join(
        f"(has(c.resources.{part}) && c.resources.{part}.exists(r, {matches}))" for part in ("limits", "requests")
    )
    return f"{containers}.exists(c, has(c.resources) && ({named}))"


def _keys(pod: str, part: str, matches: str) -> str:
    """True if a label or annotation `k` matches."""
    return f"has({pod}.metadata) && has({pod}.metadata.{part}) && {pod}.metadata.{part}.exists(k, {matches})"


def _resources() -> list[str]:
    return sorted(name for names in managed_resources().values() for name in names)


def _parts(variable: str) -> str:
    """True for parts of chips, which are too many to list."""
    return " || ".join(f"{variable}.matches({_text(f'^(?:{pattern})$')})" for pattern in resource_patterns())


def _text(text: str) -> str:
    """A CEL string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _list(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(_text, texts))}]"


def webhook_configurations(wanted: WebhookFile) -> list[dict[str, Any]]:
    """The mutating and the validating configuration, without comments."""
    return [_configuration(wanted, mutating=mutating)[0] for mutating in (True, False)]


def _configuration(wanted: WebhookFile, *, mutating: bool) -> tuple[dict[str, Any], dict[str, str]]:
    """A configuration, and the comments on its fields."""
    kind = "Mutating" if mutating else "Validating"
    webhooks = [_pods(wanted, mutating=mutating), *_workloads(wanted, mutating=mutating)]
    notes = {
        "webhooks[0].failurePolicy": (
            "Pods that Linkwise manages are refused while it is down, because nothing else would check and place them."
        ),
        "webhooks[0].matchConditions": "The API server evaluates these itself: pods that match none are never sent.",
        "webhooks[0].namespaceSelector": "Namespaces that must never wait for Linkwise.",
        "webhooks[0].clientConfig": _trust_note(wanted),
    }
    if mutating and wanted.hide_devices:
        notes[f"webhooks[{len(webhooks)}]"] = (
            "For webhook.hide_devices: every pod is sent, but none waits for Linkwise."
        )
        webhooks.append(_all_pods(wanted))
    if not mutating:
        notes[f"webhooks[{len(webhooks)}]"] = "Warnings only, for names that are almost those of managed resources."
        webhooks.append(_misspelt(wanted))
        notes[f"webhooks[{len(webhooks)}]"] = "Warnings only, on jobs whose pods an operator creates."
        webhooks.append(_operator_jobs(wanted))
    inject = {"cert-manager.io/inject-ca-from": f"{wanted.namespace}/{_DEFAULTS.secret}"}
    document = {
        "apiVersion": _API,
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {
            "name": wanted.name,
            "labels": _NAMES,
            **({"annotations": inject} if wanted.cert_manager else {}),
        },
        "webhooks": webhooks,
    }
    return document, notes


def _trust_note(wanted: WebhookFile) -> str:
    if wanted.cert_manager:
        return "cert-manager writes caBundle."
    return "" if wanted.authority else "The service writes caBundle, and repairs it."


def _pods(wanted: WebhookFile, *, mutating: bool) -> dict[str, Any]:
    conditions = {"mirror-pod": _NO_MIRROR, "managed": managed_condition(scheduler=wanted.scheduler)}
    return _webhook(wanted, _Entry("pods", conditions), mutating=mutating)


_NO_MIRROR: Final = f"!({_keys('object', 'annotations', f'k == {_text(_MIRROR)}')})"
"""static pods of a kubelet"""


def _workloads(wanted: WebhookFile, *, mutating: bool) -> list[dict[str, Any]]:
    """One webhook per place of the pod templates."""
    by_path: dict[tuple[str, ...], list[Workload]] = {}
    for workload in WORKLOAD_KINDS:
        by_path.setdefault(workload.path, []).append(workload)
    entries = []
    for path, workloads in by_path.items():
        name = "workloads" if len(workloads) > 1 else f"{workloads[0].group.partition('.')[0]}-{workloads[0].resource}"
        if "." in workloads[0].group:
            name = f"{workloads[0].group.split('.')[1]}-{workloads[0].resource}"
        rules: dict[tuple[str, str], list[str]] = {}
        for workload in workloads:
            rules.setdefault((workload.group, workload.version), []).append(workload.resource)
        conditions = {
            # Controllers copy templates that were reviewed when a user wrote them.
            "by-users": _BY_USERS,
            "changed": _changed_condition(path),
            "managed": _template_condition(path, wanted.scheduler),
        }
        each = [_rule(*about, resources, ["CREATE", "UPDATE"]) for about, resources in rules.items()]
        entries.append(_webhook(wanted, _Entry(name, conditions, tuple(each)), mutating=mutating))
    return entries


_BY_USERS: Final = f"!(request.userInfo.username in {_list(CONTROLLERS)})"


def _changed_condition(path: tuple[str, ...]) -> str:
    """True for a new object, and for a change of the templates: scaling and annotating never wait for Linkwise."""
    new, old = _field(path), _field(path, "oldObject")
    return f"oldObject == null || !has({old}) || !has({new}) || {new} != {old}"


def _field(path: tuple[str, ...], root: str = "object") -> str:
    """The template, or the list of parts with a template each."""
    steps: list[str] = []
    for step in path:
        steps.append(step.removesuffix("[]"))
        if step.endswith("[]"):
            break
    return ".".join([root, *steps])


def _template_condition(path: tuple[str, ...], scheduler: str) -> str:
    if not any(step.endswith("[]") for step in path):
        return managed_condition(_field(path), scheduler)
    outer = _field(path)
    inner = ".".join(["t", *path[[step.endswith("[]") for step in path].index(True) + 1 :]])
    managed = managed_condition(inner, scheduler)
    return f"has({outer}) && {outer}.exists(t, has({inner}) && has({inner}.spec) && ({managed}))"


def _all_pods(wanted: WebhookFile) -> dict[str, Any]:
    made = _webhook(wanted, _Entry("all-pods", {"mirror-pod": _NO_MIRROR}), mutating=True)
    return {**made, "failurePolicy": "Ignore", "timeoutSeconds": 1}


def _misspelt(wanted: WebhookFile) -> dict[str, Any]:
    made = _webhook(wanted, _Entry("names", {"misspelt": _misspelt_condition()}), mutating=False)
    return {**made, "failurePolicy": "Ignore", "timeoutSeconds": 1}


def _operator_jobs(wanted: WebhookFile) -> dict[str, Any]:
    """Without a condition on their templates, which are in other places for each kind: such jobs are rarely created."""
    rules: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for job in OPERATOR_JOBS:
        rules.setdefault((job.group, job.versions), []).append(job.resource)
    each = tuple(
        {**_rule(group, "", resources, ["CREATE"]), "apiVersions": list(versions)}
        for (group, versions), resources in rules.items()
    )
    made = _webhook(wanted, _Entry("operator-jobs", {"by-users": _BY_USERS}, each), mutating=False)
    return {**made, "failurePolicy": "Ignore", "timeoutSeconds": 1}


def _rule(group: str, version: str, resources: Sequence[str], operations: Sequence[str]) -> dict[str, Any]:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": list(resources),
        "operations": list(operations),
        "scope": "Namespaced",
    }


@dataclass(frozen=True, slots=True)
class _Entry:
    """A webhook of a configuration."""

    name: str
    conditions: Mapping[str, str]
    workloads: tuple[dict[str, Any], ...] = ()
    """rules; empty for new pods"""


def _webhook(wanted: WebhookFile, entry: _Entry, *, mutating: bool) -> dict[str, Any]:
    path = "mutate" if mutating else "validate"
    skipped = {"key": OPT_OUT, "operator": "NotIn", "values": [IGNORE]}
    return {
        "name": f"{entry.name}.{_DOMAIN}",
        "clientConfig": _client(wanted, path),
        "rules": list(entry.workloads) or [_rule("", "v1", ["pods"], ["CREATE"])],
        "matchConditions": [{"name": key, "expression": text} for key, text in entry.conditions.items()],
        "matchPolicy": "Equivalent",
        "namespaceSelector": {"matchExpressions": _namespaces(wanted)},
        # Not for workloads: with the label, a user could put another user's name into the template of its pods.
        **({"objectSelector": {"matchExpressions": [skipped]}} if wanted.pod_opt_out and not entry.workloads else {}),
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "admissionReviewVersions": ["v1"],
        **({"reinvocationPolicy": "IfNeeded"} if mutating else {}),
    }


def _client(wanted: WebhookFile, path: str) -> dict[str, Any]:
    bundle = {"caBundle": base64.b64encode(wanted.authority.encode()).decode()} if wanted.authority else {}
    if wanted.url:
        return {"url": f"{wanted.url.rstrip('/')}/{path}", **bundle}
    service = {"name": _DEFAULTS.service, "namespace": wanted.namespace, "path": f"/{path}", "port": 443}
    return {"service": service, **bundle}


def _namespaces(wanted: WebhookFile) -> list[dict[str, Any]]:
    excluded = list(dict.fromkeys(["kube-system", wanted.namespace]))
    by_name = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": excluded}
    label = ("In", ENABLED) if wanted.opt_in else ("NotIn", IGNORE)
    return [by_name, {"key": OPT_OUT, "operator": label[0], "values": [label[1]]}]


def _service(wanted: WebhookFile) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": _DEFAULTS.service, "namespace": wanted.namespace, "labels": _NAMES},
        "spec": {
            "selector": _NAMES,
            # The webhook answers before the initial lists are complete, which a pod is not ready without.
            "publishNotReadyAddresses": True,
            "ports": [{"name": "webhook", "port": 443, "targetPort": _DEFAULTS.port}],
        },
    }


def _certificates(wanted: WebhookFile) -> list[tuple[dict[str, Any], dict[str, str]]]:
    """An authority of cert-manager's own for the webhook."""
    meta = {"name": _DEFAULTS.secret, "namespace": wanted.namespace, "labels": _NAMES}
    service = f"{_DEFAULTS.service}.{wanted.namespace}.svc"
    issuer = {"apiVersion": "cert-manager.io/v1", "kind": "Issuer", "metadata": meta, "spec": {"selfSigned": {}}}
    certificate = {
        "apiVersion": "cert-manager.io/v1",
        "kind": "Certificate",
        "metadata": meta,
        "spec": {
            "secretName": f"{_DEFAULTS.secret}-cert",
            "dnsNames": [service, f"{service}.cluster.local"],
            "issuerRef": {"name": _DEFAULTS.secret, "kind": "Issuer"},
        },
    }
    note = "Mount this Secret into the service; set webhook.cert_file and webhook.key_file to its tls.crt and tls.key."
    return [(issuer, {}), (certificate, {"spec.secretName": note})]
