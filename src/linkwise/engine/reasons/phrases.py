"""Building blocks of refusal texts: counts, amounts, lists of facts, and the stable codes of reasons.

Conditions, JSON output and metrics carry a code, which says by whom a pod can be helped; programs may depend on it, and a
code is never given another meaning. Every text of the catalogue names its code. docs/reference/reason-codes.md describes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from linkwise.model.access_policy import domain_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from linkwise.model.verdict import Fact, Reason

__all__ = [
    "CODES",
    "OTHER_GROUP",
    "OTHER_NAMESPACE",
    "OTHER_POD",
    "OTHER_USER",
    "PENDING_CODES",
    "PLACED",
    "ReasonCode",
    "RefusalText",
    "as_pairs",
    "as_tuple",
    "choice_text",
    "comma_list",
    "count_text",
    "decisive",
    "device_count",
    "device_names",
    "domains_text",
    "groups_text",
    "is_or_are",
    "pod_text",
    "size_text",
    "with_unit",
]

OTHER_NAMESPACE: Final = "another namespace"
OTHER_POD: Final = f"a pod of {OTHER_NAMESPACE}"
OTHER_GROUP: Final = f"a group of {OTHER_NAMESPACE}"
OTHER_USER: Final = "another user"
"""instead of names that a reader may not see; no name has a space"""
_SIZES: Final = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
ReasonCode = Literal[
    "Invalid",
    "NotPermitted",
    "GangIncomplete",
    "OtherScheduler",
    "NoTopology",
    "Excluded",
    "NoRoom",
    "Fragmented",
    "Reserved",
    "Planned",
    "Placed",
]
PLACED: Final[ReasonCode] = "Placed"
CODES: Final[Mapping[ReasonCode, str]] = {
    "Invalid": "the request is invalid: change the manifest",
    "NotPermitted": "a policy of the administrator does not permit the request, or sharing the devices that are free",
    "GangIncomplete": "members of the group, their volumes, its PodGroup or the removal of scheduling gates are missing",
    "OtherScheduler": "no scheduler that calls Linkwise has asked about the pod: check its schedulerName",
    "NoTopology": "no node has hardware, or healthy hardware, that can serve the request, even when it is idle",
    "Excluded": "suitable nodes are cordoned, not ready or tainted, or do not match the pod's selectors and affinity",
    "NoRoom": "not enough is free",
    "Fragmented": "enough is free in number, but not in one place or in the required layout",
    "Reserved": "free devices are reserved for a request that is ahead in the queue",
    "Planned": "a node fits or a plan exists or is being made: the scheduler's next attempt is awaited",
    "Placed": "the pod has its node; the only code of a pod that is not pending",
}
"""by code, what it says: ordered by who can act, the owner of the pod first; last, what needs no action"""
PENDING_CODES: Final = tuple(code for code in CODES if code != PLACED)
_PRECEDENCE: Final[tuple[ReasonCode, ...]] = (
    "Invalid",
    "NotPermitted",
    "GangIncomplete",
    "Reserved",
    "Planned",
    "Fragmented",
    "NoRoom",
    "Excluded",
    "NoTopology",
)
"""of the codes of different nodes, the one that counts: where least is lacking"""


class RefusalText(NamedTuple):
    """The two texts of one refusal."""

    short: str
    """equal across nodes, to be read after a count: `3 node(s) had too few free devices`; `{}` for what `named` returns"""
    long: str | Callable[[Reason], str]
    """for people, with numbers and names; a plain string where the reason carries none"""
    code: ReasonCode | None = None
    """the stable code; None for rules that have one code for all of their refusals"""
    named: Callable[[Reason], str] | None = None
    """the pod's own words in the short text, which are equal on all nodes: `CUDA below 12.2`"""


def choice_text(counts: Sequence[int]) -> str:
    """Numbers to choose from: `1, 2, 4 or 8`; a range without gaps as `1 to 8`."""
    if len(counts) > 2 and list(counts) == list(range(counts[0], counts[-1] + 1)):
        return f"{counts[0]} to {counts[-1]}"
    return " or ".join(filter(None, (", ".join(map(str, counts[:-1])), str(counts[-1]))))


def count_text(count: int, noun: str) -> str:
    """A count and its noun: 1 device, 2 devices."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def size_text(count: int, *, up: bool = False) -> str:
    """Bytes with a binary unit and two decimals.

    Requests are rounded up and free amounts down, so that a request that does not fit never looks as if it did.
    """
    unit, name = next((pair for pair in _SIZES if count >= pair[0]), (1, "bytes"))
    hundredths = -(-count * 100 // unit) if up else count * 100 // unit
    return f"{hundredths / 100:.2f}".rstrip("0").rstrip(".") + f" {name}"


def with_unit(number: Fact, unit: str) -> str:
    """An amount with its unit: `4 GiB`, `50%`; the bare number if the unit is unknown."""
    return f"{number}%" if unit == "%" else f"{number} {unit}".rstrip()


def device_count(number: Fact) -> str:
    """`1 device`, `2 devices`."""
    return f"{number} device" if number == 1 else f"{number} devices"


def is_or_are(number: Fact) -> str:
    """The verb that agrees with a number."""
    return "is" if number == 1 else "are"


def as_tuple(fact: Fact) -> tuple[int | str, ...]:
    """The single values of a fact."""
    return tuple(entry for entry in fact if not isinstance(entry, tuple)) if isinstance(fact, tuple) else (str(fact),)


def as_pairs(fact: Fact) -> list[tuple[int, int]]:
    """The pairs of numbers of a fact."""
    return [entry for entry in fact if isinstance(entry, tuple)] if isinstance(fact, tuple) else []


def comma_list(fact: Fact) -> str:
    """The values of a fact, separated by commas."""
    return ", ".join(map(str, as_tuple(fact)))


def device_names(fact: Fact) -> str:
    """`device 1`, `devices 1, 2`."""
    return f"device{'s' if len(as_tuple(fact)) > 1 else ''} {comma_list(fact)}"


def pod_text(name: str, how: str = "") -> str:
    """A pod by its name: `pod default/train`, `terminating pod default/train`; `a pod of another namespace` without one."""
    words = f"{how} " if how else ""
    return f"a {words}{name.removeprefix('a ')}" if name.startswith(OTHER_POD) else f"{words}pod {name}"


def groups_text(names: Sequence[str]) -> str:
    """Groups by their names: `group default/llm`; those without one as a number of groups of other namespaces."""
    own = [name for name in names if name != OTHER_GROUP]
    others = len(names) - len(own)
    more = OTHER_GROUP if others == 1 else f"{others} groups of other namespaces"
    return " and ".join([*([f"group {', '.join(own)}"] if own else ()), *([more] if others else ())])


def domains_text(domains: Iterable[str]) -> str:
    """Sharing domains in words: `namespace team-a and user alice`; those without a name once."""
    words = (domain if domain in {OTHER_NAMESPACE, OTHER_USER} else domain_text(domain) for domain in domains)
    return " and ".join(dict.fromkeys(words))


def decisive(codes: Iterable[ReasonCode]) -> ReasonCode | None:
    """The code of a pod by those of the nodes that refuse it; None without any."""
    found = set(codes)
    return next((code for code in _PRECEDENCE if code in found), None)
