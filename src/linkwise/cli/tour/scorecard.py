"""Score card: one row per story, Linkwise against the topology-unaware scheduler, and the number of checks passed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.text import Text

from linkwise.cli.tour.page import BASELINE, Score, check_mark, plain_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from linkwise.cli.tour.page import Check, Page
    from linkwise.cli.tour.stories import Story

__all__ = ["RULE", "Result", "print_score_card"]

RULE: Final = (
    "Linkwise is compared with a topology-unaware scheduler, which gets the same pods in the same order and takes the "
    "node with the largest free fraction (ties: the first by name) and the lowest-numbered free devices there."
)
"""how the baseline decides: the comparison is fair only if readers know it"""
MIN_WIDTH: Final = 77
"""columns that the table needs for one line per story"""


@dataclass(frozen=True, slots=True)
class Result:
    """Outcome of a story."""

    story: Story
    checks: tuple[Check, ...]
    score: Score | None = None
    """None if the story was cut off by an error"""

    @property
    def passed(self) -> bool:
        """Whether the story came to its end and all its checks passed."""
        return self.score is not None and all(check.passed for check in self.checks)

    @property
    def failed(self) -> list[str]:
        """Claims of the checks that failed."""
        return [check.claim for check in self.checks if not check.passed]


def print_score_card(page: Page, results: Sequence[Result]) -> None:
    """Print the table, the number of checks passed and the claims that failed."""
    page.show(_table(page, results))
    page.console.print()
    page.console.print(Text(RULE, "dim"))
    page.console.print()
    checks = [check for result in results for check in result.checks]
    failed = [check.claim for check in checks if not check.passed]
    line = f"{len(checks) - len(failed)} of {len(checks)} checks passed on the running cluster"
    mark = check_mark(page.console, passed=not failed)
    page.console.print(Text.assemble(mark, " ", (f"{line}{'. Failed:' if failed else '.'}", mark.style)))
    for claim in failed:
        page.console.print(Text.assemble("  ", mark, f" {claim}"))


def _table(page: Page, results: Sequence[Result]) -> Table:
    """One row per story; on a narrow console what was measured is in the column of the story."""
    wide = page.width >= MIN_WIDTH
    table = plain_table("", "story", *(["measured"] if wide else []), "Linkwise", BASELINE)
    table.columns[-2].style = "bold green"
    for number, result in enumerate(results, 1):
        mark = Text.assemble(check_mark(page.console, passed=result.passed), f" {number}")
        score, feature = result.score or Score("-", "-", "-"), result.story.feature
        story = (feature, score.measured) if wide else (f"{feature}: {score.measured}",)
        table.add_row(mark, *story, score.linkwise, score.baseline)
    return table
