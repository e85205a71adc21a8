"""Start of the service without a readable cluster, and its shutdown."""

from __future__ import annotations

import asyncio
import gc
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.assembly.service import MAX_LIST_SECONDS, Serving
from linkwise.config.settings import ServeSettings
from linkwise.embedded.apiserver.faults import Fault
from linkwise.net.http.server import listen
from linkwise.net.timing import Timing
from support.embedded.cluster import ClusterUnderTest, embedded
from support.embedded.service import ALONE, EmbeddedService
from support.fakes.scripted_api import play, until

if TYPE_CHECKING:
    from linkwise.kube.client.api import Connection
    from support.fakes.scripted_api import ScriptedApi

SLOW = replace(EmbeddedService.QUICK, bind_timeout=100.0)


@embedded({"dgx1-v100": 1}, kube=SLOW)
async def test_a_service_that_is_stopped_twice_does_not_wait_for_binds(cluster: ClusterUnderTest) -> None:
    cluster.embedded.api.faults.add(Fault("hang", on="POST", path="/binding$", times=0))
    cluster.create("train", {"nvidia.com/gpu": 2})
    await cluster.until(
        lambda: any(fault["done"] for fault in cluster.embedded.api.faults.to_list()), "a bind is under way"
    )
    first = asyncio.create_task(cluster.service.stop())
    await cluster.pause(0.05)
    assert not first.done()
    async with asyncio.timeout(15.0):  # a drain may take 20 seconds
        await cluster.service.stop()
        await first
    cluster.embedded.api.faults.clear()
    await cluster.service.start(cluster.embedded.api.kubeconfig())
    await cluster.placed("train")


def test_garbage_is_collected_again_where_the_cluster_cannot_be_listed_for_long() -> None:
    async def story(api: ScriptedApi, connection: Connection) -> None:
        del api  # it has neither pods nor nodes
        minutes = itertools.count(step=MAX_LIST_SECONDS / 4)
        timing = Timing(clock=lambda: next(minutes), sleep=lambda seconds: asyncio.sleep(min(seconds, 0.05)))
        serving, door = Serving(ServeSettings(leader=ALONE), connection, timing=timing), listen("127.0.0.1", 0)
        running = asyncio.create_task(serving.run(door))
        await until(gc.isenabled)
        assert not serving.ready
        serving.stop()
        await running
        door.close()

    gc.disable()
    try:
        play(story)
    finally:
        gc.enable()
