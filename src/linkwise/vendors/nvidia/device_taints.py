"""Device taints of NVIDIA's DRA driver: what it found out about the health of a GPU.

Which events make a GPU unusable is decided by the driver: it gives the others the effect None.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.vendors.nvidia.xid import xid_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["TAINTS"]


def _xid(value: str) -> str:
    return xid_text(int(value)) if value.isascii() and value.isdecimal() and len(value) <= 4 else "an Xid event"


TAINTS: Final[Mapping[str, Callable[[str], str]]] = {
    "gpu.nvidia.com/xid": _xid,
    "gpu.nvidia.com/gpu-lost": lambda _: "the driver lost the GPU",
    "gpu.nvidia.com/unmonitored": lambda _: "the driver can't watch the health of the GPU",
}
"""what a taint says, by its key; called with its value"""
