from __future__ import annotations

import pytest

from linkwise import Node, Offer, Use
from linkwise.policies.whole_device import WholeDevice
from linkwise.testing.nodes import ask, node

POLICY = WholeDevice()


def take(nodes: list[Node], size: int) -> list[Node] | None:
    """Place one pod on the best node; None if none fits."""
    offers = [(found, POLICY.pick(ask(size), found)) for found in nodes]
    fitting = [
        (POLICY.score(ask(size), found, offer), found, offer) for found, offer in offers if isinstance(offer, Offer)
    ]
    if not fitting:
        return None
    _, chosen, offer = max(fitting, key=lambda entry: entry[0])
    used = {**chosen.used, **{device: Use(whole=True) for device in offer.devices}}
    return [Node(n.name, n.devices, used) if n is chosen else n for n in nodes]


@pytest.mark.rule("002.pack")
def test_single_asks_fill_used_nodes_so_that_a_two_still_fits() -> None:
    nodes: list[Node] | None = [node(2, name=name) for name in "abcd"]
    for size in (1, 1, 1, 1, 2):
        assert nodes is not None
        nodes = take(nodes, size)
    assert nodes is not None
    assert sorted(len(found.free()) for found in nodes) == [0, 0, 0, 2]


@pytest.mark.rule("002.whole")
def test_a_device_is_given_once() -> None:
    offer = POLICY.pick(ask(2), node(free=[1, 4, 6]))
    assert isinstance(offer, Offer)
    assert offer.devices == ("d1", "d4")


def test_each_container_gets_its_own() -> None:
    offer = POLICY.pick(ask(1, 0, 2), node())
    assert isinstance(offer, Offer)
    assert [(part.container, part.devices) for part in offer.parts] == [("c0", ("d0",)), ("c2", ("d1", "d2"))]
