"""Codes of explanations: the stable code of a pending pod or group, from the reasons of all nodes.

A node's own reason can't say whether enough is free elsewhere: eight devices that are free on two nodes are too few on
each, but not too few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.engine.reasons.catalog import code_of, code_of_rule
from linkwise.engine.reasons.phrases import decisive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from linkwise.engine.reasons.phrases import ReasonCode
    from linkwise.explain.reports import GroupExplanation, GroupStage, PodState
    from linkwise.explain.survey import Survey
    from linkwise.model.verdict import Fact, Reason

__all__ = ["SCHEDULER", "group_code", "nowhere_code", "stage_code", "state_code"]

SCHEDULER: Final = "linkwise-scheduler"
"""the schedulerName of `linkwise config scheduler`"""

_STATES: Final[dict[PodState, ReasonCode]] = {
    "invalid": "Invalid",
    "grouped": "Planned",
    "schedulable": "Planned",
    "scheduling": "Planned",
    "planned": "Planned",
    "claimed": "Planned",
    "booked": "Planned",
    "binding": "Planned",
    "bound": "Placed",
}


def _whole(fact: Fact) -> int:
    """Free devices, as refusals of whole devices report them: the count, or the count and the total."""
    count = fact[0] if isinstance(fact, tuple) and fact else fact
    return count if isinstance(count, int) else 0


def _parts(fact: Fact) -> int:
    """Free memory or compute, as refusals of shares report it: pairs of a device and its amount."""
    return sum(pair[1] for pair in fact if isinstance(pair, tuple)) if isinstance(fact, tuple) else 0


_FREE: Final[dict[tuple[str, str], Callable[[Fact], int]]] = {
    ("000.partition", "too few"): _whole,
    ("002.whole", ""): _whole,
    ("004.filter", ""): _parts,
    ("004.filter", "core"): _parts,
}
"""what a node that has too little has free, by rule and kind"""
_STAGES: Final[dict[GroupStage, ReasonCode]] = {
    "pending": "GangIncomplete",
    "gated": "GangIncomplete",
    "planning": "Planned",
    "schedulable": "Planned",
    "reserved": "Planned",
    "unschedulable": "NoRoom",
    "placed": "Placed",
}


def state_code(state: PodState) -> ReasonCode | None:
    """The code of a pod whose state says it all; None if it needs no code, or its nodes decide."""
    return _STATES.get(state)


def stage_code(stage: GroupStage, reason: Reason | None) -> ReasonCode:
    """The code of a group by its stage, and by the reason that it is pending if there is one."""
    return code_of(reason) if reason else _STAGES[stage]


def nowhere_code(survey: Survey) -> ReasonCode:
    """The code of a pod that fits on no node: by the nodes that may become feasible, or else by all of them."""
    against = survey.against()
    code = _code_of_nodes((code_of(reason), final) for reason, final in against.values())
    if code != "NoRoom" or any(not final for name, (_, final) in against.items() if name in survey.stopped):
        return code
    return "Fragmented" if _enough_in_sum(survey) else "NoRoom"


def group_code(report: GroupExplanation) -> ReasonCode:
    """The code of a group that does not fit, or of members that its plan leaves out."""
    code = _code_of_nodes((code_of_rule(group.rule, group.kind), group.final) for group in report.against)
    if report.never:
        return code if code in {"Invalid", "NotPermitted", "Excluded"} else "NoTopology"
    if report.fitting or code == "NoRoom":
        wanted = sum(need.devices * need.members for need in report.needs)
        return "Fragmented" if 0 < wanted <= report.free else "NoRoom"
    return code


def _code_of_nodes(codes: Iterable[tuple[ReasonCode, bool]]) -> ReasonCode:
    """The decisive code; what a node could not serve when it is idle is a matter of hardware."""
    pairs = list(codes)
    passing = decisive(code for code, final in pairs if not final)
    lasting = decisive("NoTopology" if code in {"NoRoom", "Fragmented"} else code for code, _ in pairs)
    return passing or lasting or "NoTopology"


def _enough_in_sum(survey: Survey) -> bool:
    """Whether the nodes that may become feasible have enough free devices, or memory, taken together."""
    free, wanted = 0, 0
    for reject in survey.refused.values():
        reason = reject.reason
        if reject.final or reject.node in survey.barred or not isinstance(reason.asked, int):
            continue
        if (reason.rule, reason.kind) not in _FREE:
            continue
        free += _FREE[reason.rule, reason.kind](reason.found)
        wanted = max(wanted, reason.asked)
    return 0 < wanted <= free
