"""Many objects: long lists do not block other requests, and memory stays bounded."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import TYPE_CHECKING, Any, TypeVar

from linkwise.embedded.apiserver.server import EmbeddedApi
from linkwise.net.http.client import Http, Origin

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from linkwise.net.http.client import Exchange

NODES = 5000
LONGEST = 0.05  # seconds of work between two turns
WHOLE = 0.25  # seconds; a processor that needs more for a list is slow
T = TypeVar("T")


def node(number: int) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": f"n{number}", "zone": f"z{number % 8}", "rack": f"r{number % 200}"}
    amounts = {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}
    annotations = {"linkwise.dev/matrix": "x" * 1500}
    meta = {"name": f"n{number}", "labels": labels, "annotations": annotations}
    return {"metadata": meta, "status": {"capacity": amounts, "conditions": [ready]}}


async def longest_turn(work: Callable[[], Awaitable[object]]) -> float:
    """The most work that was done without letting others in, in seconds of a processor that does all in WHOLE or less."""
    longest, done = 0.0, False

    async def ticks() -> None:
        nonlocal longest
        while not done:
            begin = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - begin)

    gc.disable()  # what other tests left behind is not its work
    begin = time.thread_time()
    try:
        ticking = asyncio.create_task(ticks())
        await work()
        done = True
        await ticking
    finally:
        gc.enable()
    return longest * min(1.0, WHOLE / (time.thread_time() - begin))


def play(story: Callable[[Http, bytes], Awaitable[T]]) -> T:
    """Run a story on a server of many nodes, with a client and the header that lets it in."""

    async def played() -> T:
        async with EmbeddedApi(tls=False) as api:
            for number in range(NODES):
                api.store.create("nodes", node(number))
            http = Http(Origin("127.0.0.1", api.port))
            try:
                return await story(http, f"Authorization: Bearer {api.token}\r\n".encode())
            finally:
                await http.close()

    return asyncio.run(played())


async def drain(exchange: Exchange, lines: int = 0) -> int:
    """Read without keeping: so many lines, or all."""
    seen = 0
    async for piece in exchange.chunks():
        seen += piece.count(b"\n") if lines else len(piece)
        if lines and seen >= lines:
            break
    return seen


def test_a_list_of_five_thousand_nodes_does_not_block_other_requests() -> None:
    async def story(http: Http, head: bytes) -> tuple[float, int]:
        sizes = []

        async def read() -> None:
            async with http.stream("/api/v1/nodes", head) as exchange:
                sizes.append(await drain(exchange))

        return await longest_turn(read), sizes[0]

    longest, size = play(story)
    assert size > NODES * 1500
    assert longest < LONGEST


def test_a_watch_of_five_thousand_nodes_does_not_block_other_requests() -> None:
    async def story(http: Http, head: bytes) -> tuple[float, int]:
        seen = []

        async def read() -> None:
            async with http.stream("/api/v1/nodes?watch=1", head) as exchange:
                seen.append(await drain(exchange, NODES))

        return await longest_turn(read), seen[0]

    longest, seen = play(story)
    assert seen == NODES
    assert longest < LONGEST


def test_a_table_of_five_thousand_nodes_does_not_block_other_requests() -> None:
    async def story(http: Http, head: bytes) -> tuple[float, int]:
        sizes = []
        accept = b"Accept: application/json;as=Table;v=v1;g=meta.k8s.io\r\n"

        async def read() -> None:
            async with http.stream("/api/v1/nodes?includeObject=None", head + accept) as exchange:
                sizes.append(await drain(exchange))

        return await longest_turn(read), sizes[0]

    longest, size = play(story)
    assert size > NODES * 20
    assert longest < LONGEST


def test_all_watches_of_a_change_share_its_bytes() -> None:
    async def story() -> bool:
        async with EmbeddedApi(tls=False) as api:
            watches = [api.store.watch("nodes") for _ in range(3)]
            api.store.create("nodes", node(1))
            lines = [watch.take()[0].line for watch in watches]
            for watch in watches:
                watch.close()
            return all(line is lines[0] for line in lines)

    assert asyncio.run(story())
