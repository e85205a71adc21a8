"""Refusals about devices: one line a refusal, its rule and kind, the short form, the long form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.engine.reasons.phrases import Words, amount_, choice_text, devices_, is_, list_, named_, pairs_, tuple_

if TYPE_CHECKING:
    from linkwise.model.verdict import Reason

__all__ = ["DEVICE_WORDS"]

_MODES: Final = {"whole": "whole devices", "share": "memory of devices", "percent": "percents of devices"}


def _too_few(reason: Reason) -> str:
    free, there = tuple_(reason.found)
    return f"{devices_(reason.asked)} {is_(reason.asked)} asked for and {free} of {there} {is_(free)} free"


def _by_group(reason: Reason) -> str:
    """Every group's idle devices, and how the asked ones must lie."""
    several = f"{reason.noun}{'es' if reason.noun.endswith('sh') else 's'}"
    ways = {
        "one group": f"in one {reason.noun}",
        "whole groups": f"in {several} of which nothing is taken",
        "even split": f"half in each of two {several}, at matching positions",
        "whole groups first": f"in {several} of which nothing is taken as far as there are any",
        "count": "with those that are required",
    }
    idle = ", ".join(f"{reason.noun} {number} has {count} idle" for number, count in enumerate(tuple_(reason.found)))
    return f"{idle}; {reason.asked} {is_(reason.asked)} needed {ways[reason.kind]}"


def _by_device(reason: Reason, unit: str, what: str = "") -> str:
    left = ", ".join(f"device {device} has {amount_(room, unit)} left" for device, room in pairs_(reason.found))
    asked = f"{amount_(reason.asked, unit)}{what} {is_(reason.asked)} needed on one device"
    return f"{left or 'no device is sound'}; {asked}"


_NO_FIT_GROUP: Final = Words("enough devices are idle, but not in one place", _by_group)

DEVICE_WORDS: Final[dict[tuple[str, str], Words]] = {
    ("000.partition", "no size"): Words(
        "no device is asked for", lambda r: f"{r.asked} devices are asked for; ask for at least 1"
    ),
    ("000.partition", "too few"): Words(
        "too few devices are free",
        lambda r: f"{devices_(r.asked)} {is_(r.asked)} asked for and {r.found} {is_(r.found)} available",
    ),
    ("000.required", "not free"): Words(
        "a required device is not free",
        lambda r: (
            f"{named_(r.asked)} {is_(len(tuple_(r.asked)))} required and not available; "
            f"available: {list_(r.found) or 'none'}"
        ),
    ),
    ("000.required", "too many"): Words(
        "more devices are required than asked for",
        lambda r: (
            f"{devices_(len(tuple_(r.found)))} {is_(len(tuple_(r.found)))} required ({list_(r.found)}) "
            f"and only {r.asked} {is_(r.asked)} asked for"
        ),
    ),
    ("001.best-effort", ""): Words(
        "the links are slower than the floor",
        lambda r: f"the best free set has {r.found:g} GB/s at its slowest pair and {r.asked:g} is the floor",
    ),
    ("001.best-effort", "unknown"): Words(
        "nothing is known of the links",
        lambda r: f"{r.asked:g} GB/s is the floor and nothing is known of the links between enough free devices",
    ),
    ("001.percent", ""): Words(
        "more compute is asked for than a device has",
        lambda r: f"{r.asked} % of a device's compute is asked for; ask for 0 to {r.found}",
    ),
    ("002.inventory", ""): Words(
        "the node has no such devices", lambda r: f"{r.asked} is asked for and the node has none to hand out"
    ),
    ("002.inventory", "unknown node"): Words(
        "the node was not seen yet", lambda _: "the node was not seen yet; it is looked at as soon as it is"
    ),
    ("002.segregate", ""): Words(
        "devices with room are other namespaces'",
        lambda r: (
            f"devices with room are shared by {list_(r.found) or 'nobody knows whom'}, and namespace {r.asked} may share "
            "with nobody else"
        ),
    ),
    ("002.whole", ""): Words("too few devices are free", _too_few),
    ("002.whole", "pending"): Words(
        "its devices were just offered to other pods",
        lambda _: "its devices were offered to other pods a moment ago, and these have nowhere else to go",
    ),
    ("002.whole", "promised"): Words(
        "the pod was promised to another node",
        lambda _: "the pod was promised to another node, and that bind has not ended",
    ),
    ("002.whole", "no size"): Words(
        "no device is asked for", lambda r: f"{r.asked} devices are asked for; ask for at least 1"
    ),
    ("003.count", ""): Words(
        "so many devices can't be asked for",
        lambda r: (
            f"{devices_(r.asked)} can't be asked for on {r.noun}; ask for {choice_text([int(count) for count in tuple_(r.found)])}"
        ),
    ),
    ("003.count", "multiple"): Words(
        "so many devices can't be asked for",
        lambda r: f"{devices_(r.asked)} in all are asked for; more than {r.found} must be a multiple of {r.found}",
    ),
    ("003.one-pod", "one pod"): Words(
        "a small job must be one pod",
        lambda r: (
            f"{tuple_(r.asked)[0]} devices are asked for by {tuple_(r.asked)[1]} pods; up to {r.found} must be one pod"
        ),
    ),
    ("003.one-pod", "full pods"): Words(
        "a large job must ask for whole nodes",
        lambda r: (
            f"task {r.noun} asks for {devices_(r.asked)} a pod; "
            f"a job of more than {r.found} must ask for {r.found} a pod"
        ),
    ),
    ("003.predicate", "profile"): Words(
        "the node has other hardware", lambda r: f"{r.asked} is asked for and the node is {r.found}"
    ),
    ("003.predicate", "unknown profile"): Words(
        "the hardware is not known", lambda r: f"hardware profile {r.asked!r} is not known"
    ),
    ("003.predicate", "one group"): _NO_FIT_GROUP,
    ("003.predicate", "whole groups"): _NO_FIT_GROUP,
    ("003.predicate", "even split"): _NO_FIT_GROUP,
    ("003.predicate", "whole groups first"): _NO_FIT_GROUP,
    ("003.predicate", "count"): _NO_FIT_GROUP,
    ("004.filter", ""): Words("no device has enough room", lambda r: _by_device(r, r.unit)),
    ("004.filter", "core"): Words("no device has enough compute left", lambda r: _by_device(r, "%", " of compute")),
    ("004.mode", ""): Words(
        "the node hands out devices in another way",
        lambda r: f"the pod asks for {_MODES[str(r.asked)]} and the node hands out {_MODES[str(r.found)]}",
    ),
    ("004.one-card", ""): Words(
        "more is asked for than a device has",
        lambda r: (
            f"{amount_(r.asked, r.unit)} is asked for of one device and the largest has {amount_(r.found, r.unit)}"
        ),
    ),
    ("004.one-card", "no size"): Words(
        "no memory of a device is asked for",
        lambda r: f"{r.asked} of a device's memory is asked for; ask for at least 1",
    ),
    ("004.one-card", "bytes unknown"): Words(
        "the bytes of the devices are not known",
        lambda r: f"{r.asked} bytes of a device are asked for and the node does not tell how many its devices have",
    ),
}
