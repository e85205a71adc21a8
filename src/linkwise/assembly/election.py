"""Election, assembled: the elector of this replica, what it does when it takes over, and the way to it.

A standby is a service that has listed the cluster and waits: its broker observes, and decides nothing. It takes over as a
service starts: what it knows beside observed objects is forgotten, all pods are listed by a quorum read that begins after it
took the Lease, plans are recovered, and then calls are answered. A replica that has lost the Lease ends.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import socket
import uuid
from typing import TYPE_CHECKING, Final

from linkwise.config.rbac import TENANTS_PORT
from linkwise.errors import ClusterError
from linkwise.kube.client.api import FencedConnection
from linkwise.kube.client.kubeconfig import own_namespace
from linkwise.kube.leader.election import LeaseTimes
from linkwise.kube.leader.elector import Elector, LeaseObject
from linkwise.kube.leader.endpoint_slice import Endpoint, LeaderEndpoints, LeaderSlice
from linkwise.net.timing import Timing, boot_time
from linkwise.serve.service import LeaderStatus, collect_garbage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from linkwise.config.settings import LeaderSettings, ServeSettings
    from linkwise.kube.client.api import Connection
    from linkwise.kube.watch.watcher import Watching
    from linkwise.serve.service import Service

__all__ = ["Election", "service_ports"]

log: Final = logging.getLogger("linkwise.leader")

POLL: Final = 0.02  # seconds between looks at the elector
WARM_SECONDS: Final = 1.0
"""between two updates of a standby's inventories"""


def service_ports(settings: ServeSettings, port: int) -> dict[str, int]:
    """The ports of the Service by name, as this replica listens on them."""
    explain = settings.explain
    further = {"volcano": settings.volcano.port, TENANTS_PORT: explain.port if explain.tenants else 0}
    return {
        "https" if settings.tls.enabled else "http": port,
        **{name: number for name, number in further.items() if number},
    }


class Election:
    """The election of one replica.

    Args:
        settings: all settings of the service.
        connection: to the API server.
        timing: clocks and sleep; by default the clock of the fence goes on while the machine is suspended.
        environ: for the names that a pod gets: POD_NAME, POD_NAMESPACE, POD_IP.
    """

    def __init__(
        self,
        settings: ServeSettings,
        connection: Connection,
        timing: Timing | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        own, self._environ = settings.leader, os.environ if environ is None else environ
        self._all = settings
        self._settings = own
        self._timing = timing or Timing(clock=boot_time)
        self.namespace: Final = own.namespace or own_namespace(environ)
        self.elector: Final = Elector(
            LeaseObject(connection, self.namespace, own.lease),
            _identity(own, self._environ),
            LeaseTimes(own.lease_duration, own.renew_deadline, own.retry_period),
            self._timing,
        )
        self._unfenced = connection
        self.connection: Final = FencedConnection(connection, self.elector.guard)
        """writes only while this replica leads"""
        self.problem = ""
        """with the way to this replica"""
        self.takeover: float | None = None
        """seconds that it took to take over"""
        self._led_first = False
        """whether it held the Lease before the initial lists began, so that they show all that an earlier leader wrote"""

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems to show to operators while the service answers."""
        overdue = self.elector.refusal() if self.elector.leads and self.takeover is not None else ""
        stopped = f"nothing is decided: {overdue}" if overdue else self.elector.trouble
        return tuple(filter(None, (stopped, self.problem)))

    def status(self) -> LeaderStatus:
        """What this replica knows of the election."""
        elector = self.elector
        return LeaderStatus(
            enabled=True,
            lease=f"{self.namespace}/{self._settings.lease}",
            identity=elector.identity,
            leader=elector.leader,
            leads=elector.may_write(),
            refusal=elector.refusal(),
            transitions=elector.transitions,
            renewed=elector.age,
            takeover=self.takeover,
        )

    async def watch(self, watching: Watching) -> None:
        """Watch the cluster, as soon as the Lease was read: at the usual start, nothing has to be listed twice."""
        while not self.elector.attempts:  # noqa: ASYNC110 - it ends with the first request
            await asyncio.sleep(POLL)
        self._led_first = self.elector.leads
        await watching.run()

    async def take_over(self, service: Service, watching: Watching) -> None:
        """Stand by until this replica holds the Lease, then start the service; the initial lists are complete."""
        elector = self.elector
        if not elector.leads:
            await self._stand_by(service)
        began = self._timing.clock()
        if not self._led_first:
            await watching.list_pods()
            await service.start_over()
        await service.prepare()
        await service.recover()
        elector.fence.open = True
        service.start()
        self.takeover = self._timing.clock() - began
        log.info("leads lease=%s seconds=%.2f", elector.lease, self.takeover)

    async def _stand_by(self, service: Service) -> None:
        log.info("standby lease=%s leader=%s", self.elector.lease, self.elector.leader or "none")
        collect_garbage()
        updated = -math.inf
        while not self.elector.leads:
            if self._timing.clock() - updated >= WARM_SECONDS:
                await service.stand_by()
                updated = self._timing.clock()
            await asyncio.sleep(POLL)

    async def announce(self, port: int) -> None:
        """Write the EndpointSlice while this replica leads, and repair it; forever.

        First of all, an address in it that an earlier process had and this one has now is taken out.
        """
        if not self._settings.service:
            await asyncio.Event().wait()
            return
        address = self._settings.address or self._environ.get("POD_IP", "")
        if not address:
            raise ClusterError("leader.service needs the address of this replica: set leader.address or POD_IP")
        endpoint = Endpoint(address, service_ports(self._all, port), self._environ.get("POD_NAME", ""))
        # Endpoints are for the API server's proxy, which leads to pods only.
        kinds = (LeaderSlice, LeaderEndpoints) if endpoint.pod else (LeaderSlice,)
        place = self.namespace, self._settings.service, endpoint
        await self._withdraw([kind(self._unfenced, *place) for kind in kinds])
        ways = [kind(self.connection, *place) for kind in kinds]
        while True:
            if self.elector.may_write():
                await self._attempt([way.keep for way in ways])
                await self._timing.sleep(self._settings.retry_period)
            else:
                await asyncio.sleep(POLL)

    async def when_overdue(self, end: Callable[[], None]) -> None:
        """Call `end` whenever this replica, which led, may not write any more; forever."""
        while True:
            while not self.elector.may_write():
                await self._timing.sleep(self._settings.retry_period)
            while left := self.elector.left:
                await self._timing.sleep(left)
            end()

    async def _withdraw(self, ways: Sequence[LeaderSlice]) -> None:
        """Take the address of this replica out of the EndpointSlice, unless it leads by then."""
        while not self.elector.leads:
            if await self._attempt([way.withdraw for way in ways]):
                return
            await self._timing.sleep(self._settings.retry_period)

    async def _attempt(self, writes: Sequence[Callable[[], Awaitable[bool]]]) -> bool:
        """Whether all succeeded; why not is kept in `problem`."""
        try:
            for write in writes:
                await write()
        except ClusterError as error:
            if str(error) != self.problem:
                log.warning("%s", error)
            self.problem = str(error)
            return False
        self.problem = ""
        return True


def _identity(settings: LeaderSettings, environ: Mapping[str, str]) -> str:
    """The name of this process in the Lease; no other has it, not even after a restart."""
    name = settings.identity or environ.get("POD_NAME", "") or socket.gethostname()
    return f"{name}_{uuid.uuid4().hex[:12]}"
