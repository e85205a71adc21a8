"""Something done with a cluster, and what to look at if that does not answer."""

from __future__ import annotations

import asyncio
import os
import ssl
from typing import TYPE_CHECKING, Final

from linkwise.errors import ClusterError
from linkwise.kube.client.api import connect
from linkwise.net.http_client import NotSentError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path
    from typing import TypeVar

    from linkwise.kube.client.api import Connection

    T = TypeVar("T")

__all__ = ["with_cluster"]

NOBODY: Final = (
    "is the cluster running? `kubectl config view` shows the address; --kubeconfig and --context name another cluster"
)


def with_cluster(kubeconfig: Path | None, context: str | None, work: Callable[[Connection], Awaitable[T]]) -> T:
    """Do something with a cluster; ClusterError says what to look at if it does not answer."""
    found: list[T] = []  # returned, asyncio would print it to itself when it ends

    async def done() -> None:
        connection = connect(kubeconfig, context)
        try:
            found.append(await work(connection))
        except NotSentError as error:
            raise ClusterError(f"{_plain(error)}; {NOBODY}") from error
        finally:
            await connection.close()

    asyncio.run(done())
    return found[0]


def _plain(error: NotSentError) -> str:
    """What it says, without the number and the call of the system that failed."""
    cause = error.__cause__
    if isinstance(cause, ssl.SSLError):  # whose numbers are of another list
        return str(error)
    if isinstance(cause, OSError) and cause.errno and cause.errno > 0:
        return str(error).replace(str(cause), os.strerror(cause.errno))
    return str(error)
