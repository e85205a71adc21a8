"""Rows of `linkwise get groups`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from linkwise.explain.published import lists
from linkwise.explain.text.phrases import names_text
from linkwise.views.documents import plain
from linkwise.views.table import Cell, Row

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkwise.model.views import PodView
    from linkwise.views.cluster import ClusterView

__all__ = ["group_row", "group_rows"]

_STYLES: Final = {"placed": "green", "reserved": "green", "unschedulable": "red"}


def group_rows(
    cluster: ClusterView, namespace: str | None, key: str, selects: Callable[[PodView], bool] = lists.any_pod
) -> list[Row]:
    """Return rows for the group of that key, or for all groups of a namespace (None for all namespaces)."""
    every = namespace is None and cluster.only is not None and not key
    namespaces = sorted(cluster.only or ()) if every else [namespace]
    rows = [
        row
        for one in namespaces
        for row in lists.group_rows(cluster.broker, cluster.now, one, key, selects, readable=cluster.only)
    ]
    return [
        group_row(row.namespace, row.name, row.why, plain(row.explanation), everywhere=namespace is None)
        for row in rows
    ]


def group_row(namespace: str, name: str, why: str, group: Mapping[str, Any], *, everywhere: bool) -> Row:
    """Return a row of the table from the data of an explanation; `everywhere` if several namespaces are listed."""
    states = [member["state"] for member in group["members"]]
    there = sum(state not in {"extra", "terminating"} for state in states)
    bound = states.count("bound")
    nodes = [host["name"] for host in group["hosts"]] if group["stage"] in {"placed", "reserved"} or bound else []
    cells = {
        **({"namespace": Cell(namespace)} if everywhere else {}),
        "name": Cell(name),
        "bound": Cell(f"{bound}/{group['total'] or there}"),
        "minimum": Cell(str(group["minimum"] or "")),
        "state": Cell(group["stage"], _STYLES.get(group["stage"], "yellow")),
        "nodes": Cell(names_text(nodes)),
        "source": Cell(group["source"], wide=True),
        "policy": Cell(group["policy"], wide=True),
        "code": Cell(group["code"], wide=True),
        "reason": Cell(why),
    }
    return Row(f"group/{name}", cells, lambda: {"namespace": namespace, "name": name, "why": why, **group}, namespace)
