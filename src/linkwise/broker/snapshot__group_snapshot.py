"""What is known of groups beside their pods as one value, and a book made of that value again.

Plans that are being made are not kept: their members are woken, and they are begun anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.broker.cluster.pod_request import group_said
from linkwise.broker.groups.registry import HeldPlan, Short
from linkwise.engine.planning.plan import Placement, Plan
from linkwise.engine.planning.planner import Level
from linkwise.model.snapshot__snapshot_groups import GroupsKept, LevelKept, PlacementKept, PlanKept, ShortKept, ToldKept

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.broker.groups.registry import GroupBook
    from linkwise.model.views import PodView

__all__ = ["groups_kept", "restore_groups"]


def groups_kept(book: GroupBook, running: Iterable[str], now: float) -> GroupsKept:
    """All of it but what pods say themselves; `running` names groups that are being planned."""
    alarms = book.alarms | {key: min(now, book.alarms.get(key, now)) for key in running}
    return GroupsKept(
        plans=tuple(_plan_kept(key, held) for key, held in book.plans.items()),
        short=tuple(ShortKept(key, short.reason, short.members, short.until) for key, short in book.short.items()),
        satisfied=tuple(sorted(book.satisfied)),
        first_seen=dict(sorted(book.first_seen.items())),
        alarms=alarms,
        rests=dict(sorted(book.rests.items())),
        refused=dict(sorted(book.refused.items())),
        avoided={key: tuple(sorted(nodes)) for key, nodes in sorted(book.avoided.items()) if nodes},
        places=dict(sorted(book.places.items())),
        told={
            key: tuple(ToldKept(uid, word, sentence) for (uid, word), sentence in sorted(said.items()))
            for key, said in sorted(book.told.items())
        },
        halved=tuple(sorted(book.halved)),
        evicting=dict(sorted(book.evicting.items())),
        evicted=tuple(sorted(book.evicted)),
        written=tuple(book.written),
        touched=tuple(book.touched),
        past=dict(sorted(book.past.items())),
        generations=dict(sorted(book.generations().items())),
    )


def restore_groups(book: GroupBook, pods: Iterable[PodView], kept: GroupsKept, *, by_owner: bool) -> None:
    """Make a new book what the snapshot holds; none of it is news."""
    for pod in pods:
        book.see(pod, group_said(pod, by_owner=by_owner)[0])
    book.plans = {plan.group: _held(plan) for plan in kept.plans}
    book.short = {short.group: Short(short.reason, short.members, short.until) for short in kept.short}
    book.satisfied = set(kept.satisfied)
    book.first_seen, book.alarms = dict(kept.first_seen), dict(kept.alarms)
    book.rests, book.refused, book.places = dict(kept.rests), dict(kept.refused), dict(kept.places)
    book.avoided = {key: set(nodes) for key, nodes in kept.avoided.items()}
    book.told = {key: {(found.pod, found.word): found.sentence for found in said} for key, said in kept.told.items()}
    book.halved, book.written = dict.fromkeys(kept.halved), dict.fromkeys(kept.written)
    book.evicting, book.evicted = dict(kept.evicting), dict.fromkeys(kept.evicted)
    book.touched = dict.fromkeys(kept.touched)
    book.past = dict(kept.past)
    for key, number in kept.generations.items():
        book.note_generation(key, number)


def _plan_kept(key: str, held: HeldPlan) -> PlanKept:
    plan = held.plan
    return PlanKept(
        key,
        tuple(PlacementKept(uid, placement.node, placement.offer) for uid, placement in plan.placements.items()),
        held.id,
        held.generation,
        held.expires,
        held.priority,
        held.mates,
        tuple(LevelKept(level.name, level.value, level.proven) for level in plan.levels),
        plan.region,
        plan.missing,
    )


def _held(kept: PlanKept) -> HeldPlan:
    placements = {found.pod: Placement(found.node, found.offer) for found in kept.placements}
    levels = tuple(Level(level.name, level.value, level.proven) for level in kept.levels)
    plan = Plan(placements, levels, kept.region, kept.missing)
    return HeldPlan(plan, kept.id, kept.generation, kept.expires, kept.priority, kept.mates)
