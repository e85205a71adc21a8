"""Reason codes: a few stable words for why a pod is pending, by who can act on it.

Conditions, JSON output and metrics carry them; programs may depend on them, and a code is never given another meaning.
Every text of the catalogue names its code. docs/reference/reason-codes.md describes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["CODES", "PENDING_CODES", "PLACED", "ReasonCode", "decisive"]

ReasonCode = Literal[
    "Invalid",
    "NotPermitted",
    "GangIncomplete",
    "OtherScheduler",
    "NoTopology",
    "Excluded",
    "NoRoom",
    "Fragmented",
    "Reserved",
    "Planned",
    "Placed",
]

PLACED: Final[ReasonCode] = "Placed"

CODES: Final[Mapping[ReasonCode, str]] = {
    "Invalid": "the request is invalid: change the manifest",
    "NotPermitted": "a policy of the administrator does not permit the request, or sharing the devices that are free",
    "GangIncomplete": "members of the group, their volumes, its PodGroup or the removal of scheduling gates are missing",
    "OtherScheduler": "no scheduler that calls Linkwise has asked about the pod: check its schedulerName",
    "NoTopology": "no node has hardware, or healthy hardware, that can serve the request, even when it is idle",
    "Excluded": "suitable nodes are cordoned, not ready or tainted, or do not match the pod's selectors and affinity",
    "NoRoom": "not enough is free",
    "Fragmented": "enough is free in number, but not in one place or in the required layout",
    "Reserved": "free devices are reserved for a request that is ahead in the queue",
    "Planned": "a node fits or a plan exists or is being made: the scheduler's next attempt is awaited",
    "Placed": "the pod has its node; the only code of a pod that is not pending",
}
"""by code, what it says: ordered by who can act, the owner of the pod first; last, what needs no action"""

PENDING_CODES: Final = tuple(code for code in CODES if code != PLACED)

_PRECEDENCE: Final[tuple[ReasonCode, ...]] = (
    "Invalid",
    "NotPermitted",
    "GangIncomplete",
    "Reserved",
    "Planned",
    "Fragmented",
    "NoRoom",
    "Excluded",
    "NoTopology",
)
"""of the codes of different nodes, the one that counts: where least is lacking"""


def decisive(codes: Iterable[ReasonCode]) -> ReasonCode | None:
    """The code of a pod by those of the nodes that refuse it; None without any."""
    found = set(codes)
    return next((code for code in _PRECEDENCE if code in found), None)
