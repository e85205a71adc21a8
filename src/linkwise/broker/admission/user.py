"""Creator of a pod: the requester, or the one who created the workload that its controller created it for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from linkwise.broker.admission.verdict import AdmissionVerdict
from linkwise.dialects.linkwise.creator import CREATOR, USER
from linkwise.model.json_patch import PatchOperation, pointer
from linkwise.model.requester import CONTROLLERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from linkwise.dialects.workloads import Template
    from linkwise.model.requester import Requester
    from linkwise.model.settings import AdmissionSettings
    from linkwise.model.views import PodView

__all__ = ["copies_workloads", "keeps_creator", "set_template_creator"]


def copies_workloads(requester: Requester) -> bool:
    """Whether a workload is made by a controller of Kubernetes from one that the webhook saw: a Job of a CronJob."""
    return requester.user in CONTROLLERS


def keeps_creator(pod: PodView, requester: Requester, settings: AdmissionSettings) -> bool:
    """Whether a new pod keeps the creator that its template names: a controller creates it from a template."""
    trusted = requester.user in CONTROLLERS or requester.user in settings.controllers
    return trusted and bool(pod.annotations.get(USER))


def set_template_creator(
    templates: Iterable[Template], before: Sequence[Template], creator: Mapping[str, str]
) -> AdmissionVerdict:
    """Return the changes that put the creator into pod templates, so that the pods of a Job carry who created the Job.

    Args:
        templates: of the new object
        before: of the object that is updated; empty for a new one
        creator: annotations about who sent the request
    """
    old = {template.steps: template.document for template in before}
    patch: list[PatchOperation] = []
    for template in templates:
        earlier = old.get(template.steps)
        # A user who scales or annotates a Deployment does not become the user of its pods: that would replace them all.
        same = earlier is not None and _without_creator(earlier) == _without_creator(template.document)
        # A template of before the webhook stays without one.
        kept = _annotations(earlier) if same and earlier is not None else creator
        patch += _set_creator(template, {key: kept[key] for key in CREATOR if key in kept})
    return AdmissionVerdict(patch=tuple(patch))


def _set_creator(template: Template, creator: Mapping[str, object]) -> list[PatchOperation]:
    steps, annotations = (*template.steps, "metadata"), _annotations(template.document)
    if annotations:
        removed = [key for key in CREATOR if key in annotations and key not in creator]
        changed = {key: text for key, text in creator.items() if annotations.get(key) != text}
        return [
            *(PatchOperation("remove", pointer(*steps, "annotations", key)) for key in removed),
            *(PatchOperation("add", pointer(*steps, "annotations", key), text) for key, text in changed.items()),
        ]
    if not creator:
        return []
    if _metadata(template.document):
        return [PatchOperation("add", pointer(*steps, "annotations"), dict(creator))]
    return [PatchOperation("add", pointer(*steps), {"annotations": dict(creator)})]


def _without_creator(template: Mapping[str, Any]) -> dict[str, Any]:
    meta = _metadata(template)
    annotations = {key: value for key, value in _annotations(template).items() if key not in CREATOR}
    kept = {key: value for key, value in meta.items() if key != "annotations"}
    return {**template, "metadata": {**kept, "annotations": annotations}}


def _metadata(template: Mapping[str, Any]) -> Mapping[str, Any]:
    meta = template.get("metadata")
    return meta if isinstance(meta, dict) else {}


def _annotations(template: Mapping[str, Any]) -> Mapping[str, Any]:
    annotations = _metadata(template).get("annotations")
    return annotations if isinstance(annotations, dict) else {}
