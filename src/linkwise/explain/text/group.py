"""What is said of a group, as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.dialects.linkwise.dialect import MODELS
from linkwise.engine.reasons.catalog import devices_text
from linkwise.engine.reasons.phrases import count_text
from linkwise.explain.text.phrases import leaver_text, names_text, refusal_lines
from linkwise.topology.residual import SIZES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from linkwise.explain.reports.group import (
        GroupExplanation,
        GroupNode,
        GroupRemedy,
        GroupStage,
        Need,
        PlanLevel,
        ToldMember,
    )

__all__ = ["brief_lines", "group_lines", "heading", "level_text", "speed_text"]

MOST_NODES: Final = 12
"""nodes that have a line of their own"""
NOT_PROVEN: Final = "; the best found, a better one may exist"
FIRST: Final = 2
"""sizes of members, and notes, of which a member reads"""


def group_lines(told: GroupExplanation) -> list[str]:
    """One sentence a line, the most important first."""
    return [
        f"group {told.key} {heading(told)}",
        _members(told),
        *([f"it must start together with {names_text(told.mates)}"] if told.mates else ()),
        *_nodes(told),
        *(f"{level.name}: {level_text(level, told)}" for level in told.levels if level_text(level, told)),
        *_runner_up(told),
        *_needs(told),
        *_against(told),
        *map(_remedy, told.remedies),
        *_never(told),
        *told.notes,
    ]


def brief_lines(told: GroupExplanation, *, helped: bool = True) -> list[str]:
    """The same in short, as a member reads it: what its group lacks and, if that was looked for, what would help most."""
    helps = [*map(_remedy, told.remedies[:1]), *_never(told)] if helped else []
    lines = [*map(_need, told.needs[:FIRST]), *helps, *told.notes[:FIRST]]
    return [f"its group {line.removeprefix('it ')}" if line.startswith("it ") else line for line in lines]


def heading(told: GroupExplanation) -> str:
    """How far the group has come, without its name."""
    return _HEADINGS[told.stage](told)


_HEADINGS: Final[dict[GroupStage, Callable[[GroupExplanation], str]]] = {
    "pending": lambda told: (
        f"is pending: {told.sentence}"
        if told.sentence
        else f"is pending: {count_text(told.lacking, 'member')} not created yet{_patience(told)}"
    ),
    "gated": lambda told: (
        f"is pending: {count_text(told.lacking, 'member')} {'has' if told.lacking == 1 else 'have'} scheduling gates"
    ),
    "planning": lambda _: "is being planned; its members are retried when the plan is ready",
    "schedulable": lambda told: f"fits {'in part' if told.count('left out') else 'now'}: {_placed(told)}",
    "reserved": lambda told: f"is planned: {_placed(told)}; devices are reserved for another {told.held:.3g} s",
    "unschedulable": lambda _: "does not fit now; no devices are reserved for it",
    "placed": lambda told: f"is placed: {_placed(told)}",
}


def _patience(told: GroupExplanation) -> str:
    return f"; it is planned without them {told.window:g} s after its first attempt" if told.window else ""


def _placed(told: GroupExplanation) -> str:
    homes = sum(bool(member.node) for member in told.members)
    if not homes:
        return "none of its members requests devices"
    out = told.count("left out")
    return f"{count_text(homes, 'member')} on {count_text(len(told.hosts), 'node')}" + (
        f", {out} left out" if out else ""
    )


def _members(told: GroupExplanation) -> str:
    """How many there are, and where they stand."""
    of = f" of {told.total}" if told.total else ""
    counts = {
        "bound": told.count("bound"),
        "being bound": told.count("binding"),
        "planned": told.count("planned"),
        "gated": told.count("gated"),
        "pending": told.count("pending", "schedulable"),
        "left out": told.count("left out"),
        "missing": told.missing,
        "terminating": told.count("terminating"),
    }
    parts = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    gang = f"; {told.minimum} must start together" if told.minimum else ""
    extra = told.count("extra")
    alone = f"; {count_text(extra, 'extra pod')} {'is' if extra == 1 else 'are'} scheduled separately" if extra else ""
    return f"{told.there}{of} members exist: {parts}{gang}{alone} ({told.source})"


def _needs(told: GroupExplanation) -> Iterator[str]:
    for need in told.needs:
        yield _need(need)
    if told.needs and told.best:
        free = [f"{name} {count}" for name, count in told.best]
        plan = "" if told.stage == "unschedulable" else " without its plan"
        yield f"nodes with the most free devices{plan}: {', '.join(free)}"


def _need(need: Need) -> str:
    within = f" in one domain of {need.domain}" if need.domain else ""
    if need.alone:
        have = f"{need.fitting or 'none'} {'have' if need.fitting > 1 else 'has'} them"
        alike = " of one model" if need.one_model else ""
        return f"it needs {count_text(need.members, 'node')}{alike}{within} with {count_text(need.devices, 'free device')}; {have}"
    members = f"{'each of ' if need.members > 1 else ''}{count_text(need.members, 'member')}"
    alike = ", all of one model" if need.one_model else ""
    fitting = f"only {need.fitting} {'fits' if need.fitting == 1 else 'fit'}" if need.fitting else "none fits"
    return f"it needs {count_text(need.devices, 'device')} for {members}{alike}{within}; {fitting}"


def _nodes(told: GroupExplanation) -> Iterator[str]:
    for host in told.hosts[:MOST_NODES]:
        yield _node(host, [member for member in told.members if member.node == host.name])
    if len(told.hosts) > MOST_NODES:
        yield f"and {len(told.hosts) - MOST_NODES} more nodes"


def _node(host: GroupNode, members: Sequence[ToldMember]) -> str:
    named = names_text([_member(member) for member in members])
    several = sum(bool(member.devices) for member in members) > 1
    pair = f"; slowest pair overall {speed_text(host.bottleneck)}" if host.bottleneck and several else ""
    return f"node {host.name}: {named}{pair}; {count_text(host.idle, 'device')} left free"


def _member(member: ToldMember) -> str:
    name = member.name.partition("/")[2]
    devices = f" {devices_text(member.indices)}" if member.indices else ""
    return f"{name}{devices}" + (f" {speed_text(member.bottleneck)}" if member.bottleneck else "")


def speed_text(speed: float | None) -> str:
    """A speed as it was measured, or nothing."""
    return "" if speed is None else f"{speed:g} GB/s"


def level_text(level: PlanLevel, told: GroupExplanation) -> str:
    """What a plan is worth in one level; empty where the level says nothing."""
    text = _LEVELS[level.name](level.value, told)
    return f"{text}{'' if level.proven else NOT_PROVEN}" if text else ""


def _speed(what: str, value: tuple[float | None, ...], told: GroupExplanation) -> str:
    if told.policy != "bandwidth":
        return ""
    if value[0] is None:
        return f"{what}: none"
    return f"{what} about {value[0]:g} GB/s" if value[0] else f"{what}: unknown"


def _network(value: tuple[float | None, ...], told: GroupExplanation) -> str:
    counts = [int(part or 0) for part in value]
    words = [
        f"{count_text(count, 'domain')} of {name}{f' ({domain})' if domain else ''}"
        for count, name, domain in zip(counts, told.network, (*told.region, *[""] * len(counts)), strict=False)
    ]
    return ", ".join(words)


def _residual(value: tuple[float | None, ...], told: GroupExplanation) -> str:
    if told.policy != "bandwidth":
        return ""
    lost = [f"{count_text(int(part), 'set')} of {size}" for size, part in zip(SIZES, value, strict=False) if part]
    return f"good sets lost: {', '.join(lost) or 'none'}"


_LEVELS: Final[dict[str, Callable[[tuple[float | None, ...], GroupExplanation], str]]] = {
    "placed": lambda value, _: count_text(int(sum(part or 0 for part in value)), "member"),
    "nodes": lambda value, _: count_text(int(value[0] or 0), "node"),
    "network": _network,
    "bottleneck": lambda value, told: _speed("slowest pair on a node", value, told),
    "per pod": lambda value, told: _speed("slowest pair of a member", value, told),
    "residual": _residual,
    "left-over": lambda value, _: f"{count_text(int(value[0] or 0), 'device')} left free on its nodes",
}


def _runner_up(told: GroupExplanation) -> Iterator[str]:
    other = told.runner_up
    if other:
        noun = "node" if len(other.nodes) == 1 else "nodes"
        better = "better now, it " if other.better else ""
        yield f"runner-up on {noun} {names_text(other.nodes)}: {better}{other.sentence}"
    elif told.sole:
        yield "no other set of nodes fits the group"


def _against(told: GroupExplanation) -> Iterator[str]:
    if not told.needs:
        return
    yield f"{told.fitting} of {count_text(told.nodes, 'node')} can take a member now"
    yield from refusal_lines(told.against)


def _never(told: GroupExplanation) -> Iterator[str]:
    if told.never:
        yield "it would not fit even if all other pods finished"
    elif told.needs and not any(remedy.kind == "pods end" for remedy in told.remedies):
        yield "no pods were found whose completion would let it fit"


def _remedy(remedy: GroupRemedy) -> str:
    return _REMEDIES[remedy.kind](remedy)


def _pods_end(remedy: GroupRemedy) -> str:
    pods = [
        f"{pod.name} ({leaver_text(pod)}) on node {node}" for pod, node in zip(remedy.pods, remedy.nodes, strict=True)
    ]
    one = len(pods) == 1
    named = f"pod {pods[0]}" if one else f"pods {names_text(pods)}"
    if all(pod.terminating for pod in remedy.pods):
        return f"it fits once terminating {named} {'has' if one else 'have'} stopped"
    return f"it fits once {named} {'finishes' if one else 'finish'}"


_REMEDIES: Final[dict[str, Callable[[GroupRemedy], str]]] = {
    "pods end": _pods_end,
    "fewer members": lambda remedy: (
        f"a group of {count_text(remedy.amount, 'member')} would fit now, on {names_text(remedy.nodes)}"
    ),
    "fewer devices": lambda remedy: (
        f"{count_text(remedy.amount, 'device')} per member would fit now, on {names_text(remedy.nodes)}"
    ),
    "any model": lambda remedy: (
        f"it would fit on devices of different models (annotation {MODELS}: any), on {names_text(remedy.nodes)}"
    ),
    "any domain": lambda remedy: (
        f"it would fit if one domain of {remedy.level} were not required, on {names_text(remedy.nodes)}"
    ),
}
