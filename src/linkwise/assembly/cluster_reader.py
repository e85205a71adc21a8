"""Reads a cluster once into a broker that answers as the service does.

Errors of the connection are reported with what to check.
"""

from __future__ import annotations

import asyncio
import gc
import os
import ssl
import time
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

import click

from linkwise.broker.broker import Broker
from linkwise.config.loading import load
from linkwise.errors import ClusterError, NotFoundError
from linkwise.explain.published.lists import named
from linkwise.explain.text.phrases import names_text
from linkwise.explain.workload import workload_names
from linkwise.kube.client.api import connect
from linkwise.kube.watch.list_once import list_all
from linkwise.net.http.client import NotSentError
from linkwise.wire.decoding import parse_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import TypeVar

    from linkwise.kube.client.api import Connection
    from linkwise.kube.watch.list_once import ClusterList

    T = TypeVar("T")

__all__ = ["ClusterReader", "read_cluster", "with_cluster"]


@dataclass(frozen=True, slots=True)
class ClusterReader:
    """A cluster as it is now."""

    broker: Broker
    now: float
    namespace: str
    """the one that is meant where none is named"""
    addresses: Mapping[str, str]
    """of nodes, by their names"""

    def node(self, name: str) -> str:
        """The name, if there is such a node."""
        return _known("node", name, list(self.broker.nodes))

    def pod(self, namespace: str, name: str) -> str:
        """The UID of a pod."""
        found = self.broker.find_pod(namespace, name)
        if found:
            return found
        pods = self.broker.pods.values()
        elsewhere = sorted(pod.namespace for pod in pods if pod.name == name)
        if elsewhere:
            raise NotFoundError(
                f"pod {namespace}/{name} not found; one of that name is in {names_text(elsewhere)}: use -n"
            )
        return _known(f"pod {namespace}/", name, [pod.name for pod in pods if pod.namespace == namespace])

    def workload(self, kind: str, namespace: str, name: str) -> str:
        """The name, if there is such a workload with pods."""
        names = workload_names(self.broker, kind, namespace)
        if name not in names:
            raise NotFoundError(f"no pods of {kind} {namespace}/{name} found{_hint(name, names)}")
        return name

    def policy(self, name: str) -> str:
        """The name, if there is such an AcceleratorPolicy."""
        return _known("AcceleratorPolicy", name, [report.policy.name for report in self.broker.policy_reports()])

    def group(self, namespace: str, name: str) -> str:
        """The key of a group, by its name or by the key itself."""
        keys = self.broker.group_keys()
        if name in keys:
            return name
        found = [key for key in keys if named(key) == (namespace, name)]
        if len(found) > 1:
            raise NotFoundError(f"{len(found)} groups are called {namespace}/{name}; name one of {names_text(found)}")
        names = {named(key)[1]: key for key in keys if named(key)[0] == namespace}
        return found[0] if found else names[_known(f"group {namespace}/", name, list(names))]


def read_cluster(kubeconfig: Path | None, context: str | None) -> ClusterReader:
    """Read the cluster; optional kinds that can't be read are reported as notes."""
    gc.disable()  # nothing of what is read is garbage, and the program ends soon
    settings = load(None, os.environ)

    async def work(connection: Connection) -> tuple[ClusterList, str]:
        return await list_all(connection), connection.namespace

    listed, namespace = with_cluster(kubeconfig, context, work)
    for problem in listed.problems:
        click.echo(f"note: {problem}", err=True)
    broker, now = Broker(settings.placing, parse_json), time.time()
    broker.observe(listed.events, now)
    broker.restore_plans(now)
    return ClusterReader(broker, now, namespace, listed.addresses)


def _known(what: str, name: str, names: Sequence[str]) -> str:
    if name in names:
        return name
    raise NotFoundError(f"{what}{'' if what.endswith('/') else ' '}{name} not found{_hint(name, names)}")


def _hint(name: str, names: Iterable[str]) -> str:
    all_names = sorted(names)
    near = get_close_matches(name, all_names, n=3, cutoff=0.6) or [found for found in all_names if name in found][:3]
    if near:
        return f"; did you mean {' or '.join(near)}?"
    return f"; there {'is' if len(all_names) == 1 else 'are'} {names_text(all_names)}" if all_names else ""


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
