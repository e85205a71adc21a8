"""Pods as the watch shows them: by UID, by name and by node; and those that are gone, so that old news are known as such."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.demand import demand_of
from linkwise.model.demand import Load
from linkwise.model.views import FINISHED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkwise.model.views import PodView

__all__ = ["Pods", "holds_devices"]

REMEMBERED: Final = 20_000
"""UIDs of pods that are gone; late news of one of these is old news"""


def holds_devices(pod: PodView) -> bool:
    """Whether a pod still has what it was given: bound, and its containers have not all stopped."""
    # rule 002.release, 003.between: devices are free again when the containers have stopped, not when deleting begins.
    return bool(pod.node) and pod.phase not in FINISHED and not pod.stopped


class Pods:
    """At most one pod a UID, and at most one UID a name."""

    def __init__(self) -> None:
        self.views: Final[dict[str, PodView]] = {}
        """by UID"""
        self.gone: Final[dict[str, bool]] = {}
        """pods that are gone, and whether they were seen to have ended before"""
        self._named: dict[tuple[str, str], str] = {}
        self._on: dict[str, dict[str, PodView]] = {}
        self._loads: dict[str, Load] = {}

    def is_news(self, view: PodView) -> bool:
        """Whether a view tells something: not of a pod that is gone, and not how one was before."""
        uid, known, other = view.uid, self.views.get(view.uid), self.namesake(view)
        late = (known and 0 < view.version < known.version) or (other and _before(view, other))
        return bool(uid) and not late and uid not in self.gone

    def namesake(self, view: PodView) -> PodView | None:
        """Another pod of the same name: of two the older one is gone, though the watch may not have said so."""
        uid = self._named.get((view.namespace, view.name))
        return self.views.get(uid) if uid is not None and uid != view.uid else None

    def uid_of(self, namespace: str, name: str) -> str:
        """The UID of the pod that has the name now; empty if there is none."""
        return self._named.get((namespace, name), "")

    def put(self, view: PodView) -> None:
        """The pod as it is now."""
        uid, node = view.uid, view.node
        known = self.views.get(uid)
        if known:
            self._leave(known)
        self.views[uid] = view
        self._named[view.namespace, view.name] = uid
        if node:
            self._loads.pop(node, None)
            on_node = self._on.get(node)
            if on_node is None:
                on_node = self._on[node] = {}
            on_node[uid] = view

    def drop(self, uid: str) -> None:
        """The pod is gone."""
        known = self.views.pop(uid, None)
        if known:
            self._leave(known)
        self.gone.setdefault(uid, known is not None and _over(known))
        if len(self.gone) > REMEMBERED:
            del self.gone[next(iter(self.gone))]

    def lose_node(self, node: str) -> None:
        """The node is gone; its pods are not, as long as nobody says so."""
        self._loads.pop(node, None)

    def restore(self, views: Iterable[PodView], gone: Mapping[str, bool]) -> None:
        """Become what a snapshot holds."""
        for view in views:
            self.put(view)
        self.gone.update(gone)

    def ended(self, uid: str) -> bool:
        """Whether a pod is known to use nothing any more."""
        known = self.views.get(uid)
        return self.gone.get(uid, False) if known is None else _over(known)

    def settled(self, uid: str) -> bool:
        """Whether the pod is bound or gone: who asks for a node on its behalf does not know yet."""
        known = self.views.get(uid)
        return uid in self.gone or (known is not None and bool(known.node))

    def on(self, node: str) -> list[PodView]:
        """The pods seen on a node."""
        return list(self._on.get(node, {}).values())

    def load(self, node: str, promised: Iterable[str]) -> Load:
        """What the pods of a node take beside devices, with those promised to it that are not seen there yet."""
        if node not in self._loads:
            load = Load()
            for pod in self._on.get(node, {}).values():
                load = load.plus(demand_of(pod)[0]) if holds_devices(pod) else load
            self._loads[node] = load
        load = self._loads[node]
        for uid in promised:
            view = self.views.get(uid)
            if view is not None and not view.node:
                load = load.plus(demand_of(view)[0])
        return load

    def _leave(self, pod: PodView) -> None:
        if self._named.get((pod.namespace, pod.name)) == pod.uid:
            del self._named[pod.namespace, pod.name]
        self._loads.pop(pod.node, None)
        on_node = self._on.get(pod.node, {})
        on_node.pop(pod.uid, None)
        if not on_node:
            self._on.pop(pod.node, None)


def _over(pod: PodView) -> bool:
    """A pod that is not known to be bound may well run: its node's agent may be faster than the watch."""
    return bool(pod.node) and not holds_devices(pod)


def _before(view: PodView, other: PodView) -> bool:
    """Whether one of two pods of one name is the older; where nothing tells, what comes later is newer."""
    if view.version and other.version:
        return view.version < other.version
    return view.created < other.created
