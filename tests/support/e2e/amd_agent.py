"""Node agent of the test cluster on a machine of AMD GPUs, which a stub of AMD SMI simulates."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from support.amdsmi_stub.stub import AmdSmiStub
from support.e2e.agent import INTERVAL, RECOVERY, Agent, kubelet_devices
from support.e2e.real_node.node import DRM, KFD

if TYPE_CHECKING:
    from pathlib import Path

    from support.amdsmi_stub.machine import StubAmd
    from support.e2e.api_client import Raw
    from support.e2e.real_node.node import RealNode

__all__ = ["AMD", "AmdAgent"]

AMD: Final = "amd.com/gpu"
_RENDER: Final = re.compile(r"/dev/dri/renderD(\d+)")


class AmdAgent(Agent):
    """The agent of a real node with AMD GPUs; the kernel's files are in a folder, with the devices of the node."""

    def __init__(self, node: RealNode, folder: Path, kubeconfig: Path | None = None) -> None:
        super().__init__(node, folder, kubeconfig)
        self._amd = AmdSmiStub(folder / "amd-host")
        self._own |= self._amd.environment | {"LINKWISE_AGENT_HOST_ROOT": str(self._amd.host)}
        (self._amd.host / "dev").symlink_to("/dev")
        self._cards_of: dict[int, int] = {}

    def start_gpus(self, machine: StubAmd, **settings: str) -> None:
        """Start it on this machine, with settings of the section `agent`, and wait until it is ready."""
        self._cards_of = {gpu.render: gpu.card or 0 for gpu in machine.gpus if gpu.render is not None}
        self.node.add_amd(self._cards_of)
        self.has_gpus(machine)
        settings = {"interval": INTERVAL, "health_recovery": RECOVERY, **settings}
        names = {f"LINKWISE_AGENT_{name.upper()}": value for name, value in settings.items()}
        self.process.environment = {**self._own, **names}
        self.process.start()
        self.wait_ready()

    def has_gpus(self, machine: StubAmd) -> None:
        """Make this the machine; the agent notices it with its next discovery."""
        self._amd.write(machine)

    def in_container(self, pod: Raw) -> list[int]:
        """Numbers of the render nodes that a container has, beside exactly their cards and /dev/kfd."""
        nodes = self.node.devices(pod)
        found = sorted(int(match[1]) for path in nodes if (match := _RENDER.fullmatch(path)))
        expected = {"/dev/kfd": (KFD, 0)}
        for render in found:
            card = self._cards_of[render]
            expected |= {f"/dev/dri/renderD{render}": (DRM, render), f"/dev/dri/card{card}": (DRM, card)}
        if nodes != expected:
            raise AssertionError(f"device nodes are {nodes}")
        return found

    def by_kubelet(self, pod: Raw) -> set[str]:
        """UUIDs of the GPUs that the kubelet has allocated to a pod."""
        about = pod["metadata"]
        return set(kubelet_devices(self.node)[about["namespace"], about["name"], "main"])
