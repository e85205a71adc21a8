"""PersistentVolumeClaims and StorageClasses, as far as they tell whether a pod can get its volumes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CLAIM", "CLASS", "VolumeClaim", "binds_later", "claim_of", "essential"]

CLAIM: Final = "PersistentVolumeClaim"
CLASS: Final = "StorageClass.storage.k8s.io"
_BOUND: Final[Mapping[str, object]] = {"status": {"phase": "Bound"}}
"""what is kept of every bound claim, of which a cluster may have many thousands"""
_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_WAITS: Final = "WaitForFirstConsumer"


@dataclass(frozen=True, slots=True)
class VolumeClaim:
    """The state of a claim."""

    bound: bool
    storage_class: str = ""
    """empty if it has none: it is bound to a volume that exists"""
    volume: str = ""
    """to which it is to be bound"""
    node: str = ""
    """for which its volume is being provisioned"""


def claim_of(document: Mapping[str, object]) -> VolumeClaim:
    """The state of a claim; what can't be read counts as missing."""
    spec, meta, status = (_part(document, name) for name in ("spec", "metadata", "status"))
    annotations = _part(meta, "annotations")
    volume = _text(spec, "volumeName")
    # As in kube-scheduler: the annotation, and the phase for claims that are written without a controller.
    bound = status.get("phase") == "Bound" or bool(volume and annotations.get(_COMPLETED))
    return VolumeClaim(bound, _text(spec, "storageClassName"), volume, _text(annotations, _SELECTED_NODE))


def binds_later(document: Mapping[str, object]) -> bool:
    """Whether claims of a StorageClass are bound when a pod that uses them is scheduled."""
    return document.get("volumeBindingMode") == _WAITS


def essential(kind: str, document: Mapping[str, object]) -> Mapping[str, object]:
    """The part of a claim or a StorageClass that is read, so that no other part of it is kept."""
    if kind == CLASS:
        return {"volumeBindingMode": _WAITS} if binds_later(document) else {}
    claim = claim_of(document)
    if claim.bound:
        return _BOUND
    spec = {"storageClassName": claim.storage_class, "volumeName": claim.volume}
    return {"spec": spec, "metadata": {"annotations": {_SELECTED_NODE: claim.node}}}


def _part(document: Mapping[str, object], name: str) -> Mapping[str, object]:
    part = document.get(name)
    return part if isinstance(part, dict) else {}


def _text(document: Mapping[str, object], name: str) -> str:
    value = document.get(name)
    return value if isinstance(value, str) else ""
