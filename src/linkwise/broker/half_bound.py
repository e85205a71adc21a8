"""Gangs that are stuck halfway: some members are bound and run in vain, the others found no place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.broker.effects import Event

if TYPE_CHECKING:
    from linkwise.broker.group_book import Gathered
    from linkwise.broker.state import State

__all__ = ["half_bound"]


def half_bound(state: State, found: Gathered | None) -> list[Event]:
    """A strict gang of which some are bound and too few can be: said once, to those that are bound."""
    if found is None or found.group.minimum is None or not found.group.strict:
        return []
    bound = [pod for pod in found.bound if (seen := state.cluster.pods.get(pod.uid)) and seen.node]
    key, least, there = found.group.key, found.group.minimum, len(bound)
    only_waiting = found.group.match_policy == "only-waiting"
    started = key in state.groups.satisfied or only_waiting or len(found.bound) >= least
    if started or not there or key in state.groups.halved:
        return []
    state.groups.halved[key] = None
    sentence = (
        f"{there} {'members of its gang are' if there > 1 else 'member of its gang is'} bound and {least} must start "
        "together; "
        "the others found no place in time: make room, or delete the gang's pods"
    )
    return [Event("Warning", "GangHalfBound", sentence, pod.namespace, pod.name, pod.uid) for pod in bound]
