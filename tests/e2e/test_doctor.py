"""`linkwise doctor` on a real API server: every object of an installation is broken, named, and mended.

The service is a process, reached through the API server's service proxy. What the chart's pods would hold beside it is
made by hand: Deployments without pods, a Lease, and webhook configurations that are never called.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from linkwise.config.protection import protection_yaml
from linkwise.config.rbac import rbac_yaml, webhook_rbac_yaml
from linkwise.config.webhook_manifests import WebhookFile, webhook_configurations
from linkwise.net.certificates import new_chain
from support.e2e.api_client import ApiError, marked, path_of
from support.e2e.node_objects import gpushare, machine
from support.e2e.pod_objects import pod
from support.e2e.processes import free_ports, wait_for
from support.e2e.proxied_service import proxied_service
from support.e2e.service import running_service
from support.patient import BREAKAGES, CRDS, SCHEDULER, SYSTEM, Patient, changed, created, policy_file, removed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from support.e2e.api_client import Raw
    from support.e2e.cluster import Cluster
    from support.e2e.scheduler import Serve

NODE, SHARED = "gpu-1", "share-1"
NAME: Final = "linkwise-webhook"
RBAC: Final = "rbac.authorization.k8s.io"
HOOKS: Final = "/apis/admissionregistration.k8s.io/v1"
SECRET: Final = f"/api/v1/namespaces/{SYSTEM}/secrets/linkwise-webhook"
SLICE: Final = f"/apis/discovery.k8s.io/v1/namespaces/{SYSTEM}/endpointslices/webhook"
LEASE: Final = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/linkwise"
TROUBLES: Final = ("kubelet-cpu-manager", "model-unsupported", "gpushare-allocation")


def about(name: str, **more: str) -> Raw:
    return {"name": name, "namespace": SYSTEM, **more}


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def certificates() -> dict[str, str]:
    """The Secret's data of a chain of its own."""
    chain = new_chain([f"linkwise-webhook.{SYSTEM}.svc"], datetime.now(UTC), 86_400.0)
    return {"ca.crt": encoded(chain.authorities), "tls.crt": encoded(chain.serving.text)}


def webhooks() -> Iterator[Raw]:
    """Both configurations with the Secret, the Service and its endpoint; a condition keeps them from being called."""
    data = certificates()
    for each in webhook_configurations(WebhookFile(namespace=SYSTEM)):
        for hook in each["webhooks"]:
            hook["clientConfig"]["caBundle"] = data["ca.crt"]
            hook["matchConditions"] = [{"name": "never", "expression": "false"}]
        yield each
    yield {"apiVersion": "v1", "kind": "Secret", "metadata": about("linkwise-webhook"), "data": data}
    ports = [{"name": "webhook", "port": 443}]
    yield {"apiVersion": "v1", "kind": "Service", "metadata": about("linkwise-webhook"), "spec": {"ports": ports}}
    labels = {"kubernetes.io/service-name": "linkwise-webhook"}
    yield {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "webhook", "namespace": SYSTEM, "labels": labels},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["198.18.0.9"], "conditions": {"ready": True}}],
        "ports": [{"name": "webhook", "port": 9443}],
    }


def accounts() -> Iterator[Raw]:
    """The service accounts of the service and the scheduler, with their roles."""
    yield from yaml.safe_load_all(rbac_yaml(namespace=SYSTEM))
    roles = webhook_rbac_yaml(namespace=SYSTEM, account="linkwise", secret=NAME, configuration="linkwise")
    yield from yaml.safe_load_all(roles)
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": about("linkwise-scheduler")}
    for role in ("system:kube-scheduler", "system:volume-scheduler"):
        yield {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"linkwise-{role.rpartition(':')[2]}"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": "linkwise-scheduler", "namespace": SYSTEM}],
        }


def protection() -> Iterator[Raw]:
    """The policies that protect records, with a condition that keeps them from being evaluated."""
    for each in yaml.safe_load_all(protection_yaml(namespace=SYSTEM)):
        if each["kind"] == "ValidatingAdmissionPolicy":
            each["spec"]["matchConditions"] = [{"name": "never", "expression": "false"}]
        yield each


