"""Koordinator dialect: percents of cards, the allocation record of bandwidth groups on a pod, and Device objects.

The annotations have no policy, plan, score or note. Cards of init containers and sidecars have no place in
`allocatedGPUs`: they are in `device-allocated`, and the amounts that the containers request determine whose they are, and
how containers divide a card that they share. What can't be assigned to a container is recorded under the container "".
A part of a card is recorded in percents, with the bytes beside it if the pod requests bytes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from linkwise.dialects.dialect import DefaultPolicies, Dialect, Held, SourcePriority, where_pod
from linkwise.dialects.koordinator.allocation import ALLOCATED, RECORDS, TOPOLOGY, cleared, read, texts
from linkwise.dialects.koordinator.device_object import node_facts
from linkwise.dialects.koordinator.quantities import OWNED, RENAMED, share_defaults, wanted
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
"""on a pod: whether its containers see the cards of its group on the node"""

_FINISHED: Final = {"Succeeded", "Failed"}


class Koordinator(Dialect):
    """Reads Koordinator's own names and those of seed 001; writes the annotations of both."""

    name: ClassVar[str] = "koordinator"
    vendor = "nvidia"
    resources = tuple(sorted(OWNED))
    renamed = RENAMED
    by_resource: ClassVar[bool] = False  # percents are one thing under several names
    domains = frozenset({"node.koordinator.sh", "Device"})
    inventories = ("Device",)
    records = RECORDS
    priority = SourcePriority.OBJECT
    policies = DefaultPolicies("bandwidth", "bandwidth")
    scheduler_note = (
        "Koordinator. If your nodes do not report gpu.shared, set ignoredByScheduler to true for it only, or pods that "
        "request it stay pending forever."
    )

    def ask(self, pod: PodView) -> Ask | Problem | None:
        """A part of one card, or whole cards; the resource determines the unit of shares."""
        return wanted(pod)

    def share_defaults(self, pod: PodView, percent: int) -> dict[str, dict[str, str]]:
        """The percent of memory for containers that request only compute."""
        return share_defaults(pod, percent)

    def held(self, pod: PodView) -> Held:
        """The cards by id from `device-allocated`, else by number from the seed's annotation."""
        if pod.phase in _FINISHED:
            return Held(None)
        problems: list[Problem] = []
        if pod.annotations.get(VISIBLE_SIBLINGS, "true") not in {"true", "false"}:
            sentence = "it is neither true nor false and counts as false: correct it"
            problems.append(Problem(where_pod(pod), VISIBLE_SIBLINGS, sentence))
        record, ask = read(pod, problems), self.ask(pod)
        ask = _in_percent(ask, record) if isinstance(ask, Ask) else ask
        parts = _divided(ask, record) if isinstance(ask, Ask) else _as_recorded(record)
        if parts and isinstance(ask, Ask) and not _equal(ask, parts):
            sentence = "it differs from what the containers request: it is used as it is, recreate the pod"
            problems.append(Problem(where_pod(pod), record.key, sentence))
        offer = Offer(pod.node, _with_indices(parts, record))
        return Held(Grant(pod.uid, "", offer, mode="percent") if parts else None, tuple(problems))

    def write(self, writing: Writing) -> dict[str, str]:
        """The seed's record by numbers, and Koordinator's by ids with amounts."""
        ask = self.ask(writing.pod)
        return texts(writing, ask.share if isinstance(ask, Ask) and ask.in_bytes else 0)

    def cleared(self, pod: PodView) -> dict[str, str]:
        """Records without cards; other kinds of devices, such as network cards, stay."""
        return cleared(pod)

    def node(self, view: NodeView, objects: Mapping[str, Mapping[str, object]]) -> NodeFacts | None:
        """Facts of the Device object, and of Koordinator's labels on the node."""
        return node_facts(view, objects.get("Device"), self.name)


