"""Every setting by its name: what it may hold, and what it is where nobody sets it.

A value of a setting, who gave it, and the one error for all values that make no sense.
"""
# Joined from schema, given: one docstring for all.

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin, get_type_hints

from linkwise.config.settings import ServeSettings
from linkwise.config.validation import LIMITS, SECRET, range_words, said, wrong_with
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["SCHEMA", "Given", "Kind", "Setting", "Source", "built", "refusal"]

Kind = Literal["text", "whole number", "number", "switch", "choice", "list", "table"]

_KINDS: Final[Mapping[object, Kind]] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "switch",
    tuple: "list",
    dict: "table",
}
_WORDS: Final[Mapping[Kind, str]] = {
    "text": "text",
    "switch": "true or false",
    "list": "a list of texts",
    "table": "a table of texts",
}
_ALSO_CALLED: Final[Mapping[tuple[str, object], str]] = {("log.level", "warn"): "warning"}
"""gpushare's word for it"""


@dataclass(frozen=True, slots=True)
class Setting:
    """One value that can be set."""

    name: str
    """as in `placing.group.hold`"""
    kind: Kind
    default: object
    choices: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        """The environment variable that sets it; empty for a table, which only a file can set."""
        return "" if self.kind == "table" else f"LINKWISE_{self.name.replace('.', '_').upper()}"

    def expected(self) -> str:
        """What it may hold, in words."""
        if self.kind == "choice":
            return f"{', '.join(self.choices[:-1])} or {self.choices[-1]}"
        return _WORDS.get(self.kind) or f"a {self.kind}{range_words(self.name)}"

    def checked(self, value: object) -> object:
        """The value as the service takes it.

        Raises:
            ValueError: it is of another type or out of its limits; the text tells what is expected.
        """
        value = _ALSO_CALLED.get((self.name, value), value) if isinstance(value, str) else value
        value = _as_float(value) if self.kind == "number" else value
        if not self._fits(value):
            got = "" if self.name in SECRET else f", got {said(value)}"
            raise ValueError(f"expected {self.expected()}{got}")
        if wrong := wrong_with(self.name, value):
            raise ValueError(wrong)
        return value

    def _fits(self, value: object) -> bool:
        match self.kind:
            case "text":
                return isinstance(value, str)
            case "switch":
                return isinstance(value, bool)
            case "choice":
                return value in self.choices
            case "list":
                return isinstance(value, tuple) and all(isinstance(item, str) for item in value)
            case "table":
                return isinstance(value, dict) and all(isinstance(item, str) for pair in value.items() for item in pair)
            case "whole number" | "number":
                low, high = LIMITS[self.name]
                right = int if self.kind == "whole number" else float
                return (
                    isinstance(value, right)
                    and not isinstance(value, bool)
                    and low <= value <= high
                    and value != math.inf
                )


def built(values: Mapping[str, object]) -> ServeSettings:
    """The settings that hold these values, by name."""
    made: ServeSettings = _built(ServeSettings, "", values)
    return made


def _built(of: Any, prefix: str, values: Mapping[str, object]) -> Any:  # noqa: ANN401 - any dataclass of settings
    hints = get_type_hints(of)
    found = {}
    for each in fields(of):
        name, inner = f"{prefix}{each.name}", hints[each.name]
        found[each.name] = _built(inner, f"{name}.", values) if is_dataclass(inner) else values[name]
    return of(**found)


def _settings(of: Any, prefix: str = "") -> Iterator[Setting]:  # noqa: ANN401 - any dataclass of settings
    hints = get_type_hints(of)
    for each in fields(of):
        name, hinted = f"{prefix}{each.name}", hints[each.name]
        if is_dataclass(hinted):
            yield from _settings(hinted, f"{name}.")
            continue
        default = each.default if each.default_factory is MISSING else each.default_factory()
        if get_origin(hinted) is Literal:
            yield Setting(name, "choice", default, get_args(hinted))
        else:
            yield Setting(name, _KINDS[get_origin(hinted) or hinted], default)


def _as_float(value: object) -> object:
    """A whole number where any number will do."""
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    try:
        return float(value)
    except OverflowError:
        return value


SCHEMA: Final[Mapping[str, Setting]] = {setting.name: setting for setting in _settings(ServeSettings)}
"""all settings, in the order of their dataclasses"""


Source = Literal["default", "file", "environment", "flag"]


@dataclass(frozen=True, slots=True)
class Given:
    """What a setting is, and since where."""

    value: object
    source: Source
    place: str = ""
    """`linkwise.yaml:3`, or the variable"""


def refusal(problems: Sequence[object]) -> InputError:
    """One error that tells of all problems, a line each."""
    start = "" if len(problems) == 1 else f"{len(problems)} things are wrong:\n  "
    return InputError(start + "\n  ".join(map(str, problems)))
