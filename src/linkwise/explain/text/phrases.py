"""Amounts, names and terms as people write them.

What speaks against nodes, as a line.

What would help, as sentences.
"""
# Joined from amounts, against_text, remedy_text: one docstring for all.

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.engine.reasons.catalog import counted_nodes, has_details, refusal, shortage, size_text
from linkwise.engine.reasons.phrases import count_text
from linkwise.policies.ring_affinity import LETTERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from linkwise.explain.reports.pod import Leaver, Remedy, Term
    from linkwise.explain.survey import RefusalSummary

__all__ = [
    "LASTS",
    "against_line",
    "ask_text",
    "difference_text",
    "leaver_text",
    "names_text",
    "part_text",
    "remedy_line",
    "share_text",
    "terms_text",
]

MOST_NAMES: Final = 5


def names_text(names: Sequence[str]) -> str:
    """The first few, and how many more."""
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def share_text(share: int, unit: str) -> str:
    """Memory in its own unit; bytes in one that people read."""
    return size_text(share) if unit == "bytes" else f"{share} {unit}".rstrip()


def part_text(share: int, core: int, unit: str) -> str:
    """A part of one device."""
    if not core:
        return share_text(share, unit)
    return f"{share_text(share, unit)} of the memory and {core} % of the compute"


def ask_text(devices: int, share: int, core: int, unit: str) -> str:
    """What is asked for: so many devices, or so much of one."""
    return count_text(devices, "device") if devices else f"{part_text(share, core, unit)} of one device"


# What stands before and after the number of a term.
_TERMS: Final = {
    "links": ("links ", " points"),
    "bottleneck": ("bottleneck ", " GB/s"),
    "health": ("", " healthy"),
    "group": ("group ", ""),
    "tightness": ("", " left on the device"),
    "packing": ("", " free"),
}
_SAYS_NOTHING: Final = {("known", 1), ("links", 0), ("bottleneck", 0)}


def terms_text(terms: Iterable[Term]) -> str:
    """All numbers of a score that say something."""
    telling = [term for term in terms if (term.name, term.value) not in _SAYS_NOTHING]
    return ", ".join(_term(term.name, term.value) for term in telling if not _of_sets(term.name) or term.value)


def difference_text(name: str, there: int, here: int) -> str:
    """A term in which two nodes differ: links 50 points instead of 230."""
    if name == "known":
        return f"{_term(name, there)} instead of known" if here else _term(name, there)
    return f"{_term(name, there)} instead of {_number(name, here)}"


def _term(name: str, value: int) -> str:
    if name == "known":
        return "links known" if value else "links not known"
    if _of_sets(name):
        return f"{abs(value)} good set{'' if value == -1 else 's'} {name.removeprefix('sets ')} lost"
    before, after = _TERMS.get(name, (f"{name} ", ""))
    return f"{before}{_number(name, value)}{after}"


def _number(name: str, value: int) -> str:
    """Costs are counted from 0 down: what is shown is what they count."""
    if name == "group":
        return LETTERS[min(-value, len(LETTERS) - 1)]
    return f"{value / 10:g}" if name == "bottleneck" else str(abs(value))


def _of_sets(name: str) -> bool:
    return name.startswith("sets of ")


LASTS: Final = "no pod's end changes that"


def against_line(group: RefusalSummary) -> str:
    """One reason, on how many nodes, and what was asked and found on the nearest of them."""
    if group.nodes == 1:
        return f"node {group.nearest}: {group.sentence}"
    nodes = counted_nodes(group.nodes, group.short)
    if group.rule == "002.inventory" or not has_details(group.rule, group.kind):
        return nodes
    return f"{nodes}; nearest is {group.nearest}: {group.sentence}"


def remedy_line(remedy: Remedy) -> str:
    """One sentence."""
    return _LINES[remedy.kind](remedy)


def _pods_end(remedy: Remedy) -> str:
    *others, last = (f"{pod.name} ({leaver_text(pod)})" for pod in remedy.pods)
    named = f"{', '.join(others)} and {last}" if others else last
    one = len(remedy.pods) == 1
    noun = "pod" if one else "pods"
    if all(pod.leaving for pod in remedy.pods):
        return f"it fits on node {remedy.node} when {noun} {named}, being deleted, {'has' if one else 'have'} stopped"
    return f"it fits on node {remedy.node} when {noun} {named} {'ends' if one else 'end'}"


def leaver_text(pod: Leaver) -> str:
    """What comes free when the pod ends."""
    if pod.cpu:
        return f"{pod.cpu / 1000:g} cpu"
    if pod.share:
        return share_text(pod.share, pod.unit)
    return count_text(pod.devices, "device")


def _beside(remedy: Remedy) -> str:
    lacks = shortage(remedy.reason) if remedy.reason else "lacks something else"
    others = f"; the nearest of {remedy.nodes} such nodes" if remedy.nodes > 1 else ""
    return f"node {remedy.node} has the devices and {lacks}{others}"


def _other_mode(remedy: Remedy) -> str:
    why = refusal(remedy.reason) if remedy.reason else ""
    idle = f"{count_text(remedy.amount, 'device')} {'is' if remedy.amount == 1 else 'are'} idle"
    return f"{idle} on {count_text(remedy.nodes, 'node')} and can't serve it: {why}"


_LINES: Final[dict[str, Callable[[Remedy], str]]] = {
    "pods end": _pods_end,
    "beside devices": _beside,
    "fewer devices": lambda remedy: f"{count_text(remedy.amount, 'device')} would fit now on node {remedy.node}",
    "less memory": lambda remedy: (
        f"the largest room it may have on one device is {share_text(remedy.amount, remedy.unit)} now, "
        f"on device {remedy.device} of node {remedy.node}"
    ),
    "less compute": lambda remedy: (
        f"the most compute left of one device is {remedy.amount} % now, on device {remedy.device} of node {remedy.node}"
    ),
    "other mode": _other_mode,
}
