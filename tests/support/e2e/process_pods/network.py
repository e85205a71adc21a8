"""Network of a cluster in a namespace of its own: a bridge for pods, and a range of addresses for Services.

The host's network is left as it is: tests reach the inside by sockets that a thread opens there. Everything vanishes with
the process that holds the namespace.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import ssl
import subprocess
import threading
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Final, TypeVar

from support.e2e.processes import BedError, Process

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from concurrent.futures import Future
    from pathlib import Path

__all__ = ["GATEWAY", "SERVICES", "Address", "Network", "probe_http", "probe_tcp"]

T = TypeVar("T")
Address = tuple[str, int]

GATEWAY: Final = "10.244.0.1"
"""address of the machine itself on the bridge: that of the API server, and of pods in the host's network"""
SERVICES: Final = "10.96.0.0/24"
READY: Final = 10.0  # seconds
CHUNK: Final = 65536
SETUP: Final = f"""
set -e
ip link set lo up
# With an address of its own: otherwise it takes one of its pods, and the others do not find it for seconds.
ip link add br0 address 02:00:00:00:00:01 type bridge forward_delay 0
ip address add {GATEWAY}/16 dev br0
ip link set br0 up
# Every address of the range can be listened on.
ip route add local {SERVICES} dev lo
echo ready
exec sleep infinity
"""
ATTACH: Final = """
set -e
ip link add pod{number} type veth peer name eth0 netns {pid}
ip link set pod{number} master br0 up
exec nsenter --target {pid} --net sh -ec '
ip link set lo up
ip address add {address}/16 dev eth0
ip link set eth0 up
ip route add default via {gateway}
'
"""


class Network:
    """The namespace, and an event loop whose sockets are inside."""

    def __init__(self, folder: Path) -> None:
        self._holder = Process("network", ["unshare", "--net", "sh", "-c", SETUP], folder)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._work, name="network", daemon=True)
        self._entered = threading.Event()
        self._error: OSError | None = None
        self._numbers = count(2)
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[object] | None] = set()

    @property
    def enter(self) -> list[str]:
        """The words before a command that runs inside."""
        return ["nsenter", f"--net=/proc/{self._holder.pid}/ns/net", "--"]

    def start(self) -> None:
        """Make the namespace; BedError if that is not permitted."""
        self._holder.start()
        self._holder.wait_until(lambda: "ready" in self._holder.tail(), READY)
        self._thread.start()
        if not self._entered.wait(READY) or self._error:
            raise BedError(f"the network namespace can't be entered: {self._error}")

    def attach(self, pid: int) -> str:
        """Connect the network namespace of a process to the bridge: its address."""
        number = next(self._numbers)
        address = f"10.244.{number // 250}.{number % 250 + 1}"
        script = ATTACH.format(number=number, pid=pid, address=address, gateway=GATEWAY)
        done = subprocess.run([*self.enter, "sh", "-c", script], capture_output=True, text=True, check=False)
        if done.returncode:
            raise BedError(f"pod {address} can't be attached: {done.stderr}")
        return address

    def call(self, work: Coroutine[object, object, T], seconds: float = 10.0) -> T:
        """The result of something done inside."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)

    def begin(self, work: Coroutine[object, object, T]) -> Future[T]:
        """Start something inside."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def door(self, inside: Address) -> int:
        """A port of the host's loopback that leads to an address inside."""
        outside = socket.create_server(("127.0.0.1", 0))
        self.call(self._serve(outside, lambda: [inside]))
        return int(outside.getsockname()[1])

    def listen(self, inside: Address, targets: Callable[[], Sequence[Address]]) -> asyncio.Server:
        """Forward connections to an address inside to one of the targets, in turn."""
        return self.call(self._serve(inside, targets))

    def unlisten(self, server: asyncio.Server) -> None:
        """Accept no more connections; those that there are stay, as with kube-proxy."""
        self._loop.call_soon_threadsafe(server.close)

    def close(self) -> None:
        """End the network with all that is connected to it."""
        if self._thread.is_alive():
            self.call(self._cancel_all())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(READY)
        self._loop.close()
        self._holder.kill()

    def _work(self) -> None:
        try:
            _enter_network(self._holder.pid)
        except OSError as error:
            self._error = error
            return
        finally:
            self._entered.set()
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _cancel_all(self) -> None:
        for server in self._servers:
            server.close()
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, where: socket.socket | Address, targets: Callable[[], Sequence[Address]]) -> asyncio.Server:
        turns = count()

        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            found = list(targets())
            # The event loop itself has only weak references, and a task may wait for the other end alone.
            self._tasks.add(task := asyncio.current_task())
            # asyncio would report the end of the network as an error.
            with suppress(asyncio.CancelledError):
                if found:
                    await _forward(reader, writer, found[next(turns) % len(found)])
            writer.transport.abort()
            self._tasks.discard(task)

        if isinstance(where, socket.socket):
            server = await asyncio.start_server(forward, sock=where)
        else:
            server = await asyncio.start_server(forward, *where)
        self._servers.append(server)
        return server


async def probe_http(address: Address, path: str, *, tls: bool, seconds: float) -> int:
    """The status of a GET; 0 without an answer."""
    trust = ssl.create_default_context() if tls else None
    if trust:
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE  # as kubelet does
    writer = None
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection(*address, ssl=trust)
            writer.write(f"GET {path} HTTP/1.1\r\nHost: {address[0]}\r\nConnection: close\r\n\r\n".encode())
            line = await reader.readline()
        return int(line.split()[1]) if line else 0
    except (OSError, TimeoutError, ValueError, IndexError):
        return 0
    finally:
        if writer:
            writer.transport.abort()


async def probe_tcp(address: Address, seconds: float) -> int:
    """200 if something listens, as if it had been asked; else 0."""
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(*address)
    except (OSError, TimeoutError):
        return 0
    writer.transport.abort()
    return 200


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: Address) -> None:
    try:
        async with asyncio.timeout(5):
            there, away = await asyncio.open_connection(*target)
    except (OSError, TimeoutError):
        return
    try:
        async with asyncio.TaskGroup() as both:
            both.create_task(_copy(reader, away))
            both.create_task(_copy(there, writer))
    finally:
        away.transport.abort()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(CHUNK):
            target.write(data)
            await target.drain()
        if target.can_write_eof():
            target.write_eof()


def _enter_network(pid: int) -> None:
    """Move the calling thread: sockets that it opens from now on are inside, those that it has stay where they are."""
    library = ctypes.CDLL(None, use_errno=True)
    new_network = 0x40000000
    file = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        if library.setns(file, new_network):
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        os.close(file)
