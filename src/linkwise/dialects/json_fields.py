"""Fields of JSON that anybody may have written: what is broken becomes a problem and is not believed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from linkwise.errors import InputError
from linkwise.model.verdict import Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

__all__ = ["Fields", "Report", "json_value", "shown"]


@dataclass(slots=True)
class Report:
    """What is wrong with one annotation or one object."""

    where: str
    key: str
    problems: list[Problem] = field(default_factory=list)
    broken: bool = False
    """whether something that is needed can't be believed"""

    def refuse(self, sentence: str) -> None:
        """Say what can't be believed."""
        self.broken = True
        self.note(sentence)

    def note(self, sentence: str) -> None:
        """Say what is odd, and believe the rest."""
        self.problems.append(Problem(self.where, self.key, sentence))


@dataclass(frozen=True, slots=True)
class Fields:
    """One JSON object, read field by field; a field that is absent and has no default is a problem too."""

    raw: Mapping[object, object]
    path: str
    """how its fields are named in sentences: empty, or `spec.devices[0].`"""
    report: Report

    @classmethod
    def of(cls, value: object, path: str, report: Report) -> Fields | None:
        """The value as an object; None, and a problem, if it is none."""
        if isinstance(value, Mapping):
            return cls(value, path and f"{path}.", report)
        report.refuse(f"{path or 'the value'} is {shown(value)}; an object is expected")
        return None

    def text(self, name: str, default: str | None = None) -> str | None:
        """A field that holds printable text."""
        value = self.raw.get(name, default)
        if isinstance(value, str) and value.isprintable() and (value or default is not None):
            return value
        self._refuse(name, "printable text is expected")
        return None

    def number(self, name: str, default: int | None = None) -> int | None:
        """A field that counts something."""
        value = self.raw.get(name, default)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
            return value
        self._refuse(name, "a whole number of 0 or more is expected")
        return None

    def flag(self, name: str) -> bool | None:
        """A field that is true or false."""
        value = self.raw.get(name)
        if isinstance(value, bool):
            return value
        self._refuse(name, "true or false is expected")
        return None

    def texts(self, name: str, default: tuple[str, ...] | None = None) -> tuple[str, ...] | None:
        """A field that lists printable texts."""
        value = self.raw.get(name, default)
        if not isinstance(value, list | tuple):
            self._refuse(name, "a list of texts is expected")
            return None
        wrong = [found for found in value if not isinstance(found, str) or not found.isprintable() or not found]
        if wrong:
            self.report.refuse(f"{self.path}{name} lists {shown(wrong[0])}; printable texts are expected")
            return None
        return tuple(value)

    def objects(self, name: str) -> Iterator[Fields]:
        """The objects that a field lists; what is none is a problem."""
        value = self.raw.get(name, ())
        if not isinstance(value, list | tuple):
            self._refuse(name, "a list is expected")
            return
        for number, found in enumerate(value):
            if entry := Fields.of(found, f"{self.path}{name}[{number}]", self.report):
                yield entry

    def named(self, name: str) -> Iterator[tuple[str, Fields]]:
        """The objects that a field holds by name."""
        holder = Fields.of(self.raw.get(name), f"{self.path}{name}", self.report)
        for found, value in holder.raw.items() if holder else ():
            if not isinstance(found, str) or not found.isprintable() or not found:
                self.report.refuse(f"{self.path}{name} has an entry named {shown(found)}; printable text is expected")
            elif entry := Fields.of(value, f"{self.path}{name}.{found}", self.report):
                yield found, entry

    def unknown(self, known: Collection[str]) -> None:
        """Say which fields are not known; the rest is believed."""
        for name in self.raw:
            if name not in known:
                self.report.note(f"{self.path}{_plain(name)} is no field we know; it is not read")

    def _refuse(self, name: str, wanted: str) -> None:
        found = f"is {shown(self.raw[name])}" if name in self.raw else "is missing"
        self.report.refuse(f"{self.path}{name} {found}; {wanted}")


def json_value(text: str) -> object:
    """What a JSON text holds; InputError says why it can't be read."""
    try:
        return json.loads(text, object_pairs_hook=_each_once, parse_constant=_no_number)
    except InputError:
        raise
    except json.JSONDecodeError as error:
        raise InputError(f"it is no JSON: {error}") from error
    except RecursionError as error:
        raise InputError("it is no JSON of ours: it is nested too deep") from error
    except ValueError as error:
        raise InputError("it is no JSON of ours: a number has too many digits") from error


def shown(value: object) -> str:
    """A value as a sentence shows it: short, printable, whatever it is."""
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else f"{value[:57]}...")
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        return str(value) if abs(value) < 10**20 else "a number of many digits"
    if isinstance(value, float):
        return str(value)
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, list | tuple) else "something else"


def _plain(name: object) -> str:
    return name if isinstance(name, str) and name.isprintable() and len(name) <= 60 else shown(name)


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name in found if sum(name == other for other, _ in pairs) > 1)
        raise InputError(f"the field {shown(twice)} stands twice")
    return found


def _no_number(name: str) -> NoReturn:
    raise InputError(f"it is no JSON: {name} is no number")
