"""Numbers that are looked up when Prometheus asks."""

from __future__ import annotations

import asyncio

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.watch_events import NodeGone
from linkwise.sim.sample_nodes import fleet_node
from linkwise.vendors.machines import profile
from support.fakes.http_service import Served


def suspects(served: Served) -> list[str]:
    return [line for line in served.get("/metrics").text.splitlines() if line.startswith("linkwise_suspect_pairs")]


@pytest.mark.rule("001.suspect")
def test_nodes_with_samples_that_are_not_believed_are_named_with_how_many() -> None:
    broker = Broker()
    broker.observe([*fleet_node(profile("dgx1-v100-measured"), "odd"), *fleet_node(profile("dgx1-v100"), "fine")], 0.0)
    with Served(broker) as served:
        assert suspects(served) == ['linkwise_suspect_pairs{node="odd"} 2.0']


def test_a_node_that_is_gone_or_measured_again_is_no_longer_named() -> None:
    broker = Broker()
    for name in ("one", "other"):
        broker.observe(fleet_node(profile("dgx1-v100-measured"), name), 0.0)
    with Served(broker) as served:
        assert len(suspects(served)) == 2
        broker.observe([NodeGone("one"), *fleet_node(profile("dgx1-v100"), "other")], 1.0)
        assert suspects(served) == []


def test_pods_that_would_still_fit_are_counted_for_the_next_scrape() -> None:
    broker = Broker()
    broker.observe(fleet_node(profile("dgx1-v100"), "n"), 0.0)

    async def counted(served: Served) -> None:
        counting = asyncio.ensure_future(served.service.placeable.run())
        while not served.service.placeable.pods:  # noqa: ASYNC110 - the test's sleep lets it count
            await asyncio.sleep(0)
        counting.cancel()

    with Served(broker) as served:
        assert "linkwise_placeable_pods{" not in served.get("/metrics").text
        served.on_loop(counted(served))
        assert 'linkwise_placeable_pods{model="Tesla V100-SXM2-16GB",size="4"} 2.0' in served.get("/metrics").text
