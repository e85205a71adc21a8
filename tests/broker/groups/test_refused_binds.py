"""A group whose planned node refuses binds is planned on other nodes."""

from __future__ import annotations

import pytest

from linkwise.broker.broker import Broker
from linkwise.model.settings import PlacingSettings
from linkwise.sim.sample_nodes import fleet_node
from linkwise.testing.cluster import binds, device_pod, in_gang, in_group
from linkwise.vendors.machines import profile


def test_binds_that_are_refused_at_the_same_time_lead_to_another_node_of_another_model() -> None:
    broker = Broker()
    broker.observe(
        [*fleet_node(profile("dgx1-v100-measured"), "best"), *fleet_node(profile("v100-pcie"), "other")], 0.0
    )
    pods = in_group(device_pod("a", 2), device_pod("b", 2))
    broker.observe(pods, 0.0)
    now = 20.0  # the group is not waited for any longer
    for _ in range(4):
        nodes = {node for pod in pods for node in broker.filter(pod, ["best", "other"], now).nodes}
        if nodes == {"other"}:
            return
        flights = [binds(broker.bind(pod.uid, "best", now).effects)[0] for pod in pods]
        for flight in flights:
            broker.outcome(flight, "refused", now)
            broker.step(now, 1000)  # planned again while the other bind is still under way
        now += 1.0
    raise AssertionError(f"still on {nodes}")


@pytest.mark.parametrize("rounds", [0, 3, 100])
def test_a_node_is_avoided_after_three_refused_binds_whatever_is_set_for_offers_to_single_pods(rounds: int) -> None:
    broker = Broker(PlacingSettings(rounds=rounds))
    for name in ("n0", "n1"):
        broker.observe(fleet_node(profile("dgx1-v100"), name), 0.0)
    pods = in_gang(device_pod("a", 8), least=1)
    broker.observe(pods, 0.0)
    places = []
    for _ in range(4):
        places += broker.filter(pods[0], ["n0", "n1"], 1.0).nodes
        (flight,) = binds(broker.bind(pods[0].uid, places[-1], 1.0).effects)
        broker.outcome(flight, "refused", 1.0)
    assert places == ["n0", "n0", "n0", "n1"]
