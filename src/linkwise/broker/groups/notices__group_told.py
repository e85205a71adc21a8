"""What members were told while their group was not ready to be planned, and the news for them when it is refused.

A scheduler tells a pod why it has no node when it tries it. Who was tried early would go on reading that members are
missing, though all are there and do not fit: nobody tries a pod again for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.broker.effects import Event
from linkwise.broker.groups.bundles import mates_of
from linkwise.engine.reasons.catalog import refusal, short_refusal

if TYPE_CHECKING:
    from linkwise.broker.state import State
    from linkwise.model.verdict import Reason

__all__ = ["WAITS", "answered", "asked_again", "in_vain", "not_ready"]

WAITS: Final = "GroupWaits"
"""the word for what is told of a group that is not ready"""


def not_ready(state: State, key: str, uid: str, reason: Reason) -> None:
    """A member is told what its group waits for."""
    state.groups.told.setdefault(key, {})[uid, WAITS] = short_refusal(reason)


def answered(state: State, key: str, uid: str) -> None:
    """A member is told something else."""
    told = state.groups.told.get(key, {})
    if told.pop((uid, WAITS), "") and not told:
        del state.groups.told[key]


def asked_again(state: State, key: str) -> None:
    """All members are woken, and are told then how things are."""
    for uid, word in list(state.groups.told.get(key, ())):
        if word == WAITS:
            answered(state, key, uid)


def in_vain(state: State, key: str, reason: Reason) -> tuple[Event, ...]:
    """The group was planned in vain: members that were told before that it is not ready read so, once."""
    return tuple(event for mate in mates_of(state, key) for event in _events(state, mate, reason))


def _events(state: State, key: str, reason: Reason) -> list[Event]:
    told, found = state.groups.told.get(key), state.groups.gather(key)
    if not told or not found:
        return []
    stale = [pod for pod in found.waiting if (pod.uid, WAITS) in told]
    asked_again(state, key)
    sentence = f"its group was tried: {refusal(reason)}; what would help: linkwise explain group/{key}"
    return [Event("Warning", "GroupDoesNotFit", sentence, pod.namespace, pod.name, pod.uid) for pod in stale]
