"""Device taints as faults: why a device is out of use, since when, and by which taint.

Drivers report the health of devices by taints, as NVIDIA's does; administrators and controllers by DeviceTaintRules. A taint
without an effect on claims leaves a device in use. If a vendor has given it a meaning, the node has a warning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.model.verdict import Problem
from linkwise.vendors.device_taints import taint_meaning

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.dialects.kubernetes.claims.taints import Taint

__all__ = ["fault_of", "taint_warnings"]


def fault_of(taints: Iterable[Taint]) -> str:
    """Why a device with these taints is out of use; empty if it is not."""
    return "; ".join(_sentence(taint) for taint in taints if taint.blocks)


def taint_warnings(node: str, tainted: Iterable[tuple[str, Iterable[Taint]]]) -> list[Problem]:
    """Warnings of vendors about devices that stay in use, one per meaning; given their names with their taints."""
    names: dict[tuple[str, str], list[str]] = {}
    for name, taints in tainted:
        for taint in taints:
            if not taint.blocks and (meaning := taint_meaning(taint.key, taint.value)):
                names.setdefault((taint.key, meaning), []).append(name)
    return [
        Problem(
            f"node {node}", key, f"device{'s' if len(which) > 1 else ''} {', '.join(which)}: {meaning}; still in use"
        )
        for (key, meaning), which in names.items()
    ]


def _sentence(taint: Taint) -> str:
    meaning = taint_meaning(taint.key, taint.value)
    return f"{meaning}, {taint}" if meaning else str(taint)
