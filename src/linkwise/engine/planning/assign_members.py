"""Assignment of members: an outline's counts per node become named members with devices.

Also decides which members a node can host in one way, by links, by shares or by a policy's own rules, and which members
are equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from linkwise.engine.planning.hosts import by_links, in_parts
from linkwise.engine.planning.node_capacity import Filling
from linkwise.engine.planning.plan import Placement
from linkwise.engine.planning.seating import seated

if TYPE_CHECKING:
    from collections.abc import Generator, Hashable, Mapping, Sequence

    from linkwise.engine.index.node_index import Query
    from linkwise.engine.planning.plan import Member, Site, Task
    from linkwise.engine.planning.problem import Counts

__all__ = ["Way", "alike", "assigned", "way_of", "with_others"]

NODES_PER_STEP: Final = 8
"""nodes whose devices are assigned between two yields"""


def assigned(
    sites: Mapping[str, Site], kinds: Sequence[Sequence[Member]], counts: Mapping[str, Counts], task: Task
) -> Generator[None, None, dict[str, Placement] | str]:
    """Members by rank on nodes by domain and name, so that consecutive ranks are close; or a node that can't seat its own."""
    remaining = [list(members) for members in kinds]
    placements: dict[str, Placement] = {}
    parts = any(member.wanted and in_parts(member.wanted) for members in kinds for member in members[:1])
    per_step = 1 if parts else NODES_PER_STEP  # parts are searched for
    for number, name in enumerate(homes_of(sites, counts)):
        if number % per_step == 0:
            yield
        own: list[Member] = []
        for line, count in zip(remaining, counts[name], strict=True):
            own += line[:count]
            del line[:count]
        own.sort(key=lambda member: member.order)
        node, held = sites[name].node, sites[name].held
        offers = yield from seated(node, held, own, task.floor, distinct=task.distinct, seed_order=task.seed_order)
        if None in offers:
            return name
        placements |= {member.pod: Placement(name, offer) for member, offer in zip(own, offers, strict=True)}
    return placements


def homes_of(sites: Mapping[str, Site], counts: Mapping[str, Counts]) -> list[str]:
    """The nodes of a plan, by domain and name."""
    return sorted(counts, key=lambda name: (sites[name].path, name))


def with_others(
    sites: Mapping[str, Site],
    placements: dict[str, Placement],
    members: Sequence[Member],
    others: Sequence[Member],
) -> dict[str, Placement]:
    """The placements with members that request no devices, on the group's own nodes where they fit."""
    if not others:
        return placements
    bound = {name for name, site in sites.items() if site.held}
    nodes = {placement.node for placement in placements.values()} | bound
    homes = sorted(nodes, key=lambda name: (sites[name].path, name))
    filling = {name: Filling(sites[name].ground) for name in homes}
    for member in members:
        if member.pod in placements:
            filling[placements[member.pod].node].join(member.demand)
    complete = dict(placements)
    for member in others:
        home = next((name for name in homes if filling[name].takes(member.demand)), None)
        if home is not None:
            complete[member.pod] = Placement(home)
    return complete


class Way(NamedTuple):
    """How a node hosts members, and which of them: one host can't serve two ways."""

    asked: Mapping[int, Query]
    """by the number of the kind of members"""
    in_parts: bool
    """whether some of them get parts of devices"""
    by_links: bool
    """whether members with whole devices are placed by the bandwidth of their links"""


def way_of(asked: Mapping[int, Query], *, certain: bool = True) -> Way | None:
    """The way of the first query for whole devices, otherwise of the first query, with all queries it can serve.

    Args:
        asked: the queries that the node could serve on their own, by the number of the kind of members.
        certain: whether it is known which of its devices are in use.
    """
    if not asked:
        return None
    first = next((query for query in asked.values() if not in_parts(query)), next(iter(asked.values())))
    sharing = {number: query for number, query in asked.items() if _share_a_node(first, query, certain=certain)}
    return Way(sharing, any(map(in_parts, sharing.values())), in_parts(first) or by_links(first))


def _share_a_node(first: Query, query: Query, *, certain: bool) -> bool:
    """Whether both are placed in one way, or are parts beside whole devices in one sharing mode."""
    same = (query.policy.name, in_parts(query)) == (first.policy.name, in_parts(first))
    # Whole devices can be counted if it is unknown which are in use; a part needs a device known to have room.
    return same or (certain and by_links(first) and in_parts(query) and query.ask.mode == first.ask.mode)


def alike(member: Member) -> Hashable:
    """Key of equal members, which differ only in their name."""
    demand = member.demand
    company = demand.apart or demand.together or demand.crowd
    pods = (demand.apart, demand.together, demand.crowd) if company else ()
    labels = tuple(sorted(demand.labels.items())) if pods else ()
    return (
        member.wanted.table_key() if member.wanted else (),
        demand.cpu,
        demand.memory,
        demand.ephemeral,
        tuple(sorted(demand.selector.items())) if demand.selector else (),
        demand.affinity,
        demand.only,
        demand.tolerations,
        demand.ports,
        str(pods) if pods else "",
        labels,
    )
