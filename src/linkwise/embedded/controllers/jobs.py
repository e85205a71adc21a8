"""Jobs: pods until enough of them have succeeded, by number or by index, or too many have failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.embedded.controllers.owned import (
    condition,
    is_active,
    is_ready,
    make_pod,
    owned,
    remove_pod,
    write_status,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.embedded.storage.collection import Raw, Stored
    from linkwise.embedded.store import Store

__all__ = ["sync_job"]

_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_VARIABLE: Final = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{_INDEX}']"}},
}


def sync_job(store: Store, stored: Stored) -> None:
    """Make the pods that are missing, or end the job."""
    document = stored.read()
    status = document.get("status") or {}
    if any(found["type"] in {"Complete", "Failed"} for found in status.get("conditions") or ()):
        return
    pods = owned(store, stored, "pods")
    active = [pod for pod in pods if is_active(pod)]
    failed = max(sum(pod.fields.get("status.phase") == "Failed" for pod in pods), status.get("failed", 0))
    done, succeeded = _done(document, pods)
    spec = document["spec"]
    wanted = spec.get("completions")
    if failed > spec.get("backoffLimit", 6):
        _end(store, document, active, succeeded, failed, ("Failed", "BackoffLimitExceeded"))
    elif wanted is not None and succeeded >= wanted:
        _end(store, document, active, succeeded, failed, ("Complete", "CompletionsReached"))
    else:
        active = _adjust(store, document, active, done, succeeded)
        _tell(store, document, active, done, succeeded, failed)


def _done(document: Raw, pods: Sequence[Stored]) -> tuple[set[int], int]:
    """Which indices have succeeded, and how many pods; what was counted once counts though the pod is gone."""
    status = document.get("status") or {}
    good = [pod for pod in pods if pod.fields.get("status.phase") == "Succeeded"]
    if document["spec"].get("completionMode") != "Indexed":
        return set(), max(len(good), status.get("succeeded", 0))
    before = {int(number) for number in status.get("completedIndexes", "").split(",") if number}
    done = before | {int(pod.labels.get(_INDEX, "0")) for pod in good}
    return done, len(done)


def _adjust(store: Store, document: Raw, active: list[Stored], done: set[int], succeeded: int) -> list[Stored]:
    """As many pods as may run now, and no more."""
    spec = document["spec"]
    left = spec["completions"] - succeeded if spec.get("completions") is not None else spec["parallelism"]
    wanted = 0 if spec.get("suspend") else min(spec.get("parallelism", 1), max(0, left))
    for pod in active[wanted:]:
        remove_pod(store, pod)
    active, name = active[:wanted], document["metadata"]["name"]
    if spec.get("completionMode") != "Indexed":
        return active + [make_pod(store, document, name) for _ in range(wanted - len(active))]
    taken = done | {int(pod.labels.get(_INDEX, "0")) for pod in active}
    free = [number for number in range(spec["completions"]) if number not in taken]
    return active + [_make_indexed(store, document, number) for number in free[: wanted - len(active)]]


def _make_indexed(store: Store, document: Raw, number: int) -> Stored:
    template = document["spec"]["template"]
    containers = [{**found, "env": [*found.get("env", ()), _VARIABLE]} for found in template["spec"]["containers"]]
    name, told = f"{document['metadata']['name']}-{number}", {_INDEX: str(number)}
    spec = {**template["spec"], "containers": containers, "hostname": name}
    whole = {**document, "spec": {**document["spec"], "template": {**template, "spec": spec}}}
    return make_pod(store, whole, name, labels=told, notes=told)


def _tell(  # noqa: PLR0913, PLR0917 - a status has these parts
    store: Store, document: Raw, active: Sequence[Stored], done: set[int], succeeded: int, failed: int
) -> None:
    told: Raw = {"active": len(active), "ready": sum(is_ready(pod) for pod in active)}
    told |= {"succeeded": succeeded, "failed": failed}
    told["startTime"] = (document.get("status") or {}).get("startTime", store.database.now)
    if done:
        told["completedIndexes"] = ",".join(map(str, sorted(done)))
    write_status(store, "jobs.batch", document, told)


def _end(  # noqa: PLR0913, PLR0917 - a status has these parts
    store: Store, document: Raw, active: Sequence[Stored], succeeded: int, failed: int, how: tuple[str, str]
) -> None:
    for pod in active:
        remove_pod(store, pod)
    kind, reason = how
    now, first = store.database.now, "SuccessCriteriaMet" if kind == "Complete" else "FailureTarget"
    told: Raw = {"active": 0, "ready": 0, "succeeded": succeeded, "failed": failed}
    told["startTime"] = (document.get("status") or {}).get("startTime", now)
    told["conditions"] = [condition(document, word, "True", reason, now) for word in (first, kind)]
    if kind == "Complete":
        told["completionTime"] = now
    if document["spec"].get("completionMode") == "Indexed" and kind == "Complete":
        told["completedIndexes"] = ",".join(map(str, range(succeeded)))
    write_status(store, "jobs.batch", document, told)
