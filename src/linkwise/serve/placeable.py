"""Pods that could be placed now, by model and number of devices, for metrics.

Counted in slices after a scrape, for the next one: on a large cluster it takes longer than a scrape may keep the loop.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from linkwise.views.cluster import ClusterView
from linkwise.views.page.cluster import model_fits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkwise.serve.explanations.explainer import Explainer

__all__ = ["Placeable"]

log: Final = logging.getLogger(__name__)

DEFAULT: Final = "default"
"""the namespace whose pods are counted, as for `linkwise get capacity`"""


class Placeable:
    """The counts of the last scrape; `run` it next to the service.

    Args:
        explainer: counts in slices.
        leads: whether this replica decides.
    """

    def __init__(self, explainer: Explainer, leads: Callable[[], bool]) -> None:
        self._explainer: Final = explainer
        self._leads: Final = leads
        self._scraped: Final = asyncio.Event()
        self._seen = -1
        self.pods: Mapping[tuple[str, str], int] = {}
        """by model and number of devices"""

    def scraped(self) -> Mapping[tuple[str, str], int]:
        """Return the counts, and have them counted again."""
        self._scraped.set()
        return self.pods if self._leads() else {}

    async def run(self) -> None:
        """Count after each scrape, if anything has changed."""
        while True:
            await self._scraped.wait()
            self._scraped.clear()
            changes = self._explainer.broker.device_changes
            if not self._leads() or changes == self._seen:
                continue
            try:
                pods = await self._explainer.once(self._count)
            except Exception:
                log.exception("placeable pods not counted (a bug in Linkwise)")
                continue
            if pods is not None:
                self.pods, self._seen = pods, changes

    def _count(self) -> dict[tuple[str, str], int]:
        cluster = ClusterView(self._explainer.broker, self._explainer.clock(), DEFAULT, is_service=True)
        return {(fit.model, size): pods for fit in model_fits(cluster) for size, pods in fit.fits.items()}
