"""The stage of the tour, raised and taken down."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from linkwise.assembly.local_cluster import LocalCluster
from linkwise.cli.tour.nodes import tour_nodes
from linkwise.cli.tour.stage import Stage
from linkwise.config.settings import HttpSettings, ServeSettings
from linkwise.embedded.cluster import ClusterSettings
from linkwise.embedded.nodes.kubelet import SimulationSettings
from linkwise.embedded.scheduler.queue import QueueSettings
from linkwise.embedded.scheduler.scheduler import SchedulerSettings
from linkwise.model.settings import PlacingSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["raised_stage"]

_QUICK: Final = ClusterSettings(
    scheduler=SchedulerSettings(queue=QueueSettings(first=0.05, most=0.5)),
    simulation=SimulationSettings(start=0.02, stop=0.02, job=24 * 3600.0, restart=1.0),
)
"""a cluster whose containers start at once, and whose jobs run for as long as anybody looks at them"""


@contextlib.asynccontextmanager
async def raised_stage(placing: PlacingSettings | None = None) -> AsyncIterator[Stage]:
    """The fleet of the tour, with the chip that is faulty from the start; `placing` is how the service answers."""
    service = ServeSettings(http=HttpSettings(port=0), placing=placing or PlacingSettings())
    async with LocalCluster({}, service, _QUICK) as local:
        stage = Stage(local)
        stage.names.extend(local.cluster.nodes.add_node(objects) for objects in tour_nodes())
        stage.kill_device("atlas-2", 7)
        await stage.seen()
        yield stage
