"""Builders of Volcano's pods and PodGroups, and of the structs that its extender plugin sends."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from linkwise.broker.effects import Record
from linkwise.broker.watch_events import ClusterObject
from linkwise.dialects.groups.pod_group_objects import KINDS
from linkwise.testing.cluster import ASCEND, device_pod
from linkwise.wire.kubernetes.to_objects import pod_object

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.broker.effects import Effect
    from linkwise.model.views import PodView

    Raw = dict[str, Any]

__all__ = [
    "GROUP",
    "job_info",
    "node_info",
    "pod_group",
    "records",
    "seen_recorded",
    "task_info",
    "volcano_pod",
]

GROUP: Final = "scheduling.k8s.io/group-name"
NOTHING: Final = {"MilliCPU": 0, "Memory": 0, "ScalarResources": None, "MaxTaskNum": 0}


def volcano_pod(name: str, amount: int = 1, group: str = "", resource: str = ASCEND, *, task: str = "w") -> PodView:
    """A pod of scheduler volcano; with a group it is a member of that PodGroup."""
    keys = {GROUP: group, "volcano.sh/task-spec": task} if group else {}
    pod = device_pod(name, amount, resource) if amount else replace(device_pod(name), containers=())
    return replace(pod, scheduler="volcano", annotations=keys)


def pod_group(name: str, minimum: int = 1, **spec: object) -> ClusterObject:
    """The watch event of a PodGroup."""
    return ClusterObject(KINDS["volcano"], f"default/{name}", {"spec": {"minMember": minimum, **spec}})


def records(effects: Iterable[Effect]) -> list[Record]:
    """The devices that are to be written on bound pods."""
    return [effect for effect in effects if isinstance(effect, Record)]


def seen_recorded(pod: PodView, record: Record) -> PodView:
    """The pod as the watch delivers it once its devices are written."""
    return replace(pod, annotations={**pod.annotations, **record.annotations}, version=pod.version + 1)


def _amounts(pod: PodView) -> Raw:
    limits = pod.containers[0].limits if pod.containers else {}
    scalars = {name: 1000 * int(text) for name, text in limits.items() if "/" in name}
    return {"MilliCPU": 1000, "Memory": 0, "ScalarResources": {**scalars, "pods": 1}, "MaxTaskNum": 0}


def task_info(pod: PodView, node: str = "", status: int = 1) -> Raw:
    """A TaskInfo, with all keys of version 1.14."""
    document = pod_object(replace(pod, node=node))
    document["metadata"]["managedFields"] = [
        {"manager": "vc-controllers", "fieldsV1": {"f:spec": {"f:containers": {}}}}
    ]
    return {
        "UID": pod.uid,
        "Job": f"{pod.namespace}/{pod.annotations.get(GROUP, '')}",
        "Name": pod.name,
        "Namespace": pod.namespace,
        "TaskRole": pod.annotations.get("volcano.sh/task-spec", ""),
        "Resreq": _amounts(pod),
        "InitResreq": _amounts(pod),
        "NodeName": node,
        "EvictionOccurred": False,
        "JobAllocatedHyperNode": "",
        "Status": status,
        "LastTransaction": None,
        "Priority": pod.priority,
        "VolumeReady": False,
        "Preemptable": True,
        "BestEffort": False,
        "HasRestartableInitContainer": False,
        "SchGated": False,
        "RevocableZone": "",
        "NumaInfo": {"Policy": "", "ResMap": {}},
        "Pod": document,
        "CustomBindErrHandlerSucceeded": False,
    }


def node_info(name: str, tasks: Iterable[Raw] = ()) -> Raw:
    """A NodeInfo, with all keys of version 1.14."""
    amounts = {"MilliCPU": 64000, "Memory": 549755813888, "ScalarResources": {ASCEND: 8000}, "MaxTaskNum": 110}
    texts = {"cpu": "64", ASCEND: "8", "memory": "512Gi", "pods": "110"}
    return {
        "Name": name,
        "Node": {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "spec": {},
            "status": {"capacity": texts, "allocatable": texts, "conditions": [{"type": "Ready", "status": "True"}]},
        },
        "State": {"Phase": 1, "Reason": ""},
        **dict.fromkeys(("Releasing", "Pipelined", "Used", "OversubscriptionResource"), NOTHING),
        **dict.fromkeys(("Idle", "Allocatable", "Capacity"), amounts),
        "ResourceUsage": {"MetricsTime": "0001-01-01T00:00:00Z", "CPUUsageAvg": {}, "MEMUsageAvg": {}},
        "Tasks": {task["UID"]: task for task in tasks},
        "NumaInfo": None,
        "NumaChgFlag": 0,
        "NumaSchedulerInfo": None,
        "RevocableZone": "",
        "Others": {},
        "OversubscriptionNode": False,
        "OfflineJobEvicting": False,
        "ImageStates": {},
        "Generation": 0,
        "BindGeneration": 0,
    }


def job_info(name: str, resources: Raw | None, members: Raw | None = None, pods: Iterable[PodView] = ()) -> Raw:
    """A JobInfo, with the keys of version 1.14."""
    spec: Raw = {"minMember": sum((members or {}).values()), "queue": "default"}
    spec |= {"minResources": resources} if resources is not None else {}
    spec |= {"minTaskMember": members} if members else {}
    tasks = {pod.uid: task_info(pod) for pod in pods}
    return {
        "UID": f"default/{name}",
        "PgUID": f"uid-{name}",
        "Name": name,
        "Namespace": "default",
        "Queue": "default",
        "Priority": 0,
        "MinAvailable": spec["minMember"],
        "WaitingTime": None,
        "JobFitErrors": "",
        "NodesFitErrors": {},
        "TaskStatusIndex": {"1": tasks} if tasks else {},
        "Tasks": tasks,
        "TaskMinAvailable": members or {},
        "Allocated": NOTHING,
        "TotalRequest": NOTHING,
        "PodGroup": {
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
            "spec": spec,
            "status": {},
            "Version": "v1beta1",
        },
        "Preemptable": False,
        "Budget": {"MinAvailable": "", "MaxUnavailable": ""},
    }
