"""Volcano of the test cluster: its scheduler and its controllers, each of which can be killed and restarted."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from support.e2e.api_client import Api, marked
from support.e2e.processes import Process, free_ports, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from support.e2e.own_cluster import OwnCluster

__all__ = ["QUEUES", "Volcano", "installed_volcano"]

QUEUES: Final = "/apis/scheduling.volcano.sh/v1beta1/queues"
SESSIONS: Final = "volcano_e2e_scheduling_latency_milliseconds_count"
"""counts the sessions of the scheduler"""
READY: Final = 60.0  # seconds a program has to get ready
FLAGS: Final = ("--leader-elect=false", "--kube-api-qps=1000", "--kube-api-burst=2000")


class Volcano:
    """Both programs of Volcano under one user; the scheduler has one configuration at a time."""

    def __init__(self, programs: Path, cluster: OwnCluster, *flags: str) -> None:
        self.cluster = cluster
        self.configuration = cluster.folder / "volcano-scheduler.conf"
        health, metrics = free_ports(2)
        self._health, self._metrics = Api(f"http://127.0.0.1:{health}"), Api(f"http://127.0.0.1:{metrics}")
        user = f"--kubeconfig={cluster.kubeconfig('volcano')}"
        self.scheduler = Process(
            "volcano-scheduler",
            [
                programs / "scheduler",
                user,
                f"--scheduler-conf={self.configuration}",
                "--scheduler-name=volcano",
                # An invalid configuration ends the program, instead of one without an extender that places pods alone.
                "--disable-default-scheduler-config=true",
                "--enable-healthz",
                f"--healthz-address=127.0.0.1:{health}",
                "--enable-metrics",
                f"--listen-address=127.0.0.1:{metrics}",
                "--cache-dumper=false",
                # Five sessions a second: tests wait for sessions, and a gang that does not fit is tried more often.
                "--schedule-period=200ms",
                "--percentage-nodes-to-find=100",
                *FLAGS,
                *flags,
            ],
            cluster.folder,
        )
        self.controllers = Process(
            "volcano-controllers",
            [
                programs / "controller-manager",
                user,
                "--scheduler-name=volcano",
                "--enable-healthz=false",
                "--enable-metrics=false",
                *FLAGS,
            ],
            cluster.folder,
        )

    def run(self, configuration: str) -> None:
        """Run the scheduler with this configuration; started again only if it ran with another or not at all."""
        if self.scheduler.alive and self.configuration.read_text() == configuration:
            return
        self.stop()
        self.configuration.write_text(configuration)
        self.start()

    def start(self) -> None:
        """Start the scheduler with the configuration it had, and wait until its first session is over.

        It makes the queues `root` and `default`, and the controllers open them.
        """
        self.scheduler.start()
        self.scheduler.wait_until(lambda: self._health.answers("/healthz"), READY)
        self.scheduler.wait_until(lambda: self._metrics.answers("/metrics") and self.sessions(), READY)
        wait_for(lambda: self._open("default"), READY, "the queue default is open")

    def stop(self) -> None:
        """Ask the scheduler to end."""
        self.scheduler.stop()
        self._close()

    def kill(self) -> None:
        """End the scheduler as a crash would."""
        self.scheduler.kill()
        self._close()

    def restart(self) -> None:
        """Kill the scheduler if it runs, and start it again."""
        self.kill()
        self.start()

    def sessions(self) -> int:
        """How many sessions the running scheduler has finished."""
        _, content = self._metrics.raw("GET", "/metrics")
        lines = [line for line in content.decode().splitlines() if line.startswith(SESSIONS)]
        return int(float(lines[0].rsplit(" ", 1)[1])) if lines else 0

    def pass_sessions(self, count: int = 2, seconds: float = 30.0) -> None:
        """Wait until the scheduler has finished so many more sessions; the first of them may have begun before."""
        wanted = self.sessions() + count
        wait_for(lambda: self.sessions() >= wanted, seconds, f"{count} sessions of Volcano")

    def queue(self, name: str, capability: Mapping[str, int | str] | None = None) -> None:
        """Make a queue with at most so much of each resource, and wait until it is open."""
        amounts = {resource: str(amount) for resource, amount in (capability or {}).items()}
        spec = {"weight": 1, "reclaimable": True, "capability": amounts}
        about = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
        self.cluster.api.create(marked({**about, "spec": spec}))
        wait_for(lambda: self._open(name), READY, f"the queue {name} is open")

    def close(self) -> None:
        """End both programs."""
        self.kill()
        self.controllers.kill()

    def _open(self, name: str) -> bool:
        found = {queue["metadata"]["name"]: queue.get("status", {}) for queue in self.cluster.api.list(QUEUES)}
        return bool(found.get(name, {}).get("state") == "Open")

    def _close(self) -> None:
        self._health.close()
        self._metrics.close()


@contextmanager
def installed_volcano(cluster: OwnCluster, programs: Path, *flags: str) -> Iterator[Volcano]:
    """Volcano's definitions and controllers; the scheduler, with further flags, runs when a test says how.

    All of it is removed again.
    """
    manifests = programs.parent / "manifests"
    made = Volcano(programs, cluster, *flags)
    try:
        cluster.install(manifests)
        made.controllers.start()
        yield made
    finally:
        made.close()
        cluster.kubectl("delete", "--ignore-not-found", "--filename", str(manifests))
