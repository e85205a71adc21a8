"""Allocation records on pods: the proposal's by numbers per container, Koordinator's by cards.

The proposal's record has the containers, Koordinator's has ids and amounts; both list cards in the same order. A card's
number is not always its minor, so that order, and not the number, joins them.

Source: seed 001, "Record the allocation information to the pod annotation"; Koordinator's device sharing.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from linkwise.dialects.dialect import where_pod
from linkwise.dialects.koordinator.quantities import CORE, MEMORY, PREFIXES, RATIO, WHOLE, count, is_minor
from linkwise.errors import InputError
from linkwise.model.verdict import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.dialects.dialect import Writing
    from linkwise.model.verdict import Part
    from linkwise.model.views import PodView

__all__ = ["ALLOCATED", "RECORDS", "TOPOLOGY", "Card", "Record", "cleared", "read", "seed_text", "texts", "visible"]

TOPOLOGY: Final = "topology.scheduling.koordinator.sh/gpu"
ALLOCATED: Final = "scheduling.koordinator.sh/device-allocated"

RECORDS: Final = (
    *(TOPOLOGY, ALLOCATED, "scheduling.koordinator.sh/gpu-minors"),
    *("CAMBRICON_DSMLU_PROFILE", "metax-tech.com/gpu-devices-allocated"),
)
"""annotations that Koordinator writes when it binds a pod, for koordlet and for vendors' device plugins"""

_TYPE: Final = "gpu"
_INDEX: Final = re.compile("0|[1-9][0-9]{0,8}")
_KOORDINATOR: Final = PREFIXES[0]


class Card(NamedTuple):
    """A card of the record; missing amounts are 0."""

    device: str
    ratio: int = 0  # percent of memory
    memory: int = 0  # bytes
    core: int = 0  # percent
    minor: int | None = None
    """beside an id"""

    @property
    def unrecorded(self) -> bool:
        """Whether only the card is known, not how much of it."""
        return not (self.ratio or self.memory or self.core)

    @property
    def whole(self) -> bool:
        """Without memory nothing else can sit on a card, so less compute with all of the memory is distinguished."""
        return self.unrecorded or (self.ratio == WHOLE and self.core in {0, WHOLE})


class Record(NamedTuple):
    """Both annotations joined."""

    key: str
    """the one that takes precedence where they differ"""
    listed: dict[str, tuple[Card, ...]]
    """by name of the container"""
    rest: tuple[Card, ...]
    """of init containers and sidecars, and all where the seed's annotation is absent"""

    @property
    def cards(self) -> tuple[Card, ...]:
        """Each card once."""
        return tuple(dict.fromkeys((*(card for own in self.listed.values() for card in own), *self.rest)))


def read(pod: PodView, problems: list[Problem]) -> Record:
    """Both annotations; of two that disagree, Koordinator's, which has ids."""
    cards: tuple[Card, ...] = ()
    lists: dict[str, tuple[str, ...]] = {}
    try:
        cards = _cards(pod)
    except InputError as error:
        problems.append(Problem(where_pod(pod), ALLOCATED, f"{error}: it is ignored, correct or remove it"))
    try:
        lists = _lists(pod, len(cards))
    except InputError as error:
        problems.append(Problem(where_pod(pod), TOPOLOGY, f"{error}: it is ignored, correct or remove it"))
    numbers = list(dict.fromkeys(number for own in lists.values() for number in own))
    key = ALLOCATED if cards else TOPOLOGY
    cards = cards or tuple(Card(f"#{number}") for number in numbers)
    by_number = dict(zip(numbers, cards, strict=False))
    listed = {name: tuple(by_number[number] for number in own) for name, own in lists.items()}
    return Record(key, listed, cards[len(numbers) :])


def texts(writing: Writing, memory: int = 0) -> dict[str, str]:
    """Both annotations; `memory` are the bytes that were asked for, if any. InputError if the node lacks a granted card."""
    cards = [_entry(device, writing, memory) for device in dict.fromkeys(_own(writing))]
    return {**seed_text(writing), ALLOCATED: _json({**_allocated_kinds(writing.pod), _TYPE: cards})}


def seed_text(writing: Writing) -> dict[str, str]:
    """The seed's annotation alone."""
    places = {name: str(place) for place, name in enumerate(_ordinary(writing.pod))}
    # rule 001.record: numbers per container, as texts, and beside them all that the containers may see.
    lists: dict[str, list[str]] = {}
    for part in _ordered(writing):
        numbers = [str(_index(device, writing)) for device in part.devices]
        lists.setdefault(places[part.container], []).extend(numbers)
    seen = sorted({_index(device, writing) for device in (*_own(writing), *writing.siblings)})
    return {TOPOLOGY: _json({"allocatedGPUs": lists, "visibleGPUs": [str(index) for index in seen]})}


def cleared(pod: PodView) -> dict[str, str]:
    """Records of no cards: koordlet refuses an empty text, and accepts an object without cards."""
    others = {kind: entries for kind, entries in _allocated_kinds(pod).items() if kind != _TYPE}
    texts = {TOPOLOGY: _json({"allocatedGPUs": {}, "visibleGPUs": []}), ALLOCATED: _json(others)}
    return {key: text for key, text in texts.items() if key in pod.annotations}


def visible(pod: PodView) -> frozenset[int]:
    """The numbers of the cards that the containers may see; none where that can't be read."""
    try:
        record = _object(_loads(pod.annotations.get(TOPOLOGY, "{}")), "the value")
        return frozenset(map(int, _numbers(record.get("visibleGPUs", []), "visibleGPUs")))
    except InputError:
        return frozenset()


