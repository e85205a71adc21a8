"""containerd of a real node: the image of the tests, CDI, and pods with an address but no network."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from support.e2e.config_files import write_json
from support.e2e.processes import wait_for
from support.e2e.real_node.images import IMAGE, write_image

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from support.e2e.real_node.machine import Machine

__all__ = ["CDI", "ENDPOINT", "Containerd"]

READY: Final = 30.0  # seconds
SOCKET: Final = "/run/containerd/containerd.sock"
ENDPOINT: Final = f"unix://{SOCKET}"
CDI: Final = "/run/cdi"
TASKS: Final = "run/containerd/io.containerd.runtime.v2.task/k8s.io"

# A host without CAP_SYS_RESOURCE can't lower the out-of-memory score of a container.
CONFIGURATION: Final = f"""
version = 4
[grpc]
  address = "{SOCKET}"
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  cdi_spec_dirs = ["{CDI}"]
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["/run/cni", "/usr/lib/cni"]
    conf_dir = "/run/cni"
    use_internal_loopback = true
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "{IMAGE}"
"""

# CNI plugin. A pod must have an address to become Ready; without an interface nothing is left on the host.
NETWORK: Final = """#!/bin/sh
case $CNI_COMMAND in
VERSION) echo '{"cniVersion": "1.0.0", "supportedVersions": ["1.0.0"]}' ;;
ADD)
  address=10.244.$((0x$(echo "$CNI_CONTAINERID" | cut -c1-2))).$((0x$(echo "$CNI_CONTAINERID" | cut -c3-4)))
  echo '{"cniVersion": "1.0.0", "interfaces": [{"name": "eth0", "sandbox": "'"$CNI_NETNS"'"}],
    "ips": [{"address": "'"$address"'/16", "interface": 0}]}' ;;
esac
"""


ISOLATED: Final[Mapping[str, object]] = {"type": "isolated"}


class Containerd:
    """The container runtime of a machine that runs, with a CNI plugin by which pods have a network or none."""

    def __init__(self, programs: Path, machine: Machine, plugin: Mapping[str, object] = ISOLATED) -> None:
        self._machine, self._ctr, self._plugin = machine, programs / "ctr", plugin
        configuration = machine.folder / "containerd.toml"
        configuration.write_text(CONFIGURATION)
        path = {"PATH": f"{programs}:{os.environ['PATH']}"}  # where it finds its shim, and runc
        self.process = machine.process("containerd", [programs / "containerd", "--config", configuration], path)

    def start(self) -> None:
        """Start it and import the image."""
        network = self._machine.root / "run/cni"
        network.mkdir(exist_ok=True)
        (network / "isolated").write_text(NETWORK)
        (network / "isolated").chmod(0o755)
        write_json(network / "e2e.conflist", {"cniVersion": "1.0.0", "name": "e2e", "plugins": [self._plugin]})
        self.process.start()
        self.process.wait_until((self._machine.root / SOCKET.lstrip("/")).exists, READY)
        self.ctr("images", "import", write_image(self._machine.folder / "image.tar"))

    def ctr(self, *words: str | Path) -> str:
        """Output of ctr in the namespace of Kubernetes."""
        return self._machine.run(self._ctr, "--address", SOCKET, "--namespace", "k8s.io", *words)

    def containers(self) -> list[str]:
        """Ids of all containers and pod sandboxes, running or not."""
        folder = self._machine.root / TASKS
        return [found.name for found in folder.iterdir()] if folder.exists() else []

    def process_of(self, container: str) -> Path:
        """The /proc folder of the first process of a running container.

        A container counts as running a moment before runc's own process becomes that of the container.
        """
        number = (self._machine.root / TASKS / container / "init.pid").read_text()
        process = self._machine.root / "proc" / number
        wait_for(lambda: not (process / "comm").read_text().startswith("runc:"), READY, "the container has started")
        return process
