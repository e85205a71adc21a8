"""Node agent of the test cluster on a machine of Ascend chips, which a stub of DCMI simulates."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from support.dcmi_stub.stub import DcmiStub
from support.e2e.agent import INTERVAL, RECOVERY, Agent, kubelet_devices
from support.e2e.processes import wait_for
from support.e2e.real_node.node import ASCEND_CONTROL, ASCEND_MANAGER, DAVINCI

if TYPE_CHECKING:
    from pathlib import Path

    from support.dcmi_stub.machine import StubNpus
    from support.e2e.api_client import Raw
    from support.e2e.real_node.node import RealNode

__all__ = ["ASCEND", "CONSUMED", "AscendAgent", "chips"]

ASCEND: Final = "huawei.com/Ascend910"
CONSUMED: Final = "18446744073709551615"
SECONDS: Final = 20.0
_CHIP: Final = re.compile(r"/dev/davinci(\d+)")
_CONTROL: Final = {f"/dev/{name}": (ASCEND_MANAGER, minor) for minor, name in enumerate(ASCEND_CONTROL)}


def chips(names: str) -> list[int]:
    """The numbers of a list of chips in Huawei's format."""
    return [int(name.removeprefix("Ascend910-")) for name in names.split(",") if name]


class AscendAgent(Agent):
    """The agent of a real node with Ascend chips."""

    def __init__(self, node: RealNode, folder: Path, kubeconfig: Path | None = None) -> None:
        super().__init__(node, folder, kubeconfig)
        self._npus = DcmiStub(folder)
        self._own |= self._npus.environment

    def start_npus(self, machine: StubNpus, *, nodes: bool = True, **settings: str) -> None:
        """Start it on this machine, with settings of the section `agent`, and wait until it is ready; `nodes` makes /dev."""
        if nodes:
            self.node.add_ascend(len(machine.chips))
        self.has_npus(machine)
        settings = {"interval": INTERVAL, "health_recovery": RECOVERY, **settings}
        names = {f"LINKWISE_AGENT_{name.upper()}": value for name, value in settings.items()}
        self.process.environment = {**self._own, **names}
        self.process.start()
        self.wait_ready()

    def has_npus(self, machine: StubNpus) -> None:
        """Make this the machine; the agent notices it with its next discovery."""
        self._npus.write(machine)

    def served(self, pod: Raw) -> Raw:
        """The pod as soon as its annotations say that its chips are mounted."""

        def reached() -> Raw:
            found: Raw = self.cluster.pod(pod["metadata"]["namespace"], pod["metadata"]["name"])
            if "huawei.com/AscendReal" not in found["metadata"].get("annotations", {}):
                raise AssertionError(f"{found['metadata']}\n{self.process.tail()}")
            return found

        return wait_for(reached, SECONDS, f"the chips of {pod['metadata']['name']} are on record")

    def in_container(self, pod: Raw) -> list[int]:
        """Numbers of the chips whose device nodes a container has, beside exactly those of the driver."""
        nodes = self.node.devices(pod)
        found = {int(match[1]): numbers for path, numbers in nodes.items() if (match := _CHIP.fullmatch(path))}
        rest = {path: numbers for path, numbers in nodes.items() if not _CHIP.fullmatch(path)}
        if rest != _CONTROL or any(numbers != (DAVINCI, chip) for chip, numbers in found.items()):
            raise AssertionError(f"device nodes are {nodes}")
        return sorted(found)

    def by_kubelet(self, pod: Raw) -> list[int]:
        """Numbers of the chips that the kubelet has allocated to a pod."""
        about = pod["metadata"]
        return sorted(chips(",".join(kubelet_devices(self.node)[about["namespace"], about["name"], "main"])))

    def wait_node_annotation(self, key: str, text: str) -> None:
        """Wait until the Node has this annotation."""

        def reached() -> bool:
            found = self.node.object()["metadata"].get("annotations", {})
            if found.get(key) != text:
                raise AssertionError(f"{found}\n{self.process.tail()}")
            return True

        wait_for(reached, SECONDS, f"the node has {key}={text}")
