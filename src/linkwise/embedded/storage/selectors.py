"""Label and field selectors: parsed from kubectl's syntax and matched against stored objects."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from linkwise.embedded.api_errors import bad_request
from linkwise.engine.selectors import all_met, label_requirements
from linkwise.errors import InputError
from linkwise.model.views import SelectorRequirement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Stored

__all__ = ["EVERYTHING", "Selector", "labels_match", "parse_label_selector", "parse_selector"]

_FIELD: Final = re.compile(r"(?P<name>[^=!,]+)(?P<operator>==|=|!=)(?P<value>(?:\\.|[^\\,=])*)(?:,|$)")
_META: Final = ("metadata.name", "metadata.namespace")


@dataclass(frozen=True, slots=True)
class Selector:
    """Selects objects by namespace, labels and fields."""

    labels: tuple[SelectorRequirement, ...] = ()
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
        return all_met(self.labels, stored.labels)


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
    return all_met(tuple(map(_expression, expressions)), labels) if isinstance(expressions, list) else True


def _expression(expression: Mapping[str, object]) -> SelectorRequirement:
    values = expression.get("values")
    return SelectorRequirement(
        str(expression.get("key", "")),
        str(expression.get("operator", "")),
        tuple(map(str, values)) if isinstance(values, list) else (),
    )


@lru_cache(maxsize=256)
def parse_label_selector(text: str) -> tuple[SelectorRequirement, ...]:
    """Parse an equality-based or set-based label selector; ApiError 400 if it is invalid."""
    try:
        return label_requirements(text)
    except InputError as error:
        raise bad_request(str(error)) from error


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
