"""Score table: every node's verdict on one kind of query, with the nodes grouped by score.

Bound: a policy is run once per shape, not once per node, and a changed node moves between two sets. Thousands of nodes have
few shapes: a shape consists of the node's build (links without the noise of their samples, devices, profile) and of its free
devices, which is all that an offer of whole devices can depend on.

Choosing is one pass over the names of the request. Names are thousands, and counting or hashing them costs more than the
rest of the call, so the best nodes are searched among them first, then a small pool of the best, and only then all are
hashed. Nodes with equal scores are ordered by name, because kube-scheduler sends the names in a different order every time.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from itertools import chain, filterfalse, groupby, islice
from typing import TYPE_CHECKING, Final, NamedTuple, Union

from linkwise.engine.reasons.catalog import short_refusal
from linkwise.model.verdict import Reject
from linkwise.policies.alignment import is_aligned
from linkwise.speed.uniform_mapping import UniformMapping
from linkwise.topology.canonical import canonical_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet

    from linkwise.model.node import Mode, Node
    from linkwise.model.topology import Topology

__all__ = [
    "GUESSES",
    "Build",
    "ClassTable",
    "Code",
    "NodeKind",
    "Shape",
    "Shapes",
    "Verdict",
    "best_names",
    "first_guess",
    "named",
    "pool_size",
    "shape_of",
]

Code = tuple[int, ...]
"""a policy's score: larger is better, term by term"""
Verdict = Code | Reject

NodeKind = Union["Shape", tuple["Shape", "Hashable"]]
"""what a verdict depends on: the shape of a node, with its facts where they matter"""

MOST_SHAPES: Final = 50_000
"""cached verdicts by shape; the cache is cleared when it is full"""
FEW: Final = 4
"""if there are this many times more nodes than names, the names are looked up one by one"""

GUESSES: Final = 3
"""nodes that are searched among the names one by one: three searches take as long as hashing all names"""
_PLAIN: Final = re.compile(r"[A-Za-z0-9._-]+")


