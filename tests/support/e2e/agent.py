"""Node agent of the test cluster: `linkwise agent` on a real node under its shipped role, with simulated GPUs.

`agree` compares what four places say about the devices of pods: the record, the inventory, the kubelet, the container.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import grpc

from linkwise.agent.kubelet.messages import POD_RESOURCES, messages_of
from support.e2e.api_client import Api
from support.e2e.config_files import AGENT
from support.e2e.processes import free_ports, wait_for
from support.e2e.real_node.node import scheduled_pod
from support.e2e.service import grant, printed
from support.nvml_stub.stub import Stub

if TYPE_CHECKING:
    import signal
    from collections.abc import Iterable
    from pathlib import Path

    from linkwise.agent.kubelet.messages import Message
    from support.e2e.api_client import Raw
    from support.e2e.cluster import Cluster
    from support.e2e.real_node.node import RealNode
    from support.e2e.service import Placing
    from support.nvml_stub.machine import StubMachine

__all__ = ["GPU", "MEMORY", "Agent", "Use", "agent_role", "kubelet_devices", "replicas"]

GPU: Final = "nvidia.com/gpu"
MEMORY: Final = "aliyun.com/gpu-mem"
INVENTORIES: Final = "/apis/linkwise.dev/v1alpha1/deviceinventories"
READY: Final = 30.0  # seconds
AGREED: Final = 20.0  # seconds
RUNNING: Final = 60.0  # seconds; a pod that was refused is created again later and later
INTERVAL: Final = "1"  # seconds
"""between discoveries; shorter than the default, so that tests need not wait"""
RECOVERY: Final = "2"  # seconds
"""without a fault until a device is used again; likewise"""
CONTROL: Final = {"/dev/nvidiactl": (195, 255), "/dev/nvidia-uvm": (511, 0)}
"""device nodes of the driver that every container with a GPU has"""
_CARD: Final = re.compile(r"/dev/nvidia(\d+)")
_MESSAGES: Final = messages_of(POD_RESOURCES)


@dataclass(frozen=True, slots=True)
class Use:
    """The devices of one container, as each place has them, by UUID."""

    recorded: frozenset[str]
    """in the record of the pod"""
    allocated: frozenset[str]
    """by the kubelet"""
    environment: frozenset[str]
    """in CUDA_VISIBLE_DEVICES"""
    visible: frozenset[str]
    """in NVIDIA_VISIBLE_DEVICES"""
    nodes: frozenset[str]
    """by device nodes"""


class Agent:
    """The agent of a real node, started with a machine of GPUs; it keeps its port over restarts."""

    def __init__(self, node: RealNode, folder: Path, kubeconfig: Path | None = None) -> None:
        self.node, self.cluster = node, node.cluster
        (port,) = free_ports(1)
        self.http = Api(f"http://127.0.0.1:{port}")
        self._stub, self._cards = Stub(folder), 0
        self._uuids: list[str] = []
        self._own = {
            **self._stub.environment,
            "KUBECONFIG": str(kubeconfig or self.cluster.kubeconfig("agent")),
            "NODE_NAME": node.name,
            "LINKWISE_AGENT_PORT": str(port),
        }
        self.process = node.machine.process("agent", [sys.executable, "-m", "linkwise", "agent"])

    def start(self, machine: StubMachine, *, ready: bool = True, log_level: str = "info", **settings: str) -> None:
        """Start it on this machine, with settings of the section `agent`, and wait until it is ready."""
        self.has(machine)
        settings = {"interval": INTERVAL, "health_recovery": RECOVERY, **settings}
        self.process.environment = {
            **self._own,
            "LINKWISE_LOG_LEVEL": log_level,
            **{f"LINKWISE_AGENT_{name.upper()}": value for name, value in settings.items()},
        }
        self.process.start()
        if ready:
            self.wait_ready()

    def has(self, machine: StubMachine) -> None:
        """Make this the machine, the first one with device nodes; the agent notices it with its next discovery."""
        self._uuids = self._uuids or [gpu.uuid or "" for gpu in machine.gpus]
        if machine.gpus and not self._cards:
            self._cards = len(machine.gpus)
            self.node.add_nvidia(self._cards)
        self._stub.write(machine)

    def unload_driver(self) -> None:
        """NVML no longer answers; `has` loads the driver again."""
        self._stub.remove()

    def wait_ready(self) -> None:
        """Wait until it says that it is ready; BedError with its last words if it ends or is too late."""
        self.process.wait_until(lambda: self.http.answers("/readyz"), READY)

    def stop(self) -> int:
        """SIGTERM: its exit code."""
        code = self.process.stop()
        self.http.close()
        return code

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.http.close()

    def restart(self) -> None:
        """Kill it if it runs, and start it again with the settings it had."""
        self.kill()
        self.process.start()
        self.wait_ready()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.signal(number)

    def log(self) -> str:
        """All that it has logged."""
        return self.process.log.read_text(errors="replace") if self.process.log.exists() else ""

    def wait_log(self, words: str, seconds: float = READY, *, after: int = 0) -> None:
        """Wait until it has logged these words, in what follows this many characters."""
        wait_for(lambda: words in self.log()[after:], seconds, f"the agent logs {words!r}")

    def text(self, path: str) -> str:
        """What it answers under a path."""
        return self.http.raw("GET", path)[1].decode()

    def metric(self, name: str) -> float:
        """Sum of one of its metrics over all labels."""
        lines = [line.rsplit(" ", 1) for line in self.text("/metrics").splitlines() if not line.startswith("#")]
        return sum(float(value) for title, value in lines if title.partition("{")[0] == name)

    def inventory(self) -> Raw:
        """The DeviceInventory of the node; empty if there is none."""
        path = f"{INVENTORIES}/{self.node.name}"
        return dict(self.cluster.api.get(path)) if self.cluster.api.answers(path) else {}

    def condition(self, kind: str) -> Raw:
        """A condition of the inventory; empty if it has none of this type."""
        found = self.inventory().get("status", {}).get("conditions", ())
        return next((one for one in found if one["type"] == kind), {})

    def wait_condition(self, kind: str, status: str, seconds: float = READY) -> Raw:
        """The condition as soon as it has this status."""

        def reached() -> Raw:
            found = self.condition(kind)
            if found.get("status") != status:
                raise AssertionError(f"{self.inventory().get('status')}\n{self.process.tail()}")
            return found

        return wait_for(reached, seconds, f"condition {kind} is {status}")

    def wait_enforced(self, *, enforced: bool = True) -> Raw:
        """The inventory as soon as it says whether the agent allocates the devices."""

        def reached() -> Raw | None:
            found = self.inventory()
            if found.get("spec", {}).get("enforced") is not enforced:
                raise AssertionError(f"{found.get('spec', {}).get('enforced')}\n{self.process.tail()}")
            return found

        return wait_for(reached, READY, f"enforced is {enforced}")

    def wait_seen(self, placing: Placing, *, enforced: bool = True) -> None:
        """Wait until the scheduler service has the inventory as it is now, with devices that the agent allocates."""
        self.wait_enforced(enforced=enforced)

        def seen() -> bool:
            known = placing.snapshot()["objects"].get(self.node.name, {})
            versions = {document["metadata"].get("resourceVersion") for document in known.values()}
            return self.inventory()["metadata"]["resourceVersion"] in versions

        wait_for(seen, READY, "the service has the inventory")

    def pods(self) -> list[Raw]:
        """Pods of the node that were not refused and have not finished."""
        found = self.cluster.api.list(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{self.node.name}")
        ended = {"Succeeded", "Failed"}
        return [
            {"apiVersion": "v1", "kind": "Pod", **pod}
            for pod in found
            if pod["status"]["phase"] not in ended and "deletionTimestamp" not in pod["metadata"]
        ]

    def wait_running(self, number: int) -> None:
        """Wait until at least this many pods of the node run."""

        def reached() -> bool:
            phases = [(pod["metadata"]["name"], pod["status"]["phase"]) for pod in self.pods()]
            if sum(phase == "Running" for _, phase in phases) < number:
                raise AssertionError(f"{phases}\n{self.process.tail()}")
            return True

        wait_for(reached, RUNNING, f"{number} pods run")

    def uses(self, pod: Raw) -> dict[str, Use]:
        """The devices of each running container of a pod that has some, by the name of the container."""
        found = self.cluster.pod(pod["metadata"]["namespace"], pod["metadata"]["name"])
        about, kubelet = found["metadata"], kubelet_devices(self.node)
        recorded = {name: part["devices"] for name, part in grant(found).containers.items()}
        uses: dict[str, Use] = {}
        for container in found["spec"]["containers"]:
            name = container["name"]
            allocated = kubelet.get((about["namespace"], about["name"], name), ())
            if not allocated and name not in recorded:
                continue
            environment = self.node.environment(pod, name)
            uses[name] = Use(
                frozenset(recorded.get(name, ())),
                frozenset(allocated),
                _split(environment.get("CUDA_VISIBLE_DEVICES", "")),
                _split(environment.get("NVIDIA_VISIBLE_DEVICES", "")),
                self._by_nodes(self.node.devices(pod, name)),
            )
        return uses

    def agree(self, count: int | None = None) -> None:
        """All places agree about the devices of the pods of the node, within seconds; of this many pods, if given.

        A container has what its record and the kubelet say; what it only sees, of its group, is not in the record. No
        two pods have the same whole device.
        """
        wait_for(lambda: self._agreed(count), AGREED, "record, inventory, kubelet and containers agree")

    def _agreed(self, count: int | None) -> bool:
        pods = [pod for pod in self.pods() if _wants_devices(pod)]
        if count is not None and len(pods) != count:
            raise AssertionError(f"{len(pods)} pods: {[pod['metadata']['name'] for pod in pods]}")
        listed = {one["podUID"]: frozenset(one["devices"]) for one in self.inventory()["status"].get("allocations", ())}
        if listed.keys() != {pod["metadata"]["uid"] for pod in pods}:
            raise AssertionError(f"the inventory has {listed}")
        whole: list[str] = []
        for pod in pods:
            uses, name = self.uses(pod), pod["metadata"]["name"]
            for container, use in uses.items():
                own = [use.recorded, use.allocated, use.environment]
                if not use.recorded or len(set(own)) != 1 or use.nodes != (use.visible | use.environment):
                    raise AssertionError(f"{name}/{container}: {use}")
            used = frozenset[str]().union(*(use.recorded for use in uses.values()))
            if listed[pod["metadata"]["uid"]] != used:
                raise AssertionError(f"{name}: the inventory has {listed[pod['metadata']['uid']]}, the record {used}")
            whole += used if GPU in _limits(pod) else ()
        if len(whole) != len(set(whole)):
            raise AssertionError(f"a device is used twice: {sorted(whole)}")
        return True

    def _by_nodes(self, nodes: dict[str, tuple[int, int]]) -> frozenset[str]:
        """UUIDs of the GPUs whose device nodes these are, each with its own minor number; none without the driver's."""
        cards = {int(found[1]): numbers for path, numbers in nodes.items() if (found := _CARD.fullmatch(path))}
        rest = {path: numbers for path, numbers in nodes.items() if not _CARD.fullmatch(path)}
        if rest != CONTROL or any(numbers != (195, minor) for minor, numbers in cards.items()):
            raise AssertionError(f"device nodes are {nodes}")
        return frozenset(self._uuids[minor] for minor in cards)


