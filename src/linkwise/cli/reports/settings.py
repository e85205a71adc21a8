"""Report of `linkwise config check`: settings with their sources, as a table or as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from linkwise.config.schema import SECRET

if TYPE_CHECKING:
    from linkwise.config.loading import LoadedSettings
    from linkwise.config.schema import SettingValue

__all__ = ["show"]


def show(loaded: LoadedSettings, *, as_json: bool) -> None:
    """Print all settings, or all problems."""
    if as_json:
        click.echo(json.dumps(_document(loaded), indent=2, ensure_ascii=False))
    elif loaded.problems:
        for problem in loaded.problems:
            click.echo(f"problem  {problem}")
    else:
        Console(highlight=False, markup=False).print(_table(loaded))


def _document(loaded: LoadedSettings) -> dict[str, Any]:
    return {
        "settings": [
            {"name": name, "value": _public(name, value), "source": value.source, "place": value.place}
            for name, value in loaded.values.items()
        ],
        "problems": [
            {"place": problem.where, "name": problem.key, "sentence": problem.sentence} for problem in loaded.problems
        ],
    }


def _table(loaded: LoadedSettings) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("setting", no_wrap=True)
    table.add_column("value", overflow="fold")
    table.add_column("from", overflow="fold")
    for name, value in loaded.values.items():
        style = "dim" if value.source == "default" else ""
        table.add_row(Text(name, style), Text(_text(_public(name, value)), style), Text(_source(value), style))
    return table


def _source(value: SettingValue) -> str:
    if value.source == "default":
        return f"default, {value.place}" if value.place else "default"
    return value.place or value.source


def _public(name: str, setting: SettingValue) -> object:
    """The value with secrets hidden."""
    if name in SECRET and setting.value:
        return "(hidden)"
    return list(setting.value) if isinstance(setting.value, tuple) else setting.value


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "\n".join(map(str, value)) or "-"
    if isinstance(value, dict):
        return "\n".join(f"{key}: {of}" for key, of in value.items()) or "-"
    return f"{value:.12g}" if isinstance(value, float) else str(value) if value != "" else "-"
