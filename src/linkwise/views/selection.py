"""Selection of the objects of a table, and its form as the query of a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlencode

from linkwise.engine.selectors import all_met, label_requirements
from linkwise.errors import InputError

if TYPE_CHECKING:
    from linkwise.model.views import NodeView, PodView, SelectorRequirement

__all__ = ["KINDS", "OF_NAMESPACES", "OF_NODES", "Selection", "parse_query"]

OF_NAMESPACES: Final = frozenset({"pod", "group", "usage", "pod-usage"})
"""kinds of which the objects of one namespace can be listed with rights in that namespace"""
OF_NODES: Final = frozenset({"node", "device", "node-usage"})
"""kinds of which all objects are shown to users with rights in some namespace, without names of pods of others"""
KINDS: Final = OF_NAMESPACES | OF_NODES | {"capacity", "policy"}
SORTS: Final = ("memory", "utilization")


@dataclass(frozen=True, slots=True)
class Selection:
    """The objects to list."""

    kind: str
    names: tuple[str, ...] = ()
    """of single objects, or of the nodes whose devices are listed; empty for all"""
    namespace: str | None = None
    """None for all namespaces"""
    selector: str = ""
    """on labels of pods or nodes"""
    sort_by: str = ""
    """the value of usage by which rows are sorted, largest first; empty: by name"""

    @property
    def requirements(self) -> tuple[SelectorRequirement, ...]:
        """The label selector; InputError if it is invalid."""
        return label_requirements(self.selector)

    def selects(self, one: NodeView | PodView) -> bool:
        """Return whether the label selector matches."""
        return all_met(self.requirements, one.labels)

    def query(self) -> str:
        """Return the query of a request for this table."""
        pairs = [
            *(("name", name) for name in self.names),
            *([("namespace", self.namespace)] if self.namespace is not None else []),
            *([("labelSelector", self.selector)] if self.selector else []),
            *([("sortBy", self.sort_by)] if self.sort_by else []),
        ]
        return urlencode(pairs)


def parse_query(kind: str, query: str) -> Selection:
    """Return the selection of a request; InputError names the parameter that is invalid."""
    if kind not in KINDS:
        raise InputError(f"unknown table {kind!r}: the tables are {', '.join(sorted(KINDS))}")
    values = parse_qs(query)
    selection = Selection(
        kind,
        tuple(values.get("name", ())),
        values["namespace"][-1] if "namespace" in values else None,
        ",".join(values.get("labelSelector", ())),
        values.get("sortBy", [""])[-1],
    )
    label_requirements(selection.selector)
    if selection.sort_by not in {"", *SORTS}:
        raise InputError(f"sortBy={selection.sort_by}: use {' or '.join(SORTS)}")
    return selection
