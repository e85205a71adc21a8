"""Link score of a pair of devices.

Source: seed 000, "How to pick the best effort GPUs in one node"; the table is go-gpuallocator's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.model.link import Pcie

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from linkwise.model.link import Link
    from linkwise.model.topology import Matrix, Topology

__all__ = ["MAX_PAIR", "NVLINK_SCORE", "PCIE_SCORE", "display_score", "link_scores", "pair_score", "score_matrix"]

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
MAX_NVLINKS: Final = 18
MAX_PAIR: Final = NVLINK_SCORE * MAX_NVLINKS + PCIE_SCORE[Pcie.BOARD]  # 1860


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
