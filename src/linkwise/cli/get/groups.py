"""Rows of `linkwise get groups`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.assembly.cluster_reader import named
from linkwise.cli.render.explanation import plain
from linkwise.cli.render.tables import Cell, Row
from linkwise.explain.group import explain_group
from linkwise.explain.text.phrases import names_text
from linkwise.explain.text.pod import explanation_lines

if TYPE_CHECKING:
    from linkwise.assembly.cluster_reader import ClusterReader
    from linkwise.explain.reports.group import GroupExplanation

__all__ = ["group_rows"]

_STYLES: Final = {"placed": "green", "reserved": "green", "unschedulable": "red"}


def group_rows(reader: ClusterReader, namespace: str | None, key: str) -> list[Row]:
    """Return rows for the group of that key, or for all groups of a namespace (None for all namespaces)."""
    keys = [key] if key else [one for one in sorted(reader.broker.group_keys()) if _is_in(one, namespace)]
    most = None if key else 0  # remedies are in `linkwise explain group/NAME`
    groups = [explain_group(reader.broker, one, reader.now, most=most) for one in keys]
    return [_row(group, with_namespace=namespace is None) for group in groups if group]


def _is_in(key: str, namespace: str | None) -> bool:
    return namespace in {None, named(key)[0]}


def _row(group: GroupExplanation, *, with_namespace: bool) -> Row:
    namespace, name = named(group.key)
    heading, *lines = explanation_lines(group)
    nodes = [host.name for host in group.hosts] if group.stage in {"placed", "reserved"} or group.count("bound") else []
    why = heading.removeprefix(f"group {group.key} ").removeprefix("is placed: ")
    if group.stage == "unschedulable":
        why = next((line for line in lines if line.startswith("it needs")), why)
    cells = {
        "namespace": Cell(namespace if with_namespace else "", short=True),
        "group": Cell(name, short=True),
        "bound": Cell(f"{group.count('bound')}/{group.total or group.there}", short=True),
        "minimum": Cell(str(group.minimum or ""), short=True),
        "state": Cell(group.stage, _STYLES.get(group.stage, "yellow"), short=True),
        "nodes": Cell(names_text(nodes)),
        "source": Cell(group.source, wide=True),
        "policy": Cell(group.policy, wide=True),
        "why": Cell(why),
    }
    return Row(cells, lambda: {"namespace": namespace, "name": name, "why": why, **plain(group)})
