"""Cluster files: a snapshot of the service, or a list that kubectl printed."""

from __future__ import annotations

import sys
from pathlib import Path

from linkwise.broker.broker import Broker
from linkwise.broker.snapshot import BrokerState
from linkwise.cli.options.files import file_name
from linkwise.errors import InputError
from linkwise.wire.snapshot import decode_snapshot

__all__ = ["load_broker"]


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
        raise InputError(f"{name}: it is no JSON; `kubectl get nodes,pods -A -o json` prints what is read here")
    try:
        snapshot = decode_snapshot(content, BrokerState)
        return Broker.restore(snapshot), snapshot.now
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
