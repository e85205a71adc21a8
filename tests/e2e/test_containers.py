"""The chart on a real node: the image runs as containers of a kubelet, from the first installation to the last."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

import linkwise
from support.e2e.agent import replicas
from support.e2e.helm import NAMESPACE
from support.e2e.processes import wait_for
from support.e2e.real_node.cgroups import memory_limit
from support.e2e.real_node.installation import REPOSITORY, installed_node
from support.e2e.real_node.node import scheduled_pod
from support.e2e.service import grant
from support.nvml_stub.machine import dgx1_v100

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.e2e.api_client import Raw
    from support.e2e.real_node.installation import ContainerInstallation

GPU: Final = "nvidia.com/gpu"
OLD: Final = linkwise.__version__
NEW: Final = f"{OLD}-new"
USER: Final = "65532"
ACCOUNT: Final = "run/secrets/kubernetes.io/serviceaccount"
FILTERED: Final = "2"
"""seccomp mode of /proc"""
SECONDS: Final = 60.0


@pytest.fixture(scope="module")
def installation(  # noqa: PLR0913, PLR0917 - what a cluster is made of
    programs: Path,
    container_programs: Path,
    helm_programs: Path,
    root: Path,
    image_archive: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ContainerInstallation]:
    """The chart on a node with eight GPUs, installed from the archive of the image."""
    if os.environ.get("LINKWISE_E2E_KUBECONFIG"):
        pytest.skip("this needs a cluster of our own: leave out KUBECONFIG")
    folder = tmp_path_factory.mktemp("containers")
    with installed_node(programs, container_programs, helm_programs, root, folder) as made:
        made.add_image(image_archive)
        made.tag(OLD, NEW)
        made.add_gpus(dgx1_v100())
        made.install()
        made.wait_ready()
        yield made


@pytest.fixture
def train(installation: ContainerInstallation) -> Iterator[Raw]:
    """A pod with two GPUs that runs, and is removed after the test."""
    namespace = installation.cluster.namespace()
    wait_for(lambda: installation.node.object()["status"]["allocatable"].get(GPU) == "8", SECONDS, "GPUs are there")
    pod = scheduled_pod(namespace, "train", {GPU: 2})
    installation.node.run(pod, seconds=SECONDS)
    yield pod
    installation.node.remove(pod)


def status(installation: ContainerInstallation, pod: Raw) -> dict[str, str]:
    """/proc/PID/status of the first process of the first container of a pod."""
    process = installation.node.process(pod, pod["spec"]["containers"][0]["name"])
    return dict(re.findall(r"^(\w+):\s+(.*)$", (process / "status").read_text(), re.MULTILINE))


def uses_its_devices(installation: ContainerInstallation, pod: Raw) -> set[str]:
    """The devices that the record of a pod has, which its container must see, and no others."""
    found = installation.cluster.pod(pod["metadata"]["namespace"], pod["metadata"]["name"])
    devices = set(grant(found).devices)
    assert set(installation.node.environment(pod)["NVIDIA_VISIBLE_DEVICES"].split(",")) == devices
    assert len([path for path in installation.node.devices(pod) if re.fullmatch(r"/dev/nvidia\d", path)]) == len(
        devices
    )
    return devices


def test_all_pods_run_the_image_that_was_built(installation: ContainerInstallation) -> None:
    pods = [pod for component in ("service", "agent") for pod in installation.pods(component)]
    images = {one["image"] for pod in pods for one in pod["status"]["containerStatuses"]}
    assert (len(pods), images) == (3, {f"{REPOSITORY}:{OLD}"})


def test_the_service_and_its_scheduler_are_confined(installation: ContainerInstallation) -> None:
    for component in ("service", "scheduler"):
        for pod in installation.pods(component):
            seen = status(installation, pod)
            assert seen["Uid"].split() == [USER] * 4
            assert int(seen["CapBnd"], 16) == 0
            assert (seen["NoNewPrivs"], seen["Seccomp"]) == ("1", FILTERED)
            process = installation.node.process(pod, pod["spec"]["containers"][0]["name"])
            assert os.statvfs(process / "root").f_flag & os.ST_RDONLY


def test_the_token_of_a_replica_ends_with_its_pod(installation: ContainerInstallation) -> None:
    for pod in installation.pods("service"):
        process = installation.node.process(pod, pod["spec"]["containers"][0]["name"])
        _, claims, _ = (process / "root" / ACCOUNT / "token").read_text().split(".")
        found = json.loads(base64.urlsafe_b64decode(claims + "=="))
        assert found["sub"] == f"system:serviceaccount:{NAMESPACE}:linkwise"
        assert found["kubernetes.io"]["pod"]["name"] == pod["metadata"]["name"]


def test_limits_of_memory_are_those_of_the_chart(installation: ContainerInstallation) -> None:
    (pod, _) = installation.pods("service")
    process = installation.node.process(pod, "linkwise")
    assert memory_limit(process) == 2**30


def test_a_pod_is_admitted_placed_and_started_with_its_devices(installation: ContainerInstallation, train: Raw) -> None:
    found = installation.cluster.pod(train["metadata"]["namespace"], "train")
    assert found["spec"]["schedulerName"] == "linkwise-scheduler"
    assert found["metadata"]["annotations"]["linkwise.dev/user"] == "admin"
    assert len(uses_its_devices(installation, train)) == 2


def test_a_running_pod_is_explained(installation: ContainerInstallation, train: Raw) -> None:
    command = [sys.executable, "-m", "linkwise", "explain", "pod/train", "--namespace", train["metadata"]["namespace"]]
    command += ["--kubeconfig", str(installation.cluster.kubeconfig("admin"))]

    def explained() -> bool:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        assert "the node agent reports that it uses these devices" in done.stdout, done.stdout
        return True

    wait_for(explained, SECONDS, "the pod is explained")


def test_the_test_of_the_release_passes(installation: ContainerInstallation) -> None:
    assert "Succeeded" in installation.helm.run("test", "linkwise")


def test_an_upgrade_and_a_rollback_leave_pods_and_their_devices_alone(
    installation: ContainerInstallation, train: Raw
) -> None:
    before = installation.node.process_id(train), uses_its_devices(installation, train)
    installation.install(image={"tag": NEW})
    installation.wait_ready()
    assert tags(installation) == {NEW}
    installation.helm.rollback(len(installation.helm.history()) - 1)
    installation.wait_ready()
    assert tags(installation) == {OLD}
    assert (installation.node.process_id(train), uses_its_devices(installation, train)) == before


def test_after_a_reboot_of_the_node_everything_runs_again(installation: ContainerInstallation) -> None:
    namespace = installation.cluster.namespace()
    installation.cluster.create([replicas(namespace, 1)])
    before = wait_for(lambda: running(installation, namespace), SECONDS, "the pod runs")
    installation.reboot()
    after = wait_for(lambda: running(installation, namespace, but=before), SECONDS, "a pod runs again")
    assert len(uses_its_devices(installation, after)) == 1
    installation.cluster.api.delete(f"/apis/apps/v1/namespaces/{namespace}/replicasets/replicas")
    wait_for(lambda: not installation.cluster.api.list(f"/api/v1/namespaces/{namespace}/pods"), SECONDS, "it is gone")


def test_nothing_of_a_release_is_left_and_pods_run_on(installation: ContainerInstallation, train: Raw) -> None:
    before = installation.node.process_id(train)
    installation.helm.uninstall()
    wait_for(
        lambda: not installation.cluster.api.list(f"/api/v1/namespaces/{NAMESPACE}/pods"), SECONDS, "no pod is left"
    )
    assert installation.node.process_id(train) == before
    installation.install()
    installation.wait_ready()


def tags(installation: ContainerInstallation) -> set[str]:
    pods = [pod for component in ("service", "agent") for pod in installation.pods(component)]
    return {pod["spec"]["containers"][0]["image"].rpartition(":")[2] for pod in pods}


def running(installation: ContainerInstallation, namespace: str, but: Raw | None = None) -> Raw | None:
    """A ready pod of a namespace, in another container than before."""
    for pod in installation.cluster.api.list(f"/api/v1/namespaces/{namespace}/pods"):
        for one in pod["status"].get("containerStatuses", ()):
            if one["ready"] and (not but or one["containerID"] != but["status"]["containerStatuses"][0]["containerID"]):
                return {"apiVersion": "v1", "kind": "Pod", **pod}
    return None
