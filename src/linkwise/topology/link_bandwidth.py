"""Typical bandwidth of a link kind by generation of NVLink and PCIe, used if nothing was measured.

The numbers are those of a bidirectional test between idle devices, about 96% of the nominal rate for NVLinks; the PCIe
steps between switch and CPU interconnect are approximate. Their order is right; use them to compare kinds only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from linkwise.errors import InputError
from linkwise.model.link import Pcie

if TYPE_CHECKING:
    from linkwise.model.link import Link

__all__ = ["LinkGeneration", "link_value", "weight"]

NVLINK_VALUE: Final = {1: 38.0, 2: 48.0, 3: 48.0, 4: 48.0, 5: 96.0}  # GB/s of one link, both directions
PCIE_LANES: Final = {3: 1, 4: 2, 5: 4, 6: 8}  # speed relative to the third generation
PCIE_VALUE: Final = {  # GB/s of 16 lanes of the third generation, both directions
    Pcie.UNKNOWN: 0.0,
    Pcie.SYS: 16.0,
    Pcie.NODE: 18.0,
    Pcie.PHB: 20.0,
    Pcie.PXB: 22.0,
    Pcie.PIX: 24.0,
    Pcie.BOARD: 26.0,
}


@dataclass(frozen=True, slots=True)
class LinkGeneration:
    """NVLink and PCIe generation of a machine."""

    nvlink: int = 2
    pcie: int = 3

    def __post_init__(self) -> None:
        """Reject unknown generations."""
        for what, generation, known in (
            ("NVLink", self.nvlink, NVLINK_VALUE),
            ("PCIe", self.pcie, PCIE_LANES),
        ):
            if generation not in known:
                raise InputError(f"{what} generation {generation} is unknown; use one of {', '.join(map(str, known))}")


_DEFAULT: Final = LinkGeneration()


def link_value(link: Link, generation: LinkGeneration = _DEFAULT) -> float:
    """GB/s of a pair: the sum of its NVLinks, or its PCIe path if it has none."""
    if link.direct:
        return link.direct * NVLINK_VALUE[generation.nvlink]
    return PCIE_VALUE[link.pcie] * PCIE_LANES[generation.pcie]


def weight(link: Link, generation: LinkGeneration) -> int:
    """Score of a pair by generation: rounded GB/s of its NVLinks and its PCIe path together."""
    # rule 000.generation: an alternative to the compatible scores, used only on request.
    pcie = Pcie.SYS if link.half_known else link.pcie
    nvlinks = link.direct * NVLINK_VALUE[generation.nvlink]
    return round(nvlinks + PCIE_VALUE[pcie] * PCIE_LANES[generation.pcie])