def moment(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def lease() -> Raw:
    spec = {"holderIdentity": "linkwise-0_x", "leaseDurationSeconds": 3600, "renewTime": moment(0)}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": about("linkwise"), "spec": spec}


def nodes() -> list[Raw]:
    """A node of whole devices and one that shares its own, each as an agent publishes it."""
    made = [*machine(NODE, "nvlink"), *machine(SHARED, "p40-share")]
    for each in made:
        if each["kind"] == "DeviceInventory":
            each["status"] = {**each.get("status", {}), "agentVersion": "0.1.0"}
            each["spec"]["kubelet"] = {"topologyManagerPolicy": "none", "cpuManagerPolicy": "none"}
    return made


@pytest.fixture(scope="module")
def serve(kubernetes: Cluster) -> Iterator[Serve]:
    with running_service(kubernetes, "doctor") as made:
        yield made


@pytest.fixture(scope="module")
def patient(kubernetes: Cluster, serve: Serve) -> Iterator[Patient]:
    """An installation in which nothing is wrong."""
    api = kubernetes.api
    space = marked({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}})
    wait_for(lambda: made_now(kubernetes, space), 60, f"namespace {SYSTEM} is made")
    things = [*accounts(), *webhooks(), *protection(), lease(), *nodes()]
    try:
        with proxied_service(kubernetes, SYSTEM, serve.port):
            for thing in things:
                api.create(marked(thing))
            found = Patient(api, kubernetes.kubeconfig("admin"), serve.url, NODE, SHARED)
            found.install()
            wait_for(lambda: nothing(found), 30, "nothing is wrong")
            yield found
    finally:
        for thing in things:
            api.delete(path_of(thing))
        kubernetes.clear()


def made_now(cluster: Cluster, thing: Raw) -> bool:
    try:
        cluster.api.create(thing)
    except ApiError as error:
        if error.status != 409:  # that of a test before is still going
            raise
        return False
    return True


def nothing(patient: Patient) -> bool:
    return only(patient, set())


def only(patient: Patient, expected: set[str]) -> bool:
    """Whether these checks, and no others, find something wrong."""
    found = patient.problems()
    assert set(found) == expected, {check: each["found"] for check, each in found.items()}
    return True


# what is the same on the embedded cluster


@pytest.mark.parametrize("check", BREAKAGES)
def test_what_is_broken_is_named_alone_and_gone_when_it_is_mended(patient: Patient, check: str) -> None:
    with BREAKAGES[check](patient):
        wait_for(lambda: only(patient, {check}), 20, f"only {check} is named")
    wait_for(lambda: nothing(patient), 20, "nothing is wrong any more")


@pytest.mark.rule("004.trouble")
@pytest.mark.parametrize("check", TROUBLES)
def test_troubles_of_gpu_share_are_named_with_what_to_do(patient: Patient, check: str) -> None:
    with BREAKAGES[check](patient):
        found = patient.problems()[check]
    assert found["found"]
    assert found["remedy"]


@pytest.mark.rule("004.trouble")
def test_port_32766_is_named_while_it_is_closed_on_the_loopback(patient: Patient, tmp_path: Path) -> None:
    found = patient.problems("--scheduler-config", str(policy_file(tmp_path)))["extender-port"]
    assert "http://127.0.0.1:32766/gpushare-scheduler does not answer" in found["found"]
    assert "kube-proxy serves NodePorts on the loopback only in iptables mode" in found["remedy"]


# what only a real API server has


def other_certificate(patient: Patient) -> AbstractContextManager[None]:
    return changed(patient.api, SECRET, {"data": {"tls.crt": certificates()["tls.crt"]}})


def empty_bundle(patient: Patient) -> AbstractContextManager[None]:
    path = f"{HOOKS}/mutatingwebhookconfigurations/linkwise"
    hooks = patient.api.get(path)["webhooks"]
    for hook in hooks:
        hook["clientConfig"].pop("caBundle")
    return changed(patient.api, path, {"webhooks": hooks})


