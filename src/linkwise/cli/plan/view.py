"""Prints plans as tables and a device map, or as JSON or YAML."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from linkwise.cli.render.documents import list_document, print_data
from linkwise.cli.render.pages import print_page
from linkwise.cli.render.tables import terminal
from linkwise.explain.text.group import group_lines
from linkwise.views.documents import plain
from linkwise.views.plan import group_page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.cli.plan.planning import Planned
    from linkwise.explain.reports.group import GroupExplanation

__all__ = ["show"]


def show(planned: Sequence[Planned], *, explain: bool, form: str | None) -> None:
    """Print all groups in the order in which they were planned."""
    if form == "name":
        sys.stdout.write("".join(f"group/{plan.group.key}\n" for plan in planned))
        return
    if form in {"json", "yaml"}:
        print_data(list_document("Plan", (_document(plan.group, explain=explain) for plan in planned)), form)
        return
    console = terminal()
    for number, plan in enumerate(planned):
        if number:
            console.print()
        print_page(console, group_page(plan.group, plan.nodes, explain=explain, wide=form == "wide", in_file=True))


def _document(group: GroupExplanation, *, explain: bool) -> dict[str, object]:
    counted = {"there": group.there, "missing": group.missing, "whole": group.whole}
    return {**plain(group), **counted, "why": group_lines(group, in_file=True) if explain else []}
