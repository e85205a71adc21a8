"""Fields of JSON from annotations and objects: invalid values become problems and are ignored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, NoReturn

from linkwise.errors import InputError
from linkwise.model.verdict import Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

__all__ = ["Fields", "Report", "json_value", "shown", "versioned_fields"]


@dataclass(slots=True)
class Report:
    """Problems of one annotation or one object."""

    where: str
    key: str
    problems: list[Problem] = field(default_factory=list)
    broken: bool = False
    """whether something that is needed is invalid"""

    def refuse(self, sentence: str) -> None:
        """Report an invalid value that makes the record unusable."""
        self.broken = True
        self.note(sentence)

    def note(self, sentence: str) -> None:
        """Report an oddity; the rest is used."""
        self.problems.append(Problem(self.where, self.key, sentence))


@dataclass(frozen=True, slots=True)
class Fields:
    """One JSON object, read field by field; a missing field without a default is a problem, too."""

    raw: Mapping[object, object]
    path: str
    """how its fields are named in sentences: empty, or `spec.devices[0].`"""
    report: Report

    @classmethod
    def of(cls, value: object, path: str, report: Report) -> Fields | None:
        """The value as an object; None, and a problem, if it is not one."""
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
        wrong = [item for item in value if not isinstance(item, str) or not item.isprintable() or not item]
        if wrong:
            self.report.refuse(f"{self.path}{name} lists {shown(wrong[0])}; printable texts are expected")
            return None
        return tuple(value)

    def time(self, name: str) -> float | None:
        """A field that holds a time with its zone, as Kubernetes writes it; in seconds since the epoch."""
        value = self.raw.get(name)
        try:
            moment = datetime.fromisoformat(value) if isinstance(value, str) else None
            if moment is not None and moment.tzinfo is not None:
                return moment.timestamp()
        except (ValueError, OverflowError):
            pass
        self._refuse(name, "a time such as 2026-01-31T12:00:00Z is expected")
        return None

    def numbers(self, name: str) -> tuple[int, ...] | None:
        """A field that lists whole numbers of 0 or more."""
        value = self.raw.get(name)
        if not isinstance(value, list | tuple):
            self._refuse(name, "a list of whole numbers is expected")
            return None
        wrong = [item for item in value if not isinstance(item, int) or isinstance(item, bool) or not 0 <= item < 2**31]
        if wrong:
            self.report.refuse(f"{self.path}{name} lists {shown(wrong[0])}; whole numbers of 0 or more are expected")
            return None
        return tuple(value)

    def objects(self, name: str) -> Iterator[Fields]:
        """The objects that a field lists; other items are problems."""
        value = self.raw.get(name, ())
        if not isinstance(value, list | tuple):
            self._refuse(name, "a list is expected")
            return
        for number, item in enumerate(value):
            if entry := Fields.of(item, f"{self.path}{name}[{number}]", self.report):
                yield entry

    def named(self, name: str) -> Iterator[tuple[str, Fields]]:
        """The objects that a field holds by name."""
        holder = Fields.of(self.raw.get(name), f"{self.path}{name}", self.report)
        for key, value in holder.raw.items() if holder else ():
            if not isinstance(key, str) or not key.isprintable() or not key:
                self.report.refuse(f"{self.path}{name} has an entry named {shown(key)}; printable text is expected")
            elif entry := Fields.of(value, f"{self.path}{name}.{key}", self.report):
                yield key, entry

    def unknown(self, known: Collection[str]) -> None:
        """Report unknown fields; the others are used."""
        for name in self.raw:
            if name not in known:
                self.report.note(f"{self.path}{_plain(name)} is not a known field; it is ignored")

    def _refuse(self, name: str, expected: str) -> None:
        value = f"is {shown(self.raw[name])}" if name in self.raw else "is missing"
        self.report.refuse(f"{self.path}{name} {value}; {expected}")


def json_value(text: str) -> object:
    """The value of a JSON text; InputError if it is invalid."""
    try:
        return json.loads(text, object_pairs_hook=_each_once, parse_constant=_no_number)
    except InputError:
        raise
    except json.JSONDecodeError as error:
        raise InputError(f"it is not valid JSON: {error}") from error
    except RecursionError as error:
        raise InputError("it is nested too deeply") from error
    except ValueError as error:
        raise InputError("a number has too many digits") from error


def shown(value: object) -> str:
    """A value for a sentence: short and printable, whatever it is."""
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
    fields = dict(pairs)
    if len(fields) < len(pairs):
        twice = next(name for name in fields if sum(name == other for other, _ in pairs) > 1)
        raise InputError(f"the field {shown(twice)} appears twice")
    return fields


def _no_number(name: str) -> NoReturn:
    raise InputError(f"it is not valid JSON: {name} is not a number")


def versioned_fields(text: str, version: int, report: Report) -> Fields | None:
    """The fields of an annotation of ours, a JSON object with a version; None if it can't be read, which is reported."""
    try:
        fields = Fields.of(json_value(text), "", report)
    except InputError as error:
        report.refuse(f"{error}; remove the annotation if you wrote it")
        return None
    if fields is None:
        return None
    written = fields.number("version")
    if written is not None and written != version:
        report.refuse(f"version is {written}; we know version {version} only, so it is ignored")
    return None if report.broken else fields
