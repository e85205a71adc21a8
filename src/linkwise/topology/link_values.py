"""Link values: the score of a link and, if nothing was measured, its typical bandwidth by generation.

Source of the scores: seed 000, "How to pick the best effort GPUs in one node"; the table is go-gpuallocator's.

Bandwidths are those of a bidirectional test between idle devices, about 96% of the nominal rate for NVLinks; the PCIe
steps between switch and CPU interconnect are approximate. Their order is right; use them to compare kinds only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from linkwise.errors import InputError
from linkwise.model.link import Pcie

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from linkwise.model.link import Link
    from linkwise.model.topology import Matrix, Topology

__all__ = [
    "MAX_PAIR",
    "NVLINK_SCORE",
    "PCIE_SCORE",
    "LinkGeneration",
    "display_score",
    "link_scores",
    "link_value",
    "pair_score",
    "score_matrix",
    "weight",
]

# rule 000.scores: the scores of the PCIe path and of the NVLinks of a pair add up.
PCIE_SCORE: Final = {
    Pcie.UNKNOWN: 0,
    Pcie.SYS: 10,
    Pcie.NODE: 20,
    Pcie.PHB: 30,
    Pcie.PXB: 40,
    Pcie.PIX: 50,
    Pcie.BOARD: 60,
}
NVLINK_SCORE: Final = 100
MAX_NVLINKS: Final = 18  # of one GPU, since Hopper
MAX_PAIR: Final = NVLINK_SCORE * MAX_NVLINKS + PCIE_SCORE[Pcie.BOARD]  # 1860
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


def pair_score(link: Link) -> int:
    """Score of one pair; a PCIe path hidden behind NVLinks counts as the longest, SYS."""
    # rule 000.nvswitch: switched links are not distinguished; the code that the tool prints decides.
    pcie = Pcie.SYS if link.half_known else link.pcie
    return NVLINK_SCORE * min(link.direct, MAX_NVLINKS) + PCIE_SCORE[pcie]


def score_matrix(topology: Topology, points: Callable[[Link], int] = pair_score) -> Matrix:
    """Score of every pair; the lower one if the two directions differ."""
    return link_scores(topology.links, points)


def link_scores(links: Sequence[Sequence[Link]], points: Callable[[Link], int] = pair_score) -> Matrix:
    """`score_matrix` for a matrix of links."""
    rows = tuple(tuple(map(points, row)) for row in links)
    return tuple(tuple(map(min, row, column)) for row, column in zip(rows, zip(*rows, strict=True), strict=True))


def display_score(score: float, size: int) -> float:
    """A set's score in percent of the highest possible for its size; 0 for a single device, which has no pairs."""
    # rule 000.normalise: relative to 1860 per pair, for display only; never used in comparisons.
    pairs = size * (size - 1) // 2
    return 100 * score / (pairs * MAX_PAIR) if pairs else 0.0


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
