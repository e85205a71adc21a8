"""Phrases shared by explanations: amounts, names, score terms, refusals and remedies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.engine.reasons.catalog import counted_nodes, has_details, shortage, size_text
from linkwise.engine.reasons.phrases import OTHER_POD, count_text, groups_text, pod_text
from linkwise.model.topology import NO_LINK_DATA
from linkwise.policies.ring_affinity import LETTERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from linkwise.explain.reports import Leaver, Remedy, Term
    from linkwise.explain.survey import RefusalSummary

__all__ = [
    "NOT_RESOLVED",
    "against_line",
    "ask_text",
    "difference_text",
    "leaver_text",
    "leavers_text",
    "names_text",
    "part_text",
    "refusal_lines",
    "remedy_line",
    "share_text",
    "split_line",
    "terms_text",
]

MOST_NAMES: Final = 5


def names_text(names: Sequence[str]) -> str:
    """Return the first few names and the number of others."""
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def share_text(share: int, unit: str) -> str:
    """Return an amount of memory with its unit; bytes in a readable unit."""
    if unit == "bytes":
        return size_text(share)
    return f"{share}%" if unit == "%" else f"{share} {unit}".rstrip()


def part_text(share: int, core: int, unit: str) -> str:
    """Return a share of one device."""
    if not core:
        return share_text(share, unit)
    return f"{share_text(share, unit)} of the memory and {core}% of the compute"


def ask_text(devices: int, share: int, core: int, unit: str) -> str:
    """Return a request: a number of devices, or a share of one."""
    return count_text(devices, "device") if devices else f"{part_text(share, core, unit)} of one device"


# Text before and after the number of a term.
_TERMS: Final = {
    "score": ("link score ", ""),
    "bottleneck": ("bottleneck ", " GB/s"),
    "health": ("", " healthy device"),
    "group": ("group ", ""),
    "tightness": ("", " left free on the device"),
    "packing": ("", " free device"),
    "numa": ("", " NUMA node"),
    "nic": ("", " device"),
}
_COUNTS: Final = {"health", "packing", "numa", "nic"}
_SAYS_NOTHING: Final = {("known", 1), ("score", 0), ("bottleneck", 0), ("numa", 0), ("nic", 0)}


def terms_text(terms: Sequence[Term]) -> str:
    """Return the informative terms of a score: a link score itself, not its class, and losses only without links."""
    scores = [term for term in terms if term.name == "score"]
    others = [term for term in terms if term.name not in {"links", "score"} and not _of_sets(term.name)]
    telling = [term for term in (*scores, *others) if (term.name, term.value) not in _SAYS_NOTHING]
    if not any(term.name in {"score", "bottleneck"} for term in telling):
        telling += [term for term in terms if _of_sets(term.name) and term.value][:1]
    return ", ".join(_term(term.name, term.value) for term in telling)


def difference_text(name: str, there: int, here: int) -> str:
    """Return a term in which two nodes differ: link score 50 instead of 230."""
    if name == "known":
        return _term(name, there)
    if _of_sets(name) and not (there and here):
        return f"other pods would lose {'' if there else 'no '}{name} there"
    return f"{_term(name, there)} instead of {_number(name, here)}"


def _term(name: str, value: int) -> str:
    if name == "known":
        return "links known" if value else NO_LINK_DATA
    if _of_sets(name):
        # Without link data a set counts, but is worth next to nothing.
        return f"other pods lose {name}" + (f" worth {_number(name, value)}" if value < -1 else "")
    before, after = _TERMS.get(name, (f"{name} ", ""))
    plural = "s" if name in _COUNTS and _number(name, value) != "1" else ""
    behind = " near a NIC" if name == "nic" else ""
    return f"{before}{_number(name, value)}{after}{plural}{behind}"


def _number(name: str, value: int) -> str:
    """Return the number of a term; costs are negative and shown as positive counts."""
    if name == "group":
        return LETTERS[min(-value, len(LETTERS) - 1)]
    if _of_sets(name):
        return f"{abs(value)} GB/s"
    if name == "numa":
        return str(1 - value)  # the term counts those beyond the first
    return f"{value / 10:g}" if name == "bottleneck" else str(abs(value))


def _of_sets(name: str) -> bool:
    return name.startswith("sets of ")


NOT_RESOLVED: Final = "not resolved by other pods finishing"


def against_line(group: RefusalSummary) -> str:
    """Return a refusal, its number of nodes, and the details of the nearest node."""
    if group.nodes == 1:
        return f"node {group.nearest}: {group.sentence}"
    nodes = counted_nodes(group.nodes, group.short)
    if group.rule == "002.inventory" or not has_details(group.rule, group.kind):
        return nodes
    return f"{nodes}; nearest is {group.nearest}: {group.sentence}"


def refusal_lines(groups: Sequence[RefusalSummary]) -> Iterator[str]:
    """One line per reason; those that other pods can't resolve come last and are marked once."""
    final = [against_line(group) for group in groups if group.final]
    yield from (against_line(group) for group in groups if not group.final)
    if len(final) == 1:
        yield f"{final[0]} ({NOT_RESOLVED})"
    elif final:
        yield from (f"{NOT_RESOLVED}:", *final)


