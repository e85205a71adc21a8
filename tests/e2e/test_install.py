"""One Helm command on an empty cluster: everything is ready, and pods that request devices are placed.

Pods of the chart run as processes; what that stands in for is said in `support.e2e.process_pods`. What needs a kubelet or the image
is in test_containers.py.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest

from support.e2e.helm import NAMESPACE, RELEASE, Helm, HelmError
from support.e2e.installation import installed_cluster
from support.e2e.invariants import all_is_well
from support.e2e.pod_objects import pod
from support.e2e.processes import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from support.e2e.api_client import Raw
    from support.e2e.installation import Installation

GPU: Final = "nvidia.com/gpu"
SCHEDULER: Final = "linkwise-scheduler"
USER: Final = 65532
GANG: Final = "gang.scheduling.koordinator.sh"


@pytest.fixture(scope="module")
def installed(
    programs: Path, helm_programs: Path, root: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    """The chart on a cluster of its own, with one node that has devices."""
    with installed_cluster(programs, helm_programs, root, tmp_path_factory.mktemp("install")) as installation:
        installation.install()
        installation.add_nodes("gpu-1")
        yield installation


@pytest.fixture
def namespace(installed: Installation) -> Iterator[str]:
    """A namespace whose pods are gone after the test."""
    name = installed.cluster.namespace()
    yield name
    installed.api.delete(f"/api/v1/namespaces/{name}/pods")
    installed.placing.counted(0)


def place(installation: Installation, namespace: str, name: str, gpus: int, **more: Any) -> Raw:  # noqa: ANN401 - as `pod` has them
    """A pod of an ordinary user, as soon as it has a node."""
    installation.api.create(pod(namespace, name, {GPU: gpus}, **more))
    return installation.cluster.wait_bound(namespace, name, 30)


def test_everything_is_ready_after_one_command(installed: Installation) -> None:
    deployments = installed.objects(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments")
    assert {name: found["status"]["readyReplicas"] for name, found in deployments.items()} == {
        RELEASE: 2,
        f"{RELEASE}-scheduler": 2,
    }
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/{RELEASE}-agent"
    wait_for(lambda: installed.api.get(path)["status"]["numberReady"] == 1, 20, "the agent of the new node is ready")
    assert [one["status"] for one in installed.helm.history()] == ["deployed"]


def test_no_container_had_to_be_started_twice(installed: Installation) -> None:
    statuses = [
        (found["metadata"]["name"], status["restartCount"])
        for found in installed.api.list(f"/api/v1/namespaces/{NAMESPACE}/pods")
        for status in found["status"]["containerStatuses"]
    ]
    assert [one for one in statuses if one[1]] == []


def test_the_replica_that_leads_is_one_of_the_service_and_the_only_endpoint(installed: Installation) -> None:
    addresses = [one.address for one in installed.pods("service")]
    assert installed.leader() in addresses
    assert len(addresses) == 2


def test_a_gang_is_held_back_until_it_can_start_as_a_whole(installed: Installation, namespace: str) -> None:
    words = {f"{GANG}/name": "job", f"{GANG}/min-available": "2"}
    first = installed.api.create(pod(namespace, "job-0", {GPU: 4}, annotations=words))
    assert first["spec"]["schedulingGates"]
    place(installed, namespace, "job-1", 4, annotations=words)
    installed.cluster.wait_bound(namespace, "job-0", 30)
    all_is_well(installed.placing)


def test_strangers_may_not_call_the_extender(installed: Installation, namespace: str) -> None:
    question = {"Pod": pod(namespace, "train", {GPU: 1}), "NodeNames": ["gpu-1"]}
    for replica in installed.pods("service"):
        service = installed.service(replica.address)
        status, _ = service.raw("POST", "/filter", str(question).encode(), "application/json")
        assert status == 403
        assert service.answers("/readyz")


def test_a_tenant_asks_through_the_api_server_why_a_pod_waits(installed: Installation, namespace: str) -> None:
    installed.cluster.kubectl(
        "create", "rolebinding", "tenant", "--clusterrole=view", "--user=tenant", "--namespace", namespace
    )
    installed.api.create(pod(namespace, "train", {GPU: 9}))
    command = [sys.executable, "-m", "linkwise", "explain", "pod/train", "--namespace", namespace]
    command += ["--kubeconfig", str(installed.cluster.kubeconfig("tenant"))]

    def explained() -> str:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        assert "only what is published" not in done.stdout + done.stderr, done.stderr
        return done.stdout

    said = wait_for(explained, 20, "the tenant is answered")
    assert "9 devices requested, but the node has 8" in said


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"service": {"replicas": "two"}}, "/service/replicas"),
        ({"service": {"replcas": 2}}, "replcas"),
        ({"webhook": {"failurePolicy": "Maybe"}}, "/webhook/failurePolicy"),
        ({"agent": {"nodes": "some"}}, "/agent/nodes"),
        ({"leaderElection": {"leaseDuration": -1}}, "/leaderElection/leaseDuration"),
        ({"features": {"evict": "sometimes"}}, "/features/evict"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_value_that_the_chart_does_not_know_is_named(
    helm_programs: Path, root: Path, tmp_path: Path, values: Mapping[str, object], named: str
) -> None:
    with pytest.raises(HelmError, match=named):
        Helm(helm_programs / "helm", tmp_path).template(root / "deploy/chart", values)
