"""Label and field selectors: parsed from kubectl's syntax and matched against stored objects."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from linkwise.embedded.api_errors import bad_request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Stored

__all__ = ["EVERYTHING", "Selector", "labels_match", "parse_label_selector", "parse_selector"]

_REQUIREMENT: Final = re.compile(
    r"\s*(?:(?P<absent>!)\s*(?P<without>[^\s,=!()<>]+)"
    r"|(?P<key>[^\s,=!()<>]+)(?:\s*(?P<operator>==|=|!=|>|<)\s*(?P<value>[^\s,=!()<>]*)"
    r"|\s+(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?)\s*(?:,|$)"
)
_FIELD: Final = re.compile(r"(?P<name>[^=!,]+)(?P<operator>==|=|!=)(?P<value>(?:\\.|[^\\,=])*)(?:,|$)")
_META: Final = ("metadata.name", "metadata.namespace")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One label requirement: the value is (or is not) in a set."""

    key: str
    values: frozenset[str] | None
    """None for any value"""
    included: bool = True

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels satisfy the requirement; a missing label has none of the values."""
        value = labels.get(self.key)
        has_value = value is not None and (self.values is None or value in self.values)
        return has_value is self.included


@dataclass(frozen=True, slots=True)
class NumericRequirement:
    """A label requirement with `>` or `<`."""

    key: str
    limit: int
    greater: bool

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the label value is an integer beyond the limit."""
        value = labels.get(self.key, "")
        if not value.lstrip("-").isdecimal():
            return False
        return int(value) > self.limit if self.greater else int(value) < self.limit


@dataclass(frozen=True, slots=True)
class Selector:
    """Selects objects by namespace, labels and fields."""

    labels: tuple[Requirement | NumericRequirement, ...] = ()
    fields: tuple[tuple[str, str, bool], ...] = ()
    """field, value, and whether they must be equal"""
    namespace: str = ""

    @property
    def everything(self) -> bool:
        """Whether the selector matches all objects."""
        return not (self.labels or self.fields or self.namespace)

    def matches(self, stored: Stored) -> bool:
        """Whether the selector matches an object."""
        if self.namespace and stored.namespace != self.namespace:
            return False
        for name, value, equal in self.fields:
            if (stored.field(name) == value) is not equal:
                return False
        return all(term.matches(stored.labels) for term in self.labels)


EVERYTHING: Final = Selector()


def parse_selector(resource: Resource, namespace: str, labels: str = "", fields: str = "") -> Selector:
    """Parse the selectors of a request; ApiError 400 if one is invalid."""
    if not (labels or fields or namespace):
        return EVERYTHING
    return Selector(parse_label_selector(labels), _parse_field_selector(resource, fields), namespace)


def labels_match(selector: Mapping[str, object] | None, labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector (matchLabels, matchExpressions) matches these labels; an empty selector matches all."""
    if selector is None:
        return False
    exact = selector.get("matchLabels")
    if isinstance(exact, dict) and any(labels.get(key) != value for key, value in exact.items()):
        return False
    expressions = selector.get("matchExpressions")
    return (
        all(_expression(expression).matches(labels) for expression in expressions)
        if isinstance(expressions, list)
        else True
    )


def _expression(expression: Mapping[str, object]) -> Requirement:
    listed, operator = expression.get("values"), expression.get("operator")
    values = frozenset(map(str, listed)) if isinstance(listed, list) and operator in {"In", "NotIn"} else None
    return Requirement(str(expression.get("key", "")), values, operator in {"In", "Exists"})


@lru_cache(maxsize=256)
def parse_label_selector(text: str) -> tuple[Requirement | NumericRequirement, ...]:
    """Parse an equality-based or set-based label selector."""
    requirements: list[Requirement | NumericRequirement] = []
    at = 0
    while at < len(text.rstrip()):
        match = _REQUIREMENT.match(text, at)
        if match is None:
            raise bad_request(f'unable to parse requirement: found {text[at:]!r} in label selector "{text}"')
        requirements.append(_requirement(match))
        at = match.end()
    return tuple(requirements)


def _requirement(match: re.Match[str]) -> Requirement | NumericRequirement:
    if match["absent"]:
        return Requirement(match["without"], None, included=False)
    key, operator = match["key"], match["operator"]
    if match["set"]:
        values = frozenset(value.strip() for value in match["values"].split(","))
        return Requirement(key, values, match["set"] == "in")
    if operator in {">", "<"}:
        if not match["value"].lstrip("-").isdecimal():
            raise bad_request(f"for 'Gt', 'Lt' operators, the value must be an integer: {match['value']!r}")
        return NumericRequirement(key, int(match["value"]), operator == ">")
    return Requirement(key, frozenset({match["value"]}) if operator else None, operator != "!=")


def _parse_field_selector(resource: Resource, text: str) -> tuple[tuple[str, str, bool], ...]:
    terms = []
    at = 0
    while at < len(text):
        match = _FIELD.match(text, at)
        if match is None:
            raise bad_request(f"invalid field selector: '{text}'; can't understand '{text[at:]}'")
        name = match["name"].strip()
        if name not in _META and name not in (resource.selectable_fields or ()):
            raise bad_request(f"field label not supported: {name}")
        terms.append((name, re.sub(r"\\(.)", r"\1", match["value"]), match["operator"] != "!="))
        at = match.end()
    return tuple(terms)
