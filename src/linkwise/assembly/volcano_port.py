"""Port for Volcano's extender plugin, which can't present a client certificate: its calls and the probes, without TLS."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Final

from linkwise.net.http.server import Server, listen
from linkwise.serve.app import volcano_application

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from linkwise.config.settings import ServeSettings
    from linkwise.net.http.budget import Budget
    from linkwise.serve.service import Service

__all__ = ["VolcanoPort"]

log: Final = logging.getLogger("linkwise.serve")


class VolcanoPort:
    """The port of the setting volcano.port; `run` it until `stop` if it is `on`."""

    def __init__(
        self,
        settings: ServeSettings,
        service: Service,
        ready: Callable[[], Mapping[str, str]],
        notes: Callable[[], Sequence[str]],
        budget: Budget,
    ) -> None:
        self._host, self._port = settings.http.host, settings.volcano.port
        routes = volcano_application(service, ready, notes, settings.volcano.predicate_reply)
        self._server = Server(routes, budget=budget)
        self.on: Final = bool(self._port)

    async def run(self) -> None:
        """Answer Volcano."""
        with contextlib.closing(listen(self._host, self._port, "choose another with volcano.port")) as listener:
            log.info("port for Volcano listens on=http://%s:%s without TLS or identity", self._host, self._port)
            await self._server.serve(listener)

    def stop(self) -> None:
        """Answer the requests in flight, then stop."""
        self._server.stop()

    def end_connections(self) -> None:
        """Close connections after the requests that have begun."""
        self._server.end_connections()

    def abort(self) -> None:
        """Close all connections immediately."""
        self._server.abort()
