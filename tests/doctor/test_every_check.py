"""Every check is broken on purpose: its id is found, and no other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from linkwise.config.settings import ServeSettings, TlsSettings, WebhookSettings
from linkwise.config.webhook_manifests import WebhookFile, webhook_configurations
from linkwise.doctor.examine import CHECKS, examine
from linkwise.doctor.facts import CertificateFacts, Connected, ServiceAnswer
from linkwise.doctor.permissions import PARTS, SOURCES
from support.builders.installation import (
    NOW,
    SYSTEM,
    at,
    configuration,
    found,
    installation,
    inventory,
    meta,
    node,
    pending,
    problems,
    with_items,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.doctor.facts import Facts

    Break = Callable[[], Facts]


def scheduled(changes: dict[str, Any] | None = None, **extender: Any) -> Facts:  # noqa: ANN401 - any field
    return installation(schedulers=(configuration(changes, **extender),))


def using(source: str, *items: dict[str, Any]) -> Facts:
    return with_items(installation(), source, *items)


def without_right(account: str, verb: str, resource: str) -> Facts:
    facts = installation()
    lost = {
        each: (each.account, each.verb, each.resource) != (account, verb, resource) and allowed
        for each, allowed in facts.allowed.items()
    }
    assert not all(lost.values())
    return replace(facts, allowed=lost)


def local_policy() -> Facts:
    url = "http://127.0.0.1:32766/gpushare-scheduler"
    document = configuration(urlPrefix=url, enableHTTPS=None, tlsConfig=None)
    tried = Connected("Connection refused", ("10.0.0.5:32766",))
    return installation(schedulers=(replace(document, local=True),), connections={url: tried})


def unexpected(kind: str, reason: str = "", message: str = "why") -> dict[str, Any]:
    made = inventory("gpu-1")
    made["status"]["conditions"] = [{"type": kind, "status": "False", "reason": reason, "message": message}]
    return made


def serving_tls(**extender: Any) -> Facts:  # noqa: ANN401 - fields of the extender
    facts = scheduled(**extender)
    return replace(facts, settings=replace(facts.settings, tls=TlsSettings(enabled=True)))


def two_replicas() -> Facts:
    facts = installation()
    settings = replace(facts.settings, leader=replace(facts.settings.leader, enabled=False))
    service, scheduler = facts.items("deployments")
    two = {**service, "spec": {**service["spec"], "replicas": 2}, "status": {"readyReplicas": 2}}  # type: ignore[dict-item]
    return replace(with_items(facts, "deployments", two, dict(scheduler)), settings=settings)


def ignoring() -> Facts:
    facts = installation()
    (mutating,) = facts.items("mutating")
    hooks = [{**hook, "failurePolicy": "Ignore"} for hook in mutating["webhooks"]]  # type: ignore[attr-defined]
    return with_items(facts, "mutating", {**mutating, "webhooks": hooks})


def foreign_plugin() -> Facts:
    owner = {"ownerReferences": [{"name": "nvidia-device-plugin-daemonset"}]}
    plugin = {"metadata": meta("nvidia-device-plugin-daemonset", "kube-system")}
    pod = {"metadata": {"name": "p", "namespace": "kube-system", **owner}, "spec": {"nodeName": "gpu-1"}}
    return with_items(using("daemon-sets", plugin), "foreign-pods", pod)


def shared(policy: str) -> Facts:
    kubelet = {"cpuManagerPolicy": policy}
    facts = using("inventories", inventory("gpu-1", "share", enforced=False, kubelet=kubelet))
    return with_items(facts, "nodes", node("gpu-1", {"aliyun.com/gpu-mem": "32"}))


def excluded() -> Facts:
    return using("namespaces", {"metadata": {"name": "default", "labels": {"linkwise.dev/webhook": "ignore"}}})


def opting_out() -> Facts:
    hooks = webhook_configurations(WebhookFile(namespace="linkwise-system", pod_opt_out=True))
    facts = installation()
    for kind, each in zip(("mutating", "validating"), hooks, strict=True):
        for hook in each["webhooks"]:
            hook["clientConfig"]["caBundle"] = "Y2VydGlmaWNhdGU="
        facts = with_items(facts, kind, each)
    return facts


def failing(message: str, seconds: float = 90.0) -> dict[str, Any]:
    tried = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": message}
    return pending("waits", conditions=[{**tried, "lastTransitionTime": at(-seconds)}])


def old_event() -> dict[str, Any]:
    text = 'failed to "filter" with extender at URL https://linkwise.linkwise-system.svc:39999/filter, code 502'
    return {
        "metadata": {"namespace": "default"},
        "involvedObject": {"name": "p"},
        "message": text,
        "lastTimestamp": at(-9),
    }


def fake_device() -> dict[str, Any]:
    waiting = {"waiting": {"message": "nvidia-container-cli: device error: no-gpu-has-1GiB-to-run: unknown device"}}
    made = pending("binpack-1", containerStatuses=[{"state": waiting}])
    return {**made, "spec": {**made["spec"], "nodeName": "gpu-1"}}


BREAKS: dict[str, tuple[Break, ...]] = {
    "crd-installed": (
        lambda: using("crds", dict(installation().items("crds")[0])),
        lambda: using(
            "crds", *({**each, "status": {"conditions": []}} for each in map(dict, installation().items("crds")))
        ),
    ),
    "crd-schema": (
        lambda: using("crds", *({**dict(each), "spec": {"versions": []}} for each in installation().items("crds"))),
    ),
    "settings-valid": (lambda: installation(settings_problems=("config.yaml:3:1: leeder: unknown setting",)),),
    "replicas-ready": (
        lambda: using("deployments", {"metadata": meta("linkwise"), "spec": {"replicas": 1}, "status": {}}),
        lambda: using("deployments", {"metadata": meta("linkwise"), "spec": {"replicas": 0}, "status": {}}),
    ),
    "replicas-leader": (two_replicas,),
    "replicas-budget": (
        lambda: using(
            "budgets",
            {
                "metadata": meta("linkwise"),
                "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app.kubernetes.io/component": "linkwise"}}},
            },
        ),
    ),
    "rbac-service": (
        lambda: without_right("linkwise", "create", "pods/binding"),
        lambda: without_right("linkwise", "patch", "events"),
        lambda: without_right("linkwise", "update", "secrets"),
    ),
    "rbac-agent": (lambda: without_right("linkwise-agent", "patch", "deviceinventories/status"),),
    "rbac-scheduler": (lambda: without_right("linkwise-scheduler", "create", "pods/binding"),),
    "records-protected": (
        lambda: using("protection"),
        lambda: using("protection", *map(dict, installation().items("protection")[1:])),
        lambda: using("protection-bindings"),
        lambda: using(
            "protection-bindings",
            *(
                {**each, "spec": {**each["spec"], "validationActions": ["Warn", "Audit"]}}  # type: ignore[dict-item]
                for each in installation().items("protection-bindings")
            ),
        ),
    ),
    "rbac-tenants": (
        lambda: without_right("system:authenticated", "get", "services/proxy"),
        lambda: using("services", {"metadata": meta("linkwise", SYSTEM)}, dict(installation().items("services")[1])),
    ),
    "extender-service": (
        lambda: using("services", {"metadata": meta("linkwise-webhook")}),
        lambda: using("slices", dict(installation().items("slices")[1])),
    ),
    "extender-leader": (
        lambda: using("leases", {"metadata": meta("linkwise"), "spec": {"holderIdentity": "x", "renewTime": at(-99)}}),
        lambda: using(
            "own-pods",
            {"metadata": meta("linkwise-0", component="service"), "status": {"podIP": "10.0.0.8"}},
            dict(installation().items("own-pods")[1]),
        ),
    ),
    "extender-ready": (lambda: installation(service=ServiceAnswer(waits=("pods: not listed yet",))),),
    "extender-notes": (lambda: installation(service=ServiceAnswer(ready=True, notes=("may not list pods",))),),
    "extender-events": (lambda: using("events", old_event()),),
    "extender-called": (lambda: installation(metrics={'linkwise_build_info{version="1.0"}': 1.0}),),
    "extender-certificate": (
        lambda: secured(-90, -1),
        lambda: secured(-90, 1),
        lambda: using("tls-secrets", {"metadata": meta("linkwise-tls")}),
    ),
    "extender-port": (local_policy,),
    "records-agree": (lambda: installation(metrics={**installation().metrics, 'linkwise_drift{kind="double"}': 2.0}),),
    "scheduler-config": (
        lambda: scheduled({"extenders": []}),
        lambda: installation(schedulers=(replace(configuration(), kind="Policy"),)),
        lambda: using(
            "kube-schedulers",
            {
                "metadata": meta("s"),
                "spec": {"containers": [{"command": ["kube-scheduler", "--policy-config-file=/x"]}]},
            },
        ),
    ),
    "scheduler-sampling": (
        lambda: scheduled({"percentageOfNodesToScore": 50}),
        lambda: scheduled({"percentageOfNodesToScore": None}),
    ),
    "scheduler-weight": (lambda: scheduled(weight=1), lambda: scheduled(weight=None)),
    "scheduler-verbs": (lambda: scheduled(bindVerb=None), lambda: scheduled(preemptVerb=None)),
    "scheduler-resources": (
        lambda: scheduled(managedResources=None),
        lambda: scheduled(managedResources=[{"name": "nvidia.com/gpu"}]),
        lambda: scheduled(managedResources=[{"name": each.name, "ignoredByScheduler": True} for each in resources()]),
        lambda: scheduled(managedResources=[{"name": each.name} for each in (*resources(), resources()[0])]),
    ),
    "scheduler-node-names": (lambda: scheduled(nodeCacheCapable=False),),
    "scheduler-ignorable": (lambda: scheduled(ignorable=True),),
    "scheduler-timeout": (lambda: scheduled(httpTimeout="3s"), lambda: scheduled(httpTimeout="4000ms")),
    "scheduler-tls": (
        lambda: scheduled(urlPrefix="http://linkwise.linkwise-system.svc:39999"),
        lambda: scheduled(tlsConfig={"certFile": "c", "keyFile": "k"}),
        lambda: scheduled(tlsConfig={"certFile": "c", "keyFile": "k", "caFile": "a", "insecure": True}),
        lambda: serving_tls(urlPrefix="http://127.0.0.1:39999"),
        lambda: serving_tls(tlsConfig={"caFile": "a"}),
    ),
    "webhook-configuration": (
        lambda: using("validating"),
        lambda: installation(settings=ServeSettings(webhook=WebhookSettings(enabled=False))),
    ),
    "webhook-certificate": (
        lambda: installation(trusted=False),
        lambda: certified("bundle", -9, -1),
        lambda: certified("serving", -9, -1),
        lambda: certified("serving", -100, 1),
    ),
    "webhook-failure-policy": (ignoring,),
    "webhook-endpoints": (lambda: using("slices", dict(installation().items("slices")[0])),),
    "webhook-namespaces": (excluded,),
    "webhook-opt-out": (opting_out,),
    "agent-missing": (
        lambda: using("nodes", node("gpu-1"), node("gpu-2")),
        lambda: using("nodes", node("gpu-1"), labelled("nvidia.com/gpu.present", "true")),
    ),
    "agent-ready": (
        lambda: using(
            "own-pods",
            dict(installation().items("own-pods")[0]),
            {"metadata": meta("linkwise-agent-x", component="agent"), "spec": {"nodeName": "gpu-1"}, "status": {}},
        ),
    ),
    "agent-stale": (lambda: aged(-3600),),
    "agent-conditions": (
        lambda: using("inventories", unexpected("InventoryComplete")),
        lambda: using("inventories", unexpected("PluginRegistered", "RegistrationFailed")),
    ),
    "agent-version": (lambda: versioned("0.9"),),
    "kubelet-cpu-manager": (lambda: shared("static"),),
    "model-unsupported": (
        lambda: using("inventories", inventory("gpu-1", "share", memory=0)),
        lambda: using("nodes", node("gpu-1"), labelled("accelerator-type", "module-2099")),
    ),
    "gpushare-allocation": (lambda: using("pending", fake_device()),),
    "foreign-plugin": (
        foreign_plugin,
        lambda: using("inventories", unexpected("PluginRegistered", "ServedByAnotherPlugin")),
    ),
    "foreign-dra": (lambda: using("device-slices", {"spec": {"driver": "gpu.nvidia.com", "nodeName": "gpu-1"}}),),
    "foreign-scheduler": (
        lambda: using("foreign-schedulers", {"metadata": meta("gpushare-schd-extender", "kube-system")}),
        lambda: using("foreign-schedulers", {"metadata": meta("hami-scheduler", "kube-system")}),
    ),
    "clock-local": (lambda: installation(now=NOW + 60, read_at={"leases": NOW, "node-leases": NOW + 60}),),
    "clock-nodes": (lambda: using("node-leases", {"metadata": {"name": "gpu-1"}, "spec": {"renewTime": at(60)}}),),
    "pods-untried": (lambda: using("pending", pending("waits", conditions=[])),),
    "pods-failing": (lambda: using("pending", failing("this replica of Linkwise is not the leader")),),
}


def resources() -> Any:  # noqa: ANN401 - managed resources of the extender
    extender = configuration().ours
    assert extender is not None
    return extender.managed


def labelled(label: str, value: str) -> dict[str, Any]:
    """A node without devices by its resources, but with a label."""
    made = node("gpu-2", {"cpu": "1"})
    return {**made, "metadata": {"name": "gpu-2", "labels": {label: value}}}


def versioned(version: str) -> Facts:
    made = inventory("gpu-1")
    made["status"]["agentVersion"] = version
    return using("inventories", made)


def certified(place: str, begins: float, ends: float) -> Facts:
    certificate = CertificateFacts(NOW + begins * 86_400, NOW + ends * 86_400)
    return installation(certificates={**installation().certificates, place: (certificate,)})


def secured(begins: float, ends: float) -> Facts:
    facts = certified("secret/linkwise-scheduler-tls", begins, ends)
    return with_items(facts, "tls-secrets", {"metadata": meta("linkwise-scheduler-tls")})


def aged(seconds: float) -> Facts:
    made = inventory("gpu-1")
    made["status"]["usage"]["time"] = at(seconds)
    return using("inventories", made)


def test_nothing_is_wrong_with_an_installation_as_it_should_be() -> None:
    every = examine(installation(), {each.id for each in CHECKS})
    assert [each for each in every if each.severity in {"error", "warning"}] == []
    assert {each.check for each in every} == {each.id for each in CHECKS}


def test_every_check_is_broken_by_a_test() -> None:
    assert list(BREAKS) == [each.id for each in CHECKS]


@pytest.mark.parametrize(("check", "broken"), [(check, broken) for check, each in BREAKS.items() for broken in each])
def test_what_is_broken_is_named_and_nothing_else(check: str, broken: Break) -> None:
    assert problems(broken()) == {check}
    for finding in found(broken(), check):
        if finding.severity in {"error", "warning"}:
            assert finding.found
            assert finding.remedy
            assert finding.page == f"docs/reference/doctor.md#{check}"


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_what_can_not_be_read_is_skipped_with_the_reason_and_never_passes(check: Any) -> None:  # noqa: ANN401 - a Check
    for source in check.needs:
        facts = installation(unread={source: f"may not list {source}: grant the verb list"})
        (finding,) = found(facts, check.id)
        assert finding.severity == "skipped"
        assert "grant the verb list" in finding.found


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_every_source_of_a_check_is_one_that_is_read(check: Any) -> None:  # noqa: ANN401 - a Check
    assert {*check.needs, *check.uses} <= {*SOURCES, *PARTS}
