"""Stories of the demo, in the order in which they are shown: the strongest first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from linkwise.cli.tour.stories.claims import run_claims
from linkwise.cli.tour.stories.jobs import run_failure, run_gang
from linkwise.cli.tour.stories.linked_devices import run_bandwidth, run_links, run_rings
from linkwise.cli.tour.stories.shares import run_cards, run_packing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from linkwise.cli.tour.page import Page, Score
    from linkwise.cli.tour.stage import Stage

__all__ = ["STORIES", "Story"]


@dataclass(frozen=True, slots=True)
class Story:
    """A story of the demo."""

    name: str
    feature: str
    """what it demonstrates: its name on the score card"""
    title: str
    run: Callable[[Stage, Page], Awaitable[Score]]
    """acts on the cluster, prints what happens, checks its claims and returns its figure"""

    @property
    def heading(self) -> str:
        """Feature and title."""
        return f"{self.feature}: {self.title}"


STORIES: Final = (
    Story("bandwidth", "Bandwidth", "two pods that belong together", run_bandwidth),
    Story("failure", "Device failure", "a GPU fails under a running job", run_failure),
    Story("gang", "Gang", "all pods start, or none", run_gang),
    Story("claims", "ResourceClaims", "the same request, by first fit and by plan", run_claims),
    Story("links", "Link scoring", "two nodes, one of them with NVLink", run_links),
    Story("rings", "Ascend rings", "chips that must be in one ring", run_rings),
    Story("cards", "GPU share", "several pods on one GPU", run_cards),
    Story("packing", "Packing", "small pods leave space for a larger one", run_packing),
)
