"""What is said of a pod because it is a member of a group: the group itself is explained elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.explaining_group import group_stage
from linkwise.broker.group_planning import gathered
from linkwise.broker.half_bound import stuck_text
from linkwise.engine.explain import refusal

if TYPE_CHECKING:
    from linkwise.broker.explanation import Explanation
    from linkwise.broker.group_book import Gathered
    from linkwise.broker.state import State

__all__ = ["as_member"]


def as_member(state: State, told: Explanation, now: float) -> Explanation:
    """The same with how far the pod's group has come; a pod that is placed alone is left as it is."""
    key = state.groups.key_of(told.uid)
    found = gathered(state, key) if key else None
    if found is None or told.uid in found.extra:
        return told
    stuck = stuck_text(state, found, now) if told.node else ""
    notes = (*told.notes, stuck) if stuck else told.notes
    told = replace(told, group=key, standing=_standing(state, found, told, now), notes=notes)
    waiting = told.state in {"waiting", "fits"} or (told.state == "no devices" and not told.node)
    if not waiting or _goes_alone(state, key, told):
        return told
    return replace(told, state="grouped")


def _goes_alone(state: State, key: str, told: Explanation) -> bool:
    """A member without devices for which the nodes of its group have no room goes wherever it likes."""
    held = state.groups.plans.get(key)
    return told.asked is None and held is not None and told.uid not in held.plan.placements


def _standing(state: State, found: Gathered, told: Explanation, now: float) -> str:
    stage, reason = group_stage(state, found, now)
    if reason:
        return refusal(reason)
    match stage:
        case "planning":
            return "its group is being planned"
        case "held":
            planned = state.groups.plans[found.group.key].plan.placements
            here = told.uid in planned or told.node
            return "its group is planned" if here else "its group is planned, and left no room for this pod"
        case "short":
            return "its group does not fit now, and nothing is held for it"
        case "placed":
            return "its group is placed"
        case _:
            return "its group is complete, and is planned when one of its members is tried"
