"""In-memory API server of one node for the agent: its pods, what is published, and the events."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from linkwise.broker.watch_events import NodeObject
from linkwise.dialects.linkwise.inventory import KIND
from linkwise.node.writes import ListedPods, Written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from linkwise.broker.effects import Event
    from linkwise.broker.watch_events import WatchEvent
    from linkwise.model.views import NodeView, PodView
    from linkwise.node.publishing import NodeState

__all__ = ["NodeApi"]


@dataclass(slots=True)
class NodeApi:
    """Keeps pods by UID; the watch shows a change only when `show` is called, unless it is live."""

    watch: Callable[[Sequence[WatchEvent]], None] = lambda _: None
    away: bool = False
    live: bool = True
    stored: dict[str, PodView] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    published: list[NodeState] = field(default_factory=list)
    lists: int = 0
    stores: bool = True
    """whether a published inventory is stored, so that the watch shows it"""

    def put(self, pod: PodView) -> None:
        """Create or change a pod."""
        self.stored[pod.uid] = pod
        if self.live and not self.away:
            self.watch([pod])

    async def pods(self) -> ListedPods:
        """All pods, as they are."""
        self.lists += 1
        return ListedPods(problem="away") if self.away else ListedPods(tuple(self.stored.values()))

    async def annotate_pod(self, namespace: str, name: str, uid: str, annotations: Mapping[str, str]) -> Written:
        """Set annotations."""
        if self.away:
            return Written("unreachable", "away")
        pod = self.stored.get(uid)
        if pod is None or (pod.namespace, pod.name) != (namespace, name):
            return Written("refused", "not found")
        self.put(replace(pod, annotations={**pod.annotations, **annotations}))
        return Written("done")

    def tell(self, effects: Iterable[Event]) -> None:
        """Keep events."""
        self.events += effects

    def publish(self, state: NodeState) -> None:
        """Keep the states that differ from the one before."""
        if not self.published or self.published[-1] != state:
            self.published.append(state)
            if self.stores and not self.away:
                self.watch([NodeObject("", KIND, state.inventory)])

    def observe_node(self, view: NodeView) -> None:
        """Nothing."""

    def observe_inventory(self, document: object) -> None:
        """Nothing."""

    def observe_device(self, document: object) -> None:
        """Nothing."""

    def observe_device_info(self, document: object) -> None:
        """Nothing."""
