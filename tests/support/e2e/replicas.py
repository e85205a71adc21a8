"""Two replicas of the service as processes, and the way from kube-scheduler to the one that leads.

`Forwarder` stands in for kube-proxy: it accepts connections at one address, which is that of the Service, and passes each on
to the endpoint that the EndpointSlice had when it was opened. Connections that are open stay with their replica, as with
kube-proxy. The API server refuses endpoints on the loopback, so replicas announce an address of a documentation range, with
the port by which they listen on the loopback.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager, suppress
from signal import SIGCONT, SIGKILL, SIGSTOP
from typing import TYPE_CHECKING, Final

from support.e2e.api_client import Api, ApiError
from support.e2e.processes import BedError, wait_for
from support.e2e.relay import Relay
from support.e2e.scheduler import Serve
from support.e2e.service import Placing, printed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from support.e2e.api_client import Raw
    from support.e2e.cluster import Cluster

__all__ = ["Forwarder", "Replicas", "running_replicas"]

NAMESPACE: Final = "kube-system"
ADDRESS: Final = "192.0.2.1"
SLICES: Final = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
TIMES: Final[Mapping[str, float]] = {"lease_duration": 2.0, "renew_deadline": 1.2, "retry_period": 0.3}
BIND_TIMEOUT: Final = 0.75  # seconds; less than what is left of the lease after the renew deadline
SECONDS: Final = 30.0


class Forwarder:
    """Passes connections on to the port of the loopback that an EndpointSlice names."""

    def __init__(self, api: Api) -> None:
        self._api = api.another()
        listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.target = 0
        """the port of the leader; 0 if there is none"""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()
        self._relay = Relay(listener, lambda: self.target)

    def close(self) -> None:
        """Stop; connections that are open end with their peers."""
        self._ended.set()
        self._relay.close()
        self._thread.join(5)
        self._api.close()

    def _follow(self) -> None:
        while not self._ended.wait(0.02):
            with suppress(ApiError, BedError):  # an API server that is down changes no way that there is
                self.target = _port(self._api.get(f"{SLICES}/linkwise-leader"))


def _port(found: Raw) -> int:
    """The port of the ready endpoint of the Service; 0 if there is none."""
    ready = [each for each in found["endpoints"] or () if each["conditions"]["ready"]]
    ours = found["metadata"]["labels"]["kubernetes.io/service-name"] == "linkwise"
    return int(found["ports"][0]["port"]) if ours and ready else 0


class Replicas:
    """Replicas of one service; whichever ends is started again by `revive`, as the kubelet would."""

    def __init__(self, cluster: Cluster, count: int = 2) -> None:
        self.cluster = cluster
        configuration = {
            "kube": {"bind_timeout": BIND_TIMEOUT},
            "leader": {**TIMES, "service": "linkwise", "address": ADDRESS, "namespace": NAMESPACE},
        }
        self.serves = [
            Serve(
                cluster.kubeconfig("linkwise"),
                cluster.folder,
                name=f"serve-replica-{number}",
                configuration=configuration,
            )
            for number in range(count)
        ]
        self.forwarder = Forwarder(cluster.api)
        self.handovers: list[float] = []
        """seconds from a kill until another replica answers"""

    def start(self) -> None:
        """Start all, and wait until one leads and the others stand by."""
        for serve in self.serves:
            serve.process.start()
        self.settle()

    def close(self) -> None:
        """End everything."""
        for serve in self.serves:
            with suppress(BedError):
                serve.process.signal(SIGCONT)
            serve.stop()
        self.forwarder.close()

    def settle(self, seconds: float = SECONDS) -> Serve:
        """Wait until every replica is ready and the EndpointSlice leads to the one that leads; that one."""

        def one_leads() -> Serve | None:
            self.revive()
            for serve in self.serves:
                assert serve.http.answers("/readyz"), f"{serve.process.name} is not ready"
            leaders = [serve for serve in self.serves if self.metric(serve, "linkwise_leader") == 1.0]
            assert len(leaders) == 1, [self.role(serve) for serve in self.serves]
            assert leaders[0].port == self.forwarder.target, "the EndpointSlice leads elsewhere"
            return leaders[0]

        return wait_for(one_leads, seconds, "one replica leads")

    def revive(self) -> None:
        """Start replicas that have ended."""
        for serve in self.serves:
            if not serve.process.alive:
                serve.http.close()
                serve.process.kill()
                serve.process.start()

    def role(self, serve: Serve) -> str:
        """What a replica says of itself."""
        return serve.http.raw("GET", "/readyz")[1].decode()

    def metric(self, serve: Serve, name: str) -> float:
        """One of its numbers."""
        return Placing(self.cluster, serve).metric(name)

    def kill_leader(self, delay: float = 0.0) -> float:
        """Kill the leader as a crash would and start it again, as a standby; seconds until another one answers."""
        leader = next(serve for serve in self.serves if serve.port == self.forwarder.target)
        time.sleep(delay)
        leader.process.signal(SIGKILL)
        killed = time.monotonic()
        leader.process.kill()
        leader.http.close()
        leader.process.start()
        return self._handed_over(leader, killed)

    def stop_leader(self) -> tuple[int, float]:
        """End the leader by SIGTERM and start it again: its exit code, and the seconds until another one answers."""
        leader = next(serve for serve in self.serves if serve.port == self.forwarder.target)
        began = time.monotonic()
        code = leader.stop()
        took = self._handed_over(leader, began)
        leader.process.start()
        return code, took

    def suspend_leader(self) -> Serve:
        """Stop the leader in the middle of what it does, and wait until another one leads."""
        leader = next(serve for serve in self.serves if serve.port == self.forwarder.target)
        leader.process.signal(SIGSTOP)
        self._handed_over(leader, time.monotonic())
        return leader

    def resume(self, suspended: Serve) -> int:
        """Let a suspended replica continue, which has lost its Lease: the exit code with which it ends, by itself."""
        suspended.process.signal(SIGCONT)
        wait_for(lambda: not suspended.process.alive, SECONDS, "the replica that was suspended ends")
        suspended.http.close()
        return suspended.process.kill()

    def _handed_over(self, former: Serve, since: float) -> float:
        # In between, the Service leads to none: a replica that starts takes its own address out.
        wait_for(lambda: self.forwarder.target not in {0, former.port}, SECONDS, "another replica leads")
        taken = next(serve for serve in self.serves if serve.port == self.forwarder.target)
        wait_for(lambda: self.metric(taken, "linkwise_leader") == 1.0, SECONDS, "it answers")
        return time.monotonic() - since


@contextmanager
def running_replicas(cluster: Cluster, name: str) -> Iterator[Replicas]:
    """Two replicas under the shipped role; kube-scheduler reaches the leader through a Service without a selector."""
    role = printed("manifests", "rbac", "--user", "linkwise", "--name", f"e2e-{name}", "--namespace", NAMESPACE)
    cluster.apply(role, NAMESPACE)
    ports = [{"name": "http", "port": 39999}]
    about = {"name": "linkwise", "namespace": NAMESPACE}
    with suppress(ApiError):
        cluster.api.create({"apiVersion": "v1", "kind": "Service", "metadata": about, "spec": {"ports": ports}})
    replicas = Replicas(cluster)
    try:
        replicas.start()
        way = ["--kubeconfig", str(cluster.kubeconfig("scheduler")), "--no-leader-elect"]
        url = replicas.forwarder.url
        cluster.scheduler.run(printed("config", "scheduler", "--url", url, "--default-scheduler", *way))
        yield replicas
    finally:
        cluster.scheduler.stop()
        replicas.close()
        cluster.api.delete(f"/api/v1/namespaces/{NAMESPACE}/services/linkwise")
        cluster.api.delete(f"{SLICES}/linkwise-leader")
        cluster.api.delete(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/linkwise")
        cluster.kubectl("delete", "--ignore-not-found", "--filename", "-", stdin=role)
