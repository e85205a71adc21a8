"""Requirements in decisions: the devices of a node that meet what a pod demands of model, memory and versions.

A device must meet every clause. A fact that is not known meets no comparison, not even `!=`: an unknown version may be any.
Where devices of a node differ, only those that meet the requirement are candidates, provided that the choice of devices is
ours; a device plugin that chooses by itself may take any of them, so all must meet it.

Source: seed 002, V2 ("CUDA v7.5+").
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from linkwise.model.node import Node, Use
from linkwise.model.requirement import KINDS, bytes_of, version_key
from linkwise.model.verdict import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from linkwise.model.device import Device
    from linkwise.model.requirement import Clause, Comparison, FactName, Operator, Requirement

__all__ = ["RULE", "fact_of", "facts_key", "names_model", "restricted", "suitable", "unmet_by"]

RULE: Final = "002.versions"
ACCESS: Final = "002.access"
_BYTES: Final = {"MiB": 2**20, "GiB": 2**30}
_TAKEN: Final = Use(whole=True)
_COMPARE: Final[Mapping[Operator, Callable[[object, object], bool]]] = {
    ">=": lambda known, asked: known >= asked,  # type: ignore[operator]
    "<=": lambda known, asked: known <= asked,  # type: ignore[operator]
    ">": lambda known, asked: known > asked,  # type: ignore[operator]
    "<": lambda known, asked: known < asked,  # type: ignore[operator]
}


def suitable(node: Node, requirement: Requirement, count: int) -> Node | Reason:
    """The node with only the devices that meet a requirement; a reason if they are fewer than `count`.

    The node itself if all of its devices do.
    """
    # rule 002.versions: a device that does not meet the requirement is not a candidate, and neither is a node without enough.
    meeting, failing = _divided(node, requirement)
    if not failing:
        return node
    reason = _reason(node, failing, requirement)
    if not meeting or (reason.rule != RULE and len(meeting) < count):
        return reason
    if not node.steered:
        return replace(reason, kind="mixed") if reason.rule == RULE else reason
    if len(meeting) < count:
        numbers = (len(meeting), len(node.devices))
        return Reason(RULE, (str(count), *_unmet_comparison(node, failing, requirement)), numbers, "too few")
    ids = {device.id for device in meeting}
    return replace(node, devices=meeting, used={name: use for name, use in node.used.items() if name in ids})


def restricted(node: Node, requirements: Iterable[Requirement | None]) -> Node | None:
    """The node for members of a group: devices that do not meet all requirements that any device meets count as used.

    None if no member can get a device. Which devices a member gets is decided by links, without its requirement.
    """
    every = tuple(requirements)
    reachable = [each for each in every if each and _divided(node, each)[0]]
    if not reachable and None not in every:
        return None
    failing = {device.id for each in reachable for device in _divided(node, each)[1]}
    if not failing:
        return node
    if len(failing) == len(node.devices) or not node.steered:
        return None
    return replace(node, used={**node.used, **dict.fromkeys(failing, _TAKEN)})


def unmet_by(requirement: Requirement, node: Node, devices: Sequence[Device]) -> Reason | None:
    """Why these devices of a node do not meet a requirement; None if they do."""
    failing = [device for device in devices if not _meets(requirement, node, device)]
    return _reason(node, failing, requirement) if failing else None


def facts_key(node: Node) -> Hashable:
    """Everything of a node that a requirement depends on: nodes of one shape with equal keys have equal verdicts."""
    devices = tuple([(device.model, device.memory, device.bytes, device.facts) for device in node.devices])
    return tuple(sorted(node.facts.items())), node.unit, node.steered, devices


def fact_of(node: Node, device: Device, fact: FactName) -> str:
    """The fact of a device, or else of its node; empty if it is unknown. Memory is in bytes."""
    own = dict(device.facts).get(fact, "")
    if fact == "model":
        return own or device.model or node.facts.get(fact, "")
    if fact == "memory":
        size = device.bytes or device.memory * _BYTES.get(node.unit, 0)
        return str(size) if size else node.facts.get(fact, "")
    return own or node.facts.get(fact, "")


def names_model(pattern: str, model: str) -> bool:
    """Whether a pattern names a model: one or more complete words of it, with `*` for any characters."""
    return _model_pattern(pattern).search(_words(model)) is not None


def _divided(node: Node, requirement: Requirement) -> tuple[tuple[Device, ...], tuple[Device, ...]]:
    """The devices that meet a requirement, and the others."""
    verdicts: dict[Hashable, bool] = {}  # most nodes have equal devices
    meeting: list[Device] = []
    failing: list[Device] = []
    for device in node.devices:
        kind = (device.model, device.memory, device.bytes, device.facts)
        if kind not in verdicts:
            verdicts[kind] = _meets(requirement, node, device)
        (meeting if verdicts[kind] else failing).append(device)
    return tuple(meeting), tuple(failing)


def _meets(requirement: Requirement, node: Node, device: Device) -> bool:
    return all(_holds(clause, node, device) for clause in requirement.clauses)


def _holds(clause: Clause, node: Node, device: Device) -> bool:
    return any(all(_compare(each, fact_of(node, device, each.fact)) for each in every) for every in clause.alternatives)


def _compare(comparison: Comparison, fact: str) -> bool:
    if not _is_known(comparison.fact, fact):
        return False
    operator, values = comparison.operator, comparison.values
    if operator in {"=", "!="}:
        return any(_equal(comparison.fact, fact, value) for value in values) == (operator == "=")
    key = _key(comparison.fact)
    return _COMPARE[operator](key(fact), key(values[0]))


def _is_known(fact: FactName, value: str) -> bool:
    return bool(value) and (KINDS[fact] == "text" or _key(fact)(value) is not None)


def _equal(fact: FactName, actual: str, value: str) -> bool:
    if fact == "model":
        return names_model(value, actual)
    key = _key(fact)
    return key(actual) == key(value)


def _key(fact: FactName) -> Callable[[str], object]:
    kind = KINDS[fact]
    return str.casefold if kind == "text" else version_key if kind == "version" else bytes_of


@lru_cache(maxsize=4096)
def _model_pattern(pattern: str) -> re.Pattern[str]:
    parts = ".*".join(map(re.escape, _words(pattern).split("*")))
    return re.compile(rf"(?:^|-){parts}(?:-|$)")


def _words(text: str) -> str:
    """Lower case, with one hyphen between words: label values have hyphens where names have spaces."""
    return re.sub(r"[\s_-]+", "-", text.strip().casefold())


def _failed(node: Node, device: Device, requirement: Requirement) -> tuple[Clause, Comparison]:
    """The first clause that a device does not meet, and the first comparison of its first alternative that fails."""
    clause = next(each for each in requirement.clauses if not _holds(each, node, device))
    return clause, next(each for each in clause.alternatives[0] if not _compare(each, fact_of(node, device, each.fact)))


def _unmet_comparison(node: Node, failing: Sequence[Device], requirement: Requirement) -> tuple[str, ...]:
    _, comparison = _failed(node, failing[0], requirement)
    return (comparison.fact, comparison.operator, *comparison.values)


def _reason(node: Node, failing: Sequence[Device], requirement: Requirement) -> Reason:
    clause, comparison = _failed(node, failing[0], requirement)
    facts = tuple(dict.fromkeys(fact_of(node, device, comparison.fact) for device in failing))
    known = tuple(each for each in facts if _is_known(comparison.fact, each))
    if clause.who:
        # rule 002.access: a policy's models are a requirement that the administrator adds.
        return Reason(ACCESS, facts[0], (clause.who, *comparison.values), "model", clause.source)
    others = len(clause.alternatives) - 1
    return Reason(
        RULE,
        (comparison.fact, comparison.operator, *comparison.values),
        known,
        "unmet" if known else "unknown",
        clause.source,
        str(others) if others else "",
    )
