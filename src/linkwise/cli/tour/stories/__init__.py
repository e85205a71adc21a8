"""The stories of the tour, in the order in which they are told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from linkwise.cli.tour.stories import (
    bandwidth as story_bandwidth,
    cards as story_cards,
    device_failure as story_death,
    gang as story_group,
    links as story_links,
    packing as story_packing,
    rings as story_rings,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from linkwise.cli.tour.page import Page
    from linkwise.cli.tour.stage import Stage

__all__ = ["STORIES", "Story"]


@dataclass(frozen=True, slots=True)
class Story:
    """One of them."""

    name: str
    title: str
    tell: Callable[[Stage, Page], Awaitable[None]]
    """shows it on a stage while it happens, and makes its promises"""
    system: str = ""
    """whose story it is, where it is that of one of the five systems"""

    @property
    def heading(self) -> str:
        """Its title, and whose it is."""
        return f"{self.title} ({self.system})" if self.system else self.title


STORIES: Final = (
    Story("links", "Two machines, one with NVLinks", story_links.tell, "KEP-690, GPU topology aware"),
    Story("bandwidth", "Two pods that belong together", story_bandwidth.tell, "Koordinator"),
    Story("packing", "Ones that leave room for a two", story_packing.tell, "Kubernetes, GPU support"),
    Story("rings", "Rings that can't be crossed", story_rings.tell, "Volcano on Ascend 910"),
    Story("cards", "Parts of cards", story_cards.tell, "gpushare"),
    Story("death", "A device dies", story_death.tell),
    Story("group", "All or nothing", story_group.tell),
)
