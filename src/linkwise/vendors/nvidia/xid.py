"""Xid events: what the NVIDIA driver reports about a GPU, and what NVIDIA's catalogue advises to do about it.

An event for which the program must be restarted, or nothing must be done, leaves the GPU usable. Any other event, and one
that the table does not have, makes it unhealthy. Source: NVIDIA, "Xid Catalog", the column of immediate actions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["CATALOGUE", "HARMLESS", "Xid", "harmless_xids", "xid_text"]

Action = Literal["none", "program", "reset", "node", "inspect"]
"""what to do: nothing, restart the program, reset the GPU, restart the node, look at the machine"""


@dataclass(frozen=True, slots=True)
class Xid:
    """One kind of event."""

    meaning: str
    action: Action

    @property
    def harmless(self) -> bool:
        """Whether the GPU works on: the program is at fault, or the event is only information."""
        return self.action in {"none", "program"}


def _numbered(numbers: Iterable[int], meaning: str, action: Action) -> dict[int, Xid]:
    return dict.fromkeys(numbers, Xid(meaning, action))


CATALOGUE: Final[dict[int, Xid]] = {
    # The program did something that it may not do, or was ended.
    8: Xid("a program did not finish in time", "program"),
    11: Xid("invalid commands of a program", "program"),
    13: Xid("exception of the graphics engine, such as an array index out of range", "program"),
    25: Xid("invalid commands of a program", "program"),
    31: Xid("page fault of a program", "program"),
    32: Xid("invalid or corrupted commands of a program", "program"),
    43: Xid("a program was stopped after a fault of its own", "none"),
    45: Xid("a program was ended, or cleaned up after an earlier event", "none"),
    60: Xid("exception of the video processor", "program"),
    69: Xid("class error of the graphics engine", "program"),
    80: Xid("corrupted commands of a program", "program"),
    94: Xid("memory error contained to one program", "program"),
    # The catalogue advises a reset; NVIDIA's device plugin keeps the GPU in use, because programs cause it.
    109: Xid("context switch timeout of a program", "program"),
    141: Xid("exception of a program in the fast path", "none"),
    **_numbered((39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136)), "exception of a copy engine", "program"),
    **_numbered((68, 83, 84, 88, 89, 96, 97, 98), "exception of a video decoder", "program"),
    **_numbered((82, *range(99, 106)), "exception of a JPEG decoder", "program"),
    **_numbered((86, 139), "exception of the optical flow accelerator", "program"),
    # Information: the driver has dealt with it.
    14: Xid("error injected for a test", "none"),
    37: Xid("error of the driver's firmware", "none"),
    38: Xid("timeout of the driver's firmware", "none"),
    44: Xid("fault of the graphics engine in a context switch", "none"),
    63: Xid("memory row remapped, or page retired", "none"),
    66: Xid("invalid access by the driver", "none"),
    67: Xid("invalid access by the driver", "none"),
    92: Xid("many corrected memory errors", "none"),
    93: Xid("write limit of the InfoROM reached", "none"),
    106: Xid("test message", "none"),
    107: Xid("test message", "none"),
    108: Xid("address translation of a remote GPU failed", "none"),
    121: Xid("corrected error of the link to the CPU", "none"),
    137: Xid("access to a remote GPU failed", "none"),
    157: Xid("a resource could not be retired", "none"),
    160: Xid("memory channel retired", "none"),
    161: Xid("memory channel could not be retired", "none"),
    # The GPU, its links or its machine failed.
    46: Xid("the GPU stopped processing", "reset"),
    48: Xid("uncorrectable memory error", "reset"),
    54: Xid("auxiliary power is not connected", "inspect"),
    62: Xid("the internal controller halted", "reset"),
    64: Xid("memory row could not be remapped, or page not retired", "reset"),
    74: Xid("NVLink error", "reset"),
    78: Xid("a vGPU did not start", "inspect"),
    79: Xid("the GPU has fallen off the bus", "node"),
    95: Xid("memory error not contained to one program", "reset"),
    110: Xid("security fault", "reset"),
    119: Xid("no answer of the GSP firmware", "reset"),
    120: Xid("error of the GSP firmware", "reset"),
    136: Xid("link training failed", "reset"),
    140: Xid("uncorrectable memory error", "reset"),
    143: Xid("the GPU could not be initialised", "reset"),
    **_numbered(range(144, 151), "NVLink error", "reset"),
    151: Xid("key rotation failed", "node"),
    154: Xid("the driver requires a recovery action", "reset"),
    155: Xid("NVLink error", "reset"),
    156: Xid("a resource was retired", "reset"),
    158: Xid("fatal timeout", "reset"),
    171: Xid("uncorrectable error of the memory", "reset"),
    172: Xid("uncorrectable error of a cache", "reset"),
}
"""by number"""

HARMLESS: Final = frozenset(number for number, xid in CATALOGUE.items() if xid.harmless)
"""the events after which a GPU works on"""

_ADVICE: Final[dict[Action, str]] = {
    "none": "no action is needed",
    "program": "restart the program",
    "reset": "reset the device",
    "node": "restart the node",
    "inspect": "check the machine",
}


def harmless_xids(ignored: Iterable[int] = (), fatal: Iterable[int] = ()) -> frozenset[int]:
    """The events after which a GPU works on, by the catalogue and the settings; `fatal` goes before `ignored`."""
    return (HARMLESS | frozenset(ignored)) - frozenset(fatal)


def xid_text(number: int) -> str:
    """The event in words, with what NVIDIA advises: `Xid 79 (the GPU has fallen off the bus; restart the node)`."""
    known = CATALOGUE.get(number)
    return f"Xid {number} ({known.meaning}; {_ADVICE[known.action]})" if known else f"Xid {number}"
