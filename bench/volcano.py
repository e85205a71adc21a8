"""Volcano's calls in extender-only mode: latency of predicate over sockets, 16 in parallel as Volcano sends them.

For each task Volcano calls predicate once per node, with the complete node and all of its tasks in the body, then prioritize
with all nodes that passed. The bodies have the keys and the size of recorded ones, with 20 pods per node.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import msgspec
import uvloop
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from linkwise.broker.broker import Broker
from linkwise.model.settings import PlacingSettings
from linkwise.net.http.server import Server, listen
from linkwise.serve.app import application
from linkwise.serve.metrics import Counting
from linkwise.serve.service import Service
from linkwise.testing.cluster import ASCEND, FakeNode, device_pod
from linkwise.testing.recorder import Recorder
from support.builders.volcano import node_info, pod_group, task_info, volcano_pod

if TYPE_CHECKING:
    from linkwise.model.views import PodView

SIZES = (50, 300, 1000)
PODS, PARALLEL, TASKS, MEMBERS = 20, 16, 6, 4
BAR_NODES, BAR = 300, 20.0  # ms
HEAD = "POST {} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"
NOISE: dict[str, Any] = {
    "managedFields": [
        {
            "manager": "vc-controllers",
            "operation": "Update",
            "fieldsV1": {f"f:field-{number}": {} for number in range(140)},
        }
    ]
}
"""what the API server keeps about writers of an object, which Volcano sends too"""


def names(count: int) -> list[str]:
    """Names of nodes."""
    return [f"npu-{number:04d}" for number in range(count)]


def pods_on(name: str) -> list[PodView]:
    """The pods of a node: some with chips, most without."""
    plain = [replace(device_pod(f"{name}-{number}"), containers=(), node=name, version=2) for number in range(PODS - 3)]
    chips = [
        replace(
            device_pod(f"{name}-chip-{number}", 1, ASCEND),
            annotations={ASCEND: f"Ascend910-{number}"},
            node=name,
            scheduler="volcano",
            version=2,
        )
        for number in range(3)
    ]
    return [*chips, *plain]


def task(number: int) -> PodView:
    """A pending pod, with a PodGroup of its own as Volcano's controllers make it."""
    return volcano_pod(f"task-{number}", 4, f"group-{number}")


def member(number: int) -> PodView:
    """A member of a gang, which is planned by the first call."""
    return volcano_pod(f"member-{number}", 4, "gang")


def service(count: int) -> Service:
    """The service, with the complete cluster observed."""
    broker = Broker(PlacingSettings(job_shape="per-pod"), parse=msgspec.json.decode)
    for name in names(count):
        broker.see(FakeNode(name, "ring", 8).events())
        broker.see(pods_on(name))
    broker.see([event for number in range(TASKS) for event in (pod_group(f"group-{number}"), task(number))])
    broker.see([pod_group("gang", MEMBERS), *(member(number) for number in range(MEMBERS))])
    made = Service(broker, Recorder(), Counting())
    broker.recover(time.time())
    made.start()
    return made


async def serve(count: int) -> None:
    """Serve, and print the port."""
    made = service(count)
    door = listen("127.0.0.1", 0)
    print(door.getsockname()[1], flush=True)
    work = asyncio.create_task(made.run())
    await Server(application(made, dict)).serve(door)
    await work


def noisy(document: dict[str, Any]) -> dict[str, Any]:
    """The document with the bookkeeping that real objects carry."""
    document["metadata"] |= NOISE
    return document


def node_body(name: str) -> bytes:
    """A NodeInfo with its tasks."""
    tasks = [task_info(pod, name, 32) for pod in pods_on(name)]
    for each in tasks:
        noisy(each["Pod"])
    info = node_info(name, tasks)
    noisy(info["Node"])
    return msgspec.json.encode(info)


