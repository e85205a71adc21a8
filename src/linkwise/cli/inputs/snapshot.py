"""Clusters to plan and replay on: a snapshot of the service, a list that kubectl printed, or the current cluster."""

from __future__ import annotations

import sys
from pathlib import Path

from linkwise.broker.broker import Broker
from linkwise.broker.snapshot import BrokerState
from linkwise.cli.options.io import file_name
from linkwise.errors import ClusterError, InputError
from linkwise.wire.snapshot import decode_snapshot

__all__ = ["current_cluster", "load_broker"]


def current_cluster(kubeconfig: Path | None, context: str | None, instead: str) -> tuple[Broker, float]:
    """A broker with the state of the cluster that the kubeconfig names, and the time; ClusterError says what to do instead."""
    from linkwise.assembly.cluster_reader import read_cluster  # noqa: PLC0415 - imports the client

    try:
        reader = read_cluster(kubeconfig, context)
    except ClusterError as error:
        raise type(error)(f"{error}; {instead}") from error
    return reader.broker, reader.now


def load_broker(file: str) -> tuple[Broker, float]:
    """A broker with the state of the file, and its time; `-` is standard input. InputError names the file."""
    name = file_name(file)
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}") from error
    if not content.strip():
        raise InputError(f"{name}: it is empty")
    if not content.lstrip().startswith((b"{", b"[")):
        raise InputError(f"{name}: it is not JSON; `kubectl get nodes,pods -A -o json` prints what is read here")
    try:
        snapshot = decode_snapshot(content, BrokerState)
        return Broker.restore(snapshot), snapshot.now
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
