"""Koordinator's words: percents of cards, the record of seed 001 on a pod, and Device objects.

The annotations hold no policy, plan, score or note. Cards of init containers and sidecars have no place in
`allocatedGPUs`: they stand in `device-allocated`, and the pod's own amounts tell whose they are, and how containers
divide a card that they share. What can't be told apart by container is held under the container "". A part of a card is
held in percents, which are told beside the bytes where a pod asks for bytes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from linkwise.dialects.dialect import DefaultPolicies, Dialect, Held, SourcePriority, where_pod
from linkwise.dialects.koordinator.allocation import ALLOCATED, TOPOLOGY, read, texts
from linkwise.dialects.koordinator.device_object import node_facts
from linkwise.dialects.koordinator.quantities import OWNED, wanted
from linkwise.model.ask import Ask, ContainerAsk
from linkwise.model.verdict import Grant, Offer, Part, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from linkwise.dialects.dialect import Writing
    from linkwise.dialects.koordinator.allocation import Card, Record
    from linkwise.model.inventory import NodeFacts
    from linkwise.model.views import NodeView, PodView

__all__ = ["ALLOCATED", "TOPOLOGY", "VISIBLE_SIBLINGS", "Koordinator", "wants_siblings"]

VISIBLE_SIBLINGS: Final = "linkwise.dev/visible-siblings"
"""`true` on a pod lets its containers see the cards of its group on the node"""

_FINISHED: Final = {"Succeeded", "Failed"}


class Koordinator(Dialect):
    """Reads Koordinator's own names and those of seed 001; writes the annotations of both."""

    name: ClassVar[str] = "koordinator"
    vendor = "nvidia"
    resources = tuple(sorted(OWNED))
    by_resource: ClassVar[bool] = False  # percents are one thing under several names
    domains = frozenset({"node.koordinator.sh", "Device"})
    priority = SourcePriority.OBJECT
    policies = DefaultPolicies("bandwidth", "bandwidth")
    scheduler_note = (
        "Koordinator. If your nodes do not report gpu.shared, set ignoredByScheduler to true for it only, or pods that "
        "request it stay pending forever."
    )

    def ask(self, pod: PodView) -> Ask | Problem | None:
        """A part of one card, or whole cards; its resource tells the unit of shares."""
        return None if pod.claims or OWNED & set(pod.hosted_by_claims) else wanted(pod)

    def held(self, pod: PodView) -> Held:
        """The cards by id from `device-allocated`, else by number from the seed's annotation."""
        if pod.phase in _FINISHED:
            return Held(None)
        problems: list[Problem] = []
        if pod.annotations.get(VISIBLE_SIBLINGS, "true") not in {"true", "false"}:
            told = "it is neither true nor false and counts as false: correct it"
            problems.append(Problem(where_pod(pod), VISIBLE_SIBLINGS, told))
        record, ask = read(pod, problems), self.ask(pod)
        ask = _in_percent(ask, record) if isinstance(ask, Ask) else ask
        parts = _divided(ask, record) if isinstance(ask, Ask) else _as_recorded(record)
        if parts and isinstance(ask, Ask) and not _equal(ask, parts):
            told = "it is not what the containers ask for: it counts as it stands, recreate the pod"
            problems.append(Problem(where_pod(pod), record.key, told))
        return Held(Grant(pod.uid, "", Offer(pod.node, parts), mode="percent") if parts else None, tuple(problems))

    def write(self, writing: Writing) -> dict[str, str]:
        """The seed's record by numbers, and Koordinator's by ids with amounts."""
        ask = self.ask(writing.pod)
        return texts(writing, ask.share if isinstance(ask, Ask) and ask.in_bytes else 0)

    def node(self, view: NodeView, objects: Mapping[str, Mapping[str, object]]) -> NodeFacts | None:
        """The Device object of the node, and Koordinator's labels on it."""
        return node_facts(view, objects.get("Device"), self.name)


def wants_siblings(pod: PodView) -> bool:
    """Whether the pod asks to see the cards of its group; anything but `true` is a no, and `held` reports it."""
    return pod.annotations.get(VISIBLE_SIBLINGS) == "true"


def _in_percent(ask: Ask, record: Record) -> Ask:
    """An ask by bytes in the percents that the record tells; as it is where the record tells of something else."""
    card = record.cards[0] if len(record.cards) == 1 else None
    if card is None or not ask.in_bytes or not card.ratio or card.memory not in {0, ask.share}:
        return ask
    percents = _percents([own.share for own in ask.containers], card.ratio)
    if percents is None:  # Koordinator rounds the sum alone
        return replace(ask, containers=(ContainerAsk("", share=card.ratio, core=ask.core),), in_bytes=False)
    containers = tuple(replace(own, share=percent) for own, percent in zip(ask.containers, percents, strict=True))
    return replace(ask, containers=containers, in_bytes=False)


def _percents(shares: Sequence[int], total: int) -> list[int] | None:
    """The percents of each share of bytes, rounded up, that make the total; None if no card's size gives them.

    Each of them only grows as the card gets smaller, so that equal totals are equal percents. They change where one of
    the shares is a whole percent: these sizes are all that must be tried.
    """
    for share in filter(None, shares):
        for percent in range(1, total + 1):
            found = [-(-other * percent // share) for other in shares]
            if sum(found) == total:
                return found
    return None


def _divided(ask: Ask, record: Record) -> tuple[Part, ...]:
    """What each container has, by its amounts where the record has only the sum, or no place for the container."""
    cards = record.cards
    if ask.share and not ask.in_bytes and len(cards) == 1 and _fits(ask, cards[0]):
        return tuple(Part(own.container, (cards[0].device,), own.share, own.core) for own in ask.containers)
    if ask.share or not all(card.whole for card in cards):
        return _as_recorded(record)
    given, rest = dict(record.listed), record.rest
    for own in ask.containers:
        if own.container not in given:
            given[own.container], rest = rest[: own.devices], rest[own.devices :]
    order = dict.fromkeys((*(own.container for own in ask.containers), *given))
    return (*_whole_cards({name: given[name] for name in order}), *_whole_cards({"": rest}))


def _fits(ask: Ask, card: Card) -> bool:
    return card.untold or (card.ratio, card.core) == (ask.share, ask.core)


def _as_recorded(record: Record) -> tuple[Part, ...]:
    """What the record alone tells: whole cards by container, parts of cards for the pod as one."""
    if all(card.whole for card in record.cards):
        return _whole_cards({**record.listed, "": record.rest})
    # A card told in bytes alone is held whole: better too much than sold twice.
    return tuple(
        Part("", (card.device,), card.ratio, card.core) if card.ratio and not card.whole else Part("", (card.device,))
        for card in record.cards
    )


def _whole_cards(given: Mapping[str, tuple[Card, ...]]) -> tuple[Part, ...]:
    return tuple(Part(name, tuple(card.device for card in cards)) for name, cards in given.items() if cards)


def _equal(ask: Ask, parts: tuple[Part, ...]) -> bool:
    told = {
        (part.container, 0 if part.share or part.core else len(part.devices), part.share, part.core) for part in parts
    }
    return told == {(own.container, own.devices, own.share, own.core) for own in ask.containers}
