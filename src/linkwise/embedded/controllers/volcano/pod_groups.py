"""PodGroups: made for pods that have none, admitted to their queue, and kept up to date in their status.

Volcano's podgroup controller makes a PodGroup for every pod of its scheduler that names none. Its scheduler moves PodGroups
from Pending to Inqueue, on which their Jobs create pods, and counts their pods. Queues have no capacity here: a PodGroup is
admitted as soon as its queue is open.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from linkwise.dialects.pod_resources import quantity
from linkwise.embedded.controllers.owned import controller_reference, dependents_of
from linkwise.embedded.controllers.volcano.objects import (
    DEFAULT_QUEUE,
    FINISHED_POD,
    GROUP_MIN_MEMBER,
    GROUP_NAME,
    GROUP_PREFIX,
    POD_GROUPS,
    POD_QUEUE,
    QUEUES,
    ROOT_QUEUE,
    SCHEDULER,
    section,
)
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from linkwise.embedded.controllers.owned import Client
    from linkwise.embedded.controllers.volcano.objects import JobSpec, Task
    from linkwise.embedded.storage.collection import Raw, Stored
    from linkwise.embedded.store import Store

__all__ = [
    "create_default_queues",
    "group_of_pod",
    "job_min_resources",
    "needs_pod_group",
    "pod_min_resources",
    "queue_of",
    "queue_problem",
    "sync_pod_group",
    "sync_pod_without_group",
    "sync_queue",
]

_MARK: Final = GROUP_NAME.encode("ascii")
_OWNERS: Final = {
    "ReplicaSet": "replicasets.apps",
    "StatefulSet": "statefulsets.apps",
    "DaemonSet": "daemonsets.apps",
    "Job": "jobs.batch",
}
"""kinds whose annotations set the size of their pods' PodGroup"""
_LIMITED: Final = ("cpu", "memory")
"""resources whose limits count in quotas"""
_BINARY: Final = (("Gi", 1024**3), ("Mi", 1024**2), ("Ki", 1024))


def group_of_pod(stored: Stored) -> str:
    """The name of a pod's PodGroup; empty if it has none."""
    if _MARK not in stored.data:
        return ""
    return str((stored.read()["metadata"].get("annotations") or {}).get(GROUP_NAME, ""))


def needs_pod_group(stored: Stored) -> bool:
    """Whether a pod of Volcano's scheduler names no PodGroup."""
    return (
        stored.fields.get("spec.schedulerName") == SCHEDULER
        and stored.fields.get("status.phase") not in FINISHED_POD
        and not group_of_pod(stored)
    )


async def sync_pod_without_group(client: Client, stored: Stored) -> None:
    """Create the PodGroup of a pod that has none, and write its name on the pod."""
    if not needs_pod_group(stored):
        return
    pod = stored.read()
    owners = pod["metadata"].get("ownerReferences") or []
    owner = next((reference for reference in owners if reference.get("controller")), None)
    name = f"{GROUP_PREFIX}{owner['uid'] if owner else stored.uid}"
    if client.store.find(POD_GROUPS, name, stored.namespace) is None:
        annotations = pod["metadata"].get("annotations") or {}
        members = _min_member(client.store, stored.namespace, owner)
        spec: Raw = {
            "minMember": members,
            "minResources": pod_min_resources(pod["spec"], members),
            "queue": annotations.get(POD_QUEUE) or DEFAULT_QUEUE,
        }
        if pod["spec"].get("priorityClassName"):
            spec["priorityClassName"] = pod["spec"]["priorityClassName"]
        meta = {"name": name, "ownerReferences": owners if owner else [controller_reference(pod)]}
        await client.create(
            POD_GROUPS, {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}, stored.namespace
        )
    await client.patch("pods", stored.name, {"metadata": {"annotations": {GROUP_NAME: name}}}, stored.namespace)


async def sync_pod_group(client: Client, stored: Stored) -> None:
    """Admit a PodGroup to its queue, and bring its status in line with its pods."""
    document = stored.read()
    old = section(document, "status")
    pods = list(_members(client.store, stored, document))
    phases = Counter(pod.fields.get("status.phase") for pod in pods)
    finished = sum(phases[phase] for phase in FINISHED_POD)
    scheduled = finished + sum(_is_scheduled(pod) for pod in pods)
    phase = str(old.get("phase") or "Pending")
    if scheduled and scheduled >= _number(document, "minMember"):
        phase = "Completed" if scheduled == finished else "Running"
    elif phase != "Inqueue":
        problem = queue_problem(client.store, queue_of(document))
        phase = "Pending" if problem else "Inqueue"
        if problem:
            client.recorder.record(document, "Warning", "Unenqueueable", f"{problem}; the PodGroup stays Pending")
    counts = {"running": phases["Running"], "succeeded": phases["Succeeded"], "failed": phases["Failed"]}
    new = {"phase": phase, **{key: number for key, number in counts.items() if number}}
    if new != old:
        removed = dict.fromkeys(key for key in old if key not in new and key in counts)
        await client.patch(POD_GROUPS, stored.name, {"status": {**removed, **new}}, stored.namespace)


def queue_of(pod_group: Raw) -> str:
    """The queue of a PodGroup."""
    return str(section(pod_group, "spec").get("queue") or DEFAULT_QUEUE)


def create_default_queues(store: Store) -> None:
    """Create the queues `root` and `default`, unless they exist."""
    for name in (ROOT_QUEUE, DEFAULT_QUEUE):
        if store.find(QUEUES, name) is None:
            spec = {"weight": 1, "reclaimable": name != ROOT_QUEUE}
            store.create(QUEUES, {"metadata": {"name": name}, "spec": spec})


