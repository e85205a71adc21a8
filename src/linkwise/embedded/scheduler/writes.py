"""What a scheduler looks up and writes: conditions and events of pods, bindings of those without devices, deletions of victims."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from linkwise.embedded.api_errors import ApiError
from linkwise.embedded.writes.pod_rules import with_condition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.embedded.event_recorder import EventRecorder
    from linkwise.embedded.storage.collection import Stored
    from linkwise.embedded.store import Store
    from linkwise.model.views import PodView

__all__ = ["Writes"]


class Writes:
    """Writes for one scheduler; a pod that is gone meanwhile needs nothing written."""

    def __init__(self, store: Store, recorder: EventRecorder) -> None:
        self._store, self._recorder = store, recorder

    def bind(self, view: PodView, node: str) -> None:
        """Give a pod to a node."""
        meta = {"name": view.name, "uid": view.uid}
        self._store.bind(view.name, view.namespace, {"metadata": meta, "target": {"kind": "Node", "name": node}})

    def missing_claim(self, pod: Stored) -> str:
        """A volume that a pod wants and that nobody made, in kube-scheduler's words; empty if there is none."""
        if b'"persistentVolumeClaim"' not in pod.data:
            return ""
        volumes = pod.read()["spec"].get("volumes") or ()
        names = [found["persistentVolumeClaim"]["claimName"] for found in volumes if "persistentVolumeClaim" in found]
        lacks = (name for name in names if self._store.find("persistentvolumeclaims", name, pod.namespace) is None)
        return next((f'persistentvolumeclaim "{name}" not found' for name in lacks), "")

    def scheduled(self, pod: Stored, node: str) -> None:
        """Tell that a pod has a node."""
        sentence = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
        self._recorder.record(pod.read(), "Normal", "Scheduled", sentence)

    def unscheduled(self, pod: Stored, reason: str, sentence: str) -> None:
        """Tell that a pod has none, and why; in its status too, if that is not there already."""
        now = self._store.find("pods", pod.name, pod.namespace)
        if now is None or now.uid != pod.uid or now.fields.get("spec.nodeName"):
            return
        document = now.read()
        self._recorder.record(document, "Warning", "FailedScheduling", sentence)
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": sentence}
        if msgspec.json.encode(condition)[1:-1] in now.data:
            return
        condition["lastTransitionTime"] = self._store.database.now
        conditions = with_condition(document["status"].get("conditions"), condition)
        self._store.patch("pods", pod.name, {"status": {"conditions": conditions}}, pod.namespace, "status")

    def preempt(self, victims: Iterable[PodView], uid: str, node: str) -> None:
        """Send pods away for another one."""
        for victim in victims:
            found = self._store.find("pods", victim.name, victim.namespace)
            if found is None or found.uid != victim.uid:
                continue
            sentence = f"Preempted by pod {uid} on node {node}"
            self._recorder.record(found.read(), "Normal", "Preempted", sentence)
            try:
                self._store.delete("pods", victim.name, victim.namespace)
            except ApiError:
                continue
