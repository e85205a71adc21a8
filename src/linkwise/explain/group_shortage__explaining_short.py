"""Why not all members of a group find room, and what would have to change so that they do."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from linkwise.broker.groups.what_if import Change
from linkwise.explain.group_shortage import RoomForAll
from linkwise.explain.make_room__remedies import smaller
from linkwise.explain.reports.group import GroupRemedy, Need
from linkwise.explain.survey import against_all, survey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.broker.groups.registry import Gathered
    from linkwise.broker.groups.what_if import Trying
    from linkwise.broker.state import State
    from linkwise.engine.planning.plan import Member, Plan
    from linkwise.explain.reports.group import GroupExplanation

__all__ = ["explain_short"]

SHOWN: Final = 5
"""nodes with the most room that are named"""


def explain_short(
    state: State, found: Gathered, trying: Trying, told: GroupExplanation, most: int | None = None
) -> GroupExplanation:
    """What is lacking, what speaks against each node, and what would help: all of it, or so many things."""
    tolerant = trying.plan(Change(minimum=1))
    asking = [member for member in trying.members if member.size]
    if not asking:
        return told
    placed = set(tolerant.placements) if tolerant else set[str]()
    left = next((member for member in asking if member.pod not in placed), asking[0])
    told = replace(told, needs=tuple(_needs(trying, asking, placed)), best=_best(trying))
    pod = next((pod for pod in found.waiting if pod.uid == left.pod), None)
    if pod is None or left.wanted is None:
        return told
    nodes = survey(state, pod, left.wanted)
    told = replace(told, fitting=len(nodes.fitting), against=against_all(state, left.wanted, nodes))
    if left.wanted.policy.admit(left.wanted.ask):
        return replace(told, never=True)
    if most == 0:
        return told
    fewer = tolerant if told.stage == "short" else None  # else these members are planned already
    remedies, never = _helped(RoomForAll(state, trying, nodes), trying, fewer, most)
    return replace(told, remedies=remedies, never=never)


def _needs(trying: Trying, asking: list[Member], placed: set[str]) -> Iterator[Need]:
    """By size, the largest first; only sizes of which not all find room."""
    nodes = [node for _, node in trying.serving()]
    models = {device.model for node in nodes for device in node.devices}
    most = max((len(node.healthy()) for node in nodes), default=0)
    wanted = Counter(member.size for member in asking)
    fitting = Counter(member.size for member in asking if member.pod in placed)
    for size in sorted(wanted, reverse=True):
        if fitting[size] < wanted[size]:
            alone, one_model = 0 < most < 2 * size, len(models) > 1 and not trying.mixed
            yield Need(size, wanted[size], fitting[size], alone, one_model, trying.required)


def _best(trying: Trying) -> tuple[tuple[str, int], ...]:
    rooms = [(name, max(0, len(node.free()) - node.unattributed)) for name, node in trying.serving()]
    return tuple(sorted(rooms, key=lambda room: (-room[1], room[0]))[:SHOWN])


def _helped(
    room: RoomForAll, trying: Trying, tolerant: Plan | None, most: int | None
) -> tuple[tuple[GroupRemedy, ...], bool]:
    """What would help; and whether no end of any pod would."""
    less = tuple(islice(chain(_fewer_members(tolerant), _fewer_devices(trying), _looser(trying)), most))
    if not room.ever():
        return less, not trying.cut
    return (*room.remedies(), *less)[:most], False


def _fewer_members(tolerant: Plan | None) -> Iterator[GroupRemedy]:
    if tolerant and (count := sum(placement.offer is not None for placement in tolerant.placements.values())):
        yield GroupRemedy("fewer members", nodes=tolerant.nodes, amount=count)


def _fewer_devices(trying: Trying) -> Iterator[GroupRemedy]:
    """The most that members of one size could each have, fewer than they ask for."""
    sizes = {member.size for member in trying.members if member.size}
    for size in range(max(sizes) - 1, 0, -1) if len(sizes) == 1 else ():
        members = tuple(_with_size(member, size) for member in trying.members)
        first = next(member.wanted for member in members if member.wanted)
        if not first.policy.admit(first.ask) and (plan := trying.whole(Change(members=members))):
            yield GroupRemedy("fewer devices", nodes=plan.nodes, amount=size)
            return


def _with_size(member: Member, size: int) -> Member:
    if member.wanted is None or not member.size:
        return member
    return replace(member, wanted=member.wanted._replace(ask=smaller(member.wanted.ask, devices=size)))


def _looser(trying: Trying) -> Iterator[GroupRemedy]:
    """What is asked of the nodes together, beside room."""
    if plan := trying.whole(Change(mixed=True)):
        yield GroupRemedy("any model", nodes=plan.nodes)
    if trying.required and (plan := trying.whole(Change(anywhere=True))):
        yield GroupRemedy("any domain", nodes=plan.nodes, level=trying.required)
