"""Changes of a pod at its creation: resource names, device variables, scheduler, scheduling gate, and who created it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from linkwise.broker.admission.scope import is_managed, schedules
from linkwise.broker.admission.user import keeps_creator
from linkwise.broker.admission.verdict import UNCHANGED, AdmissionVerdict
from linkwise.dialects.linkwise.creator import CREATOR
from linkwise.dialects.linkwise.gang_gate import GATE, is_gated
from linkwise.dialects.registry import owners, renamed_resources
from linkwise.model.json_patch import PatchOperation, pointer
from linkwise.vendors.container_needs import needs_rules, runtime_variables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from linkwise.broker.answers import Additions
    from linkwise.model.requester import Requester
    from linkwise.model.settings import AdmissionSettings
    from linkwise.model.views import PodView

__all__ = ["change_pod", "renaming"]

VOID: Final = "void"
"""makes container runtimes add neither devices nor libraries"""
_CONTAINERS: Final = ("initContainers", "containers")


def change_pod(
    document: Mapping[str, Any], pod: PodView, requester: Requester, settings: AdmissionSettings, additions: Additions
) -> AdmissionVerdict:
    """Return the changes of a new pod, and a warning for each that a user should know of."""
    managed = is_managed(pod, settings)
    if not managed and not settings.hide_devices:
        # rule 000.skip: a pod that requests no managed device is not delayed, not scored, not changed.
        return UNCHANGED
    if additions.refusal:
        return AdmissionVerdict(additions.refusal)
    changes = _Changes(document, additions)
    for steps, container in _containers(document):
        changes.container(steps, container, hide=settings.hide_devices)
    if managed:
        if schedules(pod, settings):
            changes.schedule(pod, settings, in_gang=additions.in_gang)
        elif settings.volcano_gates and additions.planned_for_volcano and not pod.node:
            # rule 003.in-session: Volcano tries a pod when its chips are chosen, so that no two pods of a session share one.
            changes.gate(pod)
        if not keeps_creator(pod, requester, settings):
            changes.annotate(additions.creator)
    return AdmissionVerdict(warnings=tuple(dict.fromkeys(changes.warnings)), patch=tuple(changes.patch))


class _Changes:
    """Patch of one pod, as it is put together."""

    def __init__(self, document: Mapping[str, Any], additions: Additions) -> None:
        self.document, self.additions = document, additions
        self.patch: list[PatchOperation] = []
        self.warnings: list[str] = []

    def container(self, steps: tuple[str | int, ...], container: Mapping[str, Any], *, hide: bool) -> None:
        """Change the resources and the environment of a container."""
        self._change_resources(steps, container, self.additions.resources.get(_name(container), {}))
        if _requests_devices(container):
            self._remove_variables(steps, container)
        elif hide:
            self._hide_devices(steps, container)

    def schedule(self, pod: PodView, settings: AdmissionSettings, *, in_gang: bool) -> None:
        """Name our scheduler, and hold back members of gangs."""
        if pod.scheduler != settings.scheduler:
            self._set(("spec", "schedulerName"), settings.scheduler)
        # rule 001.gang: a gated member can't be bound before the complete gang is planned.
        if settings.gates and in_gang:
            self.gate(pod)

    def gate(self, pod: PodView) -> None:
        """Hold the pod back until its devices are planned."""
        if is_gated(pod):
            return
        gate, gates = {"name": GATE}, _part(self.document, "spec").get("schedulingGates")
        self._set(("spec", "schedulingGates", "-") if gates else ("spec", "schedulingGates"), gate if gates else [gate])

    def annotate(self, creator: Mapping[str, str]) -> None:
        """Record who created the pod, whatever its manifest claims."""
        annotations = _part(self.document, "metadata").get("annotations")
        if not annotations:
            self._set(("metadata", "annotations"), dict(creator))
            return
        for key in CREATOR:
            if key in annotations and key not in creator:
                self.patch.append(PatchOperation("remove", pointer("metadata", "annotations", key)))
        for key, value in creator.items():
            if annotations.get(key) != value:
                self._set(("metadata", "annotations", key), value)

    def _set(self, steps: tuple[str | int, ...], value: object) -> None:
        self.patch.append(PatchOperation("add", pointer(*steps), value))

    def _change_resources(
        self, steps: tuple[str | int, ...], container: Mapping[str, Any], added: Mapping[str, str]
    ) -> None:
        """Replace names that no node has, and add a policy's default share."""
        resources = _part(container, "resources")
        limits, requests = _part(resources, "limits"), _part(resources, "requests")
        renamed = self.additions.renamed
        old_names = [name for name in renamed if name in limits or name in requests]
        if not old_names and not added:
            return
        limits, requests = {**limits, **added}, {**requests, **added}
        self.warnings += [
            f"{name}: set to {share}, the default of an AcceleratorPolicy" for name, share in added.items()
        ]
        for old in old_names:
            # rule 002.name: pods of 2016 run as they are.
            new = renamed[old]
            requested = requests.pop(old, None)
            amount = limits.pop(old, requested)
            if new not in limits and new not in requests:
                limits[new] = amount  # extended resources need a limit, and a request that equals it
                requests |= {} if requested is None else {new: amount}
            elif str(limits.get(new, requests.get(new))) != str(amount):
                self.warnings.append(f"{old}: ignored, because the container requests {new} too")
                continue
            self.warnings.append(renaming(old, new))
        changed = {**resources, "limits": limits, "requests": requests}
        self._set((*steps, "resources"), {name: part for name, part in changed.items() if part})

    def _remove_variables(self, steps: tuple[str | int, ...], container: Mapping[str, Any]) -> None:
        """Remove variables that would select other devices than those that were allocated."""
        variables = _variables(container)
        selecting = set(runtime_variables())
        for place, name in reversed(list(enumerate(variables))):
            if name in selecting:
                # rule 004.manifests: the seed's sample sets one to `all`, which may win over the device plugin's.
                self.patch.append(PatchOperation("remove", pointer(*steps, "env", place)))
                self.warnings.append(
                    f"{name}: removed from container {_name(container)}; it gets the allocated devices"
                )
        used = {rule.used for rule in needs_rules().values() if rule.used}
        for name in sorted(used & set(variables)):
            self.warnings.append(
                f"{name}: container {_name(container)} sets it itself and may not use the devices it is allocated"
            )

    def _hide_devices(self, steps: tuple[str | int, ...], container: Mapping[str, Any]) -> None:
        """Set the variables of a container without devices to `void`: many images set them to `all`."""
        entries = _entries(container)
        kept = [
            entry for entry in entries if not isinstance(entry, dict) or entry.get("name") not in runtime_variables()
        ]
        hidden = [*kept, *({"name": name, "value": VOID} for name in runtime_variables())]
        if hidden != entries:
            self._set((*steps, "env"), hidden)


def renaming(old: str, new: str, where: str = "") -> str:
    """The warning about a resource that is replaced."""
    why = (
        "Kubernetes no longer accepts the old name"
        if old in renamed_resources()
        else "its devices can serve the request"
    )
    return f"{old}: replaced by {new}{where}; {why}"


def _requests_devices(container: Mapping[str, Any]) -> bool:
    resources = _part(container, "resources")
    return any(owners(name) for part in ("limits", "requests") for name in _part(resources, part))


def _containers(document: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], Mapping[str, Any]]]:
    spec = _part(document, "spec")
    for kind in _CONTAINERS:
        for place, container in enumerate(spec.get(kind) or ()):
            if isinstance(container, dict):
                yield ("spec", kind, place), container


def _variables(container: Mapping[str, Any]) -> list[str]:
    return [str(entry.get("name", "")) if isinstance(entry, dict) else "" for entry in _entries(container)]


def _entries(container: Mapping[str, Any]) -> list[object]:
    entries = container.get("env")
    return entries if isinstance(entries, list) else []


def _name(container: Mapping[str, Any]) -> str:
    return str(container.get("name", ""))


def _part(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    part = document.get(key)
    return part if isinstance(part, dict) else {}
