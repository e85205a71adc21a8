"""Settings from a YAML file; all problems are reported with line and column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import yaml

from linkwise.config.schema import SCHEMA, SettingValue
from linkwise.config.validation import REMOVED, SECRET, describe, hint
from linkwise.config.yaml_tree import content_of, duplicate_keys, is_null, pairs, place_of, plain, root_of
from linkwise.model.verdict import Problem

if TYPE_CHECKING:
    from pathlib import Path

    from linkwise.config.schema import Setting

__all__ = ["from_file", "from_text"]

_SECTIONS: Final = frozenset(
    ".".join(name.split(".")[:depth]) for name in SCHEMA for depth in range(1, name.count(".") + 1)
)
_QUOTED: Final = frozenset({"text", "choice", "list", "table"})


def from_file(file: Path) -> tuple[dict[str, SettingValue], list[Problem]]:
    """Settings by name, and problems; InputError if the file can't be read at all."""
    return from_text(content_of(file), "standard input" if str(file) == "-" else str(file))


def from_text(content: bytes, name: str) -> tuple[dict[str, SettingValue], list[Problem]]:
    """Settings by name, and problems; InputError if the text is not YAML. `name` is where it comes from."""
    reader = _SettingsReader(name)
    root = root_of(content, name)
    if root is not None:
        reader.section(root, "")
    return reader.values, [problem for _, problem in sorted(reader.problems, key=lambda entry: entry[0])]


class _SettingsReader:
    """Walks a file along the schema."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.values: dict[str, SettingValue] = {}
        self.problems: list[tuple[tuple[int, int], Problem]] = []
        """by line and column"""

    def section(self, node: yaml.Node, name: str) -> None:
        """Read all settings of a section; an empty one sets nothing."""
        if is_null(node):
            return
        if not isinstance(node, yaml.MappingNode):
            self._report(node, name or "the file", f"expected a section with {', '.join(_inside(name))}")
            return
        for key, place, line in duplicate_keys(node):
            self._report(place, _join(name, key), f"duplicate key, first set in line {line}")
        for key, place, value in pairs(node):
            inner = _join(name, key)
            if inner in SCHEMA:
                self._read(SCHEMA[inner], value)
            elif inner in _SECTIONS:
                self.section(value, inner)
            else:
                self._report(place, inner, REMOVED.get(inner) or f"unknown setting{_nearest(name, key)}")

    def _read(self, setting: Setting, node: yaml.Node) -> None:
        try:
            value = setting.checked(self._value(setting, node))
        except ValueError as error:
            self._report(node, setting.name, str(error))
            return
        place = f"{self.file}:{node.start_mark.line + 1}"
        self.values[setting.name] = SettingValue(value, "file", place)

    def _value(self, setting: Setting, node: yaml.Node) -> object:
        if isinstance(node, yaml.MappingNode):
            for key, place, line in duplicate_keys(node):
                self._report(place, f"{setting.name}.{key}", f"duplicate key, first set in line {line}")
        value = plain(node)
        items = value if isinstance(value, list) else value.values() if isinstance(value, dict) else [value]
        if setting.kind in _QUOTED and any(isinstance(item, bool | int | float) for item in items):
            unquoted = next(item for item in items if not isinstance(item, str))
            which = "it" if setting.name in SECRET else describe(unquoted)
            raise ValueError(f"expected {setting.expected()}; put {which} in quotes to make it text")
        return tuple(value) if isinstance(value, list) else value

    def _report(self, node: yaml.Node, name: str, sentence: str) -> None:
        mark = node.start_mark
        self.problems.append(((mark.line, mark.column), Problem(f"{self.file}:{place_of(node)}", name, sentence)))


def _join(section: str, key: str) -> str:
    return f"{section}.{key}" if section else key


def _inside(section: str) -> list[str]:
    """The keys of a section."""
    start = f"{section}." if section else ""
    return list(dict.fromkeys(name.removeprefix(start).split(".")[0] for name in SCHEMA if name.startswith(start)))


def _nearest(section: str, key: str) -> str:
    """A hint at the closest key of this section, or at the same key of another."""
    near = hint(key, _inside(section))
    if "did you mean" in near:
        return near
    same_key = [name for name in SCHEMA if name.rpartition(".")[2] == key]
    return f"; did you mean {same_key[0]}?" if same_key else near