def no_endpoint(patient: Patient) -> AbstractContextManager[None]:
    endpoints = [{"addresses": ["198.18.0.9"], "conditions": {"ready": False}}]
    return changed(patient.api, SLICE, {"endpoints": endpoints})


@contextmanager
def opting_out(patient: Patient) -> Iterator[None]:
    """A policy, and a webhook that a label on a pod avoids."""
    path = f"{HOOKS}/validatingwebhookconfigurations/linkwise"
    hooks = patient.api.get(path)["webhooks"]
    for hook in hooks:
        label = {"key": "linkwise.dev/webhook", "operator": "NotIn", "values": ["ignore"]}
        hook["objectSelector"] = {"matchExpressions": [label]}
    policy = {"apiVersion": "linkwise.dev/v1alpha1", "kind": "AcceleratorPolicy", "metadata": {"name": "few"}}
    spec = {"subjects": {"namespaces": ["default"]}, "maxDevices": 2}
    with created(patient.api, {**policy, "spec": spec}), changed(patient.api, path, {"webhooks": hooks}):
        yield


def stale_lease(patient: Patient) -> AbstractContextManager[None]:
    return changed(patient.api, LEASE, {"spec": {"renewTime": moment(-90_000)}})


def fast_clock(patient: Patient) -> AbstractContextManager[None]:
    spec = {"holderIdentity": NODE, "leaseDurationSeconds": 40, "renewTime": moment(600)}
    where = {"name": NODE, "namespace": "kube-node-lease"}
    return created(
        patient.api, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": where, "spec": spec}
    )


@contextmanager
def without_definition(patient: Patient) -> Iterator[None]:
    path = f"{CRDS}/acceleratorpolicies.linkwise.dev"
    definition = patient.api.get(path)
    patient.api.delete(path)
    wait_for(lambda: not patient.api.answers(path), 20, "the definition is gone")
    try:
        yield
    finally:
        meta: Any = {"name": definition["metadata"]["name"]}
        patient.api.create({**definition, "metadata": meta, "status": {}})
        wait_for(lambda: patient.api.answers("/apis/linkwise.dev/v1alpha1/acceleratorpolicies"), 20, "it is served")


MORE: Final[dict[str, tuple[Callable[[Patient], AbstractContextManager[None]], ...]]] = {
    "crd-installed": (without_definition,),
    "extender-leader": (stale_lease,),
    "rbac-scheduler": (
        lambda patient: removed(patient.api, f"/apis/{RBAC}/v1/clusterrolebindings/linkwise-kube-scheduler"),
    ),
    "webhook-certificate": (other_certificate, empty_bundle),
    "webhook-configuration": (
        lambda patient: removed(patient.api, f"{HOOKS}/validatingwebhookconfigurations/linkwise"),
    ),
    "webhook-endpoints": (no_endpoint,),
    "webhook-opt-out": (opting_out,),
    "records-protected": (
        lambda patient: removed(patient.api, f"{HOOKS}/validatingadmissionpolicies/linkwise-records"),
        lambda patient: removed(patient.api, f"{HOOKS}/validatingadmissionpolicybindings/linkwise-records"),
    ),
    "clock-nodes": (fast_clock,),
}


@pytest.mark.parametrize(("check", "broken"), [(check, broken) for check, each in MORE.items() for broken in each])
def test_what_is_broken_on_a_real_api_server_is_named_alone_and_gone_when_it_is_mended(
    patient: Patient, check: str, broken: Callable[[Patient], AbstractContextManager[None]]
) -> None:
    with broken(patient):
        wait_for(lambda: only(patient, {check}), 20, f"only {check} is named")
    wait_for(lambda: nothing(patient), 20, "nothing is wrong any more")


