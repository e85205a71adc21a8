"""kube-scheduler and the Linkwise service of the test cluster; each can be killed and restarted."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Final

from support.e2e.api_client import Api
from support.e2e.config_files import write_json
from support.e2e.processes import Process, free_ports

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

__all__ = ["Scheduler", "Serve"]

READY: Final = 30.0  # seconds a program has to get ready
ALONE: Final = {"LINKWISE_LEADER_ENABLED": "false"}
"""a replica that was killed holds its Lease for a while: only tests of several replicas elect a leader"""


class Scheduler:
    """kube-scheduler, with one configuration at a time."""

    def __init__(self, programs: Path, folder: Path, kubeconfig: Path, *flags: str) -> None:
        (port,) = free_ports(1)
        self._file = folder / "kube-scheduler.json"
        self._said = ""
        self.health = Api(f"https://127.0.0.1:{port}")
        self.process = Process(
            "kube-scheduler",
            [
                programs / "kube-scheduler",
                f"--config={self._file}",
                f"--authentication-kubeconfig={kubeconfig}",
                f"--authorization-kubeconfig={kubeconfig}",
                "--authentication-tolerate-lookup-failure",
                f"--secure-port={port}",
                "--bind-address=127.0.0.1",
                *flags,
            ],
            folder,
        )

    def run(self, configuration: Mapping[str, object] | str) -> None:
        """Run with this configuration, JSON or YAML; started again only if it ran with another or not at all."""
        said = configuration if isinstance(configuration, str) else json.dumps(configuration)
        if self.process.alive and said == self._said:
            return
        self.stop()
        self._file.write_text(said)
        self._said = said
        self.start()

    def start(self) -> None:
        """Start with the configuration it had, and wait until it has seen the cluster."""
        self.process.start()
        self.process.wait_until(lambda: self.health.answers("/readyz"), READY)

    def stop(self) -> None:
        """Ask it to end."""
        self.process.stop()
        self.health.close()

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self.health.close()


def _has_tls(configuration: Mapping[str, object] | None) -> bool:
    section = (configuration or {}).get("tls")
    return isinstance(section, dict) and bool(section.get("enabled"))


class Serve:
    """`linkwise serve` as a process of its own, under one user; it keeps its port over restarts."""

    def __init__(  # noqa: PLR0913 - every field but two has a default
        self,
        kubeconfig: Path,
        folder: Path,
        *,
        name: str = "serve",
        words: Iterable[str] = (),
        configuration: Mapping[str, object] | None = None,
        environment: Mapping[str, str] | None = None,
        alone: Mapping[str, str] = ALONE,
    ) -> None:
        (self.port,) = free_ports(1)
        self.url = f"{'https' if _has_tls(configuration) else 'http'}://127.0.0.1:{self.port}"
        self.http = Api(self.url)
        command = [sys.executable, "-m", "linkwise", "serve", "--kubeconfig", str(kubeconfig)]
        command += ["--host", "127.0.0.1", "--port", str(self.port)]
        if configuration is not None:
            command += ["--config", str(write_json(folder / f"{name}.yaml", configuration))]
        if "leader" in (configuration or {}):
            alone = {}
        self.process = Process(name, [*command, *words], folder, {**alone, **(environment or {})})

    def start(self, seconds: float = READY) -> None:
        """Start it and wait until it is ready."""
        self.process.start()
        self.wait_ready(seconds)

    def wait_ready(self, seconds: float = READY) -> None:
        """Wait until it says that it is ready; BedError with its last words if it ends or is too late."""
        self.process.wait_until(lambda: self.http.answers("/readyz"), seconds)

    def stop(self) -> int:
        """SIGTERM: its exit code."""
        code = self.process.stop()
        self.http.close()
        return code

    def kill(self) -> int:
        """SIGKILL: its exit code."""
        code = self.process.kill()
        self.http.close()
        return code

    def restart(self) -> None:
        """Kill it if it runs, and start it again."""
        self.kill()
        self.start()
