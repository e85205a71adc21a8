"""Label and field selectors: read as kubectl writes them, and asked of objects as they are kept."""

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

__all__ = ["EVERYTHING", "Selection", "label_terms", "labels_match", "selection"]

_TERM: Final = re.compile(
    r"\s*(?:(?P<absent>!)\s*(?P<without>[^\s,=!()<>]+)"
    r"|(?P<key>[^\s,=!()<>]+)(?:\s*(?P<word>==|=|!=|>|<)\s*(?P<value>[^\s,=!()<>]*)"
    r"|\s+(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?)\s*(?:,|$)"
)
_FIELD: Final = re.compile(r"(?P<name>[^=!,]+)(?P<word>==|=|!=)(?P<value>(?:\\.|[^\\,=])*)(?:,|$)")
_META: Final = ("metadata.name", "metadata.namespace")


@dataclass(frozen=True, slots=True)
class Term:
    """One condition on labels; it holds for those whose value is among these, or for the others."""

    key: str
    values: frozenset[str] | None
    """None: any value"""
    wanted: bool = True

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is meant; one without the key has none of the values."""
        found = labels.get(self.key)
        inside = found is not None and (self.values is None or found in self.values)
        return inside is self.wanted


@dataclass(frozen=True, slots=True)
class Compared:
    """A condition on the number that a label holds."""

    key: str
    limit: int
    more: bool

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether the label is a number beyond the limit."""
        found = labels.get(self.key, "")
        if not found.lstrip("-").isdecimal():
            return False
        return int(found) > self.limit if self.more else int(found) < self.limit


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects are meant."""

    labels: tuple[Term | Compared, ...] = ()
    fields: tuple[tuple[str, str, bool], ...] = ()
    """name, value, and whether it has to be that"""
    namespace: str = ""

    @property
    def everything(self) -> bool:
        """Whether nothing is left out."""
        return not (self.labels or self.fields or self.namespace)

    def holds(self, stored: Stored) -> bool:
        """Whether an object is meant."""
        if self.namespace and stored.namespace != self.namespace:
            return False
        for name, value, wanted in self.fields:
            if (stored.field(name) == value) is not wanted:
                return False
        return all(term.holds(stored.labels) for term in self.labels)


EVERYTHING: Final = Selection()


def selection(resource: Resource, namespace: str, labels: str = "", fields: str = "") -> Selection:
    """What the words of a request mean; RefusedError if they mean nothing."""
    if not (labels or fields or namespace):
        return EVERYTHING
    return Selection(label_terms(labels), _field_terms(resource, fields), namespace)


def labels_match(selector: Mapping[str, object] | None, labels: Mapping[str, str]) -> bool:
    """Whether a selector as objects hold it (matchLabels, matchExpressions) means these labels; an empty one means all."""
    if selector is None:
        return False
    exact = selector.get("matchLabels")
    if isinstance(exact, dict) and any(labels.get(key) != value for key, value in exact.items()):
        return False
    asked = selector.get("matchExpressions")
    return all(_expressed(found).holds(labels) for found in asked) if isinstance(asked, list) else True


def _expressed(found: Mapping[str, object]) -> Term:
    given, word = found.get("values"), found.get("operator")
    values = frozenset(map(str, given)) if isinstance(given, list) and word in {"In", "NotIn"} else None
    return Term(str(found.get("key", "")), values, word in {"In", "Exists"})


@lru_cache(maxsize=256)
def label_terms(text: str) -> tuple[Term | Compared, ...]:
    """A label selector: equality and sets."""
    found: list[Term | Compared] = []
    at = 0
    while at < len(text.rstrip()):
        match = _TERM.match(text, at)
        if match is None:
            raise bad_request(f'unable to parse requirement: found {text[at:]!r} in label selector "{text}"')
        found.append(_term(match))
        at = match.end()
    return tuple(found)


def _term(match: re.Match[str]) -> Term | Compared:
    if match["absent"]:
        return Term(match["without"], None, wanted=False)
    key, word = match["key"], match["word"]
    if match["set"]:
        values = frozenset(value.strip() for value in match["values"].split(","))
        return Term(key, values, match["set"] == "in")
    if word in {">", "<"}:
        if not match["value"].lstrip("-").isdecimal():
            raise bad_request(f"for 'Gt', 'Lt' operators, the value must be an integer: {match['value']!r}")
        return Compared(key, int(match["value"]), word == ">")
    return Term(key, frozenset({match["value"]}) if word else None, word != "!=")


def _field_terms(resource: Resource, text: str) -> tuple[tuple[str, str, bool], ...]:
    found = []
    at = 0
    while at < len(text):
        match = _FIELD.match(text, at)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{text[at:]}'")
        name = match["name"].strip()
        if name not in _META and name not in (resource.fields or ()):
            raise bad_request(f"field label not supported: {name}")
        found.append((name, re.sub(r"\\(.)", r"\1", match["value"]), match["word"] != "!="))
        at = match.end()
    return tuple(found)