def test_a_service_that_does_not_answer_is_named(patient: Patient, serve: Serve) -> None:
    serve.stop()
    try:
        found = patient.problems()
        assert set(found) == {"extender-ready"}
        assert "does not answer" in found["extender-ready"]["found"]
    finally:
        serve.start()
    wait_for(lambda: nothing(patient), 20, "nothing is wrong any more")


def test_a_namespace_without_the_service_is_named(patient: Patient) -> None:
    found = patient.problems("-n", "default", "--check", "extender-service")["extender-service"]
    assert found["found"] == "there is no Service linkwise in namespace default"
    bare = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "linkwise", "namespace": "default"}}
    with created(patient.api, {**bare, "spec": {"ports": [{"port": 39999}]}}):
        found = patient.problems("-n", "default", "--check", "extender-service")["extender-service"]
    assert "no ready endpoint" in found["found"]


def test_two_replicas_without_an_election_are_named(patient: Patient) -> None:
    settings = yaml.safe_dump({"webhook": {"enabled": True}, "leader": {"enabled": False}})
    path = f"/api/v1/namespaces/{SYSTEM}/configmaps/linkwise"
    with (
        changed(patient.api, path, {"data": {"config.yaml": settings}}),
        created(patient.api, deployment("linkwise", 2)),
    ):
        wait_for(lambda: only(patient, {"replicas-leader", "replicas-ready"}), 20, "both are named")


def deployment(name: str, replicas: int) -> Raw:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod("", "", scheduler="another-scheduler")["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": about(name), "spec": spec}


def test_a_pod_that_no_scheduler_tries_is_named_after_a_while(patient: Patient) -> None:
    with created(patient.api, pod("default", "waits", {"nvidia.com/gpu": 1}, scheduler=SCHEDULER)):
        assert patient.problems() == {}
        assert {"pods-untried", "extender-called"} <= patient.problems_later()


def test_a_kubelet_that_can_not_be_asked_is_skipped_with_the_reason(patient: Patient) -> None:
    (node, *_) = gpushare("without-agent")
    with created(patient.api, node):
        answer = patient.ask("--check", "kubelet-cpu-manager", "-o", "json")
        (item,) = json.loads(answer.stdout)["items"]
    assert item["severity"] == "skipped"
    assert "the configuration of kubelet without-agent does not answer" in item["found"]


def test_what_a_user_may_not_read_is_skipped_with_the_verb_and_never_passes(
    patient: Patient, kubernetes: Cluster
) -> None:
    words = [sys.executable, "-m", "linkwise", "doctor", "--kubeconfig", str(kubernetes.kubeconfig("tenant"))]
    done = subprocess.run([*words, "-o", "json"], capture_output=True, text=True, check=False, timeout=60)
    items = json.loads(done.stdout)["items"]
    assert done.returncode == 3, "a script must not take this for an examination without problems"
    assert done.stderr.startswith("linkwise: nothing could be examined")
    assert {each["severity"] for each in items} == {"skipped", "ok"}
    assert [each["check"] for each in items if each["severity"] == "ok"] == ["clock-local"]
    reasons = {each["check"]: each["found"] for each in items}
    assert reasons["agent-missing"].startswith("may not list ")
    assert reasons["webhook-endpoints"].endswith("grant the verb list on services")
    assert patient.problems() == {}


def test_a_cluster_that_can_not_be_reached_has_an_exit_code_of_its_own(patient: Patient, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    document = yaml.safe_load(patient.kubeconfig.read_text())
    for each in document["clusters"]:
        each["cluster"]["server"] = f"https://127.0.0.1:{port}"
    other = tmp_path / "kubeconfig"
    other.write_text(yaml.safe_dump(document))
    words = [sys.executable, "-m", "linkwise", "doctor", "--kubeconfig", str(other)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 3
    assert "is the cluster running?" in done.stderr


def test_the_inventory_shows_the_version_of_its_agent(patient: Patient, kubernetes: Cluster) -> None:
    shown = kubernetes.kubectl("get", "deviceinventories", patient.node, "-o", "wide", "--no-headers")
    assert "0.1.0" in shown.split()
