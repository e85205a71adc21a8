"""Groups of pods, a row each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.assembly.cluster_reader import named
from linkwise.cli.render.explanation import plain
from linkwise.cli.render.tables import Cell, Row
from linkwise.explain.text.phrases import names_text
from linkwise.explain.text.pod import explanation_lines

if TYPE_CHECKING:
    from linkwise.assembly.cluster_reader import ClusterReader
    from linkwise.explain.reports.group import GroupExplanation

__all__ = ["group_rows"]

_STYLES: Final = {"placed": "green", "held": "green", "short": "red"}


def group_rows(seen: ClusterReader, namespace: str | None, key: str) -> list[Row]:
    """Groups of a namespace or of all, by name; or one."""
    keys = [key] if key else [one for one in sorted(seen.broker.state.groups.keys()) if _is_in(one, namespace)]
    told = [seen.broker.explain_group(one, seen.now) for one in keys]
    return [_row(one, several=namespace is None) for one in told if one]


def _is_in(key: str, namespace: str | None) -> bool:
    return namespace in {None, named(key)[0]}


def _row(told: GroupExplanation, *, several: bool) -> Row:
    namespace, name = named(told.key)
    heading, *lines = explanation_lines(told)
    nodes = [host.name for host in told.hosts] if told.stage in {"placed", "held"} or told.count("bound") else []
    why = heading.removeprefix(f"group {told.key} ").removeprefix("is placed: ")
    if told.stage == "short":
        why = next((line for line in lines if line.startswith("it needs")), why)
    cells = {
        "namespace": Cell(namespace if several else "", short=True),
        "group": Cell(name, short=True),
        "bound": Cell(f"{told.count('bound')}/{told.total or told.there}", short=True),
        "minimum": Cell(str(told.minimum or ""), short=True),
        "state": Cell(told.stage, _STYLES.get(told.stage, "yellow"), short=True),
        "nodes": Cell(names_text(nodes)),
        "source": Cell(told.source, wide=True),
        "policy": Cell(told.policy, wide=True),
        "why": Cell(why),
    }
    return Row(cells, lambda: {"namespace": namespace, "name": name, "why": why, **plain(told)})
