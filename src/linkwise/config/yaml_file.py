"""Settings of one YAML file; whatever is wrong is told with line and column, all of it at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import yaml

from linkwise.config.schema import SCHEMA, Given
from linkwise.config.validation import SECRET, hint, said
from linkwise.config.yaml_tree import content_of, is_nothing, pairs, place_of, plain, root_of, twice
from linkwise.model.verdict import Problem

if TYPE_CHECKING:
    from pathlib import Path

    from linkwise.config.schema import Setting

__all__ = ["from_file"]

_SECTIONS: Final = frozenset(
    ".".join(name.split(".")[:depth]) for name in SCHEMA for depth in range(1, name.count(".") + 1)
)
_QUOTED: Final = frozenset({"text", "choice", "list", "table"})


def from_file(file: Path) -> tuple[dict[str, Given], list[Problem]]:
    """What the file sets, by name, and what is wrong with it; InputError if it can't be read at all."""
    name = "standard input" if str(file) == "-" else str(file)
    reading = _Reading(name)
    root = root_of(content_of(file), name)
    if root is not None:
        reading.section(root, "")
    return reading.given, [problem for _, problem in sorted(reading.problems, key=lambda found: found[0])]


class _Reading:
    """Goes through a file along the names that there are."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.given: dict[str, Given] = {}
        self.problems: list[tuple[tuple[int, int], Problem]] = []
        """by line and column"""

    def section(self, node: yaml.Node, name: str) -> None:
        """All settings of a section; one that is empty sets nothing."""
        if is_nothing(node):
            return
        if not isinstance(node, yaml.MappingNode):
            self._wrong(node, name or "the file", f"expected a section with {', '.join(_inside(name))}")
            return
        for key, place, line in twice(node):
            self._wrong(place, _join(name, key), f"it stands there twice, first in line {line}")
        for key, place, value in pairs(node):
            inner = _join(name, key)
            if inner in SCHEMA:
                self._take(SCHEMA[inner], value)
            elif inner in _SECTIONS:
                self.section(value, inner)
            else:
                self._wrong(place, inner, f"no such setting{_nearest(name, key)}")

    def _take(self, setting: Setting, node: yaml.Node) -> None:
        try:
            value = setting.checked(self._value(setting, node))
        except ValueError as error:
            self._wrong(node, setting.name, str(error))
            return
        place = f"{self.file}:{node.start_mark.line + 1}"
        self.given[setting.name] = Given(value, "file", place)

    def _value(self, setting: Setting, node: yaml.Node) -> object:
        if isinstance(node, yaml.MappingNode):
            for key, place, line in twice(node):
                self._wrong(place, f"{setting.name}.{key}", f"it stands there twice, first in line {line}")
        found = plain(node)
        inner = found if isinstance(found, list) else found.values() if isinstance(found, dict) else [found]
        if setting.kind in _QUOTED and any(isinstance(item, bool | int | float) for item in inner):
            odd = next(item for item in inner if not isinstance(item, str))
            which = "it" if setting.name in SECRET else said(odd)
            raise ValueError(f"expected {setting.expected()}; put {which} in quotes to make it text")
        return tuple(found) if isinstance(found, list) else found

    def _wrong(self, node: yaml.Node, name: str, sentence: str) -> None:
        mark = node.start_mark
        self.problems.append(((mark.line, mark.column), Problem(f"{self.file}:{place_of(node)}", name, sentence)))


def _join(section: str, key: str) -> str:
    return f"{section}.{key}" if section else key


def _inside(section: str) -> list[str]:
    """The names in a section, without its own."""
    start = f"{section}." if section else ""
    return list(dict.fromkeys(name.removeprefix(start).split(".")[0] for name in SCHEMA if name.startswith(start)))


def _nearest(section: str, key: str) -> str:
    """A near name of the section, or else of another."""
    near = hint(key, _inside(section))
    if "did you mean" in near:
        return near
    elsewhere = [name for name in SCHEMA if name.rpartition(".")[2] == key]
    return f"; did you mean {elsewhere[0]}?" if elsewhere else near
