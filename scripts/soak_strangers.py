"""Soak test of the service's port: 20 callers without a certificate send 64 MiB bodies for SECONDS, beside a scheduler's calls.

`python scripts/soak_strangers.py 20` prints the memory of the service, and how long filter calls of a caller with a
certificate took, before, during and after the attack. It exits with 1 if memory grew by more than the attackers may hold, or
did not return.
"""

from __future__ import annotations

import base64
import json
import multiprocessing
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING

from linkwise.net.certificates import Certificate
from linkwise.net.http.client import Origin
from support.blocking_http import BlockingHttp
from support.e2e.node_objects import machine
from support.e2e.pod_objects import pod
from support.embedded.thread import EmbeddedThread
from support.tls_client import trusting

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMESPACE = "linkwise-system"  # of the Secrets, where the service is outside of a cluster
ATTACKERS = 20
NODES = 500
BODY = 64 << 20
HEAD = f"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {BODY}\r\n\r\n".encode()
BAR = 64.0  # MiB above what there was before; callers without a certificate may hold as much
LEFT = 16.0  # MiB that may be left afterwards
SETTLE = 4.0  # seconds until memory has returned
START = 300.0  # seconds that the service may take until it is ready


def main() -> int:
    """Attack the service; 1 if it takes too much memory."""
    seconds = float(sys.argv[1])
    with EmbeddedThread() as cluster, serving(cluster) as (service, port):
        secret = {name: base64.b64decode(text).decode() for name, text in certificate(cluster).items()}
        trust = trusting(secret["ca.crt"], Certificate(secret["tls.crt"], secret["tls.key"]))
        with closing(BlockingHttp(Origin("127.0.0.1", port, tls=trust), 60.0)) as scheduler:
            called(scheduler, 2.0, service)  # fills the tables
            before, first = resident(service), called(scheduler, seconds / 4, service)
            attackers = [multiprocessing.Process(target=attack, args=(port, seconds)) for _ in range(2)]
            for attacker in attackers:
                attacker.start()
            during = called(scheduler, seconds, service)
            for attacker in attackers:
                attacker.join()
            called(scheduler, SETTLE, service)
            after = resident(service)
    for name, (spent, _) in (("before", first), ("during", during)):
        tail = quantiles(spent, n=100)[98]
        print(
            f"filter {name} the attack: {len(spent)} calls, median {median(spent):.1f} ms, 99 of 100 in {tail:.1f} ms"
        )
    print(f"memory: {before:.0f} MiB before, {during[1]:.0f} at most during, {after:.0f} after {SETTLE:g} s")
    return during[1] > before + BAR or after > before + LEFT


@contextmanager
def serving(cluster: EmbeddedThread, nodes: int = NODES) -> Iterator[tuple[int, int]]:
    """`linkwise serve` with TLS as a process beside an embedded API server; its process id and port."""
    cluster.api().create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    for number in range(nodes):
        for document in machine(f"node-{number:03}", "nvlink"):
            cluster.api().create(document)
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        kubeconfig.write_text(cluster.do(lambda api: api.kubeconfig()), "utf-8")
        variables = {"LINKWISE_TLS_ENABLED": "true", "LINKWISE_LEADER_ENABLED": "false", "LINKWISE_LOG_LEVEL": "error"}
        command = [sys.executable, "-m", "linkwise", "serve", "--kubeconfig", str(kubeconfig), "--port", str(port)]
        with subprocess.Popen(command, env={**os.environ, **variables}) as process:  # noqa: S603 - ourselves
            try:
                wait_until_ready(process, port)
                yield process.pid, port
            finally:
                process.terminate()


def wait_until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    """Wait until probes succeed, as long as a busy machine takes; RuntimeError with the last answer if they do not."""
    last, end = "no answer", time.monotonic() + START
    with closing(BlockingHttp(Origin("127.0.0.1", port, tls=blind()), 5.0)) as http:
        while process.poll() is None and time.monotonic() < end:
            with suppress(Exception):
                answer = http.call("GET", "/readyz", {})
                if answer.status == 200:
                    return
                last = answer.body.decode()
            time.sleep(0.1)
    raise RuntimeError(f"the service has ended with {process.returncode}" if process.returncode is not None else last)


def certificate(cluster: EmbeddedThread) -> dict[str, str]:
    """The Secret of kube-scheduler."""
    found = cluster.do(lambda api: api.store.get("secrets", "linkwise-scheduler-tls", NAMESPACE).data)
    data: dict[str, str] = json.loads(found)["data"]
    return data


def called(http: BlockingHttp, seconds: float, service: int) -> tuple[list[float], float]:
    """Call filter for so long; milliseconds of each call, and the most memory of the service meanwhile, MiB."""
    body = json.dumps(
        {
            "Pod": pod("default", "p", {"nvidia.com/gpu": 2}),
            "NodeNames": [f"node-{number:03}" for number in range(NODES)],
        }
    ).encode()
    spent, most, end = list[float](), 0.0, time.monotonic() + seconds
    while time.monotonic() < end:
        started = time.perf_counter()
        answer = http.call("POST", "/filter", {"Content-Type": "application/json"}, body)
        spent.append((time.perf_counter() - started) * 1e3)
        if answer.status != 200:
            raise AssertionError(answer)
        most = max(most, resident(service))
        time.sleep(0.01)
    return spent, most


def attack(port: int, seconds: float) -> None:
    """Half of the attackers: each connects, sends as much of its body as is read, and connects again."""
    context, end = blind(), time.monotonic() + seconds
    piece, open_ = bytes(1 << 18), list[ssl.SSLSocket]()
    while time.monotonic() < end:
        while len(open_) < ATTACKERS // 2:
            with suppress(OSError):
                made = context.wrap_socket(socket.create_connection(("127.0.0.1", port), 5.0))
                made.sendall(HEAD)
                made.settimeout(0.01)
                open_.append(made)
        for wire in tuple(open_):
            try:
                wire.sendall(piece)
            except TimeoutError:
                continue
            except OSError:
                wire.close()
                open_.remove(wire)


def blind() -> ssl.SSLContext:
    """A client that verifies nothing and presents nothing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def resident(process: int) -> float:
    """MiB of memory of a process."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / (1 << 20)


if __name__ == "__main__":
    sys.exit(main())
