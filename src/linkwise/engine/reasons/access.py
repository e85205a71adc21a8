"""Refusals by AcceleratorPolicies: what is not permitted, to whom, by which policy, and what is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.engine.reasons.phrases import RefusalText, as_tuple, device_count, domains_text, is_or_are, with_unit
from linkwise.model.access_policy import ALONE, domain_text

if TYPE_CHECKING:
    from linkwise.model.verdict import Reason

__all__ = ["ACCESS_REFUSALS"]


def _policy(reason: Reason) -> str:
    return f"AcceleratorPolicy {reason.noun}"


def _facts(reason: Reason) -> tuple[str, list[str]]:
    """To whom the policy applies, and what it permits."""
    who, *permitted = map(str, as_tuple(reason.found))
    return who, permitted


def _resource(reason: Reason) -> str:
    who, permitted = _facts(reason)
    only = f"only {', '.join(permitted)}" if permitted else "no accelerators"
    return f"{reason.asked} requested, but {_policy(reason)} permits {who} {only}"


def _invalid(reason: Reason) -> str:
    who, problem = _facts(reason)
    return f"{_policy(reason)}, which applies to {who}, is invalid and permits nothing until it is corrected: {', '.join(problem)}"


def _too_many(reason: Reason) -> str:
    who, (most, *_) = _facts(reason)
    return f"{device_count(reason.asked)} requested, but {_policy(reason)} permits {who} at most {most} at one time"


def _limit(reason: Reason) -> str:
    who, (used, most, *_) = _facts(reason)
    return (
        f"{device_count(reason.asked)} requested, but {_policy(reason)} permits {who} at most {most} at one time, and {used} "
        f"{is_or_are(int(used))} in use"
    )


def _group_limit(reason: Reason) -> str:
    who, (used, most, *_) = _facts(reason)
    return (
        f"the members of the pod's group that must start together request {device_count(reason.asked)}, but "
        f"{_policy(reason)} permits {who} at most {most} at one time, and {used} {is_or_are(int(used))} in use"
    )


def _model(reason: Reason) -> str:
    who, permitted = _facts(reason)
    there = f"a device of model {reason.asked}" if reason.asked else "a device of an unknown model"
    return f"the node has {there}, but {_policy(reason)} permits {who} only {', '.join(permitted)}"


def _share(reason: Reason) -> str:
    who, (most, *_) = _facts(reason)
    return f"{with_unit(reason.asked, reason.unit)} of one device requested, but {_policy(reason)} permits {who} at most {most}"


def _domain(reason: Reason) -> str:
    users = domains_text(map(str, as_tuple(reason.found))) if reason.found else "an unknown namespace"
    rule = (
        "the pod may not share a device"
        if reason.asked == ALONE
        else f"the pod may share only with pods of {domain_text(str(reason.asked))}"
    )
    return f"devices with free memory are used by {users}, and by an AcceleratorPolicy {rule}"


_NOT_PERMITTED: Final = "node(s): an AcceleratorPolicy doesn't permit the request"
_IN_USE: Final = "node(s): an AcceleratorPolicy's limit of devices at one time is reached"

ACCESS_REFUSALS: Final[dict[tuple[str, str], RefusalText]] = {
    ("002.access", "resource"): RefusalText(_NOT_PERMITTED, _resource),
    ("002.access", "too many"): RefusalText(_NOT_PERMITTED, _too_many),
    ("002.access", "share"): RefusalText(_NOT_PERMITTED, _share),
    ("002.access", "invalid"): RefusalText(
        "node(s): an AcceleratorPolicy that applies to the pod is invalid", _invalid
    ),
    ("002.access", "limit"): RefusalText(_IN_USE, _limit),
    ("002.access", "group limit"): RefusalText(_IN_USE, _group_limit),
    ("002.access", "model"): RefusalText(
        "node(s) had devices of a model that an AcceleratorPolicy doesn't permit", _model
    ),
    ("002.segregate", "domain"): RefusalText(
        "node(s) had free memory only on devices that the pod may not share", _domain
    ),
}
