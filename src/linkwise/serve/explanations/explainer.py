"""Explainer: runs explanations in slices between calls, for every caller that wants one.

One at a time: debug routes, tenants and published conditions share it, so that together they delay calls no more than one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from linkwise.errors import NotNowError
from linkwise.explain.group.group import explain_group
from linkwise.explain.node import explain_node
from linkwise.explain.pod import explain_pod
from linkwise.serve.explanations.slices import Slices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from linkwise.broker.broker import Broker
    from linkwise.explain.reports.group import GroupExplanation
    from linkwise.explain.reports.node import NodeExplanation
    from linkwise.explain.reports.pod import Explanation

T = TypeVar("T")

__all__ = ["Explainer"]

ATTEMPTS: Final = 3


class Explainer:
    """Explanations of one broker.

    `refusal` says why this replica can't explain, because it does not decide; empty if it can.
    """

    def __init__(self, broker: Broker, clock: Callable[[], float], refusal: Callable[[], str] = lambda: "") -> None:
        self.broker: Final = broker
        self.clock: Final = clock
        self._refusal: Final = refusal
        self._slices: Final = Slices()
        broker.pause_with(self._slices.pause)

    def pause(self) -> None:
        """Let calls be answered if the slice is over; for work that has loops of its own."""
        self._slices.pause()

    def pausing(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items, with a pause before every few of them."""
        return self.broker.state_at(self.clock()).pausing(items)

    def pod(self, namespace: str, name: str) -> Explanation | None:
        """Explain a pod; to be run by `consistent`."""
        uid = self.broker.find_pod(namespace, name)
        return explain_pod(self.broker, uid, self.clock()) if uid else None

    def group(self, key: str) -> GroupExplanation | None:
        """Explain a group; to be run by `consistent`."""
        return explain_group(self.broker, key, self.clock())

    def node(self, name: str) -> NodeExplanation | None:
        """Explain a node; to be run by `consistent`."""
        return explain_node(self.broker, name, self.clock())

    async def consistent(self, explain: Callable[[], T]) -> T:
        """Explain in slices; again if devices changed meanwhile, because parts of the answer may contradict each other.

        A busy cluster changes all the time: the last attempt counts anyway. NotNowError if even that one failed, because
        something that it needed went away.
        """
        if refusal := self._refusal():
            raise NotNowError(refusal)
        attempt = 0
        while True:
            attempt, changes = attempt + 1, self.broker.device_changes
            try:
                explanation = await self._slices.run(explain)
            except Exception as error:
                if attempt == ATTEMPTS and self.broker.device_changes == changes:
                    raise
                if attempt == ATTEMPTS:
                    raise NotNowError("the cluster changed while it was being explained; try again") from error
            else:
                if attempt == ATTEMPTS or self.broker.device_changes == changes:
                    return explanation

    async def once(self, explain: Callable[[], T]) -> T | None:
        """Explain in slices, once; None if that failed because the cluster changed meanwhile."""
        changes = self.broker.device_changes
        try:
            return await self._slices.run(explain)
        except Exception:
            if self.broker.device_changes == changes:
                raise
            return None
