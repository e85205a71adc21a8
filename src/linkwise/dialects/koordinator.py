"""Koordinator's words: percents of cards, the record of seed 001 on a pod, and Device objects.

The annotations hold no policy, plan, score or note. Cards of init containers and sidecars have no place in
`allocatedGPUs`: they stand in `device-allocated`, and the pod's own amounts tell whose they are, and how containers
divide a card that they share. What can't be told apart by container is held under the container "".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from linkwise.dialects.dialect import Dialect, Held, where_pod
from linkwise.dialects.koordinator_amounts import OWNED, in_bytes, wanted
from linkwise.dialects.koordinator_device import node_facts
from linkwise.dialects.koordinator_record import ALLOCATED, TOPOLOGY, read, texts
from linkwise.model.ask import Ask
from linkwise.model.problem import Problem
from linkwise.model.verdict import Grant, Offer, Part

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.dialects.dialect import Writing
    from linkwise.dialects.koordinator_record import Card, Record
    from linkwise.model.node_facts import NodeFacts
    from linkwise.model.views import NodeView, PodView

__all__ = ["ALLOCATED", "TOPOLOGY", "VISIBLE_SIBLINGS", "Koordinator"]

VISIBLE_SIBLINGS: Final = "linkwise.dev/visible-siblings"
"""`true` on a pod lets its containers see the cards of its group on the node"""

_FINISHED: Final = {"Succeeded", "Failed"}


class Koordinator(Dialect):
    """Reads Koordinator's own names and those of seed 001; writes the annotations of both."""

    name: ClassVar[str] = "koordinator"

    def owns(self, resource: str) -> bool:
        """The words for percents of cards, with either prefix."""
        return resource in OWNED

    def ask(self, pod: PodView) -> Ask | Problem | None:
        """A part of one card, or whole cards; its resource tells the unit of shares."""
        return None if pod.claims or OWNED & set(pod.hosted_by_claims) else wanted(pod)

    def wants_siblings(self, pod: PodView) -> bool:
        """Whether the pod asks to see the cards of its group; anything but `true` is a no, and `held` reports it."""
        return pod.annotations.get(VISIBLE_SIBLINGS) == "true"

    def held(self, pod: PodView) -> Held:
        """The cards by id from `device-allocated`, else by number from the seed's annotation."""
        if pod.phase in _FINISHED:
            return Held(None)
        problems: list[Problem] = []
        if pod.annotations.get(VISIBLE_SIBLINGS, "true") not in {"true", "false"}:
            told = "it is neither true nor false and counts as false: correct it"
            problems.append(Problem(where_pod(pod), VISIBLE_SIBLINGS, told))
        record, ask = read(pod, problems), self.ask(pod)
        parts = _divided(ask, record) if isinstance(ask, Ask) else _as_recorded(record, ask)
        if parts and isinstance(ask, Ask) and not _equal(ask, parts):
            told = "it is not what the containers ask for: it counts as it stands, recreate the pod"
            problems.append(Problem(where_pod(pod), record.key, told))
        return Held(Grant(pod.uid, "", Offer(pod.node, parts), mode="percent") if parts else None, tuple(problems))

    def write(self, writing: Writing) -> dict[str, str]:
        """The seed's record by numbers, and Koordinator's by ids with amounts."""
        return texts(writing, in_bytes=in_bytes(self.ask(writing.pod)))

    def node(self, view: NodeView, objects: Mapping[str, Mapping[str, object]]) -> NodeFacts | None:
        """The Device object of the node, and Koordinator's labels on it."""
        return node_facts(view, objects.get("Device"), self.name)


def _divided(ask: Ask, record: Record) -> tuple[Part, ...]:
    """What each container has, by its amounts where the record has only the sum, or no place for the container."""
    cards = record.cards
    if ask.share and len(cards) == 1 and _fits(ask, cards[0]):
        return tuple(Part(own.container, (cards[0].device,), own.share, own.core) for own in ask.containers)
    if ask.share or not all(card.whole for card in cards):
        return _as_recorded(record, ask)
    given, rest = dict(record.listed), record.rest
    for own in ask.containers:
        if own.container not in given:
            given[own.container], rest = rest[: own.devices], rest[own.devices :]
    order = dict.fromkeys((*(own.container for own in ask.containers), *given))
    return (*_whole_cards({name: given[name] for name in order}), *_whole_cards({"": rest}))


def _fits(ask: Ask, card: Card) -> bool:
    share = card.memory if in_bytes(ask) else card.ratio
    return card.untold or (share, card.core) == (ask.share, ask.core)


def _as_recorded(record: Record, ask: Ask | Problem | None) -> tuple[Part, ...]:
    """What the record alone tells: whole cards by container, parts of cards for the pod as one."""
    if all(card.whole for card in record.cards):
        return _whole_cards({**record.listed, "": record.rest})
    # A card told in bytes where percents are counted is held whole: better too much than sold twice.
    shares = [(card, card.memory if in_bytes(ask) else card.ratio) for card in record.cards]
    return tuple(
        Part("", (card.device,), share, card.core) if share and not card.whole else Part("", (card.device,))
        for card, share in shares
    )


def _whole_cards(given: Mapping[str, tuple[Card, ...]]) -> tuple[Part, ...]:
    return tuple(Part(name, tuple(card.device for card in cards)) for name, cards in given.items() if cards)


def _equal(ask: Ask, parts: tuple[Part, ...]) -> bool:
    told = {
        (part.container, 0 if part.share or part.core else len(part.devices), part.share, part.core) for part in parts
    }
    return told == {(own.container, own.devices, own.share, own.core) for own in ask.containers}
