"""Kubernetes selectors: matching of labels, fields, taints and host ports, and their text form."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from linkwise.errors import InputError
from linkwise.model.views import SelectorRequirement

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkwise.model.views import HostPort, NodeTerm, NodeView, PodTerm, Taint, Toleration

__all__ = [
    "ANY_POD",
    "all_met",
    "collides",
    "label_requirements",
    "meets",
    "node_term_text",
    "pod_term_text",
    "selects",
    "taint_text",
    "tolerates",
]

ANY_POD: Final = "any pod"
"""how a term that selects every pod is written"""
_REQUIREMENT: Final = re.compile(
    r"\s*(?:(?P<absent>!)\s*(?P<without>[^\s,=!()<>]+)"
    r"|(?P<key>[^\s,=!()<>]+)(?:\s*(?P<operator>==|=|!=|>|<)\s*(?P<value>[^\s,=!()<>]*)"
    r"|\s+(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?)\s*(?:,|$)"
)
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}")
_ANYWHERE: Final = "0.0.0.0"  # noqa: S104 - how Kubernetes writes all addresses; nothing is bound here


def _difference(value: str | None, values: tuple[str, ...]) -> int:
    """The label's value minus the required number; 0, which satisfies neither Gt nor Lt, if one is not a number."""
    texts = (value or "", *values)
    if len(texts) != 2 or not all(map(_WHOLE.fullmatch, texts)):
        return 0
    return int(texts[0]) - int(texts[1])


# An unknown operator matches nothing.
_OPERATORS: Final[dict[str, Callable[[str | None, tuple[str, ...]], bool]]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": lambda value, values: _difference(value, values) > 0,
    "Lt": lambda value, values: _difference(value, values) < 0,
}
_FORMATS: Final = {
    "In": "{key} in ({values})",
    "NotIn": "{key} notin ({values})",
    "Exists": "{key}",
    "DoesNotExist": "!{key}",
    "Gt": "{key}>{values}",
    "Lt": "{key}<{values}",
}


def meets(view: NodeView, term: NodeTerm) -> bool:
    """Whether a node meets all requirements of a term; an empty term matches no node."""
    if not (term.expressions or term.fields):
        return False
    return all_met(term.expressions, view.labels) and all_met(term.fields, {"metadata.name": view.name})


def selects(term: PodTerm, namespace: str, labels: Mapping[str, str]) -> bool:
    """Whether a term selects a pod."""
    if not (term.all_namespaces or namespace in term.namespaces):
        return False
    return term.match_labels.items() <= labels.items() and all_met(term.expressions, labels)


def tolerates(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    """Whether any of the tolerations tolerates a taint."""
    return any(
        toleration.effect in {"", taint.effect}
        and toleration.key in {"", taint.key}
        and (
            toleration.operator == "Exists"
            or (toleration.operator in {"", "Equal"} and toleration.value == taint.value)
        )
        for toleration in tolerations
    )


def collides(one: HostPort, other: HostPort) -> bool:
    """Whether two pods with these host ports conflict on one node."""
    if (one.port, one.protocol) != (other.port, other.protocol):
        return False
    return one.ip == other.ip or _ANYWHERE in {one.ip, other.ip}


def node_term_text(term: NodeTerm) -> str:
    """A node selector term as text: `zone in (a,b),!old`."""
    return _text({}, (*term.expressions, *term.fields)) or "nothing"


def pod_term_text(term: PodTerm) -> str:
    """A pod affinity term as text: `app=web,tier in (a,b)`."""
    return _text(term.match_labels, term.expressions) or ANY_POD


def taint_text(taint: Taint) -> str:
    """A taint as text: `key=value:NoSchedule`."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def all_met(requirements: tuple[SelectorRequirement, ...], labels: Mapping[str, str]) -> bool:
    """Whether labels meet all requirements."""
    return all(
        rule.operator in _OPERATORS and _OPERATORS[rule.operator](labels.get(rule.key), rule.values)
        for rule in requirements
    )


def _text(labels: Mapping[str, str], requirements: tuple[SelectorRequirement, ...]) -> str:
    rules = [
        _FORMATS.get(rule.operator, "{key} ? ({values})").format(key=rule.key, values=",".join(rule.values))
        for rule in requirements
    ]
    return ",".join([*(f"{key}={value}" for key, value in labels.items()), *rules])


def label_requirements(text: str) -> tuple[SelectorRequirement, ...]:
    """Parse an equality-based or set-based label selector in kubectl's syntax; InputError if it is invalid."""
    requirements: list[SelectorRequirement] = []
    at = 0
    while at < len(text.rstrip()):
        match = _REQUIREMENT.match(text, at)
        if match is None:
            raise InputError(f'unable to parse requirement: found {text[at:]!r} in label selector "{text}"')
        requirements.append(_requirement(match))
        at = match.end()
    return tuple(requirements)


def _requirement(match: re.Match[str]) -> SelectorRequirement:
    if match["absent"]:
        return SelectorRequirement(match["without"], "DoesNotExist")
    key, operator = match["key"], match["operator"]
    if match["set"]:
        values = tuple(value.strip() for value in match["values"].split(","))
        return SelectorRequirement(key, "In" if match["set"] == "in" else "NotIn", values)
    if operator in {">", "<"}:
        if not match["value"].lstrip("-").isdecimal():
            raise InputError(f"for 'Gt', 'Lt' operators, the value must be an integer: {match['value']!r}")
        return SelectorRequirement(key, "Gt" if operator == ">" else "Lt", (match["value"],))
    if not operator:
        return SelectorRequirement(key, "Exists")
    return SelectorRequirement(key, "NotIn" if operator == "!=" else "In", (match["value"],))
