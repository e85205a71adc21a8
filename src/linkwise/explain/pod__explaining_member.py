"""What is said of a pod because it is a member of a group: how far that has come, and in short what it lacks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.groups.planning import gathered
from linkwise.broker.groups.stale_gangs import stuck_text
from linkwise.broker.unobserved import unseen_member
from linkwise.engine.reasons.catalog import refusal
from linkwise.explain.group import explain_group, group_stage
from linkwise.explain.text.group import brief_lines, heading

if TYPE_CHECKING:
    from linkwise.broker.state import State
    from linkwise.explain.reports.group import GroupExplanation, GroupStage
    from linkwise.explain.reports.pod import Explanation

__all__ = ["as_member", "with_outlook"]

PLANNED_WHEN: Final = "is planned when one of its members is tried"
UNSEEN: Final = "it asked before the cluster showed it; it is tried again when it is seen"


def as_member(state: State, told: Explanation, now: float, *, plan: bool) -> Explanation:
    """The same with how far the pod's group has come; a pod that is placed alone is left as it is.

    Whether a group fits that has no plan is known when it is planned, which takes a while if it is large: only if `plan`.
    """
    waiting = told.state in {"waiting", "fits"} or (told.state == "no devices" and not told.node)
    pod, key = state.pod(told.uid), state.groups.key_of(told.uid)
    if pod and waiting and unseen_member(state, pod):
        return replace(told, state="grouped", notes=(*told.notes, UNSEEN))
    found = gathered(state, key) if key else None
    if found is None or told.uid in found.extra:
        return told
    stuck = stuck_text(state, found, now) if told.node else ""
    notes = (*told.notes, stuck) if stuck else told.notes
    stage, reason = group_stage(state, found, now)
    standing = refusal(reason) if reason else _standing(state, stage, key, told)
    told = replace(told, group=key, standing=standing, notes=notes)
    if not waiting or _goes_alone(state, key, told):
        return told
    told = replace(told, state="grouped")
    lacking = stage in {"fits", "short"} or (stage == "held" and not _has_place(state, key, told.uid))
    outlook = explain_group(state, key, now, most=1) if plan and lacking else None
    return with_outlook(told, outlook) if outlook else told


def with_outlook(told: Explanation, group: GroupExplanation, *, helped: bool = True) -> Explanation:
    """The same of a member that waits, with what a plan of its group made now would come to, and what would help."""
    left_out = any(member.uid == told.uid and member.state == "left out" for member in group.members)
    match group.stage:
        case "short":
            told = replace(told, standing=f"its group {heading(group)}")
        case "fits":
            rest = "leaves no room for this pod" if left_out else PLANNED_WHEN
            told = replace(told, standing=f"its group {heading(group)}, and {rest}")
    if group.stage != "short" and not left_out:
        return told
    return replace(told, lacks=tuple(line for line in brief_lines(group, helped=helped) if not _said(told, line)))


def _said(told: Explanation, line: str) -> bool:
    return any(line.endswith(note) for note in told.notes)


def _goes_alone(state: State, key: str, told: Explanation) -> bool:
    """A member without devices for which the nodes of its group have no room goes wherever it likes."""
    return told.asked is None and key in state.groups.plans and not _has_place(state, key, told.uid)


def _has_place(state: State, key: str, uid: str) -> bool:
    """Whether it is bound, or placed by the plan that holds."""
    pod = state.pod(uid)
    return uid in state.groups.plans[key].plan.placements or bool(pod and pod.node)


def _standing(state: State, stage: GroupStage, key: str, told: Explanation) -> str:
    match stage:
        case "planning":
            return "its group is being planned"
        case "held":
            left_out = not _has_place(state, key, told.uid)
            return f"its group is planned{', and left no room for this pod' if left_out else ''}"
        case "short":
            return "its group does not fit now, and nothing is held for it"
        case "placed":
            return "its group is placed"
        case _:
            return f"its group is complete, and {PLANNED_WHEN}"
