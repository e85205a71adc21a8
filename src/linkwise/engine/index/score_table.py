"""Which nodes serve one kind of ask, and how well: for every score the set of nodes that have it."""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections import Counter
from typing import TYPE_CHECKING, Final

from linkwise.engine.reasons.catalog import short_refusal
from linkwise.model.verdict import Reject
from linkwise.speed.uniform_mapping import UniformMapping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from linkwise.engine.index.shapes import Shape
    from linkwise.model.node import Node

__all__ = ["ClassTable", "Code", "Verdict"]

Code = tuple[int, ...]
"""a policy's score: larger is better, term by term"""
Verdict = Code | Reject

MOST_SHAPES: Final = 50_000
"""judged shapes that are remembered; more than that are judged again"""
_PLAIN: Final = re.compile(r"[A-Za-z0-9._-]+")


class ClassTable:
    """One kind of ask put to every node; nodes of one shape are judged once.

    Args:
        judge: what a node answers to the ask.
        leading: how many terms of a score make its class.
        by_shape: whether nodes of one shape answer alike.
    """

    def __init__(self, judge: Callable[[Node], Verdict], leading: int, *, by_shape: bool = True) -> None:
        self._judge = judge
        self._by_shape = by_shape
        self._verdicts: dict[Shape, Verdict] = {}
        self.leading: Final = leading
        self.codes: dict[str, Code] = {}
        """the score of every node that fits"""
        self.refused: dict[str, Reject] = {}
        """why the others do not; `node` of a refusal is whichever of that shape was judged"""
        self.texts: dict[str, str] = {}
        """the same as short texts, of nodes that may fit when others leave"""
        self.final: dict[str, str] = {}
        """and of those that never will"""
        self._told: dict[bool, Counter[str]] = {False: Counter(), True: Counter()}
        """how many nodes have each text, final ones apart: where it is one, it is everybody's"""
        self._odd: set[str] = set()
        """nodes that do not fit whose names have other characters than those of Kubernetes"""
        self.sets: dict[Code, set[str]] = {}
        self.order: list[Code] = []
        """the scores that some node has, ascending"""
        self.position = 0
        """how much of the change log it has seen"""
        self.owing: dict[str, None] = {}
        """nodes that changed and were not judged again yet; they stand in none of the sets"""
        self.steps = 0
        """shapes judged since it was made"""

    def __len__(self) -> int:
        return len(self.codes) + len(self.refused)

    def verdict(self, shape: Shape, node: Node) -> Verdict:
        """What a node of this shape answers."""
        if not self._by_shape:
            return self._judge(node)
        found = self._verdicts.get(shape)
        if found is None:
            if len(self._verdicts) >= MOST_SHAPES:
                self._verdicts.clear()
            found = self._verdicts[shape] = self._judge(node)
            self.steps += 1
        return found

    def knows(self, shape: Shape) -> bool:
        """Whether a node of this shape was judged."""
        return shape in self._verdicts

    def put(self, name: str, verdict: Verdict) -> None:
        """What the node of that name answers now."""
        if isinstance(verdict, Reject):
            self.drop(name)
            self.refused[name] = verdict
            texts = self.final if verdict.final else self.texts
            texts[name] = short_refusal(verdict.reason)
            self._told[verdict.final][texts[name]] += 1
            if not _PLAIN.fullmatch(name):
                self._odd.add(name)
        elif self.codes.get(name) != verdict:
            self.drop(name)
            self._enter(name, verdict)

    def drop(self, name: str) -> None:
        """Forget a node."""
        refused = self.refused.pop(name, None)
        if refused:
            text = (self.final if refused.final else self.texts).pop(name)
            told = self._told[refused.final]
            told[text] -= 1
            if not told[text]:
                del told[text]
            self._odd.discard(name)
        old = self.codes.get(name)
        if old is not None:
            self._leave(name, old)

    def fits(self, names: Iterable[str]) -> list[str]:
        """Those of the names that fit, in their order."""
        return list(filter(self.codes.__contains__, names))

    def why(self, names: Sequence[str], otherwise: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Why none of the names fits, as short texts: what may pass, and what will not."""
        for texts, final in ((self.texts, False), (self.final, True)):
            # Where one text is everybody's, it is enough to see that all are known and none fits.
            if len(self._told[final]) == 1 and texts and all(map(texts.__contains__, names)):
                alike = UniformMapping(names, next(iter(texts.values())), plain=not self._odd)
                return ({}, alike) if final else (alike, {})
        final_texts = {name: text for name in names if (text := self.final.get(name)) is not None}
        return {name: self.texts.get(name, otherwise) for name in names if name not in final_texts}, final_texts

    def _enter(self, name: str, code: Code) -> None:
        self.codes[name] = code
        if code not in self.sets:
            self.sets[code] = set()
            insort(self.order, code)
        self.sets[code].add(name)

    def _leave(self, name: str, code: Code) -> None:
        del self.codes[name]
        self.sets[code].remove(name)
        if not self.sets[code]:
            del self.sets[code]
            del self.order[bisect_left(self.order, code)]
