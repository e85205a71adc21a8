"""Web page of a service on a port of this machine, until a signal."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING

from linkwise.assembly.cluster_reader import with_cluster
from linkwise.assembly.page_proxy import PageProxy
from linkwise.assembly.service_client import ServiceClient
from linkwise.net.http.server import Server, listen

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from linkwise.assembly.service_client import ServiceAddress
    from linkwise.kube.client.api import Connection

__all__ = ["serve_page"]


def serve_page(
    service: ServiceAddress, port: int, opened: Callable[[str], None], kubeconfig: Path | None, context: str | None
) -> None:
    """Serve the page until SIGINT or SIGTERM; `opened` is called with its address."""

    async def run(connection: Connection) -> None:
        proxy = PageProxy(ServiceClient(connection, service))
        await proxy.check()
        server = Server(proxy.application)
        with contextlib.closing(listen("127.0.0.1", port)) as listener:
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, server.stop)
            opened(f"http://127.0.0.1:{listener.getsockname()[1]}{proxy.path}")
            await server.serve(listener)

    with_cluster(kubeconfig, context, run)
