"""Faults on demand: what goes wrong with which requests, how often, and what the server did before it went wrong.

faults.add(Fault("delay", seconds=0.5))                         every request is slow
faults.add(Fault("answer", on="POST", path="/binding$", code=409, times=3))
faults.add(Fault("reset", on="POST", path="/binding$", landed=True))   written, but nobody is told
faults.add(Fault("drop", on="WATCH", path="/pods$", times=5))   five changes that watches never tell
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from linkwise.embedded.api_errors import ApiError, bad_request

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Fault", "Faults", "said_instead"]

_WRITES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_TOLD: Final = frozenset({"drop", "repeat", "cut", "expire"})
"""faults of single changes that a watch tells"""
_REASONS: Final = {
    408: "Timeout",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something that goes wrong.

    `delay` waits before anything is done; `answer` gives `code` instead of what the server would say; `reset` ends the
    connection without an answer; `hang` never answers. With `landed` the request is carried out before that. For changes
    that a watch tells: `drop` leaves one out, `repeat` tells it twice, `cut` ends the connection before it, `expire` ends
    the watch with 410 before it.
    """

    do: Literal["delay", "answer", "reset", "hang", "drop", "repeat", "cut", "expire"]
    on: str = "*"
    """a method, WATCH, WRITE for all that change something, or * for all"""
    path: str = ""
    """an expression that is looked for in the path; empty for all"""
    seconds: float = 0.0
    code: int = 500
    landed: bool = False
    times: int = 1
    """how often; 0 for as long as it stays"""
    chance: float = 1.0
    skip: int = 0
    """how many go well before that"""
    retry_after: int = 0
    """seconds that an answer asks for"""

    def concerns(self, verb: str, path: str) -> bool:
        """Whether a request is one of those."""
        same = self.on in {"*", verb} or (self.on == "WRITE" and verb in _WRITES)
        return same and re.search(self.path, path) is not None


@dataclass(slots=True)
class _Set:
    fault: Fault
    met: int = 0
    done: int = 0


@dataclass(slots=True)
class Faults:
    """All that goes wrong now."""

    seed: int = 0
    _set: list[_Set] = field(default_factory=list)
    _chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)  # noqa: S311 - the same faults for the same seed

    def add(self, *faults: Fault) -> None:
        """Let these happen too."""
        for fault in faults:
            re.compile(fault.path)
            self._set.append(_Set(fault))

    def clear(self) -> None:
        """Let all go well."""
        self._set.clear()

    def met(self, verb: str, path: str) -> list[Fault]:
        """What goes wrong with a request; each counts as done with that."""
        return self._met(verb, path, told=False) if self._set else []

    def told(self, path: str) -> Fault | None:
        """What goes wrong with a change that a watch is about to tell."""
        return next(iter(self._met("WATCH", path, told=True)), None) if self._set else None

    def shown(self) -> list[dict[str, Any]]:
        """All faults, and how often they happened."""
        return [{**msgspec.to_builtins(found.fault), "done": found.done} for found in self._set]

    def read(self, given: object) -> None:
        """Add what a request says: one fault or a list of them."""
        try:
            wanted: Iterable[Fault] = msgspec.convert(given if isinstance(given, list) else [given], list[Fault])
            self.add(*wanted)
        except (msgspec.ValidationError, re.error) as error:
            raise bad_request(f"no such fault: {error}") from error

    def _met(self, verb: str, path: str, *, told: bool) -> list[Fault]:
        found = []
        for one in tuple(self._set):
            fault = one.fault
            if (fault.do in _TOLD) is not told or not fault.concerns(verb, path):
                continue
            one.met += 1
            over = fault.times and one.done >= fault.times
            if over or one.met <= fault.skip or self._chance.random() >= fault.chance:
                continue
            one.done += 1
            found.append(fault)
        return found


def said_instead(fault: Fault) -> ApiError:
    """The answer of a fault."""
    words = {409: "the object has been modified; please apply your changes to the latest version and try again"}
    told = words.get(fault.code, "the server fails because it was told to")
    details = {"retryAfterSeconds": fault.retry_after} if fault.retry_after else {}
    return ApiError(fault.code, _REASONS.get(fault.code, "Unknown"), told, details)
