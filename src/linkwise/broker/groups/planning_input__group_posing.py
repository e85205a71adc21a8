"""A group as a planner is asked about it: its members, and the nodes that may take some of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.demand import capacity_of
from linkwise.broker.cluster.host_fit import company_in, needed_by
from linkwise.broker.cluster.pods import holds_devices
from linkwise.dialects.linkwise.dialect import any_model
from linkwise.engine.planning.make_plan import Site, Task
from linkwise.engine.planning.node_capacity import Ground
from linkwise.engine.planning.plan import Member
from linkwise.engine.usage import resolved

if TYPE_CHECKING:
    from collections.abc import Generator

    from linkwise.broker.groups.planning_input import Network
    from linkwise.broker.groups.registry import Gathered
    from linkwise.broker.state import State
    from linkwise.engine.feasibility import Neighbour

__all__ = ["minimum_of", "posed", "takes_any_model"]

AT_ONCE: Final = 100
"""nodes gathered between two steps"""
MEMBERS_AT_ONCE: Final = 25
"""members whose words are read between two steps"""
_NOTHING: Final[frozenset[str]] = frozenset()


def posed(
    state: State, found: Gathered, network: Network, *, every: bool = False
) -> Generator[None, None, tuple[Task, list[Site]]]:
    """What a plan of the group is made of; the nodes with devices for one member at least, or `every` one with any."""
    members = yield from _members(state, found)
    smallest = min((member.size for member in members if member.size), default=1)
    sites = yield from _sites(state, found, members, network, 1 if every else smallest)
    task = Task(
        members,
        network.levels,
        network.required,
        mixed=takes_any_model(state, found),
        seed_order=state.settings.group.order == "seed",
        floor=state.settings.bandwidth.floor,
        minimum=minimum_of(state, found),
        fixed=frozenset(site.model for site in sites if site.held),
    )
    return task, sites


def takes_any_model(state: State, found: Gathered) -> bool:
    """Whether devices of different models may serve the group."""
    return state.settings.group.models == "any" or any(map(any_model, found.waiting))


def minimum_of(state: State, found: Gathered) -> int:
    """How many of the waiting members must be placed: for a gang that has not started those that it still lacks."""
    minimum, key = found.group.minimum, found.group.key
    if minimum is None or key in state.groups.satisfied:
        return 1
    there = 0 if found.group.match_policy == "only-waiting" else len(found.bound)
    return max(1, minimum - there)


def _members(state: State, found: Gathered) -> Generator[None, None, tuple[Member, ...]]:
    members, company = [], company_in(state)
    for place, pod in enumerate(found.waiting):
        if place % MEMBERS_AT_ONCE == 0:
            yield
        wanted = state.wanted(state.wish(pod))
        members.append(Member(pod.uid, pod.name, wanted, needed_by(state, pod, company), place, pod.created))
    return tuple(members)


def _sites(
    state: State, found: Gathered, members: tuple[Member, ...], network: Network, least: int
) -> Generator[None, None, list[Site]]:
    """The nodes that serve what the members ask for and have so many devices free, and those that they run on."""
    cluster, index, sites = state.cluster, state.cluster.index, []
    paths: dict[tuple[str, ...], tuple[str, ...]] = {}  # nodes of one rack have one
    words = {member.wanted.word: member.wanted for member in members if member.wanted}
    parts = any(member.wanted and not member.wanted.ask.devices for member in members)
    avoided = state.groups.avoided.get(found.group.key, ())
    held: dict[str, set[str]] = {}
    for pod in found.bound:
        entry = cluster.ledger.get(pod.uid)
        if entry:
            stock = cluster.stocks.get(pod.node)
            held.setdefault(pod.node, set()).update(resolved(stock, entry.grant.offer.devices) if stock else ())
    least = 0 if parts or not words else least
    served: dict[int, frozenset[str]] = {}  # by build: nodes of one build are asked in the same words
    for number, name in enumerate(list(cluster.nodes)):  # nodes may come and go between steps
        if number % AT_ONCE == 0:
            yield
        view, node = cluster.nodes.get(name), index.nodes.get(name)
        if view is None or node is None or name in avoided:
            continue
        shape = index.shape(name)
        if shape.build not in served:
            served[shape.build] = frozenset(word for word in words if not index.unserved(words[word], name))
        if words and not served[shape.build]:
            continue
        if shape.free.bit_count() < least and name not in held:
            continue
        path, own = network.path(view), frozenset(held[name]) if name in held else _NOTHING
        ground = Ground(view, capacity_of(view), cluster.load(name), partial(_neighbours, state, name))
        sites.append(Site(node, shape, ground, paths.setdefault(path, path), own, served[shape.build]))
    return sites


def _neighbours(state: State, name: str) -> list[Neighbour]:
    return [(pod.namespace, pod.labels) for pod in state.cluster.known.on(name) if holds_devices(pod)]
