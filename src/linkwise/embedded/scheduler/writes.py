"""API writes of the scheduler: bindings, PodScheduled conditions, events, and deletion of preemption victims."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from linkwise.embedded.api_errors import ApiError
from linkwise.embedded.writes.pod_rules import with_condition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkwise.embedded.event_recorder import EventRecorder
    from linkwise.embedded.storage.collection import Stored
    from linkwise.embedded.store import Store
    from linkwise.model.views import PodView

__all__ = ["SchedulerWrites"]


class SchedulerWrites:
    """Writes as one scheduler; pods that no longer exist are skipped."""

    def __init__(self, store: Store, recorder: EventRecorder) -> None:
        self._store, self._recorder = store, recorder

    def bind(self, view: PodView, node: str, annotations: Mapping[str, str] | None = None) -> None:
        """Bind a pod to a node; the API server writes the annotations over those of the pod."""
        meta = {"name": view.name, "uid": view.uid, "annotations": dict(annotations or {})}
        self._store.bind(view.name, view.namespace, {"metadata": meta, "target": {"kind": "Node", "name": node}})

    def missing_claim(self, pod: Stored) -> str:
        """kube-scheduler's message for a PersistentVolumeClaim that does not exist; empty if there is none."""
        if b'"persistentVolumeClaim"' not in pod.data:
            return ""
        volumes = pod.read()["spec"].get("volumes") or ()
        names = [
            volume["persistentVolumeClaim"]["claimName"] for volume in volumes if "persistentVolumeClaim" in volume
        ]
        missing = (name for name in names if self._store.find("persistentvolumeclaims", name, pod.namespace) is None)
        return next((f'persistentvolumeclaim "{name}" not found' for name in missing), "")

    def record_scheduled(self, pod: Stored, node: str) -> None:
        """Record that a pod was assigned."""
        message = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
        self._recorder.record(pod.read(), "Normal", "Scheduled", message)

    def record_unschedulable(self, pod: Stored, reason: str, message: str) -> None:
        """Record a scheduling failure as an event and, if it changed, in the PodScheduled condition."""
        current = self._store.find("pods", pod.name, pod.namespace)
        if current is None or current.uid != pod.uid or current.fields.get("spec.nodeName"):
            return
        document = current.read()
        self._recorder.record(document, "Warning", "FailedScheduling", message)
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        if msgspec.json.encode(condition)[1:-1] in current.data:
            return
        condition["lastTransitionTime"] = self._store.database.now
        conditions = with_condition(document["status"].get("conditions"), condition)
        self._store.patch("pods", pod.name, {"status": {"conditions": conditions}}, pod.namespace, "status")

    def preempt(self, victims: Iterable[PodView], uid: str, node: str) -> None:
        """Delete the victims of a preemption."""
        for victim in victims:
            stored = self._store.find("pods", victim.name, victim.namespace)
            if stored is None or stored.uid != victim.uid:
                continue
            message = f"Preempted by pod {uid} on node {node}"
            self._recorder.record(stored.read(), "Normal", "Preempted", message)
            try:
                self._store.delete("pods", victim.name, victim.namespace)
            except ApiError:
                continue
