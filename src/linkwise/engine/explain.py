"""Why something is refused, in a sentence: what was asked, what was found.

Every reason has two forms. The long one has numbers and names, for the person who waits. The short one is equal
across nodes, because kube-scheduler counts equal texts in its event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from linkwise.model.verdict import Fact, Reason

__all__ = ["devices_text", "refusal", "short_refusal"]

_MODES: Final = {"whole": "whole devices", "share": "memory of devices", "percent": "percents of devices"}


class _Words(NamedTuple):
    short: str
    long: Callable[[Reason], str]


def refusal(reason: Reason) -> str:
    """What was asked and what was found."""
    return _WORDS[reason.rule, reason.kind].long(reason)


def short_refusal(reason: Reason) -> str:
    """The same without numbers and names."""
    return _WORDS[reason.rule, reason.kind].short


def devices_text(devices: Iterable[int]) -> str:
    """A set of devices as people write it: {0,3}."""
    return "{" + ",".join(map(str, devices)) + "}"


def _too_few(reason: Reason) -> str:
    free, there = _tuple(reason.found)
    return f"{_devices(reason.asked)} {_is(reason.asked)} asked for and {free} of {there} {_is(free)} free"


def _by_group(reason: Reason) -> str:
    """Every group's idle devices, and how the asked ones must lie."""
    several = f"{reason.noun}{'es' if reason.noun.endswith('sh') else 's'}"
    ways = {
        "one group": f"in one {reason.noun}",
        "whole groups": f"in {several} of which nothing is taken",
        "even split": f"half in each of two {several}, at matching positions",
    }
    idle = ", ".join(f"{reason.noun} {number} has {count} idle" for number, count in enumerate(_tuple(reason.found)))
    return f"{idle}; {reason.asked} {_is(reason.asked)} needed {ways[reason.kind]}"


def _by_device(reason: Reason, what: str) -> str:
    left = ", ".join(f"device {device} has {room} left" for device, room in _pairs(reason.found))
    return f"{left or 'no device is sound'}; {reason.asked}{what} {_is(reason.asked)} needed on one device"


_NO_FIT_GROUP: Final = _Words("enough devices are idle, but not in one place", _by_group)

