"""A grant in the words of the system that was asked, beside our own record.

Devices of a pod's group that its containers may see, so that they reach each other without copies through the host.

Isolation among members is by environment alone, so that it takes a wish of the pod, and one owner.
"""
# Joined from writing, group_siblings: one docstring for all.

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.effects import Event
from linkwise.dialects.groups.membership import NAME as GROUP_NAME
from linkwise.dialects.koordinator.allocation import seed_text, visible
from linkwise.dialects.koordinator.dialect import wants_siblings
from linkwise.dialects.linkwise.dialect import Linkwise
from linkwise.dialects.registry import DIALECTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.broker.state import State
    from linkwise.dialects.dialect import Writing
    from linkwise.engine.ledger import Entry
    from linkwise.model.views import PodView

__all__ = ["Writer", "blind_siblings", "visible_to"]

LATEST: Final = 9e9  # seconds since the epoch; in nanoseconds 64 bits hold little more
_BY_NAME: Final = {dialect.name: dialect for dialect in DIALECTS}


class Writer:
    """Writes grants; the times it gives are different and increase on each node, whatever the clock does."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def annotations(self, writing: Writing, dialect: str, now: float) -> dict[str, str]:
        """All keys to write on the pod, with a time of their own."""
        node = writing.grant.offer.node
        time = self._last[node] = max(int(1e9 * min(LATEST, max(0.0, now))), self._last.get(node, 0) + 1)
        writing = replace(writing, now=time)
        keys = {**_BY_NAME[dialect].write(writing), **_BY_NAME[Linkwise.name].write(writing)}
        # rule 001.record: a pod with the labels of the seed's groups is told in its words, whatever it asks in.
        return {**(seed_text(writing) if GROUP_NAME in writing.pod.labels else {}), **keys}

    def forget(self, node: str) -> None:
        """The node is gone."""
        self._last.pop(node, None)

    def times(self) -> dict[str, int]:
        """The last time given on each node, for a snapshot."""
        return dict(self._last)

    def restore(self, times: Mapping[str, int]) -> None:
        """Become what a snapshot holds."""
        self._last = dict(times)


def visible_to(state: State, pod: PodView, entry: Entry) -> tuple[str, ...]:
    """What members of one owner have or will have on the node, by the plan as it is at the bind; its own included."""
    ledger = state.cluster.ledger
    others = (ledger.get(sibling.uid) for sibling in _siblings(state, pod))
    there = [other.grant.offer for other in others if other and other.node == entry.node]
    return tuple(dict.fromkeys(device for offer in (entry.grant.offer, *there) for device in offer.devices))


def blind_siblings(state: State, pod: PodView, entry: Entry) -> list[Event]:
    """Members that started before and can't see what this one gets: their environment is fixed."""
    node = state.cluster.index.nodes.get(entry.node)
    indices = {device.id: device.index for device in node.devices} if node else {}
    own = {indices[device] for device in entry.grant.offer.devices if device in indices}
    blind = [
        sibling.name
        for sibling in _siblings(state, pod)
        if sibling.node == entry.node and wants_siblings(sibling) and not own <= visible(sibling)
    ]
    if not blind:
        return []
    sentence = f"{', '.join(blind)} started before and can't see its devices"
    return [Event("Warning", "VisibilityReduced", sentence, pod.namespace, pod.name, pod.uid, entry.node)]


def _siblings(state: State, pod: PodView) -> list[PodView]:
    """The other members that the same owner made; nobody's where the pod does not wish to see them."""
    found = state.groups.gather(state.groups.key_of(pod.uid))
    if found is None or pod.owner is None or not wants_siblings(pod):
        return []
    members = (*found.bound, *found.waiting)
    return [other for other in members if other.uid != pod.uid and other.owner and other.owner.uid == pod.owner.uid]
