"""Preemption: which pods of lower priority must be evicted so that a pending pod or group fits.

The number of devices alone does not decide that: the freed ones must form a layout that the policy accepts. Sets of victims
are compared as kube-scheduler compares nodes: fewest violated disruption budgets, then the lowest highest priority, then
the fewest pods, then the lowest priorities.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain, combinations
from typing import TYPE_CHECKING, Final, NamedTuple

from linkwise.engine.selectors import all_met
from linkwise.engine.usage import node_of, usage_of
from linkwise.model.verdict import Offer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from linkwise.engine.index.node_index import Query
    from linkwise.engine.ledger import Key, Ledger
    from linkwise.model.inventory import NodeInventory
    from linkwise.model.views import DisruptionBudget, PodView

__all__ = ["Harm", "Search", "covers", "eviction_frees_enough", "harm_of", "violations"]

# 256 sets: with more candidates a full search would keep kube-scheduler waiting.
EXACT: Final = 8
"""candidates up to which every set is considered"""
MOST_SETS: Final = 600
"""small sets considered beyond that number"""


def eviction_frees_enough(
    ledger: Ledger, inventory: NodeInventory, query: Query, victims: Collection[Key], ended: Collection[str] = ()
) -> bool:
    """Whether the devices of the victims and the free ones together serve the query; `ended` pods use nothing any more."""
    remaining = [entry for entry in ledger.on(inventory.name) if entry.key not in victims]
    node = node_of(inventory, usage_of(inventory, remaining, {*victims, *ended}))
    return isinstance(query.pick(node), Offer)


class Harm(NamedTuple):
    """What the eviction of a set of pods costs; compared field by field."""

    violations: int
    """pods whose eviction violates a disruption budget"""
    highest: int
    """the highest priority"""
    pods: int
    total: int
    """the sum of the priorities"""


def harm_of(pods: Sequence[PodView], budgets: Collection[DisruptionBudget]) -> Harm:
    """The harm of evicting some pods."""
    priorities = [pod.priority for pod in pods]
    return Harm(
        violations(pods, budgets) if budgets else 0, max(priorities, default=0), len(priorities), sum(priorities)
    )


def violations(pods: Iterable[PodView], budgets: Collection[DisruptionBudget]) -> int:
    """How many of the pods could be evicted only against a disruption budget, counted as kube-scheduler does."""
    left = {(budget.namespace, budget.name): budget.allowed for budget in budgets}
    violated = 0
    for pod in sorted(pods, key=_importance):
        own = [budget for budget in budgets if covers(budget, pod)]
        for budget in own:
            left[budget.namespace, budget.name] -= 1
        violated += any(left[budget.namespace, budget.name] < 0 for budget in own)
    return violated


def covers(budget: DisruptionBudget, pod: PodView) -> bool:
    """Whether evicting the pod uses up the budget; an eviction that is counted already does not."""
    return (
        budget.namespace == pod.namespace
        and pod.name not in budget.disrupted
        and budget.match_labels.items() <= pod.labels.items()
        and all_met(budget.expressions, pod.labels)
    )


def _importance(pod: PodView) -> tuple[int, float, str]:
    """Sorts the most important pod first: by priority, then age."""
    return (-pod.priority, pod.created, pod.uid)


@dataclass(slots=True)
class Search:
    """Finds the set of victims that does the least harm and lets a pod or group fit.

    Exact for up to `EXACT` candidates. Beyond that the result can't be reduced, and no set of two pods does less harm,
    but a larger set may. `tries` bounds the calls of `enough`; when they are used up, no set is found.
    """

    enough: Callable[[frozenset[str]], bool]
    """whether the pod fits without these pods; with more of them gone, it still does"""
    harm: Callable[[Sequence[PodView]], Harm | None]
    """the harm of a set; None if it must not be evicted"""
    tries: int
    plausible: Callable[[frozenset[str]], bool] = lambda _: True
    """a fast check that every sufficient set passes; it does not count as a try"""
    _known: dict[frozenset[str], bool] = field(default_factory=dict)

    def victims(self, candidates: Sequence[PodView]) -> tuple[PodView, ...]:
        """The victims among the candidates; empty if there is no such set."""
        ordered = sorted(candidates, key=_importance)
        if not ordered or not self._fits(ordered):
            return ()
        if len(ordered) <= EXACT:
            return self._least_harm(ordered, chain.from_iterable(combinations(ordered, n + 1) for n in range(EXACT)))
        reprieved = self.reprieve(self._lowest(ordered))
        few = chain(combinations(ordered, 1), combinations(ordered, 2) if len(ordered) ** 2 <= 2 * MOST_SETS else ())
        return self._least_harm(ordered, few, reprieved) or reprieved

    def _least_harm(
        self, ordered: Sequence[PodView], sets: Iterable[tuple[PodView, ...]], known: tuple[PodView, ...] = ()
    ) -> tuple[PodView, ...]:
        """The first sufficient set by harm; none that does as much harm as the `known` one."""
        limit = self.harm(known) if known else None
        possible = (pods for pods in sets if self.plausible(_uids(pods)))
        ranked = [(harm, pods) for pods in possible if (harm := self.harm(pods)) and (limit is None or harm < limit)]
        ranked.sort(key=lambda option: (option[0], [-pod.created for pod in option[1]], [pod.uid for pod in option[1]]))
        levels = sorted({pod.priority for pod in ordered})
        insufficient = next(
            (level for level in reversed(levels[:-1]) if not self._fits([p for p in ordered if p.priority <= level])),
            None,
        )
        for harm, pods in ranked:
            if (insufficient is None or harm.highest > insufficient) and self._fits(pods):
                return pods
        return ()

    def _lowest(self, ordered: Sequence[PodView]) -> list[PodView]:
        """The candidates up to the lowest priority at which they suffice together."""
        for level in sorted({pod.priority for pod in ordered}):
            low = [pod for pod in ordered if pod.priority <= level]
            if self.harm(low) and self._fits(low):
                return low
        return list(ordered)

    def reprieve(self, pods: Sequence[PodView]) -> tuple[PodView, ...]:
        """Spare pods one by one, those whose eviction violates a budget first, then the most important."""
        staying = list(pods)
        violating = {pod.uid for pod in pods if (harm := self.harm([pod])) is None or harm.violations}
        for pod in sorted(pods, key=lambda pod: (pod.uid not in violating, *_importance(pod))):
            rest = [other for other in staying if other is not pod]
            if rest and self._fits(rest):
                staying = rest
        return tuple(staying) if self.harm(staying) and self.tries > 0 else ()

    def _fits(self, pods: Iterable[PodView]) -> bool:
        gone = _uids(pods)
        if gone not in self._known:
            self._known[gone] = False
            if self.plausible(gone):
                self.tries -= 1
                self._known[gone] = self.tries >= 0 and self.enough(gone)
        return self._known[gone]


def _uids(pods: Iterable[PodView]) -> frozenset[str]:
    return frozenset([pod.uid for pod in pods])
