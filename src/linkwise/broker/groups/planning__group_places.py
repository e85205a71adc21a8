"""The devices of a member that is gone, kept for a moment: who comes in its place belongs to the same group."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.engine.ledger import Entry

if TYPE_CHECKING:
    from linkwise.broker.groups.registry import Gathered
    from linkwise.broker.state import State
    from linkwise.model.verdict import Grant

__all__ = ["give_up_places", "keep_places", "note_empty", "unclaimed"]


def note_empty(state: State, key: str, uid: str, before: Entry | None) -> None:
    """A member was seen that had devices before: it may have left them."""
    if key and before and before.state in {"ASSIGNED", "RELEASING"} and state.cluster.ledger.get(uid) is None:
        state.groups.empty.append((key, before.grant))


def keep_places(state: State, now: float) -> None:
    """Hold places that were left since this was last done, and let those go whose time is over."""
    empty, state.groups.empty = state.groups.empty, []
    for key, grant in empty:
        found = state.groups.gather(key)
        if found and _lacks_members(found) and grant.offer.node in state.cluster.nodes and unclaimed(state, grant):
            _keep(state, key, grant, now)
    for key, (until, _) in list(state.groups.places.items()):
        kept = now < until <= now + state.settings.group.grace  # else it is over, or the clock was set back
        if not kept or state.groups.gather(key) is None:
            give_up_places(state, key)


def give_up_places(state: State, key: str) -> None:
    """The group is planned, or nobody came."""
    _, pods = state.groups.places.pop(key, (0.0, ()))
    state.cluster.ledger.drop([pod for pod in pods if state.cluster.ledger.get(pod)])


def unclaimed(state: State, grant: Grant) -> bool:
    """Whether there are devices, and nobody else was promised any of them."""
    own = set(grant.offer.devices)
    entries = state.cluster.ledger.on(grant.offer.node)
    return bool(own) and not any(own & set(entry.grant.offer.devices) for entry in entries)


def _keep(state: State, key: str, grant: Grant, now: float) -> None:
    pod, until = f"{grant.pod}/place", now + state.settings.group.grace
    stock = state.cluster.stocks.get(grant.offer.node)
    entry = Entry(replace(grant, pod=pod), "PLANNED", expires=until)
    state.cluster.ledger.plan([entry], stock.allocations if stock else ())
    _, others = state.groups.places.get(key, (0.0, ()))
    state.groups.places[key] = (until, (*others, pod))


def _lacks_members(found: Gathered) -> bool:
    return found.group.total is not None and 0 < found.seen < found.group.total
