"""Tenants of a real cluster: a user with rights in one namespace sees why a pod is pending."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from support.e2e.api_client import ApiError, marked
from support.e2e.node_objects import machine
from support.e2e.processes import free_ports, wait_for
from support.e2e.proxied_service import proxied_service
from support.e2e.service import printed, running_service
from support.e2e.tenant import Tenant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.e2e.cluster import Cluster
    from support.e2e.scheduler import Serve
    from support.e2e.service import Placing

GPU: Final = "nvidia.com/gpu"
SYSTEM: Final = "linkwise-system"
RATE, BURST = 4.0, 8
PUBLISHING: Final = {"delay": 1.0, "interval": 1.0, "rate": RATE, "burst": BURST}
PROXY: Final = f"/api/v1/namespaces/{SYSTEM}/services/linkwise:{{}}/proxy"
LONG: Final = 30.0  # seconds


@pytest.fixture(scope="module")
def port() -> int:
    """The port for tenants, on the loopback."""
    return free_ports(1)[0]


@pytest.fixture(scope="module")
def answering(kubernetes: Cluster, port: int) -> Iterator[Serve]:
    """A service that publishes soon, under the shipped role."""
    with running_service(kubernetes, "tenants", configuration={"explain": {**PUBLISHING, "port": port}}) as made:
        yield made


@pytest.fixture
def tenant(placing: Placing) -> Tenant:
    """A tenant beside another, whose pod has six of the eight devices of the only node."""
    namespace, other = placing.namespace(), placing.namespace()
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "tenant"}
    placing.cluster.api.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "tenant", "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [subject],
        }
    )
    placing.nodes(*machine("a", "nvlink"))
    placing.place(other, "rival", {GPU: 6})
    placing.counted(1)
    return Tenant(placing, namespace)


@pytest.fixture
def reachable(tenant: Tenant, port: int) -> Iterator[Tenant]:
    """The service may check tokens, and every user reaches its port for tenants through the API server."""
    cluster = tenant.placing.cluster
    space = marked({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}})

    def made() -> bool:
        try:
            cluster.api.create(space)
        except ApiError as error:
            if error.status != 409:  # that of the test before is still going
                raise
            return False
        return True

    wait_for(made, 60, f"namespace {SYSTEM} is made")
    role = printed("manifests", "rbac", "--user", "linkwise", "--name", "e2e-for-tenants")
    cluster.kubectl("apply", "--filename", "-", stdin=role)
    try:
        with proxied_service(cluster, SYSTEM, tenant.placing.serve.port, port):
            path = f"{PROXY.format('tenants')}/v1/tables/pod"
            wait_for(lambda: reached(cluster, path), LONG, "the API server's proxy reaches the service")
            yield tenant
    finally:
        cluster.kubectl("delete", "--ignore-not-found", "--filename", "-", stdin=role)


def reached(cluster: Cluster, path: str) -> bool:
    status, said = cluster.api.raw("GET", path)
    assert (status, said[:17]) == (401, b"not authenticated"), said.decode(errors="replace")
    return True


def test_a_tenant_explains_a_pod_with_rights_in_one_namespace(reachable: Tenant) -> None:
    reachable.placing.create(reachable.namespace, "train", {GPU: 4})
    reachable.placing.refused(reachable.namespace, "train")
    shown = reachable.command("explain", "pod/train", "-n", reachable.namespace)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "4 devices requested, but only 2" in shown.stdout
    assert "it fits on node a once a pod of another namespace (6 devices) finishes" in shown.stdout
    assert "rival" not in shown.stdout
    document = json.loads(reachable.command("explain", "pod/train", "-n", reachable.namespace, "-o", "json").stdout)
    assert document["code"] == document["data"]["code"] == "NoRoom"
    assert "rival" not in json.dumps(document)


def test_a_tenant_lists_the_pods_of_its_namespace_with_their_reasons(reachable: Tenant) -> None:
    reachable.placing.create(reachable.namespace, "train", {GPU: 4})
    reachable.placing.place(reachable.namespace, "small", {GPU: 1})
    reachable.placing.refused(reachable.namespace, "train")
    shown = reachable.command("get", "pods", "-n", reachable.namespace)
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    assert any(line.startswith("train Pending - 4 requested") and "too few free devices" in line for line in lines)
    assert any(line.startswith("small Starting a {") for line in lines)
    documents = json.loads(reachable.command("get", "pods", "-n", reachable.namespace, "-o", "json").stdout)
    assert {each["pod"]: each["code"] for each in documents["items"]} == {"train": "NoRoom", "small": "Placed"}


def test_a_tenant_is_refused_in_other_namespaces_and_without_a_token(reachable: Tenant) -> None:
    cluster = reachable.placing.cluster
    other = next(pod["metadata"]["namespace"] for pod in cluster.api.list("/api/v1/pods"))
    shown = reachable.command("explain", "pod/rival", "-n", other)
    assert shown.returncode == 1
    assert f"user tenant may not get pod {other}/rival: ask an administrator to grant get on pods" in shown.stderr
    listed = reachable.command("get", "pods", "-n", other)
    assert f"user tenant may not list pods in namespace {other}" in listed.stderr
    user, path = cluster.connect("tenant"), PROXY.format("tenants")
    status, said = user.raw("GET", f"{path}/explain/{other}/rival")
    assert (status, said.decode().partition(":")[0]) == (401, "not authenticated")


def test_every_user_reaches_the_port_for_tenants_and_no_other(reachable: Tenant) -> None:
    user = reachable.placing.cluster.connect("tenant")
    others = ("/gpushare-scheduler/inspect/a", "/debug/explain/default/train", "/metrics", "/readyz", "/version")
    assert {user.raw("GET", f"{PROXY.format('tenants')}{each}")[0] for each in others} == {404}
    admin = reachable.placing.cluster.api
    assert admin.raw("GET", f"{PROXY.format('39999')}/livez")[0] == 200
    for name in ("39996", "39999", "http"):
        assert user.raw("GET", f"{PROXY.format(name)}/v1/tables/pod")[0] == 403
    # Plans are posted to the port for tenants; its other routes take no POST, and the other ports none of these callers.
    for path, status in ((f"{PROXY.format('tenants')}/v1/tables/pod", 405), (f"{PROXY.format('39999')}/bind", 403)):
        with pytest.raises(ApiError) as refused:
            user.call("POST", path, {})
        assert refused.value.status == status


COMMANDS: Final = (
    "get pods -A",
    "get pods",
    "get groups -A",
    "get nodes",
    "get devices",
    "get devices a -o json",
    "get usage",
    "get capacity",
    "top nodes",
    "top pods -A",
    "explain node/a",
    "explain pod/train",
    "describe node/a",
    "describe pod/train",
    "describe pod/small",
    "describe pod/train -o json",
)


def test_a_tenant_gets_every_answer_without_names_of_others(reachable: Tenant) -> None:
    own = reachable.namespace
    reachable.placing.place(own, "small", {GPU: 1})
    reachable.placing.create(own, "train", {GPU: 4})
    reachable.placing.refused(own, "train")
    other = next(
        pod["metadata"]["namespace"]
        for pod in reachable.placing.cluster.api.list("/api/v1/pods")
        if pod["metadata"]["name"] == "rival"
    )
    shown = {words: reachable.command(*words.split(), *([] if "-A" in words else ["-n", own])) for words in COMMANDS}
    assert {words: (one.returncode, one.stderr) for words, one in shown.items() if one.returncode} == {}
    assert [words for words, one in shown.items() if "rival" in one.stdout or other in one.stdout + one.stderr] == []
    assert [words for words, one in shown.items() if "ask an administrator" in one.stderr] == []
    rows = [line.split()[:2] for line in shown["get pods -A"].stdout.splitlines()[1:]]
    assert sorted(rows) == [[own, "small"], [own, "train"]]
    assert f"note: only namespaces that your rights cover are shown: {own}\n" in shown["get pods -A"].stderr
    assert shown["get devices"].stdout.count("a pod of another namespace") == 6
    assert f"{own}/small" in shown["get devices"].stdout
    assert "note: pods of namespaces that your rights do not cover are not named\n" in shown["get devices"].stderr
    assert shown["get nodes"].stderr == ""
    for words in ("get nodes", "top nodes", "explain node/a", "describe node/a"):
        assert "a " in shown[words].stdout, words
    assert "links: NVLink" in shown["describe node/a"].stdout
    assert "links: NVLink" in shown["describe pod/small"].stdout
    assert shown["describe pod/train"].stdout.startswith(shown["explain pod/train"].stdout)
    usage = [line.split()[0] for line in shown["get usage"].stdout.splitlines()[1:]]
    assert usage == [own, own]


def test_an_administrator_sees_the_same_pages_with_all_names(reachable: Tenant) -> None:
    words = ("describe", "node/a", "-n", reachable.namespace)
    named = ("--service", f"{SYSTEM}/linkwise:tenants")
    everything, own = reachable.command(*words, *named, user="admin").stdout, reachable.command(*words).stdout
    assert "/rival" in everything
    assert re.sub(r"\S+/rival", "a pod of another namespace", everything) == own


def test_what_is_for_administrators_is_refused_without_advice_to_get_their_rights(reachable: Tenant) -> None:
    refused = reachable.command("get", "policies")
    assert refused.returncode == 1
    assert refused.stderr == (
        "linkwise: user tenant may not read what concerns all namespaces; `linkwise explain pod/NAME` shows what concerns"
        " a pod of yours\n"
    )


def test_who_may_list_all_pods_sees_all_names(reachable: Tenant) -> None:
    reachable.placing.create(reachable.namespace, "train", {GPU: 4})
    reachable.placing.refused(reachable.namespace, "train")
    words = ("explain", "pod/train", "-n", reachable.namespace, "--service", f"{SYSTEM}/linkwise:tenants")
    assert "/rival (6 devices) finishes" in reachable.command(*words, user="admin").stdout


def test_a_service_at_an_address_answers_the_same(reachable: Tenant, port: int) -> None:
    reachable.placing.create(reachable.namespace, "train", {GPU: 4})
    reachable.placing.refused(reachable.namespace, "train")
    words = ("explain", "pod/train", "-n", reachable.namespace)
    there = reachable.command(*words, "--service", f"http://127.0.0.1:{port}")
    assert there.stdout == reachable.command(*words).stdout


def test_the_condition_and_the_event_follow_the_reason_and_end_at_bind(tenant: Tenant) -> None:
    tenant.placing.create(tenant.namespace, "train", {GPU: 4})
    first = tenant.wait_condition("train", "NoRoom")
    assert first["status"] == "False"
    assert first["message"].startswith(
        f"pod {tenant.namespace}/train is pending: it requests 4 devices ({GPU}); 0 of 1"
    )
    assert "only 2" in first["message"]
    wait_for(lambda: tenant.events("train"), LONG, "an event")
    tenant.placing.cluster.api.patch("/api/v1/nodes/a", {"spec": {"unschedulable": True}})
    second = tenant.wait_condition("train", "Excluded")
    assert "cordoned" in second["message"]
    assert second["lastTransitionTime"] == first["lastTransitionTime"]
    wait_for(lambda: len(tenant.events("train")) == 2, LONG, "another event")
    assert scheduled(tenant, "train")["reason"] == "Unschedulable"
    tenant.placing.cluster.api.patch("/api/v1/nodes/a", {"spec": {"unschedulable": None}})
    rival = next(
        pod["metadata"] for pod in tenant.placing.cluster.api.list("/api/v1/pods") if pod["metadata"]["name"] == "rival"
    )
    tenant.placing.gone(rival["namespace"], "rival")
    last = tenant.wait_condition("train", "Placed")
    assert (last["status"], last["message"]) == ("True", "the pod is bound to node a")
    assert scheduled(tenant, "train")["status"] == "True"


def scheduled(tenant: Tenant, name: str) -> dict[str, Any]:
    """kube-scheduler's own condition."""
    conditions = tenant.placing.cluster.pod(tenant.namespace, name)["status"]["conditions"]
    return next(each for each in conditions if each["type"] == "PodScheduled")


