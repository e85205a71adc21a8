"""Pods that ask for devices, a row each, with why they wait in a few words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from linkwise.assembly.cluster_reader import named
from linkwise.broker.cluster.pod_request import asks_for_devices
from linkwise.broker.cluster.pods import FINISHED
from linkwise.cli.render.explanation import explain_pod, plain
from linkwise.cli.render.tables import Cell, Row, age_text
from linkwise.engine.reasons.catalog import devices_text
from linkwise.explain.pod import with_outlook
from linkwise.explain.text.phrases import part_text

if TYPE_CHECKING:
    from linkwise.assembly.cluster_reader import ClusterReader
    from linkwise.explain.reports.group import GroupExplanation
    from linkwise.explain.reports.pod import Asked, Explanation
    from linkwise.explain.survey import RefusalSummary
    from linkwise.model.views import PodView

__all__ = ["MOST", "devices_of", "pod_rows", "why_text"]

MOST: Final = 100
"""pods that are looked into; each takes a while on a large cluster"""
MOST_PLANS: Final = 20
"""groups that are planned to tell why their members wait; each takes a while longer, and is planned once"""
_STATES: Final = {"waiting": "yellow", "broken": "red", "grouped": "yellow", "fits": "yellow", "bound": "green"}
_TOLD: Final = {
    "grouped": "waiting",
    "fits": "waiting",
    "promised": "starting",
    "planned": "waiting",
    "leaving": "leaving",
    "no devices": "-",
}


def pod_rows(seen: ClusterReader, namespace: str | None, uid: str) -> list[Row]:
    """Pods of a namespace or of all, those that wait first, by age; or one."""
    pods = [seen.broker.state.cluster.pods[uid]] if uid else _asking(seen, namespace)
    telling = _Telling(seen)
    told = [telling.told(pod.uid) if place < MOST else None for place, pod in enumerate(pods)]
    return [_row(seen, pod, several=namespace is None, told=one) for pod, one in zip(pods, told, strict=True)]


def _asking(seen: ClusterReader, namespace: str | None) -> list[PodView]:
    pods = [
        pod
        for pod in seen.broker.state.cluster.pods.values()
        if namespace in {None, pod.namespace} and pod.phase not in FINISHED and asks_for_devices(pod)
    ]
    return sorted(pods, key=lambda pod: (bool(pod.node), pod.created, pod.namespace, pod.name))


@dataclass(slots=True)
class _Telling:
    """Explains pods one after the other, and plans no group of theirs twice."""

    seen: ClusterReader
    groups: dict[str, GroupExplanation | None] = field(default_factory=dict)

    def told(self, uid: str) -> Explanation | None:
        told = explain_pod(self.seen, uid, plan=False)
        if told is None or told.state != "grouped":
            return told
        group = self._group(told.group)
        return with_outlook(told, group, helped=False) if group else told

    def _group(self, key: str) -> GroupExplanation | None:
        if key not in self.groups and len(self.groups) < MOST_PLANS:
            self.groups[key] = self.seen.broker.explain_group(key, self.seen.now, most=0)
        return self.groups.get(key)


def _row(seen: ClusterReader, pod: PodView, told: Explanation | None, *, several: bool) -> Row:
    state = _state(pod, told)
    key = seen.broker.state.groups.key_of(pod.uid)
    placed = bool(pod.node) or (told is not None and told.state == "planned")
    wish = seen.broker.state.wish(pod)
    cells = {
        "namespace": Cell(pod.namespace if several else "", short=True),
        "pod": Cell(pod.name, short=True),
        "state": Cell(state, _STATES.get(told.state if told else "", ""), short=True),
        "node": Cell((told.node if told and placed else pod.node), short=True, always=True),
        "devices": Cell(devices_of(told) if told and placed else _asked(told)),
        "policy": Cell(told.policy if told else wish.policy),
        "group": Cell(named(key)[1] if key else "", short=True),
        "age": Cell(age_text(seen.now - pod.created) if pod.created else "", short=True),
        "why": Cell(why_text(told) if told else ""),
        "priority": Cell(str(pod.priority or ""), wide=True),
        "scheduler": Cell(pod.scheduler, wide=True),
    }
    return Row(
        cells,
        lambda: {
            "namespace": pod.namespace,
            "pod": pod.name,
            "phase": pod.phase,
            "created": pod.created,
            "why": cells["why"].text,
            **(plain(told) if told else {"uid": pod.uid, "name": f"{pod.namespace}/{pod.name}", "node": pod.node}),
        },
    )


def _state(pod: PodView, told: Explanation | None) -> str:
    if pod.deleting:
        return "leaving"
    if pod.node:
        return "running" if pod.phase == "Running" else "starting"
    return _TOLD.get(told.state, told.state) if told else "waiting"


def _asked(told: Explanation | None) -> str:
    asked = told.asked if told else None
    return f"{_amount(asked)} asked" if asked else ""


def _amount(asked: Asked) -> str:
    return str(asked.devices) if asked.devices else part_text(asked.share, asked.core, asked.unit)


def devices_of(told: Explanation) -> str:
    """What a pod has: {0,3}, 6 GiB of {1}, or how many where nobody tells which."""
    parts = [part for part in told.devices if part.indices]
    if not parts:
        return f"{_amount(told.asked)}, not known which" if told.asked else ""
    indices = tuple(sorted({index for part in parts for index in part.indices}))
    share, core = sum(part.share for part in parts), sum(part.core for part in parts)
    return f"{part_text(share, core, told.unit)} of {devices_text(indices)}" if share or core else devices_text(indices)


def why_text(told: Explanation) -> str:
    """The most important in a few words."""
    match told.state:
        case "waiting":
            against = sorted(told.against, key=_says_little)
            return "; ".join(f"{one.short} ({one.nodes})" for one in against[:2]) or "no node was seen"
        case "broken":
            return told.sentence
        case "grouped":
            return told.lacks[0] if told.lacks else told.standing.partition(",")[0]
        case "fits":
            return f"fits on {told.node} now"
        case _:
            return told.choice.worth if told.choice else ""


def _says_little(against: RefusalSummary) -> bool:
    """Nodes of another kind are most of a mixed cluster, and nothing that a user could change."""
    return (against.rule, against.kind) == ("002.inventory", "")
