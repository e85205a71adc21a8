"""Cluster with an installation of Linkwise that `linkwise doctor` examines, and everything that can be broken in it.

The embedded and the real API server have the same table: each entry breaks one thing, and mends it at the end.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import yaml
from click.testing import CliRunner

from linkwise.assembly.doctor import Examination, gather
from linkwise.cli.program import main
from linkwise.config.rbac import agent_rbac_yaml
from linkwise.config.scheduler_config import SchedulerFile, scheduler_yaml
from linkwise.doctor.examine import CHECKS, examine
from linkwise.kube.client.api import connect
from support.e2e.api_client import ApiError, marked, path_of
from support.e2e.pod_objects import pod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from click.testing import Result

    from support.e2e.api_client import Api, Raw

    Breakage = Callable[["Patient"], AbstractContextManager[None]]

__all__ = ["BREAKAGES", "SYSTEM", "Patient", "changed", "created", "policy_file", "rewritten"]

SYSTEM: Final = "linkwise-system"
SCHEDULER: Final = "linkwise-e2e-scheduler"
"""name of a profile that no scheduler has"""
CONFIG_MAP: Final = f"/api/v1/namespaces/{SYSTEM}/configmaps/linkwise-scheduler"
INVENTORIES: Final = "/apis/linkwise.dev/v1alpha1/deviceinventories"
CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ROLES: Final = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
TENANTS_ROLE: Final = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{SYSTEM}/roles/linkwise-tenants"
LATER: Final = 7200.0  # seconds


@dataclass(frozen=True)
class Patient:
    """An installation."""

    api: Api
    kubeconfig: Path
    url: str
    """of the service"""
    node: str
    """a node of whole devices, which an agent serves"""
    shared: str
    """a node that shares its devices"""

    def install(self) -> None:
        """Add what the chart installs beside the service and its webhook."""
        settings: Raw = {"webhook": {"enabled": True}}
        text = scheduler_yaml(SchedulerFile(name=SCHEDULER, url=self.url))
        things = [
            _config_map("linkwise", {"config.yaml": yaml.safe_dump(settings)}),
            _config_map("linkwise-scheduler", {"scheduler.yaml": text}),
            *yaml.safe_load_all(agent_rbac_yaml(namespace=SYSTEM)),
        ]
        for thing in things:
            self.api.create(marked(thing))

    def ask(self, *words: str) -> Result:
        """What the command prints."""
        return CliRunner().invoke(
            main, ["doctor", "--kubeconfig", str(self.kubeconfig), *words], catch_exceptions=False
        )

    def problems(self, *words: str) -> dict[str, Raw]:
        """Findings that are wrong, by check, from the JSON that the command prints."""
        answer = self.ask("-o", "json", *words)
        items = json.loads(answer.stdout)["items"]
        return {each["check"]: each for each in items if each["severity"] in {"error", "warning"}}

    def problems_later(self) -> set[str]:
        """Checks that find something wrong two hours from now, if nothing changes until then."""

        async def read() -> set[str]:
            connection = connect(self.kubeconfig, environ={})
            try:
                facts = await gather(connection, Examination())
            finally:
                await connection.close()
            later = replace(
                facts,
                now=facts.now + LATER,
                server_time=None if facts.server_time is None else facts.server_time + LATER,
                read_at={"leases": facts.now, "node-leases": facts.now, "inventories": facts.now},
            )
            found = examine(later, {each.id for each in CHECKS})
            return {each.check for each in found if each.severity in {"error", "warning"}}

        return asyncio.run(read())


def _config_map(name: str, data: Mapping[str, str]) -> Raw:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": SYSTEM},
        "data": dict(data),
    }


# ways to break something


@contextmanager
def created(api: Api, thing: Mapping[str, Any], status: Mapping[str, Any] | None = None) -> Iterator[None]:
    """An object that is there for a while."""
    api.create(marked(thing))
    try:
        if status is not None:
            api.patch(f"{path_of(thing)}/status", {"status": dict(status)})
        yield
    finally:
        api.delete(path_of(thing))


@contextmanager
def changed(api: Api, path: str, change: Mapping[str, Any], part: str = "") -> Iterator[None]:
    """An object that is changed for a while; `part` is a subresource."""
    before = api.get(path)
    api.patch(f"{path}{part}", change)
    try:
        yield
    finally:
        now = api.get(path)
        meta = {**before["metadata"], "resourceVersion": now["metadata"]["resourceVersion"]}
        api.call("PUT", f"{path}{part}", {**before, "metadata": meta})


@contextmanager
def removed(api: Api, path: str) -> Iterator[None]:
    """An object that is gone for a while."""
    before = api.get(path)
    api.delete(path)
    try:
        yield
    finally:
        kept = {key: before["metadata"][key] for key in ("name", "namespace", "labels") if key in before["metadata"]}
        again(api, {**before, "metadata": kept})


def again(api: Api, thing: Mapping[str, Any]) -> None:
    """Make an object, as soon as the one before it is gone."""
    try:
        api.create(thing)
    except ApiError as error:
        if error.status != 409:
            raise


def rewritten(change: Callable[[Raw], None]) -> Breakage:
    """The configuration of the scheduler with a change."""

    def broken(patient: Patient) -> AbstractContextManager[None]:
        document = yaml.safe_load(patient.api.get(CONFIG_MAP)["data"]["scheduler.yaml"])
        change(document)
        return changed(patient.api, CONFIG_MAP, {"data": {"scheduler.yaml": yaml.safe_dump(document)}})

    return broken


def _extender(**fields: Any) -> Breakage:  # noqa: ANN401 - any field
    return rewritten(lambda document: document["extenders"][0].update(fields))


def _text(text: str) -> Breakage:
    return lambda patient: changed(patient.api, CONFIG_MAP, {"data": {"scheduler.yaml": text}})


def _inventory(node: Callable[[Patient], str], change: Mapping[str, Any], part: str = "") -> Breakage:
    return lambda patient: changed(patient.api, f"{INVENTORIES}/{node(patient)}", change, part)


def _condition(kind: str, reason: str) -> Breakage:
    condition = {
        "type": kind,
        "status": "False",
        "reason": reason,
        "message": "broken on purpose",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return _inventory(lambda patient: patient.node, {"status": {"conditions": [condition]}}, "/status")


def _without_verb(role: str, resource: str, verb: str) -> Breakage:
    def broken(patient: Patient) -> AbstractContextManager[None]:
        rules = patient.api.get(f"{ROLES}/{role}")["rules"]
        for rule in rules:
            if resource in rule["resources"]:
                rule["verbs"] = [each for each in rule["verbs"] if each != verb]
        return changed(patient.api, f"{ROLES}/{role}", {"rules": [rule for rule in rules if rule["verbs"]]})

    return broken


def _without_memory(patient: Patient) -> AbstractContextManager[None]:
    path = f"{INVENTORIES}/{patient.shared}"
    devices = [{**each, "memory": 0} for each in patient.api.get(path)["spec"]["devices"]]
    return changed(patient.api, path, {"spec": {"devices": devices}})


def _older_schema(patient: Patient) -> AbstractContextManager[None]:
    path = f"{CRDS}/acceleratorpolicies.linkwise.dev"
    versions = patient.api.get(path)["spec"]["versions"]
    versions[0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"].pop("pods")
    return changed(patient.api, path, {"spec": {"versions": versions}})


def _ignored_failures(patient: Patient) -> AbstractContextManager[None]:
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/linkwise"
    hooks = [{**hook, "failurePolicy": "Ignore"} for hook in patient.api.get(path)["webhooks"]]
    return changed(patient.api, path, {"webhooks": hooks})


def _deployment(name: str, namespace: str, replicas: int) -> Raw:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod("", "", scheduler="another-scheduler")["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


@contextmanager
def _budget(patient: Patient) -> Iterator[None]:
    about = {"name": "linkwise", "namespace": SYSTEM}
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "linkwise-metrics"}}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": about, "spec": spec}
    with created(patient.api, _deployment("linkwise-metrics", SYSTEM, 1)), created(patient.api, budget):
        yield


@contextmanager
def _foreign_plugin(patient: Patient) -> Iterator[None]:
    name, labels = "nvidia-device-plugin-daemonset", {"name": "nvidia-device-plugin-ds"}
    about = {"name": name, "namespace": "kube-system"}
    template = {
        "metadata": {"labels": labels},
        "spec": {**pod("", "")["spec"], "nodeSelector": {"kubernetes.io/hostname": patient.node}},
    }
    spec = {"selector": {"matchLabels": labels}, "template": template}
    plugin = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": about, "spec": spec}
    with created(patient.api, plugin):
        uid = patient.api.get(path_of(plugin))["metadata"]["uid"]
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": uid}
        made = pod("kube-system", "nvidia-device-plugin-x", labels=labels, nodeName=patient.node)
        made["metadata"]["ownerReferences"] = [owner]
        with created(patient.api, made):
            yield


def _slice(patient: Patient) -> Raw:
    pool = {"name": patient.node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.nvidia.com", "nodeName": patient.node, "pool": pool, "devices": [{"name": "gpu-0"}]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "doctor"},
        "spec": spec,
    }


def _event(patient: Patient) -> Raw:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "doctor", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "train", "namespace": "default"},
        "reason": "FailedScheduling",
        "type": "Warning",
        "message": f'failed "filter" with extender at URL {patient.url}/filter, code 502',
        "firstTimestamp": now,
        "lastTimestamp": now,
    }


def _fake_device(patient: Patient) -> AbstractContextManager[None]:
    message = "nvidia-container-cli: device error: no-gpu-has-1GiB-to-run: unknown device: unknown"
    waiting = {"waiting": {"reason": "RunContainerError", "message": message}}
    status = {
        "name": "main",
        "image": "i",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": waiting,
    }
    made = pod("default", "binpack-1", scheduler="another-scheduler")
    return created(patient.api, made, {"phase": "Pending", "containerStatuses": [status]})


def _error() -> Raw:
    """The condition of a pod for which a scheduler called a replica that does not lead."""
    message = "this replica of Linkwise is not the leader: it is a standby"
    tried = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": message}
    return {**tried, "lastTransitionTime": _old(600)}


@contextmanager
def _left_out(patient: Patient) -> Iterator[None]:
    space = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "left-out", "labels": {"linkwise.dev/webhook": "ignore"}},
    }
    again(patient.api, marked(space))
    with created(patient.api, pod("left-out", "train", {"nvidia.com/gpu": 1}, scheduler="another-scheduler")):
        yield


def _strange_pod(patient: Patient) -> AbstractContextManager[None]:
    device = patient.api.get(f"{INVENTORIES}/{patient.node}")["spec"]["devices"][0]["uuid"]
    allocation = {"podUID": "00000000-0000-0000-0000-000000000000", "devices": [device]}
    return changed(patient.api, f"{INVENTORIES}/{patient.node}", {"status": {"allocations": [allocation]}}, "/status")


def policy_file(folder: Path, url: str = "http://127.0.0.1:32766/gpushare-scheduler") -> Path:
    """A configuration that calls gpushare's port on the loopback."""
    path = folder / "scheduler.yaml"
    path.write_text(scheduler_yaml(SchedulerFile(name=SCHEDULER, url=url)), "utf-8")
    return path


