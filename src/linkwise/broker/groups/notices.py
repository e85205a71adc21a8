"""Notices to members of groups: pending reasons that became outdated, and problems of a group, each reported once.

A scheduler reports why a pod has no node only when it tries the pod. A member that was tried early would still read that
members are missing when all exist and do not fit, since nothing retries it for that: it gets an event instead.
"""

from __future__ import annotations

from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from linkwise.broker.effects import Event
from linkwise.broker.groups.readiness import missing_pod_group, schedulers_of, unlinked
from linkwise.broker.readers import pod_events
from linkwise.broker.records.groups import Answer
from linkwise.broker.records.members import Planning, Unschedulable, Waiting
from linkwise.broker.volcano.nodes import lost_pin
from linkwise.dialects.groups.membership import group_of
from linkwise.dialects.kubernetes.claims.requests import CLAIM
from linkwise.dialects.linkwise.group_plan import is_gated
from linkwise.engine.reasons.catalog import refusal
from linkwise.engine.reasons.phrases import count_text
from linkwise.model.ask import Group

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from linkwise.broker.records.members import GroupView
    from linkwise.broker.state import State
    from linkwise.model.verdict import Reason
    from linkwise.model.views import PodView

__all__ = ["bundle_warnings", "group_warnings", "unfit_events", "unlinked_text"]

_OUTDATED: Final = (Waiting, Planning)
"""answers that do not hold any more once the group was planned without success"""


def unfit_events(state: State, view: GroupView, reason: Reason) -> list[Event]:
    """Return events for members whose last answer is outdated, because their group was planned and does not fit.

    Members with our gate have no other answer: their scheduler does not try them.
    """
    answers = state.groups[view.key].answers
    outdated = [
        pod
        for pod in view.waiting
        if ((last := answers.get(pod.uid)) and last.stage in _OUTDATED)
        or (is_gated(pod) and not (last and last.stage is Unschedulable))
    ]
    answers |= dict.fromkeys((pod.uid for pod in outdated), Answer(Unschedulable))
    if view.group.source == CLAIM:
        when = "now" if reason.kind == "short" else "even if it were empty"
        remedies = "for remedies, run: linkwise explain pod/{} -n {}"
        return [
            Event(
                "Warning",
                "DoesNotFit",
                f"no node can serve it {when}; {remedies.format(pod.name, pod.namespace)}",
                pod.namespace,
                pod.name,
                pod.uid,
            )
            for pod in outdated
        ]
    sentence = f"its group does not fit: {refusal(reason)}; for remedies, run: linkwise explain group/{view.key}"
    return pod_events(state, outdated, "Warning", "GroupDoesNotFit", sentence)


def group_warnings(state: State, keys: Iterable[str]) -> list[Event]:
    """Return new warnings about these groups, and about pods with invalid group annotations."""
    alone, state.cluster.changes.invalid_groups = state.cluster.changes.invalid_groups, {}
    pods = ((state.pod(uid), sentence) for uid, sentence in alone.items())
    events = [
        Event("Warning", "GroupWords", sentence, pod.namespace, pod.name, pod.uid) for pod, sentence in pods if pod
    ]
    for key in keys:
        record, view = state.groups.get(key), state.groups.view(key)
        if record is None or view is None:
            continue
        known, record.notices = record.notices, dict(chain(_oddities(state, key, view), _lost_pins(state, view)))
        events += [
            Event("Warning", event, sentence, pod.namespace, pod.name, pod.uid)
            for (uid, event), sentence in record.notices.items()
            if known.get((uid, event)) != sentence and (pod := state.pod(uid))
        ]
    return events


def bundle_warnings(state: State, view: GroupView) -> list[Event]:
    """Return warnings about a gang that was planned without other gangs of its bundle."""
    sentence = unlinked_text(unlinked(state, view.group))
    pods = view.waiting if sentence else ()
    return pod_events(state, pods, "Warning", "GangsApart", sentence)


def unlinked_text(names: Sequence[str]) -> str:
    """Return a sentence about gangs that do not list the same bundle; empty if there are none."""
    if not names:
        return ""
    do = "does" if len(names) == 1 else "do"
    return (
        f"its gang must start together with {' and '.join(names)}, which {do} not list the same gangs: it waits until "
        "they are complete, and they are planned one by one; list the same gangs on all of them"
    )