def test_a_pod_that_is_bound_at_once_gets_no_condition_and_no_event(tenant: Tenant) -> None:
    tenant.placing.place(tenant.namespace, "small", {GPU: 1})
    tenant.placing.create(tenant.namespace, "train", {GPU: 4})
    tenant.wait_condition("train", "NoRoom")
    assert tenant.condition("small") == {}
    assert tenant.events("small") == []


def test_a_burst_of_fifty_pods_is_published_at_the_rate_of_the_settings(tenant: Tenant) -> None:
    metric = 'linkwise_effects_total{effect="condition",result="written"}'
    before, started = tenant.placing.metric(metric), time.monotonic()
    for number in range(50):
        tenant.placing.create(tenant.namespace, f"p{number:02}", {GPU: 4})

    def all_written() -> bool:
        written, passed = tenant.placing.metric(metric) - before, time.monotonic() - started
        assert written <= BURST + RATE * passed + 1, "more than the settings allow"
        return written >= 50

    wait_for(all_written, 60, "all have their condition")
    assert {tenant.condition(f"p{number:02}")["reason"] for number in range(50)} == {"NoRoom"}


def test_without_the_service_what_is_published_is_shown(tenant: Tenant) -> None:
    tenant.placing.create(tenant.namespace, "train", {GPU: 4})
    published = tenant.wait_condition("train", "NoRoom")
    wait_for(lambda: tenant.events("train"), LONG, "an event")
    shown = tenant.command("explain", "pod/train", "-n", tenant.namespace)
    assert shown.returncode == 0
    assert shown.stdout.splitlines()[0].startswith(published["message"][:60])
    assert "note: only what is published on the pods is shown, because you may not get services/proxy" in shown.stderr
    assert "ask an administrator to turn on features.tenants" in shown.stderr
    listed = tenant.command("get", "pods", "-n", tenant.namespace, "-o", "json")
    assert [(each["pod"], each["code"], each["why"]) for each in json.loads(listed.stdout)["items"]] == [
        ("train", "NoRoom", published["message"])
    ]
    for words in (
        ("get", "nodes"),
        ("describe", "node/a"),
        ("get", "devices"),
        ("top", "pods", "-A"),
        ("get", "usage"),
    ):
        nodes = tenant.command(*words)
        assert nodes.returncode == 1
        assert "since your rights cover only a part of it" in nodes.stderr
        assert "list on nodes" not in nodes.stderr


def test_a_restarted_service_ends_the_condition_of_a_pod_that_was_bound_meanwhile(tenant: Tenant) -> None:
    tenant.placing.create(tenant.namespace, "train", {GPU: 4})
    tenant.wait_condition("train", "NoRoom")
    tenant.placing.serve.kill()
    try:
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "train"},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "a"},
        }
        tenant.placing.cluster.api.call("POST", f"/api/v1/namespaces/{tenant.namespace}/pods/train/binding", binding)
    finally:
        tenant.placing.serve.start()
    assert tenant.wait_condition("train", "Placed")["status"] == "True"
