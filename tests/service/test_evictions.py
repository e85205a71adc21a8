"""Evictions that the service decides on, and what becomes of those that are not carried out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Evict
from linkwise.serve.metrics import Counting
from linkwise.serve.service import Service
from linkwise.testing.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.broker.effects import Effect
    from linkwise.broker.watch_events import WatchEvent

EVICT = Evict("team", "a", "u-a", "it is bound in vain")


class Evicting(Broker):
    """Evicts one pod at whatever it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.given_up: list[str] = []

    def observe(self, sights: Iterable[WatchEvent], now: float) -> tuple[Effect, ...]:
        del sights, now
        return (EVICT,)

    def not_evicted(self, uid: str, now: float) -> tuple[Effect, ...]:
        self.given_up.append(uid)
        return super().not_evicted(uid, now)


def observed(*, refusal: str = "") -> tuple[Evicting, Recorder]:
    broker, performer = Evicting(), Recorder()
    service = Service(broker, performer, Counting(), lambda: refusal, clock=lambda: 1.0)
    service.synced = True
    service.observe([])
    return broker, performer


def test_a_replica_that_leads_carries_evictions_out() -> None:
    broker, performer = observed()
    assert (broker.given_up, performer.effects) == ([], [EVICT])


def test_effects_of_a_leader_that_cannot_renew_its_lease_wait_in_the_queue_whose_connection_is_fenced() -> None:
    broker, performer = observed(refusal="the Lease was not renewed")
    assert (broker.given_up, performer.effects) == ([], [EVICT])
