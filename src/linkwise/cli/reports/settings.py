"""Settings with where they come from, shown to a person or as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from linkwise.config.validation import SECRET

if TYPE_CHECKING:
    from linkwise.config.loading import Loaded
    from linkwise.config.schema import Given

__all__ = ["show"]


def show(found: Loaded, *, as_json: bool) -> None:
    """All settings, or all that is wrong with them."""
    if as_json:
        click.echo(json.dumps(_document(found), indent=2, ensure_ascii=False))
    elif found.problems:
        for problem in found.problems:
            click.echo(f"problem  {problem}")
    else:
        Console(highlight=False, markup=False).print(_table(found))


def _document(found: Loaded) -> dict[str, Any]:
    return {
        "settings": [
            {"name": name, "value": _shown(name, given), "source": given.source, "place": given.place}
            for name, given in found.given.items()
        ],
        "problems": [
            {"place": problem.where, "name": problem.key, "sentence": problem.sentence} for problem in found.problems
        ],
    }


def _table(found: Loaded) -> Table:
    made = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    made.add_column("setting", no_wrap=True)
    made.add_column("value", overflow="fold")
    made.add_column("from", overflow="fold")
    for name, given in found.given.items():
        style = "dim" if given.source == "default" else ""
        made.add_row(Text(name, style), Text(_words(_shown(name, given)), style), Text(_from(given), style))
    return made


def _from(given: Given) -> str:
    if given.source == "default":
        return f"default, {given.place}" if given.place else "default"
    return given.place or given.source


def _shown(name: str, given: Given) -> object:
    """A value for anybody's eyes."""
    if name in SECRET and given.value:
        return "(hidden)"
    return list(given.value) if isinstance(given.value, tuple) else given.value


def _words(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "\n".join(map(str, value)) or "-"
    if isinstance(value, dict):
        return "\n".join(f"{key}: {of}" for key, of in value.items()) or "-"
    return f"{value:g}" if isinstance(value, float) else str(value) if value != "" else "-"