def _ordered(writing: Writing) -> list[Part]:
    """Those of ordinary containers, in the order of the pod."""
    return [part for name in _ordinary(writing.pod) for part in writing.grant.offer.parts if part.container == name]


def _own(writing: Writing) -> list[str]:
    return [device for part in (*_ordered(writing), *writing.grant.offer.parts) for device in part.devices]


def _ordinary(pod: PodView) -> list[str]:
    """The containers that the seed numbers."""
    return [container.name for container in pod.containers if not container.init]


def _lists(pod: PodView, cards: int) -> dict[str, tuple[str, ...]]:
    """Numbers of cards by container name, in the order of the pod; InputError if the seed's annotation is broken."""
    if TOPOLOGY not in pod.annotations:
        return {}
    record = _object(_loads(pod.annotations[TOPOLOGY]), "the value")
    _numbers(record.get("visibleGPUs", []), "visibleGPUs")
    lists = _object(record.get("allocatedGPUs"), "allocatedGPUs")
    names = _ordinary(pod) if lists else []
    if len(set(names)) < len(names):
        raise InputError("two containers of the pod have one name")
    strange = next((place for place in lists if place not in map(str, range(len(names)))), None)
    if strange is not None:
        raise InputError(
            f"allocatedGPUs names container {strange[:20]!r}, the pod's are numbered 0 to {len(names) - 1}"
        )
    by_container = {
        name: _numbers(lists[str(at)], f"allocatedGPUs {at}") for at, name in enumerate(names) if str(at) in lists
    }
    different = {number for own in by_container.values() for number in own}
    if cards and len(different) > cards:
        raise InputError(f"it names {len(different)} cards, {ALLOCATED} names {cards}")
    return by_container


def _numbers(value: object, what: str) -> tuple[str, ...]:
    entries = value if isinstance(value, list) else [None]
    numbers = tuple(number for number in entries if isinstance(number, str) and _INDEX.fullmatch(number))
    if len(set(numbers)) != len(entries):
        raise InputError(f'{what} is no list of different numbers, written as texts like ["4","5"]')
    return numbers


def _cards(pod: PodView) -> tuple[Card, ...]:
    """The cards in the order of `device-allocated`; InputError if it is broken."""
    entries = _object(_loads(pod.annotations.get(ALLOCATED, "{}")), "the value").get(_TYPE, [])
    if not isinstance(entries, list):
        raise InputError("gpu is not a list")
    cards = tuple(_card(_object(entry, f"gpu[{at}]"), f"gpu[{at}]") for at, entry in enumerate(entries))
    if len({card.device for card in cards}) < len(cards):
        raise InputError("a card is listed twice")
    return cards


def _card(entry: Mapping[str, object], what: str) -> Card:
    minor, name = entry.get("minor"), entry.get("id", "")
    if not is_minor(minor):
        raise InputError(f"{what} has no minor")
    if not isinstance(name, str) or not name.isprintable() or name.startswith("#"):
        raise InputError(f"{what} has an id that can't be one")
    resources = _object(entry.get("resources", {}), f"{what}.resources")
    ratio, memory, core = (_amount(resources, word, what) for word in (RATIO, MEMORY, CORE))
    if max(ratio, core) > WHOLE:
        raise InputError(f"{what} has more than {WHOLE} percent of a card")
    return Card(name or f"#{minor}", ratio, memory, core, minor if name else None)


def _amount(resources: Mapping[str, object], word: str, what: str) -> int:
    amounts = {count(resources[prefix + word]) for prefix in PREFIXES if prefix + word in resources} or {0}
    number = amounts.pop()
    if number is None or amounts:
        raise InputError(f"{what} has a {word} that is not a quantity")
    return number


def _entry(device: str, writing: Writing, memory: int) -> dict[str, object]:
    """A card and the total of all containers on it: percents as granted, and bytes as requested."""
    parts = [part for part in writing.grant.offer.parts if device in part.devices]
    if any(_whole(part) for part in parts):
        amounts = {CORE: WHOLE, RATIO: WHOLE}
    else:
        share, core = sum(part.share for part in parts), sum(part.core for part in parts)
        amounts = {CORE: core, MEMORY: memory, RATIO: share}
    known = writing.devices[device].minor if device in writing.devices else None
    named = not device.startswith("#")  # what has no id is known by its number, here too
    return {
        "minor": known if named and known is not None else _index(device, writing),
        **({"id": device} if named else {}),
        "resources": {_KOORDINATOR + word: amount for word, amount in amounts.items() if amount},
    }


def _whole(part: Part) -> bool:
    return not (part.share or part.core)


def _index(device: str, writing: Writing) -> int:
    if device in writing.devices:
        return writing.devices[device].index
    if device.startswith("#") and _INDEX.fullmatch(device[1:]):
        return int(device[1:])
    raise InputError(f"{where_pod(writing.pod)} is granted device {device}, which is none of its node's")


def _allocated_kinds(pod: PodView) -> dict[str, object]:
    """Other kinds of devices in the pod's record, such as network cards: they are kept."""
    try:
        return _object(_loads(pod.annotations.get(ALLOCATED, "{}")), "the value")
    except InputError:
        return {}


def _object(value: object, what: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise InputError(f"{what} is not a JSON object")
    return value


def _loads(text: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_each_once)
    except (ValueError, RecursionError) as error:
        raise InputError(f"it can't be read: {str(error)[:80]}") from error


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(dict(pairs)) < len(pairs):
        raise InputError("a field appears twice")
    return dict(pairs)


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
