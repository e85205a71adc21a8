"""Koordinator requests: a part of one card, or whole cards; other combinations are refused.

`gpu` and `gpu-memory-ratio` count percent of a card, `gpu-memory` counts bytes. Bytes stay bytes in the ask, because
the card is not known yet: the percents are computed for each card.

Source: seed 001, the resources of its Device; Koordinator's device sharing.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple, TypeGuard

from linkwise.dialects.dialect import where_pod
from linkwise.dialects.pod_resources import amount, by_container, resources_of, whole_quantity
from linkwise.errors import InputError
from linkwise.model.ask import Ask, ContainerAsk
from linkwise.model.topology import MAX_DEVICES
from linkwise.model.verdict import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.views import ContainerView, PodView

__all__ = [
    "CORE",
    "GPU",
    "LARGEST",
    "MEMORY",
    "OWNED",
    "PREFIXES",
    "RATIO",
    "RENAMED",
    "SHARED",
    "WHOLE",
    "count",
    "is_minor",
    "share_defaults",
    "wanted",
]

PREFIXES: Final = ("koordinator.sh/", "kubernetes.io/")
"""Koordinator's own, and the seed's"""
GPU: Final = "gpu"  # percent of compute and memory
CORE: Final = "gpu-core"  # percent of compute
MEMORY: Final = "gpu-memory"  # bytes
RATIO: Final = "gpu-memory-ratio"  # percent of memory
SHARED: Final = "gpu.shared"  # cards among which the amounts are divided

_WORDS: Final = (GPU, CORE, MEMORY, RATIO, SHARED)
OWNED: Final = frozenset({f"{prefix}{word}" for prefix in PREFIXES for word in _WORDS} - {f"kubernetes.io/{SHARED}"})
"""gpu.shared is younger than the seed: it has no name there"""

RENAMED: Final = {
    name: name.replace(PREFIXES[1], PREFIXES[0], 1) for name in sorted(OWNED) if name.startswith(PREFIXES[1])
}
"""kubelet and kube-scheduler take the seed's names for Kubernetes' own"""

WHOLE: Final = 100  # percent
LARGEST: Final = 2**63 - 1  # what Kubernetes can count

_VALID: Final = frozenset(
    map(
        frozenset,
        (
            (GPU,),
            (MEMORY,),
            (RATIO,),
            (MEMORY, CORE),
            (RATIO, CORE),
            (SHARED, MEMORY),
            (SHARED, RATIO),
            (SHARED, MEMORY, CORE),
            (SHARED, RATIO, CORE),
        ),
    )
)
_REFUSED: Final = (
    ({MEMORY, RATIO}, "memory is requested in bytes and in percent: keep gpu-memory or gpu-memory-ratio"),
    ({GPU}, "gpu includes compute and memory: remove the others, or request gpu-core and gpu-memory-ratio"),
    ({SHARED}, "gpu.shared is only a number of cards: add gpu-memory or gpu-memory-ratio"),
    ({CORE}, "compute without memory can't be placed: add gpu-memory or gpu-memory-ratio"),
)
"""the first whose words are all present is the problem"""


class _Kind(NamedTuple):
    """Kind of a container's request; all containers of a pod must have the same."""

    unit: str
    whole: bool

    def __str__(self) -> str:
        return f"{'whole cards' if self.whole else 'a part of a card'} by {self.unit}"


def is_minor(value: object) -> TypeGuard[int]:
    """Whether it can be the number of a card."""
    return type(value) is int and 0 <= value < 2**31


def count(value: object) -> int | None:
    """A quantity that counts, as a text or as a number; None if it is invalid."""
    if isinstance(value, bool) or not isinstance(value, str | float | int):
        return None
    try:
        number = value if isinstance(value, int) else whole_quantity(str(value))
    except InputError:
        return None
    return number if 0 <= number <= LARGEST else None


def wanted(pod: PodView) -> Ask | Problem | None:
    """The pod's request; a problem names the container and what to write instead; None if there is none."""
    names = [name for name in (*resources_of(pod), *pod.overhead) if name in OWNED]
    if not names:
        return None
    prefixes = {name.partition("/")[0] for name in names}
    if len(prefixes) > 1:
        return Problem(
            where_pod(pod), names[0], f"names of {' and '.join(sorted(prefixes))} are mixed: use one of them"
        )
    prefix = names[0].partition("/")[0] + "/"
    return _uncountable(pod, names[0]) or _by_kind(pod, prefix)


def share_defaults(pod: PodView, percent: int) -> dict[str, dict[str, str]]:
    """The percent of memory for each container that requests only compute of a card."""
    added: dict[str, dict[str, str]] = {}
    for container in pod.containers:
        names = {name for name in (*container.requests, *container.limits) if name in OWNED}
        prefix = next((prefix for prefix in PREFIXES if names == {f"{prefix}{CORE}"}), "")
        if prefix:
            added[container.name] = {f"{prefix}{RATIO}": str(percent)}
    return added


