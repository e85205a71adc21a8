"""Fault injection: which requests fail, how, how often, and whether the server handled them first.

faults.add(Fault("delay", seconds=0.5))                         every request is slow
faults.add(Fault("answer", on="POST", path="/binding$", code=409, times=3))
faults.add(Fault("reset", on="POST", path="/binding$", landed=True))   written, but the client gets no response
faults.add(Fault("drop", on="WATCH", path="/pods$", times=5))   five events are missing from watches
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

__all__ = ["Fault", "Faults", "fault_response"]

_WRITES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_EVENT_FAULTS: Final = frozenset({"drop", "repeat", "cut", "expire"})
"""faults of single watch events"""
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
    """An injected fault.

    `delay` waits before the request is handled; `answer` responds with `code`; `reset` closes the connection without a
    response; `hang` never responds. With `landed` the request is handled first. For watch events: `drop` omits an event,
    `repeat` sends it twice, `cut` closes the connection before it, `expire` ends the watch with 410 before it.
    """

    do: Literal["delay", "answer", "reset", "hang", "drop", "repeat", "cut", "expire"]
    on: str = "*"
    """a method, WATCH, WRITE for all writes, or * for all requests"""
    path: str = ""
    """a regular expression searched in the path; empty for all"""
    seconds: float = 0.0
    code: int = 500
    landed: bool = False
    times: int = 1
    """how often; 0 for unlimited"""
    chance: float = 1.0
    skip: int = 0
    """matching requests that succeed first"""
    retry_after: int = 0
    """seconds, sent as Retry-After"""

    def matches(self, verb: str, path: str) -> bool:
        """Whether the fault applies to a request."""
        same = self.on in {"*", verb} or (self.on == "WRITE" and verb in _WRITES)
        return same and re.search(self.path, path) is not None


@dataclass(slots=True)
class _ActiveFault:
    fault: Fault
    matched: int = 0
    done: int = 0


@dataclass(slots=True)
class Faults:
    """The active faults."""

    seed: int = 0
    _active: list[_ActiveFault] = field(default_factory=list)
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - the same faults for the same seed

    def add(self, *faults: Fault) -> None:
        """Add faults."""
        for fault in faults:
            re.compile(fault.path)
            self._active.append(_ActiveFault(fault))

    def clear(self) -> None:
        """Remove all faults."""
        self._active.clear()

    def on_request(self, verb: str, path: str) -> list[Fault]:
        """The faults of a request; counts them as done."""
        return self._fire(verb, path, on_event=False) if self._active else []

    def on_event(self, path: str) -> Fault | None:
        """The fault of a watch event, if any."""
        return next(iter(self._fire("WATCH", path, on_event=True)), None) if self._active else None

    def to_list(self) -> list[dict[str, Any]]:
        """All faults, and how often each was injected."""
        return [{**msgspec.to_builtins(active.fault), "done": active.done} for active in self._active]

    def add_from_request(self, body: object) -> None:
        """Add one fault, or a list of faults, from a request body."""
        try:
            faults: Iterable[Fault] = msgspec.convert(body if isinstance(body, list) else [body], list[Fault])
            self.add(*faults)
        except (msgspec.ValidationError, re.error) as error:
            raise bad_request(f"invalid fault: {error}") from error

    def _fire(self, verb: str, path: str, *, on_event: bool) -> list[Fault]:
        fired = []
        for active in tuple(self._active):
            fault = active.fault
            if (fault.do in _EVENT_FAULTS) is not on_event or not fault.matches(verb, path):
                continue
            active.matched += 1
            exhausted = fault.times and active.done >= fault.times
            if exhausted or active.matched <= fault.skip or self._random.random() >= fault.chance:
                continue
            active.done += 1
            fired.append(fault)
        return fired


def fault_response(fault: Fault) -> ApiError:
    """The Status that a fault responds with."""
    messages = {409: "the object has been modified; please apply your changes to the latest version and try again"}
    message = messages.get(fault.code, "injected fault")
    details = {"retryAfterSeconds": fault.retry_after} if fault.retry_after else {}
    return ApiError(fault.code, _REASONS.get(fault.code, "Unknown"), message, details)
