"""What members were told while their group was not ready to be planned, and the news for them when it is refused.

A scheduler tells a pod why it has no node when it tries it. Who was tried early would go on reading that members are
missing, though all are there and do not fit: nobody tries a pod again for that.

What is odd about a group, told to whoever made its pods: once, when it appears.
"""
# Joined from group_told, group_warnings: one docstring for all.

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.broker.effects import Event
from linkwise.broker.groups.bundles import apart, mates_of
from linkwise.broker.groups.readiness import schedulers_of
from linkwise.dialects.groups.membership import group_of
from linkwise.engine.reasons.catalog import refusal, short_refusal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from linkwise.broker.group_registry import GroupView
    from linkwise.broker.state import State
    from linkwise.model.verdict import Reason
    from linkwise.model.views import PodView

__all__ = [
    "WAITS",
    "answered",
    "apart_text",
    "asked_again",
    "bundle_warnings",
    "group_warnings",
    "in_vain",
    "not_ready",
]

WAITS: Final = "GroupWaits"
"""the word for what is told of a group that is not ready"""


def not_ready(state: State, key: str, uid: str, reason: Reason) -> None:
    """A member is told what its group waits for."""
    state.groups.told.setdefault(key, {})[uid, WAITS] = short_refusal(reason)


def answered(state: State, key: str, uid: str) -> None:
    """A member is told something else."""
    told = state.groups.told.get(key, {})
    if told.pop((uid, WAITS), "") and not told:
        del state.groups.told[key]


def asked_again(state: State, key: str) -> None:
    """All members are woken, and are told then how things are."""
    for uid, word in list(state.groups.told.get(key, ())):
        if word == WAITS:
            answered(state, key, uid)


def in_vain(state: State, key: str, reason: Reason) -> tuple[Event, ...]:
    """The group was planned in vain: members that were told before that it is not ready read so, once."""
    return tuple(event for mate in mates_of(state, key) for event in _events(state, mate, reason))


def _events(state: State, key: str, reason: Reason) -> list[Event]:
    told, found = state.groups.told.get(key), state.groups.gather(key)
    if not told or not found:
        return []
    stale = [pod for pod in found.waiting if (pod.uid, WAITS) in told]
    asked_again(state, key)
    sentence = f"its group does not fit: {refusal(reason)}; for remedies, run: linkwise explain group/{key}"
    return [Event("Warning", "GroupDoesNotFit", sentence, pod.namespace, pod.name, pod.uid) for pod in stale]


def group_warnings(state: State) -> list[Event]:
    """Warnings about groups whose members changed, as far as they are new."""
    touched, state.groups.touched = state.groups.touched, {}
    alone, state.groups.alone = state.groups.alone, {}
    pods = ((state.pod(uid), sentence) for uid, sentence in alone.items())
    events = [
        Event("Warning", "GroupWords", sentence, pod.namespace, pod.name, pod.uid) for pod, sentence in pods if pod
    ]
    for key in touched:
        found = state.groups.gather(key)
        said = dict(_odd(state, key, found)) if found else {}
        known = state.groups.told.get(key, {})
        if found and known:
            said |= {(pod.uid, WAITS): known[pod.uid, WAITS] for pod in found.waiting if (pod.uid, WAITS) in known}
        state.groups.told[key] = said
        if not said:
            del state.groups.told[key]
        events += [
            Event("Warning", word, sentence, pod.namespace, pod.name, pod.uid)
            for (uid, word), sentence in said.items()
            if known.get((uid, word)) != sentence and (pod := state.pod(uid))
        ]
    return events


def bundle_warnings(state: State, found: GroupView) -> list[Event]:
    """A gang that is planned without others that it names, told when its plan is held."""
    sentence = apart_text(apart(state, found.group))
    pods = found.waiting if sentence else ()
    return [Event("Warning", "GangsApart", sentence, pod.namespace, pod.name, pod.uid) for pod in pods]


def apart_text(names: Sequence[str]) -> str:
    """What is wrong with gangs that do not name the same ones; empty if there are none."""
    if not names:
        return ""
    do = "does" if len(names) == 1 else "do"
    return (
        f"its gang must start together with {' and '.join(names)}, which {do} not list the same gangs: it waits until "
        "they are complete, and they are planned one by one; list the same gangs on all of them"
    )


def _odd(state: State, key: str, found: GroupView) -> Iterator[tuple[tuple[str, str], str]]:
    """By pod and word a sentence."""
    others = [other for other in state.groups.of_that_name(key) if _twins(key, other)]
    schedulers, sources = schedulers_of(found), state.groups.sources(key)
    for pod in found.waiting:
        if len(schedulers) > 1:
            yield (pod.uid, "SchedulersDiffer"), _several_schedulers(schedulers)
        if len(sources) > 1:
            yield (pod.uid, "SourcesDiffer"), _several_sources(key, sources)
        if others:
            yield (pod.uid, "OtherReplica"), _other_replica(found, others)
        if wrong_words := _wrong_words(state, pod):
            yield (pod.uid, "GroupWords"), wrong_words
        if state.cluster.shared.problems and (wrong := state.cluster.shared.wrong_for(pod, found.group)):
            yield (pod.uid, "GroupObjects"), "; ".join(f"{problem.where}: {problem.sentence}" for problem in wrong)
    for uid in found.extra:
        yield (uid, "TooManyMembers"), f"its group already has {found.group.total} members; it is scheduled separately"


def _wrong_words(state: State, pod: PodView) -> str:
    """What is wrong with what the pod says, worked out once for each version of it."""
    known = state.groups.problems.get(pod.uid)
    if known is None or known[0] is not pod:
        problems = group_of(pod)[1]
        sentence = "; ".join(f"{problem.key}: {problem.sentence}" for problem in problems)
        known = state.groups.problems[pod.uid] = (pod, sentence)
    return known[1]


def _twins(one: str, other: str) -> bool:
    """Whether two groups of the seed's differ in nothing but the number of their members."""
    mine, its = one.split("/"), other.split("/")
    return len(mine) == len(its) > 2 and mine[:2] == its[:2] and mine[3:] == its[3:]


def _several_schedulers(names: Sequence[str]) -> str:
    return f"members of its group use different schedulers, {' and '.join(names)}; set the same schedulerName on all"


def _several_sources(key: str, sources: list[str]) -> str:
    named = " and ".join(sources)
    return f"group {key} is declared by both {named} and treated as one; rename one if they are two"


def _other_replica(found: GroupView, others: list[str]) -> str:
    counts = " and ".join(other.split("/")[2] for other in others)
    return (
        f"its group has {found.group.total} members, but other pods with its name declare {counts}; set the same number"
    )
