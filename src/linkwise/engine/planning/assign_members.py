"""From how many members a node takes to which ones, and with which devices.

In which ways members are placed, and which of them are alike.
"""
# Joined from assigning, ways: one docstring for all.

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from linkwise.engine.planning.hosts import by_links, in_parts
from linkwise.engine.planning.node_capacity import Filling
from linkwise.engine.planning.plan import Placement
from linkwise.engine.planning.seating import seated

if TYPE_CHECKING:
    from collections.abc import Generator, Hashable, Mapping, Sequence

    from linkwise.engine.index.node_index import Query
    from linkwise.engine.planning.plan import Member
    from linkwise.engine.planning.problem import Counts
    from linkwise.engine.planning.task import Site

__all__ = ["Way", "alike", "assigned", "way_of", "with_others"]

AT_ONCE: Final = 8
"""nodes whose devices are shared out between two steps"""


def assigned(
    sites: Mapping[str, Site], kinds: Sequence[Sequence[Member]], counts: Mapping[str, Counts], floor: float = 0.0
) -> Generator[None, None, dict[str, Placement] | str]:
    """Members by rank on nodes by domain and name, so that neighbours are close; or a node that can't seat its own."""
    waiting = [list(members) for members in kinds]
    placements: dict[str, Placement] = {}
    for number, name in enumerate(homes_of(sites, counts)):
        if number % AT_ONCE == 0:
            yield
        own: list[Member] = []
        for line, count in zip(waiting, counts[name], strict=True):
            own += line[:count]
            del line[:count]
        own.sort(key=lambda member: member.order)
        offers = seated(sites[name].node, sites[name].held, own, floor)
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
    """The same with members that ask for no device: on the group's own nodes as far as these have room for them."""
    if not others:
        return placements
    bound = {name for name, site in sites.items() if site.held}
    nodes = {placement.node for placement in placements.values()} | bound
    homes = sorted(nodes, key=lambda name: (sites[name].path, name))
    filling = {name: Filling(sites[name].ground) for name in homes}
    for member in members:
        if member.pod in placements:
            filling[placements[member.pod].node].join(member.demand)
    found = dict(placements)
    for member in others:
        home = next((name for name in homes if filling[name].takes(member.demand)), None)
        if home is not None:
            found[member.pod] = Placement(home)
    return found


class Way(NamedTuple):
    """How members are placed, and which of them are: one host can't serve two ways."""

    asked: list[Query]
    in_parts: bool
    """whether all of them get parts of devices; beside others a part is of a device that is wholly free"""
    by_links: bool


def way_of(asked: list[Query], *, certain: bool = True) -> Way | None:
    """The way of the first that asks for whole devices, else of the first, with all that share it.

    Args:
        asked: what the node could serve alone.
        certain: whether it is known which of its devices are taken.
    """
    if not asked:
        return None
    first = next((wanted for wanted in asked if not in_parts(wanted)), asked[0])
    sharing = [wanted for wanted in asked if _share_a_node(first, wanted, certain=certain)]
    return Way(sharing, in_parts(first), by_links(first))


def _share_a_node(first: Query, wanted: Query, *, certain: bool) -> bool:
    """Whether both are placed in one way, or parts beside whole devices that are handed out in the same mode."""
    same = (wanted.policy.name, in_parts(wanted)) == (first.policy.name, in_parts(first))
    # Whole devices can be counted where nobody knows which are taken; a part must be of one that surely is not.
    return same or (certain and by_links(first) and in_parts(wanted) and wanted.ask.mode == first.ask.mode)


def alike(member: Member) -> Hashable:
    """Members that agree in this differ in nothing but their name."""
    demand = member.demand
    pods = (demand.apart, demand.together) if demand.apart or demand.together else ()
    labels = tuple(sorted(demand.labels.items())) if pods else ()
    return (
        member.wanted.table_key() if member.wanted else (),
        demand.cpu,
        demand.memory,
        demand.ephemeral,
        tuple(sorted(demand.selector.items())) if demand.selector else (),
        demand.affinity,
        demand.tolerations,
        demand.ports,
        str(pods) if pods else "",
        labels,
    )
