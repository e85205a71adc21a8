"""Speed and memory of the node agent beside a kubelet: registration, preferred allocations, allocations, idle memory."""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from contextlib import asynccontextmanager
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.table import Table

from support.fakes.kubelet import FakeKubelet

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator

GPU, MEMORY = "nvidia.com/gpu", "aliyun.com/gpu-mem"
ROUNDS = 40
REGISTRATION = 2.0  # seconds
PSS = 80.0  # MB
IDLE = 5.0  # seconds before the memory is read


class Case(NamedTuple):
    """A simulated machine, the size of a request, and the limit of an answer."""

    machine: str
    size: int
    limit: float  # milliseconds


CASES = (Case("dgx1-v100", 1, 5.0), Case("dgx1-v100", 4, 5.0), Case("dgx-a100", 4, 5.0), Case("dgx2-v100", 8, 50.0))


class Row(NamedTuple):
    """A figure and its limit."""

    what: str
    value: float
    limit: float
    unit: str


@asynccontextmanager
async def agent(folder: Path, machine: str) -> AsyncIterator[Process]:
    """An agent process with simulated devices, without an API server."""
    program = Path(sys.executable).parent / "linkwise"
    flags = ("--driver", "simulated", "--source", machine, "--kubelet", str(folder / "kubelet"), "--port", "0")
    environment = {**os.environ, "KUBECONFIG": str(folder / "none"), "HOME": str(folder)}
    process = await asyncio.create_subprocess_exec(
        str(program),
        "agent",
        "--node",
        "bench",
        "--mode",
        "whole",
        *flags,
        env=environment,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.terminate()
        await process.wait()


async def measure(case: Case, *, first: bool) -> list[Row]:
    """Time the answers of an agent; for the first case also its start, a restart of the kubelet, and its memory."""
    with TemporaryDirectory(prefix="lw") as short:
        folder = Path(short)
        kubelet = FakeKubelet(folder / "kubelet")
        await kubelet.start()
        began = time.perf_counter()
        async with agent(folder, case.machine) as process:
            await kubelet.until(lambda: bool(kubelet.healthy(GPU)))
            rows = [Row("process start to capacity", time.perf_counter() - began, inf, "s")] if first else []
            rows += await answers(kubelet, case)
            rows += await lifetime(kubelet, process) if first else []
        await kubelet.stop()
    return rows


async def answers(kubelet: FakeKubelet, case: Case) -> list[Row]:
    """The median time of each kind of call, and the longest."""
    for number in range(ROUNDS):
        await kubelet.admit(f"pod-{number}", GPU, main=case.size)
        kubelet.remove(f"pod-{number}")
    rows = []
    for method in ("GetPreferredAllocation", "Allocate"):
        times = kubelet.seconds[method][1:]  # the first answer builds the tables of the machine
        name = f"{case.machine}, {case.size} of its devices: {method}"
        rows.append(Row(f"{name}, median", 1000 * statistics.median(times), case.limit, "ms"))
        rows.append(Row(f"{name}, first", 1000 * kubelet.seconds[method][0], inf, "ms"))
    return rows


async def lifetime(kubelet: FakeKubelet, process: Process) -> list[Row]:
    """A restart of the kubelet, and the memory of the agent after a while."""
    await kubelet.stop()
    await kubelet.start()
    began = time.perf_counter()
    await kubelet.until(lambda: bool(kubelet.healthy(GPU)))
    again = time.perf_counter() - began
    await asyncio.sleep(IDLE)
    return [
        Row("kubelet start to capacity", again, REGISTRATION, "s"),
        Row("memory when idle (Pss)", pss(process.pid), PSS, "MB"),
    ]


def pss(pid: int) -> float:
    """Proportional set size of a process, in MB."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    kilobytes = next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return kilobytes * 1024 / 1e6


def main() -> None:
    """Measure, print, and exit with 1 if a bar is missed."""
    table = Table("measured", "value", "bar", "", title="Node agent beside a kubelet, over gRPC on unix sockets")
    missed = False
    for number, case in enumerate(CASES):
        for row in asyncio.run(measure(case, first=number == 0)):
            late = row.value > row.limit
            missed |= late
            bar = f"{row.limit:g} {row.unit}" if row.limit < inf else "-"
            table.add_row(row.what, f"{row.value:.2f} {row.unit}", bar, "MISSED" if late else "passed")
    Console(highlight=False, width=120).print(table)
    sys.exit(missed)


if __name__ == "__main__":
    main()