# One line a refusal: its rule and kind, the short form, the long form.
_WORDS: Final[dict[tuple[str, str], _Words]] = {
    ("000.partition", "no size"): _Words(
        "no device is asked for", lambda r: f"{r.asked} devices are asked for; ask for at least 1"
    ),
    ("000.partition", "too few"): _Words(
        "too few devices are free",
        lambda r: f"{_devices(r.asked)} {_is(r.asked)} asked for and {r.found} {_is(r.found)} available",
    ),
    ("000.required", "not free"): _Words(
        "a required device is not free",
        lambda r: (
            f"{_named(r.asked)} {_is(len(_tuple(r.asked)))} required and not available; "
            f"available: {_list(r.found) or 'none'}"
        ),
    ),
    ("000.required", "too many"): _Words(
        "more devices are required than asked for",
        lambda r: (
            f"{_devices(len(_tuple(r.found)))} {_is(len(_tuple(r.found)))} required ({_list(r.found)}) "
            f"and only {r.asked} {_is(r.asked)} asked for"
        ),
    ),
    ("001.best-effort", ""): _Words(
        "the links are slower than the floor",
        lambda r: f"the best free set has {r.found:g} GB/s at its slowest pair and {r.asked:g} is the floor",
    ),
    ("001.best-effort", "unknown"): _Words(
        "nothing is known of the links",
        lambda r: f"{r.asked:g} GB/s is the floor and nothing is known of the links between enough free devices",
    ),
    ("001.percent", ""): _Words(
        "more compute is asked for than a device has",
        lambda r: f"{r.asked} % of a device's compute is asked for; ask for 0 to {r.found}",
    ),
    ("002.segregate", ""): _Words(
        "devices with room are other namespaces'",
        lambda r: (
            f"devices with room are shared by {_list(r.found) or 'nobody knows whom'}, and namespace {r.asked} may share "
            "with nobody else"
        ),
    ),
    ("002.whole", ""): _Words("too few devices are free", _too_few),
    ("002.whole", "no size"): _Words(
        "no device is asked for", lambda r: f"{r.asked} devices are asked for; ask for at least 1"
    ),
    ("003.count", ""): _Words(
        "so many devices can't be asked for",
        lambda r: f"{_devices(r.asked)} can't be asked for on {r.noun}; ask for {_choice(r.found)}",
    ),
    ("003.count", "multiple"): _Words(
        "so many devices can't be asked for",
        lambda r: f"{_devices(r.asked)} in all are asked for; more than {r.found} must be a multiple of {r.found}",
    ),
    ("003.one-pod", "one pod"): _Words(
        "a small job must be one pod",
        lambda r: (
            f"{_tuple(r.asked)[0]} devices are asked for by {_tuple(r.asked)[1]} pods; up to {r.found} must be one pod"
        ),
    ),
    ("003.one-pod", "full pods"): _Words(
        "a large job must ask for whole nodes",
        lambda r: (
            f"task {r.noun} asks for {_devices(r.asked)} a pod; "
            f"a job of more than {r.found} must ask for {r.found} a pod"
        ),
    ),
    ("003.predicate", "profile"): _Words(
        "the node has other hardware", lambda r: f"{r.asked} is asked for and the node is {r.found}"
    ),
    ("003.predicate", "unknown profile"): _Words(
        "the hardware is not known", lambda r: f"hardware profile {r.asked!r} is not known"
    ),
    ("003.predicate", "one group"): _NO_FIT_GROUP,
    ("003.predicate", "whole groups"): _NO_FIT_GROUP,
    ("003.predicate", "even split"): _NO_FIT_GROUP,
    ("004.filter", ""): _Words("no device has enough room", lambda r: _by_device(r, "")),
    ("004.filter", "core"): _Words("no device has enough compute left", lambda r: _by_device(r, " % of compute")),
    ("004.mode", ""): _Words(
        "the node hands out devices in another way",
        lambda r: f"the pod asks for {_MODES[str(r.asked)]} and the node hands out {_MODES[str(r.found)]}",
    ),
    ("004.one-card", ""): _Words(
        "more is asked for than a device has",
        lambda r: f"{r.asked} is asked for of one device and the largest has {r.found}",
    ),
    ("004.one-card", "no size"): _Words(
        "no memory of a device is asked for",
        lambda r: f"{r.asked} of a device's memory is asked for; ask for at least 1",
    ),
}


def _devices(number: Fact) -> str:
    return f"{number} device" if number == 1 else f"{number} devices"


def _is(number: Fact) -> str:
    return "is" if number == 1 else "are"


def _tuple(fact: Fact) -> tuple[int | str, ...]:
    return tuple(entry for entry in fact if not isinstance(entry, tuple)) if isinstance(fact, tuple) else (str(fact),)


def _pairs(fact: Fact) -> list[tuple[int, int]]:
    return [entry for entry in fact if isinstance(entry, tuple)] if isinstance(fact, tuple) else []


def _list(fact: Fact) -> str:
    return ", ".join(map(str, _tuple(fact)))


def _choice(fact: Fact) -> str:
    """Numbers to choose from: 1, 2, 4 or 8; 1 to 8 where none is missing."""
    counts = [int(count) for count in _tuple(fact)]
    if len(counts) > 2 and counts == list(range(counts[0], counts[-1] + 1)):
        return f"{counts[0]} to {counts[-1]}"
    return " or ".join(filter(None, (", ".join(map(str, counts[:-1])), str(counts[-1]))))


def _named(fact: Fact) -> str:
    return f"device{'s' if len(_tuple(fact)) > 1 else ''} {_list(fact)}"
