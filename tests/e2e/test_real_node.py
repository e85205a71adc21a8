"""The real node of the test cluster: kubelet, containers and device plugins as on any machine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from support.e2e.config_files import NODE
from support.e2e.real_node.device_plugin import Answer, DevicePlugin
from support.e2e.real_node.node import container_pod

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.e2e.real_node.node import RealNode

GPU = "nvidia.com/gpu"
BY_CDI = {"name": "1", "containerEdits": {"env": ["FROM_CDI=yes"], "deviceNodes": [{"path": "/dev/nvidia1"}]}}
SPECIFICATION = {"cdiVersion": "0.6.0", "kind": GPU, "devices": [BY_CDI]}


@pytest.fixture
def plugin(real_node: RealNode) -> Iterator[DevicePlugin]:
    """A device plugin of two devices that answers with a variable, one device node and one CDI device."""
    real_node.add_nvidia(2)
    (real_node.cdi / "nvidia.json").write_text(json.dumps(SPECIFICATION))
    answer = Answer({"NVIDIA_VISIBLE_DEVICES": "GPU-0"}, ["/dev/nvidia0"], [f"{GPU}=1"])
    made = DevicePlugin(real_node.device_plugins, GPU, ["GPU-0", "GPU-1"], answer)
    made.start()
    yield made
    made.stop()


def test_kubelet_registers_a_ready_node(real_node: RealNode) -> None:
    found = real_node.object()
    assert found["metadata"]["name"] == NODE
    assert found["status"]["nodeInfo"]["kubeletVersion"] == "v1.36.4"
    assert found["metadata"]["managedFields"][0]["manager"] == "kubelet"


def test_a_pod_runs_in_a_container_whose_environment_can_be_read(real_node: RealNode, namespace: str) -> None:
    pod = container_pod(namespace, "train", environment={"GREETING": "a b=c"})
    real_node.run(pod)
    assert real_node.environment(pod)["GREETING"] == "a b=c"
    assert real_node.devices(pod) == {}
    assert real_node.execute(pod, "cat", "/proc/1/comm") == "sh\n"


def test_the_output_of_a_finished_pod_can_be_read(real_node: RealNode, namespace: str) -> None:
    pod = container_pod(namespace, "once", command=["echo", "two words"], restartPolicy="Never")
    real_node.run(pod, "Succeeded")
    assert real_node.logs(pod) == "two words"


def test_a_pod_keeps_running_while_kubelet_restarts(real_node: RealNode, namespace: str) -> None:
    pod = container_pod(namespace, "train")
    before = real_node.run(pod)["status"]["containerStatuses"][0]
    real_node.stop_kubelet()
    assert real_node.execute(pod, "echo", "still there") == "still there\n"
    real_node.start_kubelet()
    after = real_node.wait_phase(pod, "Running")["status"]["containerStatuses"][0]
    assert (after["containerID"], after["restartCount"]) == (before["containerID"], 0)


def test_a_pod_goes_when_its_container_has_ended(real_node: RealNode, namespace: str) -> None:
    pod = container_pod(namespace, "train")
    status = real_node.run(pod)["status"]["containerStatuses"][0]
    real_node.remove(pod)
    assert status["containerID"].removeprefix("containerd://") not in real_node.containerd.containers()


def test_kube_scheduler_finds_the_node(real_node: RealNode, namespace: str) -> None:
    real_node.cluster.scheduler.run(real_node.cluster.scheduling())
    pod = container_pod(namespace, "train", {"cpu": "100m", "memory": "16Mi"}, nodeName=None)
    assert real_node.run(pod)["spec"]["nodeName"] == real_node.name


def test_the_answer_of_a_device_plugin_reaches_the_container(
    real_node: RealNode, plugin: DevicePlugin, namespace: str
) -> None:
    real_node.wait_allocatable(GPU, 2)
    pod = container_pod(namespace, "train", {GPU: 1})
    real_node.run(pod)
    assert plugin.allocated in ([("GPU-0",)], [("GPU-1",)])
    seen = real_node.environment(pod)
    assert (seen["NVIDIA_VISIBLE_DEVICES"], seen["FROM_CDI"]) == ("GPU-0", "yes")
    assert real_node.devices(pod) == {"/dev/nvidia0": (195, 0), "/dev/nvidia1": (195, 1)}
    with pytest.raises(AssertionError, match="No such device"):  # permitted, but there is no driver
        real_node.execute(pod, "cat", "/dev/nvidia0")
