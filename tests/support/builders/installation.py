"""Installation of Linkwise as the facts of `linkwise doctor`: everything is well, until a test changes something."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import yaml

from linkwise.config.protection import POLICIES
from linkwise.config.scheduler_config import SchedulerFile, scheduler_yaml
from linkwise.config.scheduler_file import read_scheduler_text
from linkwise.config.settings import ServeSettings, WebhookSettings
from linkwise.config.webhook_manifests import WebhookFile, webhook_configurations
from linkwise.doctor.examine import CHECKS, examine
from linkwise.doctor.facts import CertificateFacts, Facts, ServiceAnswer
from linkwise.doctor.permissions import needed, of_users

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.config.scheduler_file import SchedulerDocument
    from linkwise.doctor.facts import Finding

__all__ = [
    "GROUPS",
    "NOW",
    "Raw",
    "at",
    "configuration",
    "found",
    "installation",
    "inventory",
    "meta",
    "node",
    "pending",
    "problems",
    "with_items",
]

Raw = dict[str, Any]

NOW: Final = 1_800_000_000.0
SYSTEM: Final = "linkwise-system"
DAY: Final = 86_400.0
GROUPS: Final = frozenset(
    {
        "coordination.k8s.io",
        "discovery.k8s.io",
        "",
        "linkwise.dev",
        "policy",
        "resource.k8s.io",
        "authentication.k8s.io",
        "events.k8s.io",
    }
)


def at(seconds: float) -> str:
    """The time that many seconds from now, as Kubernetes writes it."""
    return datetime.fromtimestamp(NOW + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def meta(name: str, namespace: str = "", **labels: str) -> Raw:
    """Metadata with labels of the chart."""
    own = {f"app.kubernetes.io/{key}": value for key, value in labels.items()}
    return {
        "name": name,
        "creationTimestamp": at(-DAY),
        **({"namespace": namespace} if namespace else {}),
        "labels": own,
    }


def node(name: str, resources: Mapping[str, str] | None = None, **labels: str) -> Raw:
    """A node that is ready."""
    amounts = dict(resources or {"nvidia.com/gpu": "8"})
    return {
        "metadata": {"name": name, "labels": dict(labels)},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def inventory(name: str, mode: str = "whole", *, enforced: bool = True, memory: int = 32, **spec: Any) -> Raw:  # noqa: ANN401 - any field
    """The inventory of a node with one device, as its agent publishes it."""
    device = {"uuid": f"GPU-{name}", "index": 0, "model": "Tesla V100", "memory": memory, "healthy": True}
    kubelet = {"topologyManagerPolicy": "none", "cpuManagerPolicy": "none"}
    return {
        "metadata": {"name": name},
        "spec": {"mode": mode, "enforced": enforced, "devices": [device], "kubelet": kubelet, **spec},
        "status": {
            "agentVersion": "1.0",
            "usage": {"time": at(-30)},
            "conditions": [
                {"type": "DevicesDiscovered", "status": "True"},
                {"type": "InventoryComplete", "status": "True"},
                {"type": "PluginRegistered", "status": "True", "reason": "Registered"},
            ],
        },
    }


def pending(name: str, scheduler: str = "linkwise-scheduler", *, age: float = 600.0, **status: Any) -> Raw:  # noqa: ANN401 - any field
    """A pending pod that requests a GPU, and that its scheduler has tried."""
    tried = {"conditions": [{"type": "PodScheduled", "status": "False"}]}
    return {
        "metadata": {"name": name, "namespace": "default", "creationTimestamp": at(-age)},
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        },
        "status": {"phase": "Pending", **tried, **status},
    }


def configuration(changes: Mapping[str, Any] | None = None, **extender: Any) -> SchedulerDocument:  # noqa: ANN401 - any field
    """The configuration of a scheduler as it is generated, with TLS; None removes a field."""
    document = yaml.safe_load(scheduler_yaml(SchedulerFile(url=f"https://linkwise.{SYSTEM}.svc:39999")))
    files = {"caFile": "/tls/ca.crt", "certFile": "/tls/tls.crt", "keyFile": "/tls/tls.key"}
    (entry,) = document["extenders"]
    entry |= {"enableHTTPS": True, "tlsConfig": files} | extender
    document["extenders"] = [{key: value for key, value in entry.items() if value is not None}]
    document = {key: value for key, value in (document | dict(changes or {})).items() if value is not None}
    made = read_scheduler_text(yaml.safe_dump(document).encode(), "configmap/linkwise-scheduler[scheduler.yaml]")
    assert made is not None
    return made


def installation(**changes: Any) -> Facts:  # noqa: ANN401 - fields of Facts
    """An installation of the chart with one node, in which nothing is wrong."""
    settings = ServeSettings(webhook=WebhookSettings(enabled=True))
    bundle = {"caBundle": "Y2VydGlmaWNhdGU="}
    hooks = webhook_configurations(WebhookFile(namespace=SYSTEM))
    for each in hooks:
        for hook in each["webhooks"]:
            hook["clientConfig"] |= bundle
    allowed = {each: True for need in needed(settings, SYSTEM, GROUPS) for each in need.permissions}
    allowed[of_users(settings, SYSTEM)] = True
    labelled = {"kubernetes.io/service-name": "linkwise"}
    service = {"metadata": meta("linkwise-0", SYSTEM, component="service"), "status": {"podIP": "10.0.0.7"}}
    agent = {
        "metadata": meta("linkwise-agent-x", SYSTEM, component="agent"),
        "spec": {"nodeName": "gpu-1"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    lists: dict[str, tuple[Raw, ...]] = {
        "nodes": (node("gpu-1"),),
        "inventories": (inventory("gpu-1"),),
        "own-pods": (service, agent),
        "services": (
            {"metadata": meta("linkwise", SYSTEM), "spec": {"ports": [{"name": "https"}, {"name": "tenants"}]}},
            {"metadata": meta("linkwise-webhook", SYSTEM)},
        ),
        "slices": (
            {"metadata": {"name": "linkwise-leader", "labels": labelled}, "endpoints": [{"addresses": ["10.0.0.7"]}]},
            {
                "metadata": {"name": "w", "labels": {"kubernetes.io/service-name": "linkwise-webhook"}},
                "endpoints": [{"addresses": ["10.0.0.7"], "conditions": {"ready": True}}],
            },
        ),
        "leases": ({"metadata": meta("linkwise"), "spec": _lease("linkwise-0_ab12", -2)},),
        "node-leases": ({"metadata": {"name": "gpu-1"}, "spec": _lease("gpu-1", -3, 40)},),
        "deployments": tuple(_deployment(name) for name in ("linkwise", "linkwise-scheduler")),
        "accounts": tuple({"metadata": meta(f"linkwise{end}", SYSTEM)} for end in ("", "-agent", "-scheduler")),
        "mutating": (hooks[0],),
        "validating": (hooks[1],),
        "webhook-secret": ({"metadata": meta("linkwise-webhook", SYSTEM)},),
        "namespaces": ({"metadata": meta("default")},),
        "crds": (_crd("deviceinventories.linkwise.dev"), _crd("acceleratorpolicies.linkwise.dev")),
        "pending": (pending("waits"),),
        "protection": tuple({"metadata": meta(f"linkwise-{kind}")} for kind in POLICIES),
        "protection-bindings": tuple(
            {
                "metadata": meta(f"linkwise-{kind}"),
                "spec": {"policyName": f"linkwise-{kind}", "validationActions": ["Deny"]},
            }
            for kind in POLICIES
        ),
        "policies": ({"metadata": meta("fair-share")},),
    }
    facts = Facts(
        now=NOW,
        server_time=NOW,
        lists=lists,
        settings=settings,
        settings_place="configmap/linkwise[config.yaml]",
        schedulers=(configuration(),),
        service=ServiceAnswer(ready=True),
        metrics={
            'linkwise_build_info{version="1.0"}': 1.0,
            'linkwise_last_call_timestamp_seconds{verb="filter"}': NOW - 5,
        },
        allowed=allowed,
        groups=GROUPS,
        certificates={
            "bundle": (CertificateFacts(NOW - DAY, NOW + 3650 * DAY),),
            "serving": (CertificateFacts(NOW - DAY, NOW + 89 * DAY),),
        },
        trusted=True,
        schemas=(_crd("deviceinventories.linkwise.dev"), _crd("acceleratorpolicies.linkwise.dev")),
    )
    return replace(facts, **changes)


def with_items(facts: Facts, source: str, *items: Raw) -> Facts:
    """The facts with other objects of one source."""
    return replace(facts, lists={**facts.lists, source: items})


def found(facts: Facts, check: str) -> list[Finding]:
    """The findings of one check."""
    return examine(facts, {check})


def problems(facts: Facts) -> set[str]:
    """Ids of all checks that found something wrong."""
    every = examine(facts, {each.id for each in CHECKS})
    return {each.check for each in every if each.severity in {"error", "warning"}}


def _lease(holder: str, renewed: float, duration: int = 15) -> Raw:
    return {"holderIdentity": holder, "renewTime": at(renewed), "leaseDurationSeconds": duration}


def _deployment(name: str) -> Raw:
    pods = {"metadata": {"labels": {"app.kubernetes.io/component": name}}}
    return {"metadata": meta(name), "spec": {"replicas": 1, "template": pods}, "status": {"readyReplicas": 1}}


def _crd(name: str) -> Raw:
    fields: Raw = {"spec": {"properties": {"mode": {}}}, "status": {"properties": {"agentVersion": {}}}}
    version = {"name": "v1alpha1", "schema": {"openAPIV3Schema": {"type": "object", "properties": fields}}}
    return {
        "metadata": {"name": name},
        "spec": {"versions": [version]},
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    }
