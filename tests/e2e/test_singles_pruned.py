"""Koordinator's own definition of Device loses links: that is said, and cards are given all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.e2e.node_objects import device_ids, koordinator
from support.e2e.pod_objects import device_definition, pod
from support.e2e.processes import wait_for
from support.e2e.service import grant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.e2e.own_cluster import OwnCluster
    from support.e2e.scheduler import Serve


@pytest.fixture
def pruning(own_cluster: OwnCluster) -> Iterator[None]:
    """The kind as Koordinator's releases define it is there for one test."""
    own_cluster.define(device_definition(prunes=True))
    yield
    own_cluster.undefine(device_definition(prunes=True))


@pytest.mark.rule("001.device")
@pytest.mark.usefixtures("pruning")
def test_a_device_kind_that_forgets_links_is_said_and_cards_are_given_all_the_same(
    own_cluster: OwnCluster, serve: Callable[..., Serve], namespace: str, shipped: str
) -> None:
    own_cluster.grant_printed("linkwise", shipped)
    made = serve(name="serve-pruned")
    made.start()
    wait_for(lambda: "drops spec.topologies" in made.process.log.read_text(), 5, "the warning")
    own_cluster.scheduler.run(own_cluster.scheduling(made.url))
    own_cluster.create([*koordinator("a"), pod(namespace, "train", {"koordinator.sh/gpu": 200})])
    held = grant(own_cluster.wait_bound(namespace, "train"))
    assert held.positions(device_ids("a", "dgx1-v100-measured")) == (0, 1)