def call(wire: socket.socket, path: str, body: bytes) -> tuple[float, bytes]:
    """Milliseconds until the answer, and the answer."""
    started = time.perf_counter()
    wire.sendall(HEAD.format(path, len(body)).encode() + body)
    answer = wire.recv(1 << 20)
    while b"\r\n\r\n" not in answer:
        answer += wire.recv(1 << 20)
    head, _, got = answer.partition(b"\r\n\r\n")
    length = int(next(line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-l")))
    while len(got) < length:
        got += wire.recv(1 << 20)
    if b" 200 " not in head.partition(b"\r\n")[0]:
        raise AssertionError(answer[:300])
    return (time.perf_counter() - started) * 1e3, got


def cpu(process: int) -> float:
    """Milliseconds of CPU time that a process has used; the load of the machine does not change it much."""
    return int(Path(f"/proc/{process}/schedstat").read_text().split()[0]) / 1e6


def measure(count: int) -> dict[str, float]:
    """Latencies in milliseconds, and sizes in kilobytes."""
    command = [sys.executable, __file__, "--serve", str(count)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - ourselves
    nodes = [node_body(name) for name in names(count)]
    try:
        assert server.stdout is not None  # noqa: S101 - for the type checker
        port = int(server.stdout.readline())
        wires: SimpleQueue[socket.socket] = SimpleQueue()
        for _ in range(PARALLEL):
            wires.put(socket.create_connection(("127.0.0.1", port)))

        def predicate(body: bytes) -> tuple[float, bytes]:
            wire = wires.get()
            try:
                return call(wire, "/volcano/predicate", body)
            finally:
                wires.put(wire)

        before, spent = cpu(server.pid), list[float]()
        rounds: list[float] = []
        with ThreadPoolExecutor(PARALLEL) as pool:
            for number, _ in zip(cycle(range(TASKS)), range(max(TASKS, 2400 // count)), strict=False):
                sent = msgspec.json.encode(noisy_task(number))
                bodies = [b'{"task":' + sent + b',"node":' + node + b"}" for node in nodes]
                started = time.perf_counter()
                answers = list(pool.map(predicate, bodies))
                rounds.append((time.perf_counter() - started) * 1e3)
                fits = sum(b'"code":0' in answer for _, answer in answers)
                if fits != len(nodes):
                    raise AssertionError(f"{fits} nodes fit")
                spent += [each for each, _ in answers]
        used = (cpu(server.pid) - before) / len(spent)
        wire = wires.get()
        gang = b'{"task":' + msgspec.json.encode(task_info(member(0))) + b',"node":' + nodes[0] + b"}"
        plan = call(wire, "/volcano/predicate", gang)[0]
        body = b'{"task":' + sent + b',"nodes":[' + b",".join(nodes) + b"]}"
        order = call(wire, "/volcano/prioritize", body)[0] if len(body) < 60 << 20 else float("inf")
    finally:
        server.kill()
        server.wait()
    spent.sort()
    return {
        "kilobytes": len(bodies[0]) / 1e3,
        "cpu": used,
        "median": spent[len(spent) // 2],
        "p99": spent[int(len(spent) * 0.99)],
        "task": sorted(rounds)[len(rounds) // 2],
        "plan": plan,
        "prioritize": order,
        "megabytes": len(body) / 1e6,
    }


def noisy_task(number: int) -> dict[str, Any]:
    """A pending task, as Volcano sends it."""
    sent = task_info(task(number))
    noisy(sent["Pod"])
    return sent


def main() -> None:
    """Measure, print, and exit with 1 if the bar is missed."""
    if len(sys.argv) > 2 and sys.argv[1] == "--serve":
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(int(sys.argv[2])))
        return
    table = Table(
        *(
            "nodes",
            "body, KB",
            "CPU, ms",
            "median, ms",
            "p99, ms",
            "bar, ms",
            "all nodes",
            "gang",
            "prioritize",
            "MB",
            "",
        ),
        title=f"Volcano's predicate over sockets, {PODS} pods per node, {PARALLEL} calls in parallel",
        caption="ms for all nodes of one task, for the first call of a gang, and for prioritize with all nodes",
    )
    missed = False
    for count in SIZES:
        found = measure(count)
        passed = count != BAR_NODES or found["p99"] <= BAR
        missed = missed or not passed
        table.add_row(
            f"{count:,}",
            f"{found['kilobytes']:.0f}",
            f"{found['cpu']:.2f}",
            f"{found['median']:.1f}",
            f"{found['p99']:.1f}",
            f"{BAR:g}" if count == BAR_NODES else "",
            f"{found['task']:.0f}",
            f"{found['plan']:.0f}",
            f"{found['prioritize']:.0f}",
            f"{found['megabytes']:.0f}",
            "passed" if passed else "MISSED",
        )
    Console(highlight=False, width=120).print(table)
    sys.exit(missed)


if __name__ == "__main__":
    main()
