"""Job controller: NonIndexed and Indexed Jobs, with completions, parallelism and backoffLimit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.embedded.controllers.owned import (
    condition,
    create_pod,
    delete_pod,
    dependents_of,
    is_active,
    is_ready,
    write_status,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.embedded.controllers.owned import Client
    from linkwise.embedded.storage.collection import Raw, Stored

__all__ = ["sync_job"]

_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_INDEX_VARIABLE: Final = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{_INDEX}']"}},
}


async def sync_job(client: Client, stored: Stored) -> None:
    """Create the missing pods, or finish the Job."""
    document = stored.read()
    status = document.get("status") or {}
    if any(entry["type"] in {"Complete", "Failed"} for entry in status.get("conditions") or ()):
        return
    pods = dependents_of(client.store, stored, "pods")
    active = [pod for pod in pods if is_active(pod)]
    failed = max(sum(pod.fields.get("status.phase") == "Failed" for pod in pods), status.get("failed", 0))
    completed, succeeded = _completed(document, pods)
    spec = document["spec"]
    completions = spec.get("completions")
    if failed > spec.get("backoffLimit", 6):
        await _finish(client, document, active, succeeded, failed, ("Failed", "BackoffLimitExceeded"))
    elif completions is not None and succeeded >= completions:
        await _finish(client, document, active, succeeded, failed, ("Complete", "CompletionsReached"))
    else:
        active = await _scale_pods(client, document, active, completed, succeeded)
        await _update_status(client, document, active, completed, succeeded, failed)


def _completed(document: Raw, pods: Sequence[Stored]) -> tuple[set[int], int]:
    """Completed indexes and the number of succeeded pods; completions count even after the pod is deleted."""
    status = document.get("status") or {}
    succeeded_pods = [pod for pod in pods if pod.fields.get("status.phase") == "Succeeded"]
    if document["spec"].get("completionMode") != "Indexed":
        return set(), max(len(succeeded_pods), status.get("succeeded", 0))
    counted = {int(index) for index in status.get("completedIndexes", "").split(",") if index}
    indexes = counted | {int(pod.labels.get(_INDEX, "0")) for pod in succeeded_pods}
    return indexes, len(indexes)


async def _scale_pods(
    client: Client, document: Raw, active: list[Stored], completed: set[int], succeeded: int
) -> list[Stored]:
    """Create or delete pods to match the parallelism."""
    spec = document["spec"]
    remaining = spec["completions"] - succeeded if spec.get("completions") is not None else spec["parallelism"]
    target = 0 if spec.get("suspend") else min(spec.get("parallelism", 1), max(0, remaining))
    for pod in active[target:]:
        await delete_pod(client, pod)
    active, name = active[:target], document["metadata"]["name"]
    if spec.get("completionMode") != "Indexed":
        return active + [await create_pod(client, document, name) for _ in range(target - len(active))]
    used = completed | {int(pod.labels.get(_INDEX, "0")) for pod in active}
    missing = [index for index in range(spec["completions"]) if index not in used]
    return active + [await _create_indexed_pod(client, document, index) for index in missing[: target - len(active)]]


async def _create_indexed_pod(client: Client, document: Raw, index: int) -> Stored:
    template = document["spec"]["template"]
    containers = [
        {**container, "env": [*container.get("env", ()), _INDEX_VARIABLE]}
        for container in template["spec"]["containers"]
    ]
    name, index_labels = f"{document['metadata']['name']}-{index}", {_INDEX: str(index)}
    spec = {**template["spec"], "containers": containers, "hostname": name}
    indexed = {**document, "spec": {**document["spec"], "template": {**template, "spec": spec}}}
    return await create_pod(client, indexed, name, labels=index_labels, annotations=index_labels)


async def _update_status(  # noqa: PLR0913, PLR0917 - a status has these parts
    client: Client, document: Raw, active: Sequence[Stored], completed: set[int], succeeded: int, failed: int
) -> None:
    new_status: Raw = {"active": len(active), "ready": sum(is_ready(pod) for pod in active)}
    new_status |= {"succeeded": succeeded, "failed": failed}
    new_status["startTime"] = (document.get("status") or {}).get("startTime", client.store.database.now)
    if completed:
        new_status["completedIndexes"] = ",".join(map(str, sorted(completed)))
    await write_status(client, "jobs.batch", document, new_status)


async def _finish(  # noqa: PLR0913, PLR0917 - a status has these parts
    client: Client, document: Raw, active: Sequence[Stored], succeeded: int, failed: int, outcome: tuple[str, str]
) -> None:
    for pod in active:
        await delete_pod(client, pod)
    kind, reason = outcome
    now, interim = client.store.database.now, "SuccessCriteriaMet" if kind == "Complete" else "FailureTarget"
    new_status: Raw = {"active": 0, "ready": 0, "succeeded": succeeded, "failed": failed}
    new_status["startTime"] = (document.get("status") or {}).get("startTime", now)
    new_status["conditions"] = [
        condition(document, condition_type, "True", reason, now) for condition_type in (interim, kind)
    ]
    if kind == "Complete":
        new_status["completionTime"] = now
    if document["spec"].get("completionMode") == "Indexed" and kind == "Complete":
        new_status["completedIndexes"] = ",".join(map(str, range(succeeded)))
    await write_status(client, "jobs.batch", document, new_status)
