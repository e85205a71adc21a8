"""Volcano Jobs: the defaults that Volcano's webhook sets, and what it rejects.

Source: volcano-sh/volcano v1.14.1, pkg/webhooks/admission/jobs. Queues are checked by the controller: a Job may be created
before its queue.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from linkwise.embedded.api_errors import Cause
from linkwise.embedded.kinds.object_types import PodTemplate
from linkwise.embedded.writes.field_rules import check_labels, check_pod_spec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.embedded.storage.collection import Raw

__all__ = ["RESOURCE", "check_volcano_job", "check_volcano_job_update", "default_volcano_job"]

RESOURCE: Final = "jobs.batch.volcano.sh"
_MAX_RETRY: Final = 3
_MAX_NAME: Final = 63
_ACTIONS: Final = (
    *("AbortJob", "RestartJob", "RestartTask", "RestartPod", "RestartPartition"),
    *("TerminateJob", "CompleteJob", "ResumeJob"),
)
_EVENTS: Final = ("*", "PodFailed", "PodEvicted", "PodPending", "Unknown", "TaskCompleted", "TaskFailed", "JobUpdated")
_CHANGEABLE: Final = ("minAvailable", "priorityClassName")
_CHANGEABLE_IN_TASKS: Final = ("replicas", "minAvailable")


def default_volcano_job(document: Raw) -> None:
    """Set the defaults of a Job; fields of the wrong type are left for the schema to reject."""
    spec = document.get("spec")
    if not isinstance(spec, dict):
        return
    for key, value in (("queue", "default"), ("schedulerName", "volcano"), ("maxRetry", _MAX_RETRY)):
        spec[key] = spec.get(key) or value
    tasks = _tasks(spec)
    for index, task in enumerate(tasks):
        task["name"] = task.get("name") or f"default{index}"
        task.setdefault("replicas", 0)
        task.setdefault("minAvailable", task["replicas"])
        task["maxRetry"] = task.get("maxRetry") or _MAX_RETRY
    minimums = [task["minAvailable"] for task in tasks]
    if not spec.get("minAvailable") and all(isinstance(minimum, int) for minimum in minimums):
        spec["minAvailable"] = sum(minimums)


def check_volcano_job(document: Raw) -> Iterator[Cause]:
    """Validate what the schema of Jobs does not."""
    spec = document.get("spec")
    if not isinstance(spec, dict):
        yield Cause("spec", "Required value")
        return
    tasks, name = _tasks(spec), str(document["metadata"].get("name", ""))
    if not tasks:
        yield Cause("spec.tasks", "Required value: No task specified in job spec")
    names = Counter(str(task.get("name")) for task in tasks)
    for repeated in sorted(task for task, count in names.items() if count > 1):
        yield Cause("spec.tasks", f'Duplicate value: "{repeated}"')
    replicas = [count for task in tasks if isinstance(count := task.get("replicas"), int)]
    minimum = spec.get("minAvailable")
    if isinstance(minimum, int) and len(replicas) == len(tasks) and minimum > sum(replicas):
        message = "must not be greater than the total replicas of all tasks"
        yield Cause("spec.minAvailable", f"Invalid value: {minimum}: {message}")
    yield from _check_policies("spec.policies", spec)
    for index, task in enumerate(tasks):
        yield from _check_task(f"spec.tasks[{index}]", name, task)


def check_volcano_job_update(old: Raw, new: Raw) -> Iterator[Cause]:
    """Reject changes of other fields than replicas, minAvailable and priorityClassName."""
    before, after = old.get("spec"), new.get("spec")
    if not isinstance(before, dict) or not isinstance(after, dict):
        return
    if len(_tasks(before)) != len(_tasks(after)):
        yield Cause("spec.tasks", "Forbidden: job updates may not add or remove tasks")
    elif _fixed(before) != _fixed(after):
        allowed = "`minAvailable`, `tasks[*].replicas`, `tasks[*].minAvailable` and `priorityClassName`"
        yield Cause("spec", f"Forbidden: job updates may not change fields other than {allowed}")


def _tasks(spec: Raw) -> list[Raw]:
    tasks = spec.get("tasks")
    return [task for task in tasks if isinstance(task, dict)] if isinstance(tasks, list) else []


def _fixed(spec: Raw) -> Raw:
    """The part of a spec that can't be changed."""
    tasks = [{key: value for key, value in task.items() if key not in _CHANGEABLE_IN_TASKS} for task in _tasks(spec)]
    return {key: value for key, value in spec.items() if key not in _CHANGEABLE} | {"tasks": tasks}


def _check_task(path: str, job: str, task: Raw) -> Iterator[Cause]:
    replicas, minimum = task.get("replicas"), task.get("minAvailable")
    if isinstance(replicas, int) and isinstance(minimum, int) and minimum > replicas:
        yield Cause(f"{path}.minAvailable", f"Invalid value: {minimum}: must not be greater than replicas ({replicas})")
    pod = f"{job}-{task.get('name')}-{max(0, replicas - 1) if isinstance(replicas, int) else 0}"
    if len(pod) > _MAX_NAME:
        message = f'the name of its pods must be no more than {_MAX_NAME} characters, and "{pod}" has {len(pod)}'
        yield Cause(f"{path}.name", f'Invalid value: "{task.get("name")}": {message}')
    yield from _check_policies(f"{path}.policies", task)
    template = _template(task.get("template"))
    if isinstance(template, str):
        yield Cause(f"{path}.template", f"Invalid value: {template}")
    else:
        yield from check_labels(f"{path}.template.metadata.labels", template.metadata.labels)
        yield from check_pod_spec(template.spec, f"{path}.template.spec")


def _template(value: Any) -> PodTemplate | str:  # noqa: ANN401 - JSON
    """A pod template with the defaults that validation needs; the reason if it can't be read."""
    try:
        template = msgspec.convert(value or {}, PodTemplate)
    except msgspec.ValidationError as error:
        return str(error)
    spec = template.spec
    return msgspec.structs.replace(
        template, spec=msgspec.structs.replace(spec, restart_policy=spec.restart_policy or "Always")
    )


def _check_policies(path: str, owner: Raw) -> Iterator[Cause]:
    policies = owner.get("policies")
    for index, policy in enumerate(policies if isinstance(policies, list) else ()):
        if not isinstance(policy, dict):
            continue
        events = [event for event in (policy.get("event"), *(policy.get("events") or ())) if event]
        for event in events:
            if event not in _EVENTS:
                yield _unsupported(f"{path}[{index}].event", event, _EVENTS)
        if not events and policy.get("exitCode") is None:
            yield Cause(f"{path}[{index}]", "Required value: either event or exitCode must be set")
        if policy.get("action") not in _ACTIONS:
            yield _unsupported(f"{path}[{index}].action", policy.get("action"), _ACTIONS)


def _unsupported(path: str, value: object, supported: tuple[str, ...]) -> Cause:
    choices = ", ".join(f'"{choice}"' for choice in supported)
    return Cause(path, f'Unsupported value: "{value}": supported values: {choices}')