def remedy_line(remedy: Remedy) -> str:
    """Return a remedy as a sentence."""
    return _LINES[remedy.kind](remedy)


def _pods_end(remedy: Remedy) -> str:
    return f"it fits on node {remedy.node} once {leavers_text(remedy.pods, _all_text)}"


def _all_text(items: Sequence[str]) -> str:
    *others, last = items
    return f"{', '.join(others)} and {last}" if others else last


def leavers_text(pods: Sequence[Leaver], listed: Callable[[Sequence[str]], str], nodes: Sequence[str] = ()) -> str:
    """Return that these pods finish, or have stopped if they are terminating: `pods a (2 devices) and b (1 device) finish`."""
    one, how = len(pods) == 1, "terminating" if all(pod.terminating for pod in pods) else ""
    amounts = [f" ({leaver_text(pod)})" for pod in pods]
    places = [f" on node {node}" for node in nodes] or [""] * len(pods)
    if any(pod.name == OTHER_POD for pod in pods):
        noun, names = "", [pod_text(pod.name, how) for pod in pods]
    else:
        noun, names = f"{how} pod{'' if one else 's'} ".lstrip(), [pod.name for pod in pods]
    named = listed([f"{name}{amount}{at}" for name, amount, at in zip(names, amounts, places, strict=True)])
    if how:
        return f"{noun}{named} {'has' if one else 'have'} stopped"
    return f"{noun}{named} {'finishes' if one else 'finish'}"


def leaver_text(pod: Leaver) -> str:
    """Return what the pod frees when it finishes."""
    if pod.cpu:
        return f"{pod.cpu / 1000:g} cpu"
    if pod.share:
        return share_text(pod.share, pod.unit)
    return count_text(pod.devices, "device")


def _beside(remedy: Remedy) -> str:
    lacks = shortage(remedy.reason) if remedy.reason else "lacks something else"
    others = f" (nearest of {remedy.nodes} such nodes)" if remedy.nodes > 1 else ""
    return f"node {remedy.node} has enough free devices, but {lacks}{others}"


def split_line(pods: int, each: int) -> str:
    """Return how a request is split that no node can serve."""
    return f"no node has that many devices: split it into a group of {pods} pods with {count_text(each, 'device')} each"


def _other_mode(remedy: Remedy) -> str:
    idle = f"{count_text(remedy.amount, 'device')} {'is' if remedy.amount == 1 else 'are'} idle"
    return f"{idle} on {count_text(remedy.nodes, 'node')} of a different sharing mode"


def _reserved(remedy: Remedy) -> str:
    amount = share_text(remedy.amount, remedy.unit) if remedy.unit else count_text(remedy.amount, "device")
    are = "is" if remedy.unit or remedy.amount == 1 else "are"
    return f"it would fit on node {remedy.node}, but {amount} there {are} reserved for {groups_text(remedy.groups)}"


_LINES: Final[dict[str, Callable[[Remedy], str]]] = {
    "reserved": _reserved,
    "pods end": _pods_end,
    "beside devices": _beside,
    "split": lambda remedy: split_line(remedy.count, remedy.amount),
    "fewer devices": lambda remedy: (
        f"a request for {count_text(remedy.amount, 'device')} would fit now on node {remedy.node}"
    ),
    "less memory": lambda remedy: (
        f"the largest request that fits on one device now is {share_text(remedy.amount, remedy.unit)}, "
        f"on device {remedy.device} of node {remedy.node}"
    ),
    "less compute": lambda remedy: (
        f"the most free compute on one device is {remedy.amount}%, on device {remedy.device} of node {remedy.node}"
    ),
    "other mode": _other_mode,
}
