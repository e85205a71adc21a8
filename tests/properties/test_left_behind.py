"""Whatever happened: once all pods, nodes and objects are gone, a broker holds as much as one that never saw any."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Set as AbstractSet
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.watch_events import ClusterObject, NodeGone, NodeObject, PodListComplete
from linkwise.dialects.linkwise.inventory import KIND
from linkwise.testing.cluster import device_pod
from support.profile import examples
from support.properties.group_world import GroupWorld
from support.state import state_of

if TYPE_CHECKING:
    from linkwise.model.settings import PlacingSettings

STEPS = 60
LATER = 1e6  # seconds; all that ends by the clock has ended
BOUNDED = (
    *(".hosts", ".cluster.index._tables", ".cluster.index._log", ".cluster.requests._known", ".cluster.known.gone"),
    *(".groups.homes", ".cluster.requests._asks", ".reservations.schedulers"),
)
"""what is remembered to save work, or to know old news, and never grows beyond a limit of its own"""
SHARES = ".cluster.index._share_indexes"
EMPTY = (SHARES, f"{SHARES}[]._fit_caches", f"{SHARES}[]._fit_caches[]")
"""one per resource that pods requested shares of, and few requests of each; what these hold is counted"""
WAITS = device_pod("waits", 64)
"""for ever: as long as somebody waits, what is known of those who wait is not thrown away as a whole"""


def lived(seed: int) -> GroupWorld:
    chooser = random.Random(seed)
    world = GroupWorld(*(chooser.randrange(256) for _ in range(3)))
    waiting(world.broker)
    for _ in range(STEPS):
        move = chooser.choice([name for name in world.moves if name != "restart"])
        world.step(move, *(chooser.randrange(256) for _ in range(3)))
    return world


def waiting(broker: Broker) -> None:
    broker.observe([WAITS], 1e9)
    assert broker.filter(WAITS, [], 1e9).nodes == []


def emptied(world: GroupWorld) -> Broker:
    """All is gone."""
    broker, later = world.broker, world.now + LATER
    world.see(world.api.deliver_all())
    broker.observe([ClusterObject(kind, name, None) for kind, name in world.api.objects], world.now)
    broker.observe([PodListComplete(frozenset({WAITS.uid}))], world.now)
    for name in world.api.boxes:
        broker.observe([NodeGone(name), NodeObject(name, KIND, None)], world.now)
    for _ in range(3):
        broker.step(later, 10_000)
    return broker


def contents(thing: object, place: str = "", seen: set[int] | None = None) -> Counter[str]:
    """How much every container holds that can be reached from here, by its place."""
    found, known = Counter[str](), set[int]() if seen is None else seen
    if id(thing) in known or place in BOUNDED or isinstance(thing, str | bytes | type) or callable(thing):
        return found
    known.add(id(thing))
    if isinstance(thing, Mapping | list | tuple | AbstractSet):
        found[place] += len(thing)
        for each in thing.values() if isinstance(thing, Mapping) else thing:
            found += contents(each, f"{place}[]", known)
    else:
        for name in (*getattr(thing, "__dict__", ()), *getattr(type(thing), "__slots__", ())):
            found += contents(getattr(thing, name, None), f"{place}.{name}", known)
    return found


def untouched(settings: PlacingSettings | None) -> Broker:
    broker = Broker(settings)
    waiting(broker)
    return broker


@pytest.mark.parametrize("seed", range(examples(6)))
def test_nothing_is_left_of_a_cluster_that_is_gone(seed: int) -> None:
    world = lived(seed)
    grown = contents(state_of(emptied(world))) - contents(state_of(untouched(world.settings)))
    assert {place: more for place, more in grown.items() if place not in EMPTY} == {}