def agent_role(cluster: Cluster) -> str:
    """Bind the shipped role to the agent's user; the manifest, to be deleted again."""
    role = printed("manifests", "rbac", "--agent", "--user", AGENT, "--name", "e2e-agent")
    cluster.apply(role, "kube-system")
    return role


def kubelet_devices(node: RealNode) -> dict[tuple[str, str, str], frozenset[str]]:
    """UUIDs of the devices that the kubelet has allocated, by namespace, pod and container."""
    with grpc.insecure_channel(f"unix:{node.pod_resources}") as channel:
        call = channel.unary_unary(
            f"/{POD_RESOURCES}/List",
            request_serializer=_MESSAGES["ListPodResourcesRequest"].SerializeToString,
            response_deserializer=_MESSAGES["ListPodResourcesResponse"].FromString,
        )
        answer = call(_MESSAGES["ListPodResourcesRequest"](), timeout=10)
    return {
        (pod.namespace, pod.name, container.name): ids
        for pod in answer.pod_resources
        for container in pod.containers
        if (ids := _devices(container.devices))
    }


def replicas(namespace: str, number: int) -> Raw:
    """A ReplicaSet of pods with one GPU each: pods that the kubelet refuses are replaced."""
    labels = {"app": "replicas"}
    template = {"metadata": {"labels": labels}, "spec": scheduled_pod(namespace, "any", {GPU: 1})["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "replicas", "namespace": namespace},
        "spec": {"replicas": number, "selector": {"matchLabels": labels}, "template": template},
    }


def _devices(entries: Iterable[Message]) -> frozenset[str]:
    names = [name for entry in entries for name in entry.device_ids]
    return frozenset(name.partition("-_-")[0] for name in names)


def _split(text: str) -> frozenset[str]:
    return frozenset(text.split(",")) - {""}


def _limits(pod: Raw) -> set[str]:
    return {name for one in pod["spec"]["containers"] for name in one.get("resources", {}).get("limits", {})}


def _wants_devices(pod: Raw) -> bool:
    return bool(_limits(pod) & {GPU, MEMORY})
