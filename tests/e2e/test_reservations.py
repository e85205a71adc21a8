"""A large pod is not starved by small ones, though kube-scheduler never asks about it while it counts too few devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from support.e2e.invariants import all_is_well
from support.e2e.node_objects import machine
from support.e2e.processes import wait_for
from support.e2e.service import running_service

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.e2e.cluster import Cluster
    from support.e2e.scheduler import Serve
    from support.e2e.service import Placing

GPU: Final = "nvidia.com/gpu"
AFTER: Final = 2.0  # seconds


@pytest.fixture(scope="module")
def answering(kubernetes: Cluster) -> Iterator[Serve]:
    settings = {"placing": {"reservation": {"after": AFTER}}}
    with running_service(kubernetes, "reservations", configuration=settings) as serve:
        yield serve


@pytest.mark.parametrize("restart", [False, True], ids=["one service", "restarted"])
def test_a_pod_of_all_devices_starts_when_the_small_pods_before_it_have_ended(
    placing: Placing, *, restart: bool
) -> None:
    namespace = placing.namespace()
    placing.nodes(*machine("a", "nvlink"))
    small = [f"small-{number}" for number in range(8)]
    for name in small:
        placing.place(namespace, name, {GPU: 1})
    placing.create(namespace, "large", {GPU: 8})
    placing.refused(namespace, "large")
    wait_for(lambda: placing.metric("linkwise_reservations") == 1, 20, "its node is drained")
    placing.gone(namespace, *small[:3])
    wait_for(lambda: placing.metric("linkwise_reserved_devices") == 3, 5, "what is free is kept")
    placing.create(namespace, "new", {GPU: 1})
    placing.refused(namespace, "new", "reserved for a request ahead in the queue")
    assert "node a is being drained for it: 3 of 8 devices are free" in placing.explain(namespace, "large")
    if restart:
        placing.serve.restart()
        wait_for(lambda: placing.metric("linkwise_reserved_devices") == 3, 20, "it is kept again")
    placing.gone(namespace, *small[3:])
    assert len(placing.placed(namespace, "large").devices) == 8
    assert placing.metric("linkwise_reservations") == 0
    all_is_well(placing)
