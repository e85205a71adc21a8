"""Further port of the service: an application of its own beside that of http.port, at the same address."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Final

from linkwise.net.http.server import Server, listen

if TYPE_CHECKING:
    import ssl

    from linkwise.net.http.budget import Budget
    from linkwise.net.http.routes import Routes

__all__ = ["FurtherPort"]

log: Final = logging.getLogger("linkwise.serve")


class FurtherPort:
    """The port of a setting, such as volcano.port; `run` it until `stop` if it is `on`."""

    def __init__(  # noqa: PLR0913 - what a port has
        self, setting: str, host: str, port: int, routes: Routes, *, budget: Budget, tls: ssl.SSLContext | None = None
    ) -> None:
        self.name: Final = setting
        self.on: Final = bool(port)
        self._host, self._port = host, port
        self._scheme = "https" if tls else "http"
        self._server = Server(routes, tls=tls, budget=budget)

    async def run(self) -> None:
        """Answer."""
        with contextlib.closing(listen(self._host, self._port, f"choose another with {self.name}")) as listener:
            without = " without TLS or identity" if self._scheme == "http" else ""
            log.info("%s listens on=%s://%s:%s%s", self.name, self._scheme, self._host, self._port, without)
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
