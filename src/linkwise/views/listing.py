"""Tables of `linkwise get` and `linkwise top`: the rows of a selection, with what is to be said about them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from linkwise.errors import InputError
from linkwise.explain.published.lists import any_pod
from linkwise.views.accounts import capacity_table, usage_table
from linkwise.views.groups import group_rows
from linkwise.views.nodes import device_rows, node_rows
from linkwise.views.pods import pod_rows
from linkwise.views.policies import policy_rows
from linkwise.views.table import Section
from linkwise.views.usage import usage_section

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.views.cluster import ClusterView
    from linkwise.views.selection import Selection
    from linkwise.views.table import Row

__all__ = ["section_of"]

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


def section_of(cluster: ClusterView, selection: Selection) -> Section:
    """Return the selected rows with what is to be said about them; NotFoundError for a name that does not exist."""
    if selection.kind in {"node-usage", "pod-usage"}:
        return usage_section(cluster, selection)
    rows, notes = _rows(cluster, selection)
    return Section(
        KIND_NAMES[selection.kind],
        tuple(rows),
        alone=len(selection.names) == 1 and selection.kind in SINGLE,
        empty=_empty_message(selection),
        notes=tuple(notes),
    )


def _rows(cluster: ClusterView, selection: Selection) -> tuple[list[Row], list[str]]:
    kind, names, namespace = selection.kind, selection.names, selection.namespace
    where = namespace or cluster.namespace
    selects_pod = cluster.selects_pod(selection)
    match kind:
        case "usage" | "capacity" if names:
            raise InputError(f"{kind} has no names; use -n for a namespace, or -l for labels")
        case "usage":
            return usage_table(cluster, namespace, selects_pod)
        case "capacity":
            return capacity_table(cluster, where, selection.selects), []
        case "node" | "device":
            table = node_rows if kind == "node" else device_rows
            return _each(
                names, lambda name: table(cluster, cluster.node(name)), partial(table, cluster, None, selection.selects)
            ), []
        case "pod":
            return _each(
                names,
                lambda name: pod_rows(cluster, where, cluster.pod(where, name)),
                partial(pod_rows, cluster, namespace, "", selects_pod),
            ), []
        case "policy" if selection.selector:
            raise InputError("-l can't be used with policies")
        case "policy":
            return _each(
                names, lambda name: policy_rows(cluster, cluster.policy(name)), partial(policy_rows, cluster, "")
            ), []
        case _:
            everything = partial(
                group_rows, cluster, namespace, "", selection.selects if selection.selector else any_pod
            )
            return _each(names, lambda name: group_rows(cluster, where, cluster.group(where, name)), everything), []


def _each(names: tuple[str, ...], one: Callable[[str], list[Row]], everything: Callable[[], list[Row]]) -> list[Row]:
    return [row for name in names for row in one(name)] if names else everything()


def _empty_message(selection: Selection) -> str:
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
