"""In which ways members are placed, and which of them are alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from linkwise.engine.planning.hosts import by_links, in_parts

if TYPE_CHECKING:
    from collections.abc import Hashable

    from linkwise.engine.index.node_index import Wanted
    from linkwise.engine.planning.plan import Member

__all__ = ["Way", "alike", "way_of"]


class Way(NamedTuple):
    """How members are placed, and which of them are: one host can't serve two ways."""

    asked: list[Wanted]
    in_parts: bool
    """whether all of them get parts of devices; beside others a part is of a device that is wholly free"""
    by_links: bool


def way_of(asked: list[Wanted], *, certain: bool = True) -> Way | None:
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


def _share_a_node(first: Wanted, wanted: Wanted, *, certain: bool) -> bool:
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
        member.wanted.kind() if member.wanted else (),
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
