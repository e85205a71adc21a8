"""Schema of the settings: name, type, default and validation of each, derived from the settings dataclasses."""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec

from linkwise.config.settings import ServeSettings
from linkwise.config.validation import LIMITS, SECRET, check_value, describe, range_text
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["SCHEMA", "Kind", "Setting", "SettingValue", "Source", "build_settings", "refusal"]

Kind = Literal["text", "whole number", "number", "switch", "choice", "list", "whole numbers", "table"]

_TYPES: Final[Mapping[Kind, Any]] = {
    "text": str,
    "whole number": int,
    "number": float,
    "switch": bool,
    "list": tuple[str, ...],
    "whole numbers": tuple[int, ...],
    "table": dict[str, str],
}
_KINDS: Final[Mapping[object, Kind]] = {type_: kind for kind, type_ in _TYPES.items()}
_WORDS: Final[Mapping[Kind, str]] = {
    "text": "text",
    "switch": "true or false",
    "list": "a list of texts",
    "whole numbers": "a list of whole numbers",
    "table": "a table of texts",
}
_ALSO_CALLED: Final[Mapping[tuple[str, object], str]] = {("log.level", "warn"): "warning"}
"""gpushare's name for it"""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting."""

    name: str
    """dotted path, such as `placing.group.hold`"""
    kind: Kind
    default: object
    choices: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        """The environment variable of the setting; empty for a table, which can only be set in a file."""
        return "" if self.kind == "table" else f"LINKWISE_{self.name.replace('.', '_').upper()}"

    def expected(self) -> str:
        """Description of the allowed values."""
        if self.kind == "choice":
            return f"{', '.join(self.choices[:-1])} or {self.choices[-1]}"
        return _WORDS.get(self.kind) or f"a {self.kind}{range_text(self.name)}"

    def checked(self, value: object) -> object:
        """Validate and normalize a value.

        Raises:
            ValueError: the value has another type or is out of range; the message says what is expected.
        """
        value = _ALSO_CALLED.get((self.name, value), value) if isinstance(value, str) else value
        try:
            value = msgspec.convert(value, self._type)
        except msgspec.ValidationError:
            fits = False
        else:
            low, high = LIMITS.get(self.name, (-math.inf, math.inf))
            fits = not isinstance(value, int | float) or (low <= value <= high and value != math.inf)
        if not fits:
            got = "" if self.name in SECRET else f", got {describe(self._odd(value))}"
            raise ValueError(f"expected {self.expected()}{got}")
        if problem := check_value(self.name, value):
            raise ValueError(problem)
        return value

    @property
    def _type(self) -> Any:  # noqa: ANN401 - a type
        return Literal[self.choices] if self.kind == "choice" else _TYPES[self.kind]

    def _odd(self, value: object) -> object:
        """What does not fit: of a list of numbers the first other item, else the value."""
        items = value if self.kind == "whole numbers" and isinstance(value, tuple) else ()
        return next((item for item in items if type(item) is not int), value)


def build_settings(values: Mapping[str, object]) -> ServeSettings:
    """Build the settings from values by name."""
    settings: ServeSettings = _build(ServeSettings, "", values)
    return settings


def _build(of: Any, prefix: str, values: Mapping[str, object]) -> Any:  # noqa: ANN401 - any dataclass of settings
    hints = get_type_hints(of)
    arguments = {}
    for each in fields(of):
        name, inner = f"{prefix}{each.name}", hints[each.name]
        arguments[each.name] = _build(inner, f"{name}.", values) if is_dataclass(inner) else values[name]
    return of(**arguments)


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
            yield Setting(name, _KINDS[hinted], default)


SCHEMA: Final[Mapping[str, Setting]] = {setting.name: setting for setting in _settings(ServeSettings)}
"""all settings, in the order of their dataclasses"""


Source = Literal["default", "file", "environment", "flag"]


@dataclass(frozen=True, slots=True)
class SettingValue:
    """The value of a setting and its source."""

    value: object
    source: Source
    place: str = ""
    """`linkwise.yaml:3`, or the environment variable"""


def refusal(problems: Sequence[object]) -> InputError:
    """One error with all problems, one per line."""
    start = "" if len(problems) == 1 else f"{len(problems)} problems:\n  "
    return InputError(start + "\n  ".join(map(str, problems)))
