"""Points for a pair of devices by how they are linked.

Source: seed 000, "How to pick the best effort GPUs in one node"; the table is go-gpuallocator's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.model.link import Pcie

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from linkwise.model.link import Link
    from linkwise.model.topology import Matrix, Topology

__all__ = ["MAX_PAIR", "PCIE_SCORE", "display_score", "link_scores", "pair_score", "score_matrix"]

# rule 000.scores: the PCIe path and the NVLinks of a pair both count, and add up.
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
    """Points of one pair; a path hidden behind NVLinks counts as the longest, SYS."""
    # rule 000.nvswitch: a switch is not told apart; what the tool printed for the pair is what counts.
    pcie = Pcie.SYS if link.half_known else link.pcie
    return NVLINK_SCORE * min(link.direct, MAX_NVLINKS) + PCIE_SCORE[pcie]


def score_matrix(topology: Topology, points: Callable[[Link], int] = pair_score) -> Matrix:
    """Points of every pair; where the two directions differ, the fewer."""
    return link_scores(topology.links, points)


def link_scores(links: Sequence[Sequence[Link]], points: Callable[[Link], int] = pair_score) -> Matrix:
    """The same of links alone."""
    rows = tuple(tuple(map(points, row)) for row in links)
    return tuple(tuple(map(min, row, column)) for row, column in zip(rows, zip(*rows, strict=True), strict=True))


def display_score(score: float, size: int) -> float:
    """A set's score as 0 to 100 of the most that so many devices could have; one device has no pairs: 0."""
    # rule 000.normalise: by 1860 a pair and with its fraction, for people; never used to compare.
    pairs = size * (size - 1) // 2
    return 100 * score / (pairs * MAX_PAIR) if pairs else 0.0
