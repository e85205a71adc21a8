"""Names that Volcano's controllers use: resources, phases, labels and annotations.

Source: volcano-sh/apis v1.14.0, batch/v1alpha1 and scheduling/v1beta1.
"""

from __future__ import annotations

from typing import Final

from linkwise.embedded.users import service_account

__all__ = [
    "CONTROLLERS",
    "DEFAULT_QUEUE",
    "FINISHED_JOB",
    "FINISHED_POD",
    "GROUP_MIN_MEMBER",
    "GROUP_NAME",
    "GROUP_PREFIX",
    "JOBS",
    "JOB_NAME",
    "JOB_NAMESPACE",
    "JOB_RETRY_COUNT",
    "JOB_VERSION",
    "POD_GROUPS",
    "POD_QUEUE",
    "QUEUES",
    "QUEUE_NAME",
    "ROOT_QUEUE",
    "SCHEDULER",
    "SCHEDULER_USER",
    "TASK_INDEX",
    "TASK_SPEC",
    "TEMPLATE",
]

JOBS: Final = "jobs.batch.volcano.sh"
POD_GROUPS: Final = "podgroups.scheduling.volcano.sh"
QUEUES: Final = "queues.scheduling.volcano.sh"
SCHEDULER: Final = "volcano"
CONTROLLERS: Final = service_account("volcano-system", "volcano-controllers")
"""the user of Volcano's controllers, which webhooks know from other users"""
SCHEDULER_USER: Final = service_account("volcano-system", "volcano-scheduler")
DEFAULT_QUEUE: Final = "default"
ROOT_QUEUE: Final = "root"

FINISHED_JOB: Final = ("Completed", "Failed", "Terminated", "Aborted")
FINISHED_POD: Final = ("Succeeded", "Failed")

JOB_NAME: Final = "volcano.sh/job-name"
JOB_NAMESPACE: Final = "volcano.sh/job-namespace"
JOB_VERSION: Final = "volcano.sh/job-version"
JOB_RETRY_COUNT: Final = "volcano.sh/job-retry-count"
QUEUE_NAME: Final = "volcano.sh/queue-name"
TASK_SPEC: Final = "volcano.sh/task-spec"
TASK_INDEX: Final = "volcano.sh/task-index"
TEMPLATE: Final = "volcano.sh/template-uid"
GROUP_NAME: Final = "scheduling.k8s.io/group-name"
GROUP_MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
POD_QUEUE: Final = "scheduling.volcano.sh/queue-name"
GROUP_PREFIX: Final = "podgroup-"
"""of PodGroups that are made for pods without one; the UID of the pod or of its controller follows"""
