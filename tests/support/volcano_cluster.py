"""API objects of a small cluster with Volcano: PodGroups, gated pods, and a scheduler that binds with its own copy of annotations."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.volcano.nodes import pinned_node
from linkwise.broker.watch_events import ClusterObject
from linkwise.dialects.groups.pod_group_objects import KINDS, volcano_pod_group
from linkwise.dialects.linkwise.group_plan import GATE
from linkwise.testing.cluster import ASCEND, device_pod
from support.gated_cluster import GatedCluster

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkwise.model.views import PodView

__all__ = ["GROUP", "VolcanoCluster", "job", "single"]

GROUP = "scheduling.k8s.io/group-name"


def single(  # noqa: PLR0913 - a builder: every field has a default
    name: str,
    chips: int = 1,
    resource: str = ASCEND,
    *,
    grouped: bool = True,
    created: float = 0.0,
    priority: int = 0,
) -> PodView:
    """A gated pod of its own, with the PodGroup that Volcano's controllers make for it."""
    pod = device_pod(name, chips, resource, created=created, priority=priority)
    named = {GROUP: f"podgroup-{pod.uid}"} if grouped else {}
    return replace(pod, scheduler="volcano", gates=(GATE,), annotations=named)


def job(name: str, *chips: int, resource: str = ASCEND) -> list[PodView]:
    """The gated pods of a Volcano Job, one per number of chips."""
    pods = [single(f"{name}-{number}", count, resource) for number, count in enumerate(chips)]
    keys = {GROUP: name, "volcano.sh/job-name": name, "volcano.sh/task-spec": "worker"}
    return [replace(pod, annotations=keys) for pod in pods]


class VolcanoCluster(GatedCluster):
    """A cluster whose pods Volcano binds: a gang when as many of its members as must start have no gate."""

    copies: dict[str, Mapping[str, str]]
    """annotations by name, as Volcano last saw them"""
    groups: dict[str, int]
    """minMember of PodGroups"""

    def start(self) -> None:
        """Start a broker as the service does."""
        self.copies = getattr(self, "copies", {})
        self.groups = getattr(self, "groups", {})
        super().start()

    def shared_objects(self) -> Iterable[ClusterObject]:
        """The PodGroups."""
        return [_pod_group(name, minimum) for name, minimum in self.groups.items()]

    def pod_group(self, name: str, minimum: int | None) -> None:
        """Create, change or delete a PodGroup."""
        if minimum is None:
            del self.groups[name]
            self.see(ClusterObject(KINDS["volcano"], name, None))
        else:
            self.groups[name] = minimum
            self.see(_pod_group(name, minimum))

    def submit(self, *pods: PodView, least: int | None = None) -> None:
        """Create a PodGroup for the pods of each name, then the pods."""
        for name in dict.fromkeys(map(volcano_pod_group, pods)):
            self.pod_group(name, least or sum(volcano_pod_group(pod) == name for pod in pods))
        self.create(*pods)

    def look(self, *names: str) -> None:
        """Let Volcano see pods as they are now; all of them without names."""
        for name in names or self.pods:
            self.copies[name] = self.pods[name].annotations

    def session(self) -> list[str]:
        """Bind what has no gate and one feasible node; returns the names."""
        bound = []
        for group, least in self.groups.items():
            pods = [pod for pod in self.pods.values() if volcano_pod_group(pod) == group]
            ready = [pod for pod in pods if not pod.gates and pinned_node(pod) in self.nodes and not pod.node]
            if len(ready) + sum(bool(pod.node) for pod in pods) >= least:
                bound += [pod.name for pod in ready]
        for name in bound:
            self.volcano_binds(name)
        return bound

    def volcano_binds(self, name: str) -> None:
        """Bind one pod: the API server writes Volcano's annotations over those of the pod."""
        pod = self.pods[name]
        keys = {**pod.annotations, **self.copies.get(name, {})}
        self.pods[name] = replace(pod, node=pinned_node(pod), annotations=keys, version=pod.version + 1)
        self.see(self.pods[name])

    def chips(self, key: str = ASCEND) -> dict[str, str]:
        """The chips on record, by pod."""
        return {name: pod.annotations[key] for name, pod in self.pods.items() if key in pod.annotations}


def _pod_group(name: str, minimum: int) -> ClusterObject:
    return ClusterObject(KINDS["volcano"], name, {"spec": {"minMember": minimum}})