def _old(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


BREAKAGES: Final[Mapping[str, Breakage]] = {
    "crd-schema": _older_schema,
    "settings-valid": lambda patient: changed(
        patient.api,
        f"/api/v1/namespaces/{SYSTEM}/configmaps/linkwise",
        {
            "data": {
                "config.yaml": patient.api.get(f"/api/v1/namespaces/{SYSTEM}/configmaps/linkwise")["data"][
                    "config.yaml"
                ]
                + "htpp: {}\n"
            }
        },
    ),
    "replicas-ready": lambda patient: created(patient.api, _deployment("linkwise-scheduler", SYSTEM, 0)),
    "replicas-budget": _budget,
    "rbac-service": _without_verb("linkwise", "pods/binding", "create"),
    "rbac-agent": _without_verb("linkwise-agent", "deviceinventories/status", "patch"),
    "rbac-tenants": lambda patient: changed(patient.api, TENANTS_ROLE, {"rules": []}),
    "extender-events": lambda patient: created(patient.api, _event(patient)),
    "records-agree": _strange_pod,
    "scheduler-config": _text("kind: KubeSchedulerConfiguration\nextenders: [\n"),
    "scheduler-sampling": rewritten(lambda document: document.update(percentageOfNodesToScore=50)),
    "scheduler-weight": _extender(weight=1),
    "scheduler-verbs": _extender(bindVerb=""),
    "scheduler-resources": _extender(managedResources=[{"name": "amd.com/gpu"}]),
    "scheduler-node-names": _extender(nodeCacheCapable=False),
    "scheduler-ignorable": _extender(ignorable=True),
    "scheduler-timeout": _extender(httpTimeout="1s"),
    "scheduler-tls": _extender(urlPrefix="http://linkwise.linkwise-system.svc:39999"),
    "webhook-failure-policy": _ignored_failures,
    "webhook-namespaces": _left_out,
    "agent-missing": lambda patient: removed(patient.api, f"{INVENTORIES}/{patient.node}"),
    "agent-ready": lambda patient: created(
        patient.api,
        pod(
            SYSTEM,
            "linkwise-agent-x",
            scheduler="another-scheduler",
            labels={"app.kubernetes.io/name": "linkwise", "app.kubernetes.io/component": "agent"},
        ),
    ),
    "agent-stale": lambda patient: changed(
        patient.api, f"{INVENTORIES}/{patient.node}", {"status": {"usage": {"time": _old(3600)}}}, "/status"
    ),
    "agent-conditions": _condition("InventoryComplete", "IncompleteData"),
    "agent-version": _inventory(lambda patient: patient.node, {"status": {"agentVersion": "0.0.1"}}, "/status"),
    "kubelet-cpu-manager": _inventory(
        lambda patient: patient.shared,
        {"spec": {"kubelet": {"topologyManagerPolicy": "none", "cpuManagerPolicy": "static"}}},
    ),
    "model-unsupported": _without_memory,
    "gpushare-allocation": _fake_device,
    "foreign-plugin": _foreign_plugin,
    "foreign-dra": lambda patient: created(patient.api, _slice(patient)),
    "foreign-scheduler": lambda patient: created(patient.api, _deployment("gpushare-schd-extender", "kube-system", 1)),
    "pods-failing": lambda patient: created(
        patient.api,
        pod("default", "refused", {"nvidia.com/gpu": 1}, scheduler=SCHEDULER),
        {"phase": "Pending", "conditions": [_error()]},
    ),
}
"""by check: what is broken for as long as the `with` lasts"""
