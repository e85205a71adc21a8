"""Expands manifests into pods by group, with the labels and indexes that controllers would set."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from linkwise.broker.cluster.pod_request import read_request
from linkwise.broker.watch_events import ClusterObject
from linkwise.dialects.groups.membership import NAME, REPLICA, group_by_owner, group_of
from linkwise.dialects.kubernetes.pod_templates import pod_templates
from linkwise.dialects.misspelt_keys import misspelt_keys, misspelt_resources
from linkwise.errors import InputError
from linkwise.manifests.objects import NODE_KINDS, WITHOUT_PODS
from linkwise.wire.kubernetes.objects import pod_view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from linkwise.dialects.kubernetes.pod_templates import PodTemplate
    from linkwise.manifests.objects import Manifest
    from linkwise.model.views import PodView

    Note = Callable[[str], None]

__all__ = ["JobFile", "job_of"]

MAX_PODS: Final = 10_000
# Labels with the index of a pod among those of its owner.
INDEX_LABELS: Final = {
    "Job": "batch.kubernetes.io/job-completion-index",
    "CronJob": "batch.kubernetes.io/job-completion-index",
    "StatefulSet": "apps.kubernetes.io/pod-index",
}
TASK_INDEX: Final = "volcano.sh/task-index"
ONE_PER_NODE: Final = "DaemonSet"


@dataclass(frozen=True, slots=True)
class JobFile:
    """The pods and PodGroups of one or more files."""

    groups: tuple[tuple[PodView, ...], ...]
    """pods that are planned together, in the order of the files"""
    objects: tuple[ClusterObject, ...] = ()
    """the PodGroups"""
    made: frozenset[str] = frozenset()
    """keys of groups that no label defines: pods that are planned together because they are in the files"""


def job_of(
    manifests: Sequence[tuple[str, Manifest]], name: str, stem: str, note: Note, most: int = MAX_PODS
) -> JobFile:
    """Return the pods of manifests, by group; InputError names file, line and column, other problems are passed to `note`.

    Args:
        manifests: with the names of their files.
        name: of all files.
        stem: names groups of pods that have no common name.
        note: gets sentences that begin with file, line and column.
        most: pods.
    """
    pods = [pod for file, manifest in manifests for pod in _pods(file, manifest, note)]
    if not pods:
        raise InputError(f"{name}: contains nothing that creates pods")
    if len(pods) > most:
        raise InputError(f"{name}: creates {len(pods)} pods; the maximum is {most}")
    seen = set[str]()
    for pod in pods:
        if pod.uid in seen:
            raise InputError(f"{name}: more than one pod is named {pod.uid}")
        seen.add(pod.uid)
    groups: dict[str, list[PodView]] = {}
    made = set[str]()
    for pod, own in zip(_grouped(pods, stem), pods, strict=True):
        group, _ = group_of(pod)
        key = group.key if group else pod.uid
        groups.setdefault(key, []).append(pod)
        made |= {key} if pod is not own else set()
    objects = tuple(_object(manifest) for _, manifest in manifests if manifest.kind == "PodGroup")
    return JobFile(tuple(map(tuple, groups.values())), objects, frozenset(made))


def _object(manifest: Manifest) -> ClusterObject:
    document = manifest.document
    meta = document.get("metadata")
    namespace = meta.get("namespace", "") if isinstance(meta, dict) else ""
    api = str(document.get("apiVersion", "")).partition("/")[0]
    return ClusterObject(f"{manifest.kind}.{api}", f"{namespace or 'default'}/{manifest.name}", document)


def _pods(file: str, manifest: Manifest, note: Note) -> Iterator[PodView]:
    try:
        templates = list(pod_templates(manifest))
    except InputError as error:
        wrong = manifest.place(str(error).partition(": ")[0])
        raise InputError(f"{file}:{wrong.line}:{wrong.column}: {error}") from error
    if manifest.kind == ONE_PER_NODE:
        note(
            f"{file}:{manifest.place().line}: {manifest.kind} {manifest.name} is skipped: a DaemonSet runs on every node"
        )
        return
    if not templates and manifest.kind not in {*WITHOUT_PODS, *NODE_KINDS, "Node"}:
        kind = manifest.kind or "an object without kind"
        note(f"{file}:{manifest.place().line}: {f'{kind} {manifest.name}'.rstrip()} is skipped: unsupported kind")
    for template in templates:
        view = _view(file, manifest, template, note)
        count, more = _count(manifest, template)
        if count > MAX_PODS:
            raise InputError(f"{file}: {manifest.kind} {template.name} creates {count} pods; the maximum is {MAX_PODS}")
        if template.note:
            note(
                f"{file}:{manifest.place('', manifest.part(template.path)).line}: {manifest.kind} {manifest.name}: {template.note}"
            )
        if more:
            note(f"{file}:{manifest.place('completions').line}: {more}")
        single = manifest.kind == "Pod"
        for place in range(count):
            yield view if single else _copy(view, manifest, template, place)


def _view(file: str, manifest: Manifest, template: PodTemplate, note: Note) -> PodView:
    """Return a pod of the template as if it had just been created."""
    try:
        view = pod_view(template.document)
    except InputError as error:
        path, _, message = str(error).partition(": ")
        raise _input_error(file, manifest, template, path if message else "", str(error)) from error
    view = replace(
        view,
        node="",
        phase="Pending",
        gates=(),
        version=0,
        deleting=False,
        stopped=False,
        nominated="",
        begun=False,
        unschedulable_since=0.0,
        unschedulable_message="",
    )
    view = replace(view, name=view.name.rstrip("-"))
    request = read_request(view, {})
    if invalid := request.broken:
        raise _input_error(file, manifest, template, invalid.key, f"{invalid.key}: {invalid.sentence}")
    misspelt, unknown = misspelt_keys(view), dict(misspelt_resources(view))
    for problem in misspelt:
        if problem.key in unknown:
            raise _input_error(file, manifest, template, problem.key, problem.text)
    for problem in dict.fromkeys((*request.problems, *misspelt)):
        place = manifest.place(problem.key, manifest.part(template.path))
        note(f"{file}:{place.line}:{place.column}: {problem.text}")
    return replace(view, uid=f"{view.namespace}/{view.name}")


def _input_error(file: str, manifest: Manifest, template: PodTemplate, key: str, sentence: str) -> InputError:
    place = manifest.place(key, manifest.part(template.path))
    return InputError(f"{file}:{place.line}:{place.column}: {sentence}")


def _copy(view: PodView, manifest: Manifest, template: PodTemplate, place: int) -> PodView:
    if template.stamp:
        stamp = template.stamp(place)
        labels, annotations = {**view.labels, **stamp.labels}, {**view.annotations, **stamp.annotations}
        return replace(
            view,
            name=stamp.name,
            uid=f"{view.namespace}/{stamp.name}",
            labels=labels,
            annotations=annotations,
            owner=stamp.owner,
        )
    name = f"{template.name}-{place}"
    labels, annotations = dict(view.labels), dict(view.annotations)
    if manifest.kind in INDEX_LABELS and not _volcano(manifest):
        labels[INDEX_LABELS[manifest.kind]] = str(place)
    elif _volcano(manifest):
        annotations[TASK_INDEX] = str(place)
    return replace(view, name=name, uid=f"{view.namespace}/{name}", labels=labels, annotations=annotations)


def _count(manifest: Manifest, template: PodTemplate) -> tuple[int, str]:
    """Return how many pods run in parallel, and a note if more follow."""
    spec = manifest.document.get("spec")
    if manifest.kind == "CronJob" and isinstance(spec, dict):
        job = spec.get("jobTemplate")
        spec = job.get("spec") if isinstance(job, dict) else None
    if manifest.kind not in {"Job", "CronJob"} or _volcano(manifest) or not isinstance(spec, dict):
        return template.count, ""
    completions: Any = spec.get("completions")
    if not isinstance(completions, int) or completions < 0:
        return template.count, ""
    follow = completions - template.count
    more = f"{template.count} of {completions} pods run in parallel; only these are planned" if follow > 0 else ""
    return min(template.count, completions), more


def _volcano(manifest: Manifest) -> bool:
    return "volcano" in str(manifest.document.get("apiVersion", ""))


def _grouped(pods: list[PodView], stem: str) -> Iterator[PodView]:
    """Add group labels to pods without a group: one group per workload, and one per namespace for all other pods."""
    keys = [_undeclared(pod) for pod in pods]
    alone: dict[str, list[PodView]] = {}
    for pod, key in zip(pods, keys, strict=True):
        if key:
            alone.setdefault(key, []).append(pod)
    names: dict[str, str] = {}
    for key, members in alone.items():
        name = _common(members) or stem
        taken = {names[other] for other in names if alone[other][0].namespace == members[0].namespace}
        names[key] = next(word for word in (name, *(f"{name}.{n}" for n in range(len(alone)))) if word not in taken)
    for pod, key in zip(pods, keys, strict=True):
        labels = {NAME: names[key], REPLICA: str(len(alone[key]))} if key else {}
        # Its owner is left out: leader and workers of one workload may have different ones.
        yield replace(pod, labels={**pod.labels, **labels}, owner=None) if key else pod


def _undeclared(pod: PodView) -> str:
    """Return the key by which a pod that declares no group is planned with others; empty if it declares one."""
    if group_of(pod)[0] is not None:
        return ""
    by_owner, _ = group_by_owner(pod, "group") if pod.owner else (None, ())
    return by_owner.key if by_owner else pod.namespace


def _common(pods: list[PodView]) -> str:
    """Return the common prefix of their names."""
    first, last = min(pod.name for pod in pods), max(pod.name for pod in pods)
    place = next((place for place, letter in enumerate(first) if last[place : place + 1] != letter), len(first))
    return first[:place].rstrip("-.")
