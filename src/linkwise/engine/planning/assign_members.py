"""From how many members a node takes to which ones, and with which devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.engine.planning.node_capacity import Filling
from linkwise.engine.planning.plan import Placement
from linkwise.engine.planning.seating__seating import seated

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from linkwise.engine.planning.make_plan import Site
    from linkwise.engine.planning.plan import Member
    from linkwise.engine.planning.problem import Counts

__all__ = ["assigned", "with_others"]

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