async def sync_queue(client: Client, stored: Stored) -> None:
    """Open a new queue, and put it below the root unless it names its parent."""
    document = stored.read()
    if stored.name != ROOT_QUEUE and not section(document, "spec").get("parent"):
        await client.patch(QUEUES, stored.name, {"spec": {"parent": ROOT_QUEUE}}, "")
    if not section(document, "status").get("state"):
        await client.patch(QUEUES, stored.name, {"status": {"state": "Open"}}, "", "status")


def queue_problem(store: Store, name: str) -> str:
    """Why a queue accepts no PodGroups; empty if it does."""
    stored = store.find(QUEUES, name)
    if stored is None:
        return f'queue "{name}" not found'
    status = stored.read().get("status")
    state = status.get("state") if isinstance(status, dict) else None
    if name == ROOT_QUEUE:
        return 'queue "root" accepts no jobs; use one of its children, such as "default"'
    return "" if state in {None, "Open"} else f'queue "{name}" is {state}'


def job_min_resources(spec: JobSpec) -> dict[str, str]:
    """The requests of the pods that must start together."""
    total: dict[str, Decimal] = {}
    for task, pods in _first_pods(spec):
        _add(total, _usage(task.template.get("spec") or {}), pods)
    return _texts(total)


def pod_min_resources(pod_spec: Mapping[str, Any], pods: int) -> dict[str, str]:
    """The requests of a number of equal pods."""
    total: dict[str, Decimal] = {}
    _add(total, _usage(pod_spec), pods)
    return _texts(total)


def _min_member(store: Store, namespace: str, owner: Raw | None) -> int:
    """The annotation of the pod's controller, or 1."""
    kind = _OWNERS.get(owner["kind"]) if owner else None
    found = store.find(kind, owner["name"], namespace) if owner and kind else None
    text: Any = (found.read()["metadata"].get("annotations") or {}).get(GROUP_MIN_MEMBER) if found else None
    return int(text) if isinstance(text, str) and text.isdecimal() else 1


def _members(store: Store, stored: Stored, document: Raw) -> Iterator[Stored]:
    """The pods of a PodGroup that are not being deleted: of its owner, or all that name it if it has none."""
    owners = [owner for owner in document["metadata"].get("ownerReferences") or () if owner.get("controller")]
    candidates: list[Stored] = []
    for owner in owners:
        key = store.database.keys_by_uid.get(owner["uid"])
        if key is not None and (found := store.find(*_kind_and_name(key))) is not None:
            candidates += [found] if key[0] == "pods" else dependents_of(store, found, "pods")
    if not owners:
        candidates = store.list("pods", store.select("pods", stored.namespace)).items
    return (pod for pod in candidates if group_of_pod(pod) == stored.name and b'"deletionTimestamp"' not in pod.data)


def _kind_and_name(key: tuple[str, str, str]) -> tuple[str, str, str]:
    kind, namespace, name = key
    return kind, name, namespace


def _is_scheduled(pod: Stored) -> bool:
    return bool(pod.fields.get("spec.nodeName")) and pod.fields.get("status.phase") not in FINISHED_POD


def _number(document: Raw, key: str) -> int:
    value = section(document, "spec").get(key)
    return value if isinstance(value, int) else 0


def _first_pods(spec: JobSpec) -> Iterator[tuple[Task, int]]:
    """Number of pods by task, up to minAvailable: first the minimum of each task, then the others, in their order."""
    left = spec.min_available
    counts = []
    for task in spec.tasks:
        counts.append(min(task.minimum, left))
        left -= counts[-1]
    for task, count in zip(spec.tasks, counts, strict=True):
        more = min(task.replicas - count, left)
        left -= more
        if count + more > 0:
            yield task, count + more


def _add(total: dict[str, Decimal], usage: Mapping[str, Decimal], pods: int) -> None:
    for name, amount in usage.items():
        total[name] = total.get(name, Decimal(0)) + amount * pods


def _usage(pod_spec: Mapping[str, Any]) -> dict[str, Decimal]:
    usage = {"pods": Decimal(1), "count/pods": Decimal(1)}
    for name, amount in _effective(pod_spec, requests=True).items():
        usage[name] = usage[f"requests.{name}"] = amount
    for name, amount in _effective(pod_spec, requests=False).items():
        if name in _LIMITED:
            usage[f"limits.{name}"] = amount
    return usage


def _effective(pod_spec: Mapping[str, Any], *, requests: bool) -> dict[str, Decimal]:
    """The sum over all containers, or the largest init container if that is more."""
    total: dict[str, Decimal] = {}
    for container in pod_spec.get("containers") or ():
        for name, amount in _amounts(container, requests=requests):
            total[name] = total.get(name, Decimal(0)) + amount
    for container in pod_spec.get("initContainers") or ():
        for name, amount in _amounts(container, requests=requests):
            total[name] = max(total.get(name, Decimal(0)), amount)
    return total


def _amounts(container: Mapping[str, Any], *, requests: bool) -> Iterable[tuple[str, Decimal]]:
    resources = container.get("resources") or {}
    limits = resources.get("limits") or {}
    texts = {**limits, **(resources.get("requests") or {})} if requests else limits
    for name, text in texts.items():
        try:
            yield name, quantity(str(text))
        except InputError:
            continue  # the API server rejects such pods


def _texts(total: Mapping[str, Decimal]) -> dict[str, str]:
    return {name: _text(name, amount) for name, amount in sorted(total.items())}


def _text(name: str, amount: Decimal) -> str:
    if amount != amount.to_integral_value():
        return f"{int((amount * 1000).to_integral_value())}m"
    number = int(amount)
    if name.endswith(("memory", "storage")):
        for suffix, size in _BINARY:
            if number and number % size == 0:
                return f"{number // size}{suffix}"
    return str(number)
