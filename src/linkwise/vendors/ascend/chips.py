"""Names and states of Ascend chips, as Huawei's tools and its device plugin have them."""

from __future__ import annotations

from typing import Final

__all__ = ["HEALTH_STATES", "NETWORK_STATES", "chip_name", "is_usable"]

HEALTH_STATES: Final = {0: "OK", 1: "Warning", 2: "Alarm", 3: "Critical", 0xFFFFFFFF: "absent"}
"""by the number of DCMI: the words of `npu-smi info`"""
_USABLE: Final = frozenset({0, 1})
"""with a warning a chip computes on, and Huawei's device plugin keeps it allocatable"""

NETWORK_STATES: Final = {
    1: "the socket can't be opened",
    2: "no reply was received in time",
    3: "the destination is unreachable",
    4: "the time to live was exceeded",
    5: "the detection failed",
    7: "the detection thread failed",
    8: "its address is being set",
}
"""by the number of DCMI: states in which other machines can't reach a chip; others, 0 (OK) and 6 (starting), are fine"""


def chip_name(model: str, number: int) -> str:
    """The name of a chip in the lists of Huawei's tools: `Ascend910-3` for the fourth chip of any 910."""
    kind = "Ascend310P" if "310P" in model else "Ascend310" if "310" in model else "Ascend910"
    return f"{kind}-{number}"


def is_usable(health: int) -> bool:
    """Whether a chip in this state of health can be allocated."""
    return health in _USABLE
