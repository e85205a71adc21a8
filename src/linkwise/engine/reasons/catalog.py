"""Refusal catalogue: the sentence of every reason, in two forms, and its stable code.

The long form says what was requested, what was found and what would help. The short form carries nothing of the node,
because kube-scheduler counts equal texts in its event: `0/12 nodes are available: 1 <short>, 11 <short>.`
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from linkwise.engine.reasons.devices import DEVICE_REFUSALS, REQUIREMENT_REFUSALS
from linkwise.engine.reasons.groups import GROUP_REFUSALS
from linkwise.engine.reasons.nodes import ACCESS_REFUSALS, NODE_REFUSALS, SHORTAGES
from linkwise.engine.reasons.phrases import choice_text, size_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkwise.engine.reasons.phrases import ReasonCode
    from linkwise.model.verdict import Reason

__all__ = [
    "REFUSALS",
    "choice_text",
    "code_of",
    "code_of_rule",
    "counted_nodes",
    "devices_text",
    "has_details",
    "refusal",
    "refusal_of",
    "short_refusal",
    "shortage",
    "size_text",
]

REFUSALS: Final = {**ACCESS_REFUSALS, **DEVICE_REFUSALS, **NODE_REFUSALS, **GROUP_REFUSALS, **REQUIREMENT_REFUSALS}
"""every refusal text, by rule and kind"""

_RULE_CODES: Final[Mapping[str, ReasonCode]] = {"002.access": "NotPermitted", "002.segregate": "NotPermitted"}
"""codes of rules whose refusals all have the same one"""
_NODES: Final = "node(s)"
_SINGULAR: Final = {"were": "was", "use": "uses"}
"""verbs of short forms that differ after one node"""


def refusal(reason: Reason) -> str:
    """The long form: one sentence for the person whose pod is pending."""
    known = REFUSALS.get((reason.rule, reason.kind))
    if known is None:
        return _own_text(reason)
    return known.long if isinstance(known.long, str) else known.long(reason)


def short_refusal(reason: Reason) -> str:
    """The short form: equal on all nodes that refuse for the same reason."""
    known = REFUSALS.get((reason.rule, reason.kind))
    if known is None:
        return _own_text(reason)
    return known.short if known.named is None else known.short.format(known.named(reason))


@lru_cache(maxsize=1024)
def refusal_of(short: str) -> tuple[str, str] | None:
    """The rule and kind of a short form; None if it is not in the catalog."""
    for key, text in REFUSALS.items():
        if text.short == short:
            return key
    # The longest template is the most specific one.
    templates = [(text.short.split("{}"), key) for key, text in REFUSALS.items() if text.named]
    fitting = [(start + end, key) for (start, end), key in templates if short.startswith(start) and short.endswith(end)]
    return max(fitting, key=lambda each: len(each[0]))[1] if fitting else None


def code_of(reason: Reason) -> ReasonCode:
    """The stable code of a reason."""
    return code_of_rule(reason.rule, reason.kind)


def code_of_rule(rule: str, kind: str) -> ReasonCode:
    """The same by rule and kind; a plug-in's own reason is about its hardware."""
    known = REFUSALS.get((rule, kind))
    return (known.code if known else None) or _RULE_CODES.get(rule, "NoTopology")


def _own_text(reason: Reason) -> str:
    """The text of a reason that is not in the catalog, from a plug-in's policy: its kind is the sentence."""
    return reason.kind or reason.rule


def has_details(rule: str, kind: str) -> bool:
    """Whether the long form differs from node to node."""
    known = REFUSALS.get((rule, kind))
    return known is not None and not isinstance(known.long, str)


def counted_nodes(count: int, short: str) -> str:
    """A short form after its count: `1 node uses a different sharing mode`, `3 nodes: the gang is incomplete`.

    A text that is not about nodes, such as a problem of the pod itself, keeps its count behind it.
    """
    if not short.startswith(_NODES):
        return f"{short} ({count})"
    if count != 1:
        return f"{count} {short.replace(_NODES, 'nodes', 1)}"
    for plural, singular in _SINGULAR.items():
        if short.startswith(f"{_NODES} {plural} "):
            return f"1 {short.replace(f'{_NODES} {plural}', f'node {singular}', 1)}"
    return f"1 {short.replace(_NODES, 'node', 1)}"


def devices_text(devices: Iterable[int]) -> str:
    """A set of devices: `{0,3}`."""
    return "{" + ",".join(map(str, devices)) + "}"


def shortage(reason: Reason) -> str:
    """What a node with suitable devices lacks, to be read after its name: `lacks 3 cpu`, `is cordoned`."""
    describe = SHORTAGES.get(reason.kind)
    return describe(reason) if describe else f"can't run the pod: {refusal(reason)}"
