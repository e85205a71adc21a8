"""A service that kube-scheduler asks, with whatever settings and over whatever line a test wants."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from support.e2e.pod_objects import device_definition
from support.e2e.scheduler import Serve

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from support.e2e.cluster import Cluster

__all__ = ["answering", "answering_for_koordinator", "printed"]


@contextmanager
def answering(
    cluster: Cluster, name: str, *, kubeconfig: Path | None = None, configuration: Mapping[str, object] | None = None
) -> Iterator[Serve]:
    """A service of the user linkwise under the shipped role, which outlasts a clearing; kube-scheduler asks it."""
    role = printed("manifests", "rbac", "--user", "linkwise", "--name", f"e2e-{name}")
    cluster.apply(role, "kube-system")
    serve = Serve(
        kubeconfig or cluster.kubeconfig("linkwise"), cluster.folder, name=f"serve-{name}", configuration=configuration
    )
    try:
        serve.start()
        way = ["--kubeconfig", str(cluster.kubeconfig("scheduler")), "--no-leader-elect"]
        cluster.scheduler.run(printed("config", "scheduler", "--url", serve.url, "--default-scheduler", *way))
        yield serve
    finally:
        cluster.scheduler.stop()
        serve.stop()
        cluster.kubectl("delete", "--ignore-not-found", "--filename", "-", stdin=role)


@contextmanager
def answering_for_koordinator(cluster: Cluster, name: str) -> Iterator[Serve]:
    """The same with Koordinator's kind of objects, which is looked for when the service starts."""
    cluster.define(device_definition())
    try:
        with answering(cluster, name) as serve:
            yield serve
    finally:
        cluster.undefine(device_definition())


def printed(*words: str) -> str:
    """What the command line prints."""
    command = [sys.executable, "-m", "linkwise", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
