"""Model of an API server: its pods, nodes and inventories, and the watch events not delivered yet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from linkwise.broker.watch_events import ClusterObject, NodeGone, NodeObject, PodDeleted
from linkwise.model.views import NodeView, PodView

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.broker.effects import Bind
    from linkwise.broker.watch_events import WatchEvent
    from linkwise.testing.cluster import FakeNode

__all__ = ["Flight", "ModelApi", "runs"]


def runs(pod: PodView) -> bool:
    """Whether a pod is on its node and its containers have not all stopped."""
    return bool(pod.node) and pod.phase == "Pending" and not pod.stopped


@dataclass(slots=True)
class Flight:
    """A bind under way, as the API server and its sender know it."""

    bound: Bind
    landed: bool | None = None
    """whether it was written; None while that is not decided"""
    unknown: bool = False
    """whether the sender got an unknown result"""


class ModelApi:
    """Everything happens here first; each object's events are delivered in order, and those of different objects in any."""

    def __init__(self) -> None:
        self.pods: dict[str, PodView] = {}
        self.boxes: dict[str, FakeNode] = {}
        self.gone: set[str] = set()
        """nodes that are not there now"""
        self.objects: dict[tuple[str, str], Mapping[str, object]] = {}
        """PodGroups, by kind and name"""
        self.owed: dict[str, list[WatchEvent]] = {}
        """what the watch has not delivered yet, by object"""
        self.delivered: dict[str, list[WatchEvent]] = {}
        self.version = 0

    def add(self, box: FakeNode) -> None:
        """A node is there, or is as this box says."""
        self.version += 1
        known, self.boxes[box.name] = self.boxes.get(box.name), replace(box, version=self.version)
        view, inventory = self.boxes[box.name].events()
        if box.name not in self.gone:
            self._owe(f"node/{box.name}", view)
        if known is None or known.inventory_object() != inventory:
            self._owe(f"inventory/{box.name}", inventory)

    def change(self, name: str, **fields: Any) -> None:  # noqa: ANN401 - as `replace`
        """Something of a node is different."""
        self.add(replace(self.boxes[name], **fields))

    def lose_node(self, name: str) -> None:
        """The node is gone; its inventory and pods stay until somebody deletes them."""
        self.gone.add(name)
        self._owe(f"node/{name}", NodeGone(name))

    def return_node(self, name: str) -> None:
        """It is there again."""
        self.gone.discard(name)
        self.add(self.boxes[name])

    def put(self, pod: PodView) -> None:
        """A pod is made, or is different."""
        self.version += 1
        self.pods[pod.uid] = replace(pod, version=self.version)
        self._owe(f"pod/{pod.uid}", self.pods[pod.uid])

    def remove(self, uid: str, *, tell: bool = True) -> None:
        """A pod is gone; a list by name may never show it, if another one takes its name."""
        del self.pods[uid]
        if tell:
            self._owe(f"pod/{uid}", PodDeleted(uid))

    def bind(self, bound: Bind) -> bool:
        """Write a binding; false if that is a conflict."""
        pod = self.pods.get(bound.uid)
        if pod is None or pod.node or pod.deleting:
            return False
        self.put(replace(pod, node=bound.node, annotations={**pod.annotations, **bound.annotations}))
        return True

    def put_object(self, kind: str, name: str, document: Mapping[str, object] | None) -> None:
        """An object of the cluster is made, is different, or is gone."""
        self.objects.pop((kind, name), None)
        if document is not None:
            self.objects[kind, name] = document
        self._owe(f"object/{kind}/{name}", ClusterObject(kind, name, document))

    def deliver(self, key: str, count: int) -> list[WatchEvent]:
        """The next news of one object."""
        news = self.owed[key][:count]
        self.owed[key] = self.owed[key][count:]
        if not self.owed[key]:
            del self.owed[key]
        self.delivered.setdefault(key, []).extend(news)
        return news

    def deliver_all(self) -> list[WatchEvent]:
        """All that is owed, object by object."""
        return [sight for key in list(self.owed) for sight in self.deliver(key, len(self.owed[key]))]

    def everything(self) -> list[WatchEvent]:
        """Tell all that is true now, as a list does, and nothing of what was owed."""
        self.owed.clear()
        truth = self.truth()
        self.delivered = {key: [sight] for key, sight in truth.items()}
        return list(truth.values())

    def truth(self) -> dict[str, WatchEvent]:
        """All that is true now, by object."""
        found: dict[str, WatchEvent] = {f"node/{name}": box.view() for name, box in self.boxes.items()}
        found = {key: sight for key, sight in found.items() if key.removeprefix("node/") not in self.gone}
        found |= {f"inventory/{name}": box.inventory_object() for name, box in self.boxes.items()}
        found |= {f"pod/{uid}": pod for uid, pod in self.pods.items()}
        for (kind, name), document in self.objects.items():
            found[f"object/{kind}/{name}"] = ClusterObject(kind, name, document)
        return found

    def holding(self, node: str) -> list[PodView]:
        """Pods that have devices of a node."""
        return [pod for pod in self.pods.values() if pod.node == node and runs(pod)]

    def delivered_box(self, name: str) -> tuple[NodeView | None, NodeObject | None]:
        """The node and its inventory as the watch delivered them last."""
        views = [sight for sight in self.delivered.get(f"node/{name}", ()) if isinstance(sight, NodeView | NodeGone)]
        inventories = [sight for sight in self.delivered.get(f"inventory/{name}", ()) if isinstance(sight, NodeObject)]
        view = views[-1] if views else None
        return view if isinstance(view, NodeView) else None, inventories[-1] if inventories else None

    def unbound(self) -> list[PodView]:
        """Pods that are not placed yet."""
        return [pod for pod in self.pods.values() if not pod.node]

    def known_over(self, uid: str) -> bool:
        """Whether the watch has shown that the pod's containers stopped, before it was gone."""
        views = [sight for sight in self.delivered.get(f"pod/{uid}", ()) if isinstance(sight, PodView)]
        return bool(views) and bool(views[-1].node) and not runs(views[-1])

    def _owe(self, key: str, sight: WatchEvent) -> None:
        self.owed.setdefault(key, []).append(sight)
