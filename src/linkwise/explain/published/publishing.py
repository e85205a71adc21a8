"""Published reasons of pending pods: a condition that their owners can read, and an event when the reason changes.

PENDING   seen without a node; nothing is published before the delay is over
PUBLISHED the condition is False, with the code and the sentence of the explanation
ENDED     bound after the condition was False: it becomes True, and the record is dropped

Only the substance of an explanation makes an event: its code and its kind of reason. Numbers that change only update the
condition, and less often.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.pod_request import asks_for_devices
from linkwise.broker.effects import Condition, Event
from linkwise.dialects.linkwise.group_plan import GROUP_PLAN, is_gated
from linkwise.dialects.pod_resources import resources_of
from linkwise.engine.reasons.phrases import PLACED
from linkwise.explain.text.pod import pending_sentence
from linkwise.model.views import FINISHED, PodCondition

if TYPE_CHECKING:
    from collections.abc import Collection

    from linkwise.broker.broker import BrokerView
    from linkwise.broker.effects import Effect
    from linkwise.explain.reports import Explanation
    from linkwise.model.views import PodView

__all__ = ["PENDING", "Finding", "Published", "finding_of", "has_plan", "is_ours", "placed", "published", "waits"]

PENDING: Final = "Pending"
"""reason of the events"""
REFRESH: Final = 6
"""intervals between two updates of a condition in which only numbers change"""
_WARNINGS: Final = frozenset({"Invalid", "NotPermitted", "OtherScheduler", "NoTopology", "Excluded"})
"""codes that require action; the others resolve as other pods finish"""
_MAX_MESSAGE: Final = 1024
"""characters of a sentence, as for events"""


@dataclass(frozen=True, slots=True)
class Finding:
    """Why a pod is pending, as it is published."""

    code: str
    sentence: str
    substance: str
    """equal as long as no more than numbers change"""


@dataclass(frozen=True, slots=True)
class Published:
    """What was last published about a pod."""

    finding: Finding
    at: float
    """when it was decided"""


def waits(pod: PodView) -> bool:
    """Whether the pod has no node and may still get one."""
    return not pod.node and not pod.deleting and pod.phase not in FINISHED


def has_plan(pod: PodView) -> bool:
    """Whether the gate of the pod was removed for a plan."""
    return GROUP_PLAN in pod.annotations and not is_gated(pod)


def is_ours(broker: BrokerView, pod: PodView, schedulers: Collection[str]) -> bool:
    """Whether Linkwise places the pod: its scheduler calls the service or has done so for it, or it is a gated member.

    A pod whose resource is misspelt requests nothing that Linkwise knows, so its scheduler does not ask about it: what no
    node provides is said of every pod of such a scheduler. Pods of other schedulers are those schedulers' to explain.
    """
    if is_gated(pod) or has_plan(pod):  # the service removed its gate, and Volcano does not ask
        return True
    if not (asks_for_devices(pod) or broker.group_of(pod.uid) or any("/" in name for name in resources_of(pod))):
        return False
    return pod.scheduler in schedulers or broker.was_asked(pod.uid)


def finding_of(explanation: Explanation) -> Finding | None:
    """What an explanation says about a pending pod; None if there is nothing to publish."""
    if not explanation.code or explanation.code == PLACED:
        return None
    sentence = pending_sentence(explanation)
    if explanation.state == "unschedulable" and explanation.against:
        substance = explanation.against[0].short
    else:
        substance = re.sub(r"\d+(?:\.\d+)?", "#", sentence)
    return Finding(explanation.code, _cut(sentence), f"{explanation.code} {substance}")


def published(
    pod: PodView, finding: Finding, last: Published | None, now: float, interval: float
) -> tuple[tuple[Effect, ...], Published]:
    """The effects that publish a finding, none if nothing is new or it is too early, and the record to keep."""
    known = pod.condition
    is_new = last is None and (known is None or known.status or known.reason != finding.code)
    changed = last is not None and last.finding.substance != finding.substance
    shown = known.message if known and not known.status else ""
    differs = finding.sentence != shown and (last is None or now - last.at >= REFRESH * interval)
    if not is_new and not changed and not differs:
        return (), last or Published(finding, now)
    since = known.since if known and not known.status else now
    pending = PodCondition(status=False, reason=finding.code, message=finding.sentence, since=since)
    condition = Condition(pod.namespace, pod.name, pod.uid, pending)
    event = Event(
        "Warning" if finding.code in _WARNINGS else "Normal",
        PENDING,
        finding.sentence,
        pod.namespace,
        pod.name,
        pod.uid,
    )
    return ((condition, event) if is_new or changed else (condition,)), Published(finding, now)


def placed(pod: PodView, last: Published | None, now: float) -> Condition | None:
    """The condition of a pod that has its node; None if it was never published as pending."""
    known = pod.condition
    if last is None and (known is None or known.status):
        return None
    if known is not None and known.status:
        return None
    sentence = f"the pod is bound to node {pod.node}"
    return Condition(
        pod.namespace, pod.name, pod.uid, PodCondition(status=True, reason=PLACED, message=sentence, since=now)
    )


def _cut(sentence: str) -> str:
    return sentence if len(sentence) <= _MAX_MESSAGE else f"{sentence[: _MAX_MESSAGE - 3]}..."