def _uncountable(pod: PodView, key: str) -> Problem | None:
    """The problem with a pod whose amounts can't be assigned to containers."""
    if OWNED & set(pod.overhead):
        return Problem(where_pod(pod), key, "a runtime class can't add cards: remove it from the overhead")
    name, times = Counter(container.name for container in pod.containers).most_common(1)[0]
    if times > 1:
        return Problem(where_pod(pod), key, f"{times} containers are named {name!r}: give each its own name")
    return None


def _by_kind(pod: PodView, prefix: str) -> Ask | Problem | None:
    kinds: dict[_Kind, str] = {}
    for container in pod.containers:
        amounts = _read(container, prefix)
        if isinstance(amounts, Problem):
            return Problem(where_pod(pod), amounts.key, f"container {container.name}: {amounts.sentence}")
        if amounts:
            # rule 001.percent: the valid combinations, container by container; the rest is refused with a sentence.
            kind = _kind_of(amounts)
            if isinstance(kind, str):
                return Problem(where_pod(pod), f"{prefix}{next(iter(amounts))}", f"container {container.name}: {kind}")
            kinds.setdefault(kind, container.name)
    if len(kinds) > 1:
        mixed = " and ".join(f"{name} requests {kind}" for kind, name in kinds.items())
        return Problem(
            where_pod(pod), f"{prefix}{next(iter(kinds)).unit}", f"{mixed}: let all containers request the same kind"
        )
    return next((_ask(pod, prefix, kind) for kind in kinds), None)


def _read(container: ContainerView, prefix: str) -> dict[str, int] | Problem:
    """Non-zero quantities by resource name."""
    amounts = {}
    for word in _WORDS:
        key = f"{prefix}{word}"
        try:
            count = amount(container, key)
        except InputError as error:
            hint = "" if word in {MEMORY, SHARED} else "; it counts percent of a card, 50 is half of one"
            return Problem("", key, f"{error}{hint}")
        if count > LARGEST:
            return Problem("", key, f"the amount is larger than Kubernetes can count: {LARGEST} at most")
        if count and key in OWNED:
            amounts[word] = count
    return amounts


def _kind_of(amounts: Mapping[str, int]) -> _Kind | str:
    words = frozenset(amounts)
    if words not in _VALID:
        return next(sentence for bad, sentence in _REFUSED if bad <= words)
    unit = next(word for word in (GPU, RATIO, MEMORY) if word in words)
    if amounts.get(SHARED, 1) > 1 and (unit == MEMORY or amounts[unit] < WHOLE * amounts[SHARED]):
        return "parts of several cards can't be allocated: request a part of one card, or whole cards"
    return _part(amounts, unit) if unit == MEMORY else _percent(amounts, unit)


def _percent(amounts: Mapping[str, int], unit: str) -> _Kind | str:
    percent, core = amounts[unit], amounts.get(CORE, 0)
    cards = amounts.get(SHARED, max(1, percent // WHOLE))
    if percent < WHOLE:
        return _part(amounts, unit)
    if percent != cards * WHOLE:
        limit = f"{SHARED} is {cards}" if SHARED in amounts else "above 100, only whole cards can be allocated"
        return f"{unit} is {percent}; {limit}: request 1 to 99, or 100 per card"
    if cards > MAX_DEVICES:
        return f"{unit} is {percent}, which is {cards} cards; no machine has more than {MAX_DEVICES}"
    if core in {0, percent}:
        return _Kind(unit, whole=True)
    if cards > 1:
        return f"{cards} whole cards have a gpu-core of {percent}, not {core}: leave gpu-core out"
    return _part(amounts, unit)


def _part(amounts: Mapping[str, int], unit: str) -> _Kind | str:
    core = amounts.get(CORE, 0)
    if core > WHOLE:
        return f"gpu-core is {core} with a part of one card: request 100 at most"
    return _Kind(unit, whole=False)


def _ask(pod: PodView, prefix: str, kind: _Kind) -> Ask | Problem:
    """The amounts as they count for the pod: init containers reuse, sidecars add."""
    unit = by_container(pod, f"{prefix}{kind.unit}")
    core = unit if kind.unit == GPU else by_container(pod, f"{prefix}{CORE}")
    entries = [
        ContainerAsk(name, devices=unit.get(name, 0) // WHOLE)
        if kind.whole
        else ContainerAsk(name, share=unit.get(name, 0), core=core.get(name, 0))
        for name in (container.name for container in pod.containers)
        if name in unit or (name in core and not kind.whole)
    ]
    in_bytes = kind.unit == MEMORY
    ask = Ask(f"{prefix}{kind.unit}", tuple(entries), pod.namespace, mode="percent", in_bytes=in_bytes)
    return ask if kind.whole else _on_one_card(pod, prefix, ask)


def _on_one_card(pod: PodView, prefix: str, ask: Ask) -> Ask | Problem:
    """The parts of all containers are on one card, so their sum must fit there."""
    cards = sum(by_container(pod, f"{prefix}{SHARED}").values())
    share = 0 if ask.in_bytes else ask.share
    if max(share, ask.core) > WHOLE or cards > 1:
        total = f"{cards} cards" if cards > 1 else f"{max(share, ask.core)} percent of a card"
        sentence = (
            f"the containers request parts of {total} together: request 100 percent of one card at most, or whole cards"
        )
        return Problem(where_pod(pod), ask.resource, sentence)
    return ask
