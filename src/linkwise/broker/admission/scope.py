"""Scope of admission: which pods are managed, and which of them Linkwise schedules.

`linkwise manifests webhook` prints the same conditions for the API server, so that other pods are never sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.pod_request import asks_for_devices
from linkwise.dialects.groups.conventions import KUEUE
from linkwise.dialects.groups.membership import may_have_group

if TYPE_CHECKING:
    from linkwise.model.settings import AdmissionSettings
    from linkwise.model.views import PodView

__all__ = ["DEFAULT_SCHEDULERS", "is_managed", "schedules"]

DEFAULT_SCHEDULERS: Final = ("", "default-scheduler")
"""names that mean: any scheduler will do"""


def is_managed(pod: PodView, settings: AdmissionSettings) -> bool:
    """Whether a pod requests devices, or is a member without devices of a group that Linkwise schedules."""
    return asks_for_devices(pod) or _is_launcher(pod, settings)


def schedules(pod: PodView, settings: AdmissionSettings) -> bool:
    """Whether Linkwise schedules a managed pod: it names our scheduler, or none."""
    return not pod.node and pod.scheduler in {*DEFAULT_SCHEDULERS, settings.scheduler}


def _is_launcher(pod: PodView, settings: AdmissionSettings) -> bool:
    """Whether a pod without devices is in a group.

    Only Kueue and Kubernetes itself form groups of pods that name no scheduler; the keys of all others mean something to
    us alone where the pod is left to the default scheduler.
    """
    if not may_have_group(pod):
        return False
    if pod.scheduler in DEFAULT_SCHEDULERS:
        return not pod.scheduling_group and KUEUE not in pod.labels
    return pod.scheduler == settings.scheduler