def _oddities(state: State, key: str, view: GroupView) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield problems of a group: the pod and event reason, and the sentence."""
    others = [other for other in state.groups.of_that_name(key) if _twins(key, other)]
    pod_group = "" if isinstance(state.groups.stage(key), Waiting) else missing_pod_group(state, view)
    schedulers, sources = schedulers_of(view), state.groups.sources(key)
    shared = state.cluster.shared
    differing = _differing(state, key) if len(sources) == 1 else {}
    for pod in view.waiting:
        if len(schedulers) > 1:
            yield (pod.uid, "SchedulersDiffer"), _several_schedulers(schedulers)
        if len(sources) > 1:
            yield (pod.uid, "SourcesDiffer"), _several_sources(key, sources)
        if others:
            yield (pod.uid, "OtherReplica"), _other_replica(view, others)
        if pod_group and state.groups[key].since is not None:
            yield (pod.uid, "PodGroupMissing"), _without_pod_group(pod_group)
        problem = _annotation_problems(state, pod)
        if pod.uid in differing:
            problem = f"{problem}; {differing[pod.uid]}" if problem else differing[pod.uid]
        if problem:
            yield (pod.uid, "GroupWords"), problem
        if shared.has_problems and (wrong := shared.wrong_for(pod, view.group)):
            yield (pod.uid, "GroupObjects"), "; ".join(f"{problem.where}: {problem.sentence}" for problem in wrong)
    members = count_text(view.group.total or 0, "member")
    for uid in view.extra:
        yield (uid, "TooManyMembers"), f"its group already has {members}; it is scheduled separately"


def _lost_pins(state: State, view: GroupView) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield the pods of Volcano that can go nowhere any more."""
    for pod in view.waiting:
        if sentence := lost_pin(state, pod):
            yield (pod.uid, "PinnedNodeGone"), sentence


def _annotation_problems(state: State, pod: PodView) -> str:
    """Return the problems of a pod's group annotations, computed once per version."""
    known = state.groups.problems.get(pod.uid)
    if known is None or known[0] is not pod:
        problems = group_of(pod)[1]
        sentence = "; ".join(problem.text for problem in problems)
        known = state.groups.problems[pod.uid] = (pod, sentence)
    return known[1]


_UNSPECIFIED: Final = Group("", "")
_values: Final = attrgetter("minimum", "total", "waiting_time", "strict", "match_policy", "bundle", "network")


def _differing(state: State, key: str) -> dict[str, str]:
    """Return a sentence for each member that declares other values than the oldest, whose values count."""
    members = state.groups[key].members
    first, oldest = members.first()
    usual = _values(oldest)
    return {
        pod.uid: (
            f"it declares {' and '.join(values)}, unlike {first.name}, the oldest member of its group, whose values count; "
            "use the same values on all members"
        )
        for pod, group in members.pods.values()
        if _values(group) != usual and (values := _other_values(group, oldest))
    }


def _other_values(group: Group, oldest: Group) -> list[str]:
    """Return what a member declares and the oldest does not; a member may leave values to the others."""
    names = {
        "minimum": f"a minimum of {group.minimum}",
        "total": f"a total of {group.total}",
        "waiting_time": f"a waiting time of {group.waiting_time:g}s",
        "strict": "the mode NonStrict",
        "match_policy": f"the match policy {group.match_policy}",
        "bundle": "other gangs to start with",
        "network": "other network constraints",
    }
    return [
        text
        for name, text in names.items()
        if getattr(group, name) not in {getattr(oldest, name), getattr(_UNSPECIFIED, name)}
    ]


def _twins(one: str, other: str) -> bool:
    """Return whether two groups differ only in their number of members."""
    mine, its = one.split("/"), other.split("/")
    return len(mine) == len(its) > 2 and mine[:2] == its[:2] and mine[3:] == its[3:]


def _without_pod_group(name: str) -> str:
    return f"PodGroup {name}, which its pods name, does not exist; the group is planned as the annotations of its pods declare"


def _several_schedulers(names: Sequence[str]) -> str:
    return f"members of its group use different schedulers, {' and '.join(names)}; set the same schedulerName on all"


def _several_sources(key: str, sources: list[str]) -> str:
    named = " and ".join(sources)
    return f"group {key} is declared by both {named} and treated as one; rename one if they are two"


def _other_replica(view: GroupView, others: list[str]) -> str:
    counts = " and ".join(other.split("/")[2] for other in others)
    members = count_text(view.group.total or 0, "member")
    return f"its group has {members}, but other pods with its name declare {counts}; set the same number"
