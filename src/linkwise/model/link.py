"""How two devices of one machine reach each other."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from linkwise.errors import TopologyError

__all__ = ["SELF", "UNKNOWN_LINK", "Link", "Pcie"]

_NVLINKS: Final = re.compile(r"NV([0-9]{1,3})")


class Pcie(IntEnum):
    """The PCIe path between two devices, the longest first; names as topology tools print them."""

    UNKNOWN = 0
    SYS = 1
    """across the CPU interconnect (SOC in old drivers)"""
    NODE = 2
    """across host bridges of one CPU"""
    PHB = 3
    """through one host bridge"""
    PXB = 4
    """through several PCIe switches"""
    PIX = 5
    """through one PCIe switch"""
    BOARD = 6
    """on one board"""


_PCIE_NAMES: Final = {kind.name: kind for kind in Pcie if kind} | {"SOC": Pcie.SYS}


@dataclass(frozen=True, slots=True, order=True)
class Link:
    """The direct links and the PCIe path of a pair, kept apart: scores are derived from both.

    Tools that print `NV2` hide the PCIe path beside it; then `pcie` is UNKNOWN. Links order from slow to fast.
    """

    nvlinks: int = 0
    pcie: Pcie = Pcie.UNKNOWN

    @classmethod
    def parse(cls, text: str) -> Link:
        """Read one cell: `NV2`, `PHB`, `SOC`, or both with a plus sign, `NV2+PHB`; `?` is unknown."""
        # rule 000.links: the kinds a topology tool prints, and nothing is guessed.
        nvlinks, pcie = 0, Pcie.UNKNOWN
        if text.strip() in {"?", "N/A"}:
            return UNKNOWN_LINK
        for part in text.strip().upper().split("+"):
            if found := _NVLINKS.fullmatch(part):
                nvlinks = int(found[1])
            elif part in _PCIE_NAMES:
                pcie = _PCIE_NAMES[part]
            else:
                kinds = ", ".join(kind.name for kind in Pcie if kind)
                raise TopologyError(f"link {text!r} is not a kind we know: NV1, NV2, ..., {kinds}, or NV2+PHB")
        return cls(nvlinks, pcie)

    @property
    def half_known(self) -> bool:
        """Whether direct links hide the PCIe path; where nodes are compared it counts as SYS."""
        return self.nvlinks > 0 and self.pcie is Pcie.UNKNOWN

    def __str__(self) -> str:
        parts = ([f"NV{self.nvlinks}"] if self.nvlinks else []) + ([self.pcie.name] if self.pcie else [])
        return "+".join(parts) or "?"


UNKNOWN_LINK: Final = Link()
"""Nothing is known of the pair; it scores 0 and stays feasible."""

SELF: Final = UNKNOWN_LINK
"""What stands on the diagonal of a link matrix; it is never read."""
