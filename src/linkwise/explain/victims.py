"""Pods that are evicted for a waiting pod or its group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.broker.holding.evictions import of_preemptor
from linkwise.explain.reports import Leaver

if TYPE_CHECKING:
    from linkwise.broker.broker import Broker

__all__ = ["victims_of"]


def victims_of(
    broker: Broker, uid: str, now: float, readable: frozenset[str] | None = None
) -> tuple[str, tuple[Leaver, ...]]:
    """Return the sentence about evictions for a pod, and the pods whose end is awaited; empty if there are none."""
    state = broker.state_at(now, readable)
    key = state.groups.key_of(uid) or uid
    record = state.preemptions.records.get(key)
    if record is None:
        return "", ()
    return of_preemptor(state, key), tuple(_leaver(broker, victim, state.name_of(victim)) for victim in record.victims)


def _leaver(broker: Broker, uid: str, name: str) -> Leaver:
    entry = broker.entry(uid)
    return Leaver(uid, name, len(entry.grant.offer.devices) if entry else 0, terminating=True)
