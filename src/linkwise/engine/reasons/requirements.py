"""Refusals by requirements: the fact that a node or its devices do not meet, or that is not known of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.engine.reasons.phrases import RefusalText, as_tuple, device_count, size_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from linkwise.model.verdict import Reason

__all__ = ["REQUIREMENT_REFUSALS"]

_NOUNS: Final[Mapping[str, str]] = {
    "vendor": "a vendor",
    "brand": "a brand",
    "model": "a device model",
    "memory": "device memory",
    "compute": "a compute capability",
    "driver": "a driver",
    "firmware": "firmware",
    "cuda": "CUDA",
    "rocm": "ROCm",
    "cann": "CANN",
}
_WORDS: Final[Mapping[str, str]] = {
    ">=": "below",
    ">": "not above",
    "<": "not below",
    "<=": "above",
    "=": "other than",
    "!=": "that is",
}
_UNKNOWN: Final[Mapping[str, str]] = {
    "vendor": "device vendor",
    "brand": "device brand",
    "model": "device model",
    "memory": "device memory",
    "compute": "compute capability",
    "driver": "driver version",
    "firmware": "firmware version",
    "cuda": "CUDA version",
    "rocm": "ROCm version",
    "cann": "CANN version",
}


def _asked(reason: Reason) -> tuple[str, str, list[str]]:
    """The fact, the operator and the values."""
    fact, operator, *values = map(str, as_tuple(reason.asked))
    return fact, operator, values


def _comparison(reason: Reason) -> str:
    fact, operator, values = _asked(reason)
    if len(values) == 1:
        return f"{fact}{operator}{values[0]}"
    return f"{fact} {'in' if operator == '=' else 'not in'} ({', '.join(values)})"


def _unmet_short(reason: Reason) -> str:
    fact, operator, values = _asked(reason)
    return f"{_NOUNS[fact]} {_WORDS[operator]} {_either(values)}"


def _unknown_short(reason: Reason) -> str:
    return _UNKNOWN[_asked(reason)[0]]


def _unmet(reason: Reason) -> str:
    fact, _, _ = _asked(reason)
    found = ", ".join(_shown(fact, str(each)) for each in as_tuple(reason.found))
    return f"{_demand(reason)}, but the node has {_UNKNOWN[fact]} {found}{_alternatives(reason)}"


def _unknown(reason: Reason) -> str:
    fact, _, _ = _asked(reason)
    return (
        f"{_demand(reason)}, but the {_UNKNOWN[fact]} of the node is unknown{_alternatives(reason)}; "
        "run the Linkwise agent or the vendor's labeller on it"
    )


def _mixed(reason: Reason) -> str:
    fact, _, _ = _asked(reason)
    found = ", ".join(_shown(fact, str(each)) for each in as_tuple(reason.found)) or "an unknown value"
    return (
        f"{_demand(reason)}, but some devices of the node have {_UNKNOWN[fact]} {found}, and the vendor's device plugin "
        "chooses among all devices; run the Linkwise agent with its device plugin on it"
    )


def _too_few(reason: Reason) -> str:
    count, fact, operator, *values = map(str, as_tuple(reason.asked))
    meeting, devices = as_tuple(reason.found)
    text = f"{fact}{operator}{values[0]}" if len(values) == 1 else f"{fact} {_WORDS[operator]} {_either(values)}"
    only = "device meets" if meeting == 1 else "devices meet"
    return (
        f"{device_count(int(count))} requested, but only {meeting} of {devices} {only} the pod's requirements; the others "
        f"fail {text}"
    )


def _demand(reason: Reason) -> str:
    return f"{_comparison(reason)} is required by {reason.noun}"


def _alternatives(reason: Reason) -> str:
    if not reason.unit:
        return ""
    return (
        ", and its alternative does not hold"
        if reason.unit == "1"
        else f", and none of its {reason.unit} alternatives holds"
    )


def _shown(fact: str, text: str) -> str:
    return size_text(int(text)) if fact == "memory" and text.isdecimal() else text


def _either(values: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(values[:-1]), values[-1])))


REQUIREMENT_REFUSALS: Final[dict[tuple[str, str], RefusalText]] = {
    ("002.versions", "unmet"): RefusalText("node(s) had {}", _unmet, "NoTopology", _unmet_short),
    ("002.versions", "unknown"): RefusalText("node(s) had an unknown {}", _unknown, "NoTopology", _unknown_short),
    ("002.versions", "mixed"): RefusalText(
        "node(s) had devices that don't meet the pod's requirements, and a device plugin that chooses among all",
        _mixed,
        "NoTopology",
    ),
    ("002.versions", "too few"): RefusalText(
        "node(s) had too few devices that meet the pod's requirements", _too_few, "NoTopology"
    ),
}