class ClassTable:
    """The verdicts of all nodes on one kind of query.

    Args:
        judge: evaluates the query on a node.
        leading: the number of leading score terms that define a class of equally good nodes.
        by_shape: whether nodes of one kind have equal verdicts, so that one evaluation serves all of them.
        by_facts: whether nodes of one kind have equal facts, or only equal shapes.
    """

    def __init__(
        self, judge: Callable[[Node], Verdict], leading: int, *, by_shape: bool = True, by_facts: bool = False
    ) -> None:
        self._judge = judge
        self._by_shape = by_shape
        self.by_facts: Final = by_facts
        self._verdicts: dict[NodeKind, Verdict] = {}
        self.leading: Final = leading
        self.codes: dict[str, Code] = {}
        """the score of every node that fits"""
        self.refused: dict[str, Reject] = {}
        """the refusal of every other node; its `node` is the first node of that shape that was evaluated"""
        self.texts: dict[str, str] = {}
        """short texts of refusals that other pods' end may resolve"""
        self.final: dict[str, str] = {}
        """short texts of refusals that it can't"""
        self._text_counts: dict[bool, Counter[str]] = {False: Counter(), True: Counter()}
        """nodes per text, by `final`: a single text is returned as one value for all names"""
        self._escaped: set[str] = set()
        """refused nodes whose names have characters that JSON may escape, which Kubernetes names never have"""
        self._sets: dict[Code, set[str]] = {}
        """the nodes with each score"""
        self._sorted: dict[Code, list[str]] = {}
        """the same by name, for the scores that were read"""
        self.order: list[Code] = []
        """all scores, ascending"""
        self.position = 0
        """position in the change log"""
        self.owing: dict[str, None] = {}
        """changed nodes that are not evaluated again yet; they are in none of the sets"""
        self.steps = 0
        """shapes evaluated so far"""

    def __len__(self) -> int:
        return len(self.codes) + len(self.refused)

    def verdict(self, kind: NodeKind, node: Node) -> Verdict:
        """The verdict of a node of this kind."""
        if not self._by_shape:
            return self._judge(node)
        verdict = self._verdicts.get(kind)
        if verdict is None:
            # As a whole, because nothing records which of them are still used.
            if len(self._verdicts) >= MOST_SHAPES:
                self._verdicts.clear()
            verdict = self._verdicts[kind] = self._judge(node)
            self.steps += 1
        return verdict

    def knows(self, kind: NodeKind) -> bool:
        """Whether the verdict of this kind is cached."""
        return kind in self._verdicts

    def put(self, name: str, verdict: Verdict) -> None:
        """Set the verdict of a node."""
        if isinstance(verdict, Reject):
            self.drop(name)
            self.refused[name] = verdict
            texts = self.final if verdict.final else self.texts
            texts[name] = short_refusal(verdict.reason)
            self._text_counts[verdict.final][texts[name]] += 1
            if not _PLAIN.fullmatch(name):
                self._escaped.add(name)
        elif self.codes.get(name) != verdict:
            self.drop(name)
            self._enter(name, verdict)

    def drop(self, name: str) -> None:
        """Remove a node."""
        refused = self.refused.pop(name, None)
        if refused:
            text = (self.final if refused.final else self.texts).pop(name)
            counts = self._text_counts[refused.final]
            counts[text] -= 1
            if not counts[text]:
                del counts[text]
            self._escaped.discard(name)
        old = self.codes.get(name)
        if old is not None:
            self._leave(name, old)

    def names(self, code: Code) -> Sequence[str]:
        """The nodes with this score, by name."""
        if code not in self._sorted:
            self._sorted[code] = sorted(self._sets[code])
        return self._sorted[code]

    def after(self, name: str, code: Code, count: int) -> list[tuple[str, Code]]:
        """The next `count` nodes behind one with this score: by score, equal ones by name."""
        behind: list[tuple[str, Code]] = []
        if code in self._sets:
            equal = self.names(code)
            start = bisect_right(equal, name)
            behind = [(other, code) for other in equal[start : start + count]]
        place = bisect_left(self.order, code)
        while len(behind) < count and place > 0:
            place -= 1
            lower = self.order[place]
            behind += [(other, lower) for other in self.names(lower)[: count - len(behind)]]
        return behind

    def fits(self, names: Iterable[str]) -> list[str]:
        """Those of the names that fit, in their order."""
        return list(filter(self.codes.__contains__, names))

    def why(self, names: Sequence[str], otherwise: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Short refusal texts of names that all do not fit: resolvable by other pods ending, and unresolvable."""
        for texts, final in ((self.texts, False), (self.final, True)):
            # If all refusals have one text, checking that every name is refused is enough.
            if len(self._text_counts[final]) == 1 and texts and all(map(texts.__contains__, names)):
                uniform = UniformMapping(names, next(iter(texts.values())), plain=not self._escaped)
                return ({}, uniform) if final else (uniform, {})
        final_texts = {name: text for name in names if (text := self.final.get(name)) is not None}
        return {name: self.texts.get(name, otherwise) for name in names if name not in final_texts}, final_texts

    def _enter(self, name: str, code: Code) -> None:
        self.codes[name] = code
        if code not in self._sets:
            self._sets[code] = set()
            insort(self.order, code)
        self._sets[code].add(name)
        if code in self._sorted:
            insort(self._sorted[code], name)

    def _leave(self, name: str, code: Code) -> None:
        del self.codes[name]
        self._sets[code].remove(name)
        if code in self._sorted:
            names = self._sorted[code]
            del names[bisect_left(names, name)]
        if not self._sets[code]:
            del self._sets[code]
            self._sorted.pop(code, None)
            del self.order[bisect_left(self.order, code)]


def best_names(
    table: ClassTable, names: Sequence[str], breadth: int, without: AbstractSet[str] = frozenset()
) -> list[str]:
    """At most `breadth` of the names that are not in `without`, all of the best class that any of them is in.

    The best come first, and equal ones by name. Empty only if none of these names fits.
    """
    if not table.codes or not names:
        return []
    if breadth == 1 and (best := first_guess(_leading(table, GUESSES, without)[0], names)):
        return best
    if len(names) * FEW <= len(table):
        return _by_name(table, names, breadth, without)
    pool, complete = _leading(table, pool_size(breadth, len(names), len(table)), without)
    best = named(pool, names, breadth)
    if len(best) == breadth or (best and complete):
        return best
    wanted = set(names)
    wanted -= without
    for codes in _classes(table):
        hits = chain.from_iterable(filter(wanted.__contains__, table.names(code)) for code in codes)
        if best := list(islice(hits, breadth)):
            return best
    return []


def pool_size(breadth: int, names: int, nodes: int) -> int:
    """The number of best nodes that almost always has enough of the names."""
    return int((2 * breadth + 14) * max(1.0, nodes / max(1, names)))


def first_guess(guesses: Sequence[str], names: Sequence[str]) -> list[str]:
    """The first of the guesses that is among the names, in a list."""
    return next(([name] for name in guesses if name in names), [])


def named(pool: Sequence[str], names: Sequence[str], breadth: int) -> list[str]:
    """The first `breadth` nodes of an ordered pool that are among the names."""
    in_pool = set(pool).intersection(names)
    return list(islice(filter(in_pool.__contains__, pool), breadth))


class Shape(NamedTuple):
    """The number of the node's build, and its free devices as a bit mask in index order."""

    build: int
    free: int
    mode: Mode
    unattributed: int
    """twice the number of unattributed devices, plus one if there is unattributed memory"""


class Build(NamedTuple):
    """The constant part of a node: links, devices and profile; equal builds have equal numbers."""

    number: int
    key: Hashable
    node: tuple[object, ...]
    """the values it was computed from, compared by identity"""


class Shapes:
    """Builds and their numbers, reference-counted by node.

    Args:
        exact: distinguish builds by the noise of samples too; needed if a bandwidth floor in GB/s is set.
        nic: distinguish builds by NICs too.
    """

    def __init__(self, *, exact: bool = False, nic: bool = False) -> None:
        self._exact = exact
        self._nic = nic
        self._numbers: dict[Hashable, int] = {}
        self._users: dict[Hashable, int] = {}
        self._builds: dict[str, Build] = {}
        self._last = 0

    def shape(self, node: Node, words: frozenset[str]) -> Shape:
        """The node's shape now."""
        return shape_of(self._build(node, words).number, node)

    def drop(self, name: str) -> None:
        """Remove a node."""
        build = self._builds.pop(name, None)
        if build is not None:
            self._users[build.key] -= 1
            if not self._users[build.key]:
                del self._users[build.key], self._numbers[build.key]

    def __len__(self) -> int:
        return len(self._numbers)

    def _build(self, node: Node, words: frozenset[str]) -> Build:
        source = (node.devices, node.topology, node.profile, words, node.alignment)
        known = self._builds.get(node.name)
        if known is not None and all(map(_same, known.node, source)):
            return known
        self.drop(node.name)
        aligned = node.alignment if is_aligned(node) else None
        key = (self._links(node.topology), self._devices(node), node.profile, words, aligned)
        if key not in self._numbers:
            self._last += 1
            self._numbers[key] = self._last
        self._users[key] = self._users.get(key, 0) + 1
        build = Build(self._numbers[key], key, source)
        self._builds[node.name] = build
        return build

    def _devices(self, node: Node) -> Hashable:
        """Index, health, reachability and topology position of every device; NUMA nodes and NICs where they make a difference."""
        positions = node.positions()
        devices = tuple(
            (device.index, device.healthy, device.reachable, positions.get(device.id)) for device in node.devices
        )
        numa = tuple(device.numa for device in node.devices)
        nics = tuple(bool(device.nics) for device in node.devices) if self._nic else ()
        return (devices, numa, nics) if len(set(numa)) > 1 or any(nics) else devices

    def _links(self, topology: Topology | None) -> Hashable:
        if topology is None:
            return None
        if self._exact:
            return topology.links, topology.bandwidth
        return topology.links or (canonical_pairs(topology), not topology.bandwidth)  # a single device has no pairs


def shape_of(build: int, node: Node) -> Shape:
    """The shape of a node with this build."""
    used = node.used
    free = 0
    for position, device in enumerate(node.devices):
        if device.healthy and device.id not in used:
            free |= 1 << position
    return Shape(build, free, node.mode, 2 * node.unattributed + (node.unattributed_share > 0))


def _leading(table: ClassTable, enough: int, without: AbstractSet[str]) -> tuple[list[str], bool]:
    """The best nodes of the best class that are not in `without`, about `enough`; whether these are all."""
    pool: list[str] = []
    for code in next(_classes(table)):
        if len(pool) >= enough:
            return pool, False
        names = table.names(code)
        missing = enough - len(pool) + len(without)
        pool += filterfalse(without.__contains__, names[:missing]) if without else names[:missing]
        if missing < len(names):
            return pool, False
    return pool, True


def _classes(table: ClassTable) -> Iterator[Iterator[Code]]:
    """The scores of each class, the best first."""
    return (codes for _, codes in groupby(reversed(table.order), key=lambda code: code[: table.leading]))


def _by_name(table: ClassTable, names: Sequence[str], breadth: int, without: AbstractSet[str]) -> list[str]:
    """The best names by looking up every name."""
    known = table.codes
    fitting = {name: code for name in names if (code := known.get(name)) is not None and name not in without}
    if not fitting:
        return []
    # The best leading terms are a prefix: exactly the codes that begin with them compare greater or equal.
    best = max(fitting.values())[: table.leading]
    by_code: dict[Code, list[str]] = {}
    for name, code in fitting.items():
        if code >= best:
            by_code.setdefault(code, []).append(name)
    ordered = chain.from_iterable(sorted(by_code[code]) for code in sorted(by_code, reverse=True))
    return list(islice(ordered, breadth))


def _same(one: object, other: object) -> bool:
    return one is other or (isinstance(one, frozenset | str) and one == other)
