"""Text of a group report, one sentence per line."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from linkwise.dialects.linkwise.dialect import MODELS
from linkwise.engine.reasons.catalog import devices_text
from linkwise.engine.reasons.phrases import count_text
from linkwise.explain.reports import FILE_SOURCE
from linkwise.explain.text.phrases import leavers_text, names_text, refusal_lines
from linkwise.topology.fabric import SIZES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from linkwise.explain.reports import (
        GroupExplanation,
        GroupNode,
        GroupRemedy,
        GroupStage,
        MemberReport,
        Need,
        PlanLevel,
    )

__all__ = [
    "NOT_PROVEN",
    "SLOWEST",
    "brief_lines",
    "group_lines",
    "heading",
    "lack_lines",
    "level_text",
    "never_text",
    "remark_lines",
    "remedy_text",
    "speed_text",
]

MOST_NODES: Final = 12
"""nodes with a line of their own"""
NOT_PROVEN: Final = "; the best found, a better one may exist"
NOTHING_RESERVED: Final = "no devices are reserved for it"
FIRST: Final = 2
"""member sizes and notes in the short form"""


def group_lines(report: GroupExplanation, *, in_file: bool = False, tables: bool = False) -> list[str]:
    """Return one sentence per line, the most important first.

    Args:
        report: on the group.
        in_file: whether the members are those of a file, and do not exist.
        tables: whether the placements and the levels are shown as tables beside these lines.
    """
    levels = () if tables else report.levels
    return [
        f"group {report.key} {heading(report)}",
        *_standing(report, in_file=in_file),
        *(() if tables else _nodes(report)),
        *(f"{level.name}: {level_text(level, report)}" for level in levels if level_text(level, report)),
        *_runner_up(report),
        *lack_lines(report),
        *_against(report),
        *map(remedy_text, report.remedies),
        *filter(None, [never_text(report)]),
        *report.notes,
    ]


def remark_lines(report: GroupExplanation, *, in_file: bool = False) -> list[str]:
    """Return what is said about its members and its plan beside nodes, levels, what it lacks, remedies and notes."""
    return [*_standing(report, in_file=in_file), *_runner_up(report)]


def brief_lines(report: GroupExplanation, *, helped: bool = True) -> list[str]:
    """Return the short form for a member: what its group lacks and, if computed, the first remedy."""
    helps = [*map(remedy_text, report.remedies[:1]), *filter(None, [never_text(report)])] if helped else []
    lines = [*map(_need, report.needs[:FIRST]), *helps, *report.notes[:FIRST]]
    return [f"its group {line.removeprefix('it ')}" if line.startswith("it ") else line for line in lines]


def heading(report: GroupExplanation) -> str:
    """Return the stage of the group as a predicate, without its name."""
    return _HEADINGS[report.stage](report)


_HEADINGS: Final[dict[GroupStage, Callable[[GroupExplanation], str]]] = {
    "pending": lambda report: (
        f"is pending: {report.sentence}"
        if report.sentence
        else f"is pending: {count_text(report.lacking, 'member')} not created yet{_patience(report)}"
    ),
    "gated": lambda report: (
        f"is pending: {count_text(report.lacking, 'member')} {'has' if report.lacking == 1 else 'have'} scheduling gates"
    ),
    "planning": lambda _: "is being planned; its members are retried when the plan is ready",
    "schedulable": lambda report: f"fits {'in part' if report.count('left out') else 'now'}: {_placed(report)}",
    "reserved": lambda report: f"is planned: {_placed(report)}; devices are reserved for another {report.held:.3g} s",
    "unschedulable": lambda report: f"does not fit now; {report.drained or NOTHING_RESERVED}",
    "placed": lambda report: f"is placed: {_placed(report)}",
}


def _patience(report: GroupExplanation) -> str:
    return f"; it is planned without them {report.window:g} s after its first attempt" if report.window else ""


def _placed(report: GroupExplanation) -> str:
    homes = sum(bool(member.node) for member in report.members)
    if not homes:
        return "none of its members requests devices"
    out = report.count("left out")
    return f"{count_text(homes, 'member')} on {count_text(len(report.hosts), 'node')}" + (
        f", {out} left out" if out else ""
    )


def _standing(report: GroupExplanation, *, in_file: bool) -> Iterator[str]:
    yield _members(report, in_file=in_file)
    if report.bundle:
        yield f"it must start together with {names_text(report.bundle)}"


def _members(report: GroupExplanation, *, in_file: bool) -> str:
    """Return the counts of members by state."""
    counts = {
        "bound": report.count("bound"),
        "being bound": report.count("binding"),
        "planned": report.count("planned"),
        "gated": report.count("gated"),
        "pending": report.count("pending", "schedulable"),
        "left out": report.count("left out"),
        "missing": report.missing,
        "terminating": report.count("terminating"),
    }
    parts = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    gang = f"; {report.minimum} must start together" if report.minimum else ""
    extra = report.count("extra")
    alone = f"; {count_text(extra, 'extra pod')} {'is' if extra == 1 else 'are'} scheduled separately" if extra else ""
    source = "" if in_file and report.source == FILE_SOURCE else f" ({report.source})"
    return f"{_there(report, in_file=in_file)}: {parts}{gang}{alone}{source}"


def _there(report: GroupExplanation, *, in_file: bool) -> str:
    """Return how many members exist, or are in the file."""
    if not in_file:
        of = f" of {report.total}" if report.total else ""
        return f"{report.there}{of} members exist"
    if report.total and report.there < report.total:
        return f"{report.there} of {report.total} members are in the file"
    return f"{count_text(report.there, 'member')} {'is' if report.there == 1 else 'are'} in the file"


def lack_lines(report: GroupExplanation) -> Iterator[str]:
    """Yield what the members need that do not fit, and the nodes with the most free devices."""
    for need in report.needs:
        yield _need(need)
    free = [f"{name} {count}" for name, count in report.best if count]
    if report.needs and free:
        plan = "" if report.stage == "unschedulable" else " without its plan"
        yield f"nodes with the most free devices{plan}: {', '.join(free)}"


def _in_part(report: GroupExplanation) -> bool:
    """Return whether some of its members have a place, and others are left out."""
    return report.stage != "unschedulable" and report.count("left out") > 0


def _need(need: Need) -> str:
    within = f" in one domain of {need.domain}" if need.domain else ""
    if need.alone:
        have = f"{need.fitting or 'none'} {'have' if need.fitting > 1 else 'has'} them"
        alike = " of one model" if need.one_model else ""
        nodes = count_text(need.members, "more node" if need.beside else "node")
        return f"it needs {nodes}{alike}{within} with {count_text(need.devices, 'free device')}; {have}"
    members = _each_of(need.members, beside=need.beside)
    alike = ", all of one model" if need.one_model else ""
    fitting = f"only {need.fitting} {'fits' if need.fitting == 1 else 'fit'}" if need.fitting else "none fits"
    return f"it needs {count_text(need.devices, 'device')} for {members}{alike}{within}; {fitting}"


def _each_of(members: int, *, beside: int) -> str:
    """Return a number of members that are not bound; `beside` are."""
    pending = f" that {'is' if members == 1 else 'are'} not bound" if beside else ""
    return f"{'each of ' if members > 1 else ''}{count_text(members, 'member')}{pending}"


def _nodes(report: GroupExplanation) -> Iterator[str]:
    for host in report.hosts[:MOST_NODES]:
        yield _node(host, [member for member in report.members if member.node == host.name])
    if len(report.hosts) > MOST_NODES:
        yield f"and {len(report.hosts) - MOST_NODES} more nodes"


def _node(host: GroupNode, members: Sequence[MemberReport]) -> str:
    named = names_text([_member(member) for member in members])
    several = sum(bool(member.devices) for member in members) > 1
    pair = f"; slowest pair overall {speed_text(host.bottleneck)}" if host.bottleneck and several else ""
    return f"node {host.name}: {named}{pair}; {count_text(host.idle, 'device')} left free"


def _member(member: MemberReport) -> str:
    name = member.name.partition("/")[2]
    devices = f" {devices_text(member.indices)}" if member.indices else ""
    return f"{name}{devices}" + (f" {speed_text(member.bottleneck)}" if member.bottleneck else "")


def speed_text(speed: float | None) -> str:
    """Return a bandwidth with its unit; empty if unknown."""
    return "" if speed is None else f"{speed:g} GB/s"


def level_text(level: PlanLevel, report: GroupExplanation) -> str:
    """Return the result of a plan in one level; empty if the level does not apply."""
    text = _LEVELS[level.name](level.value, report)
    return f"{text}{'' if level.proven else NOT_PROVEN}" if text else ""


def _speed(what: str, value: tuple[float | None, ...], report: GroupExplanation) -> str:
    if report.policy != "bandwidth":
        return ""
    if value[0] is None:
        return f"{what}: none"
    return f"{what} about {value[0]:g} GB/s" if value[0] else f"{what}: unknown"


def _network(value: tuple[float | None, ...], report: GroupExplanation) -> str:
    counts = [int(part or 0) for part in value]
    words = [
        f"{count_text(count, 'domain')} of {name}{f' ({domain})' if domain else ''}"
        for count, name, domain in zip(counts, report.network, (*report.region, *[""] * len(counts)), strict=False)
    ]
    return ", ".join(words)


def _residual(value: tuple[float | None, ...], report: GroupExplanation) -> str:
    if report.policy != "bandwidth":
        return ""
    lost = [f"{count_text(int(part), 'set')} of {size}" for size, part in zip(SIZES, value, strict=False) if part]
    return f"good sets lost: {', '.join(lost) or 'none'}"


SLOWEST: Final = {"bottleneck": "slowest pair on a node", "per pod": "slowest pair of a member"}
"""levels that compare bandwidths, by classes of speeds that count as equal"""
_LEVELS: Final[dict[str, Callable[[tuple[float | None, ...], GroupExplanation], str]]] = {
    "placed": lambda value, _: count_text(int(sum(part or 0 for part in value)), "member"),
    "nodes": lambda value, _: count_text(int(value[0] or 0), "node"),
    "network": _network,
    **{name: partial(_speed, what) for name, what in SLOWEST.items()},
    "residual": _residual,
    "left-over": lambda value, _: f"{count_text(int(value[0] or 0), 'device')} left free on its nodes",
}


def _runner_up(report: GroupExplanation) -> Iterator[str]:
    other = report.runner_up
    if other:
        noun = "node" if len(other.nodes) == 1 else "nodes"
        better = "better now, it " if other.better else ""
        yield f"runner-up on {noun} {names_text(other.nodes)}: {better}{other.sentence}"
    elif report.sole:
        yield "no other set of nodes fits the group"


def _against(report: GroupExplanation) -> Iterator[str]:
    if not report.needs:
        return
    alone = " if the others are not placed" if report.hosts else " now"
    yield f"{report.fitting} of {count_text(report.nodes, 'node')} can take a member{alone}"
    yield from refusal_lines(report.against)


def never_text(report: GroupExplanation) -> str:
    """Return that no end of other pods would let it fit, or that none was found; else nothing."""
    whole = " as a whole" if _in_part(report) else ""
    if report.never:
        return f"it would not fit{whole} even if all other pods finished"
    if report.needs and not any(remedy.kind == "pods end" for remedy in report.remedies):
        return f"no pods were found whose completion would let it fit{whole}"
    return ""


def remedy_text(remedy: GroupRemedy) -> str:
    """Return a remedy as a sentence."""
    return _REMEDIES[remedy.kind](remedy)


def _share_of(remedy: GroupRemedy) -> str:
    return f"for {_each_of(remedy.count, beside=1)}" if remedy.count else "per member"


def _pods_end(remedy: GroupRemedy) -> str:
    return f"it fits once {leavers_text(remedy.pods, names_text, remedy.nodes)}"


_REMEDIES: Final[dict[str, Callable[[GroupRemedy], str]]] = {
    "pods end": _pods_end,
    "fewer members": lambda remedy: (
        f"a group of {count_text(remedy.amount, 'member')} would fit now, on {names_text(remedy.nodes)}"
    ),
    "split": lambda remedy: (
        f"no node has that many devices: split each member into {remedy.count} members with "
        f"{count_text(remedy.amount, 'device')} each"
    ),
    "fewer devices": lambda remedy: (
        f"{count_text(remedy.amount, 'device')} {_share_of(remedy)} would fit now, on {names_text(remedy.nodes)}"
    ),
    "any model": lambda remedy: (
        f"it would fit on devices of different models (annotation {MODELS}: any), on {names_text(remedy.nodes)}"
    ),
    "any domain": lambda remedy: (
        f"it would fit if one domain of {remedy.level} were not required, on {names_text(remedy.nodes)}"
    ),
}