def wants_siblings(pod: PodView, *, by_default: bool) -> bool:
    """Whether the pod wants to see the cards of its group; a value other than `true` means no, and `held` reports it."""
    text = pod.annotations.get(VISIBLE_SIBLINGS)
    return by_default if text is None else text == "true"


def _in_percent(ask: Ask, record: Record) -> Ask:
    """A request in bytes, converted to the percents of the record; unchanged if the record is about something else."""
    card = record.cards[0] if len(record.cards) == 1 else None
    if card is None or not ask.in_bytes or not card.ratio or card.memory not in {0, ask.share}:
        return ask
    percents = _percents([own.share for own in ask.containers], card.ratio)
    if percents is None:  # Koordinator rounds the sum alone
        return replace(ask, containers=(ContainerAsk("", share=card.ratio, core=ask.core),), in_bytes=False)
    containers = tuple(replace(own, share=percent) for own, percent in zip(ask.containers, percents, strict=True))
    return replace(ask, containers=containers, in_bytes=False)


def _percents(shares: Sequence[int], total: int) -> list[int] | None:
    """Percents of each share of bytes, rounded up, that add up to the total; None if there are none for any card size.

    Each of them only grows as the card gets smaller, so that equal totals are equal percents. They change where one of
    the shares is a whole percent: these sizes are all that must be tried.
    """
    for share in filter(None, shares):
        for percent in range(1, total + 1):
            percents = [-(-other * percent // share) for other in shares]
            if sum(percents) == total:
                return percents
    return None


def _divided(ask: Ask, record: Record) -> tuple[Part, ...]:
    """Devices of each container, by its request where the record has only the sum, or no place for the container."""
    cards = record.cards
    if ask.share and not ask.in_bytes and len(cards) == 1 and _fits(ask, cards[0]):
        return tuple(Part(own.container, (cards[0].device,), own.share, own.core) for own in ask.containers)
    if ask.share or not all(card.whole for card in cards):
        return _as_recorded(record)
    listed, rest = dict(record.listed), record.rest
    for own in ask.containers:
        if own.container not in listed:
            listed[own.container], rest = rest[: own.devices], rest[own.devices :]
    order = dict.fromkeys((*(own.container for own in ask.containers), *listed))
    return (*_whole_cards({name: listed[name] for name in order}), *_whole_cards({"": rest}))


def _fits(ask: Ask, card: Card) -> bool:
    return card.unrecorded or (card.ratio, card.core) == (ask.share, ask.core)


def _with_indices(parts: tuple[Part, ...], record: Record) -> tuple[Part, ...]:
    """The parts with the minors of their cards as indices: all that identifies a card once its Device object is gone."""
    minors = {card.device: card.minor for card in record.cards if card.minor is not None}
    known = [all(device in minors for device in part.devices) for part in parts]
    return tuple(
        replace(part, indices=tuple(minors[device] for device in part.devices)) if there else part
        for part, there in zip(parts, known, strict=True)
    )


def _as_recorded(record: Record) -> tuple[Part, ...]:
    """Devices by the record alone: whole cards by container, parts of cards for the pod."""
    if all(card.whole for card in record.cards):
        return _whole_cards({**record.listed, "": record.rest})
    # A card recorded in bytes alone counts as a whole card: better too much than allocated twice.
    return tuple(
        Part("", (card.device,), card.ratio, card.core) if card.ratio and not card.whole else Part("", (card.device,))
        for card in record.cards
    )


def _whole_cards(by_container: Mapping[str, tuple[Card, ...]]) -> tuple[Part, ...]:
    return tuple(Part(name, tuple(card.device for card in cards)) for name, cards in by_container.items() if cards)


def _equal(ask: Ask, parts: tuple[Part, ...]) -> bool:
    recorded = {
        (part.container, 0 if part.share or part.core else len(part.devices), part.share, part.core) for part in parts
    }
    return recorded == {(own.container, own.devices, own.share, own.core) for own in ask.containers}
