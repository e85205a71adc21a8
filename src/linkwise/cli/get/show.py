"""Selects the rows of `linkwise get` and prints them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from linkwise.cli.get.accounts import capacity_table, usage_table
from linkwise.cli.get.groups import group_rows
from linkwise.cli.get.nodes import device_rows, node_rows
from linkwise.cli.get.pods import pod_rows
from linkwise.cli.get.policies import policy_rows
from linkwise.cli.render.rows import Section
from linkwise.engine.selectors import all_met
from linkwise.errors import InputError
from linkwise.explain.published.lists import any_pod

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.assembly.cluster_reader import ClusterReader
    from linkwise.cli.render.tables import Row
    from linkwise.model.views import NodeView, PodView, SelectorRequirement

__all__ = ["KIND_NAMES", "SINGLE", "Selection", "empty_message", "section_of"]

KIND_NAMES: Final = {
    "node": "Node",
    "pod": "Pod",
    "device": "Device",
    "group": "Group",
    "policy": "AcceleratorPolicy",
    "usage": "Usage",
    "capacity": "Capacity",
}
"""kinds in documents"""
SINGLE: Final = frozenset({"node", "pod", "group", "policy"})
"""kinds whose names are those of their objects; the name of a device is that of its node"""


@dataclass(frozen=True, slots=True)
class Selection:
    """The objects to list."""

    kind: str
    names: tuple[str, ...] = ()
    """of single objects, or of the nodes whose devices are listed; empty for all"""
    namespace: str | None = None
    """None for all namespaces"""
    requirements: tuple[SelectorRequirement, ...] = field(default=())
    """on labels of pods or nodes"""

    def selects(self, one: NodeView | PodView) -> bool:
        """Return whether the label selector matches."""
        return all_met(self.requirements, one.labels)


def section_of(reader: ClusterReader, selection: Selection) -> Section:
    """Return the selected rows with what is to be said about them; NotFoundError for a name that does not exist."""
    rows, notes = _rows(reader, selection)
    return Section(
        KIND_NAMES[selection.kind],
        tuple(rows),
        alone=len(selection.names) == 1 and selection.kind in SINGLE,
        empty=empty_message(selection),
        notes=tuple(notes),
    )


def _rows(reader: ClusterReader, selection: Selection) -> tuple[list[Row], list[str]]:
    kind, names, namespace = selection.kind, selection.names, selection.namespace
    where = namespace or reader.namespace
    match kind:
        case "usage" | "capacity" if names:
            raise InputError(f"{kind} has no names; use -n for a namespace, or -l for labels")
        case "usage":
            return usage_table(reader, namespace, selection.selects)
        case "capacity":
            return capacity_table(reader, where, selection.selects), []
        case "node" | "device":
            table = node_rows if kind == "node" else device_rows
            return _each(
                names, lambda name: table(reader, reader.node(name)), partial(table, reader, None, selection.selects)
            ), []
        case "pod":
            return _each(
                names,
                lambda name: pod_rows(reader, where, reader.pod(where, name)),
                partial(pod_rows, reader, namespace, "", selection.selects),
            ), []
        case "policy" if selection.requirements:
            raise InputError("-l can't be used with policies")
        case "policy":
            return _each(
                names, lambda name: policy_rows(reader, reader.policy(name)), partial(policy_rows, reader, "")
            ), []
        case _:
            everything = partial(
                group_rows, reader, namespace, "", selection.selects if selection.requirements else any_pod
            )
            return _each(names, lambda name: group_rows(reader, where, reader.group(where, name)), everything), []


def _each(names: tuple[str, ...], one: Callable[[str], list[Row]], everything: Callable[[], list[Row]]) -> list[Row]:
    return [row for name in names for row in one(name)] if names else everything()


def empty_message(selection: Selection) -> str:
    """Return what is printed if there is nothing to list."""
    match selection.kind:
        case "node" | "device" | "capacity":
            return "no nodes with devices found"
        case "pod" | "usage":
            what = "no pods that request devices found"
        case "policy":
            return "no AcceleratorPolicies found"
        case _:
            what = "no groups found"
    return f"{what}{f' in namespace {selection.namespace}; use -A for all namespaces' if selection.namespace else ''}"
