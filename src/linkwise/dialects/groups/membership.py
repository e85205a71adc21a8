"""Group of a pod, by the first convention that it uses.

That convention decides even if it is used wrongly: then the pod is placed alone and the problem is reported. Source: seed 001, "How to identify pods are in the same group"; contract koordinator, sections 7 and 8.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.dialects.groups.conventions import (
    KAI,
    KUEUE,
    SCHEDULER_PLUGINS,
    VOLCANO,
    Words,
    kai,
    kubernetes,
    kueue,
    scheduler_plugins,
    volcano,
)
from linkwise.dialects.groups.koordinator_gang import (
    INDEX,
    LABEL as GANG_LABEL,
    MINIMUM,
    MINIMUM_LABEL,
    NAME_LABEL as GANG_NAME_LABEL,
    TOTAL,
    WORDS as GANG_WORDS,
    gang,
    gang_words,
    speaks_gang,
)
from linkwise.dialects.groups.owners import owner_group
from linkwise.dialects.json_fields import shown
from linkwise.model.ask import Group

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.dialects.groups.koordinator_gang import Gang
    from linkwise.dialects.groups.owners import OwnerMode
    from linkwise.model.verdict import Problem
    from linkwise.model.views import PodView

__all__ = ["KEYS", "NAME", "REPLICA", "group_by_owner", "group_of", "may_have_group"]

NAME: Final = "gputopology.scheduling.koordinator.sh/name"
REPLICA: Final = "gputopology.scheduling.koordinator.sh/replica"

# Labels or annotations that hold a pod's place, the first that is there.
RANKS: Final = (
    "batch.kubernetes.io/job-completion-index",
    INDEX,
    "leaderworkerset.sigs.k8s.io/worker-index",  # before pod-index, by which a leader counts groups
    "apps.kubernetes.io/pod-index",
    "kueue.x-k8s.io/pod-group-pod-index",
    "volcano.sh/task-index",
    "training.kubeflow.org/replica-index",
)
JOB_RANKS: Final = ("jobset.sigs.k8s.io/job-global-index", "jobset.sigs.k8s.io/job-index")
JOB_SIZE: Final = 1_000_000
"""more pods than one job of a set has: the job counts before the place in it"""

_LAST_NUMBER: Final = re.compile(r"(?:.*[^0-9])?([0-9]{1,9})", re.DOTALL)


KEYS: Final = frozenset(
    {NAME, REPLICA, SCHEDULER_PLUGINS, KAI, KUEUE, *VOLCANO, *GANG_WORDS, GANG_LABEL, GANG_NAME_LABEL}
)
"""labels and annotations that a pod in a group has one of, unless its spec points to the group; who has one means a group"""


def may_have_group(pod: PodView) -> bool:
    """Whether it is worth the while to read which group the pod belongs to: most pods are in none."""
    return bool(pod.scheduling_group) or not (KEYS.isdisjoint(pod.labels) and KEYS.isdisjoint(pod.annotations))


def group_of(pod: PodView) -> tuple[Group | None, tuple[Problem, ...]]:
    """The group that the pod says it belongs to, and what is wrong with the words."""
    words = Words(pod)
    read = next((read for speaks, read in CONVENTIONS if speaks(words)), None)
    group = read(words) if read else None
    if group is not None:
        group = replace(group, rank=_rank(words))
    return group, tuple(words.problems)


def group_by_owner(pod: PodView, mode: OwnerMode) -> tuple[Group | None, tuple[Problem, ...]]:
    """The group of the workload that a pod belongs to, if the pod says nothing about groups; and what is wrong with it."""
    words = Words(pod)
    group = owner_group(words, mode)
    return replace(group, rank=_rank(words)) if group else None, tuple(words.problems)


def _seed(words: Words) -> Group | None:
    values = {key: words.labels[key] for key in (NAME, REPLICA) if key in words.labels}
    for missing in {NAME, REPLICA} - values.keys():
        words.say(missing, f"missing beside {next(iter(values))}; until both are set, the pod is placed alone")
        return None
    name, total = words.name(NAME, values[NAME]), words.count(REPLICA, values[REPLICA])
    if name is None or total is None:
        return None
    # rule 001.group: equal name and replica in one namespace; the owner distinguishes a new job from an old one of that name.
    owner = words.pod.owner
    key = words.key(name, str(total), *([owner.uid] if owner else []))
    group = Group(key, "koordinator", total)
    return _with_gang(group, name, gang_words(words), words) if speaks_gang(words) else group


def _with_gang(group: Group, name: str, gang: Gang, words: Words) -> Group:
    # rule 001.gang-words: both are named where they differ; replica is how many are planned, the gang how many start.
    if gang.name not in {name, None}:
        words.say(
            gang.named_by, f"it is {shown(gang.name)}, but {NAME} is {shown(name)}, which is used; make them equal"
        )
    for key, number, effect in (
        (
            MINIMUM if MINIMUM in words.annotations else MINIMUM_LABEL,
            gang.minimum,
            f"{gang.minimum} must start together",
        ),
        (TOTAL, gang.total, f"{group.total} are planned"),
    ):
        if number not in {group.total, None}:
            words.say(key, f"it is {number}, but {REPLICA} is {group.total}; make them equal. Until then, {effect}")
    return replace(
        group,
        minimum=gang.minimum,
        match_policy=gang.match_policy,
        strict=gang.strict,
        waiting_time=gang.waiting_time,
        bundle=gang.bundle,
        network=gang.network,
    )


def _rank(words: Words) -> int | None:
    place = _first(words, RANKS)
    job = _first(words, JOB_RANKS)
    return place if job is None else job * JOB_SIZE + (place or 0)


def _first(words: Words, keys: tuple[str, ...]) -> int | None:
    for key in keys:
        values = {holder[key] for holder in (words.labels, words.annotations) if key in holder}
        if len(values) > 1:
            words.say(key, f"label and annotation differ: {' and '.join(map(shown, sorted(values)))}; neither counts")
            return None
        if values:
            return _place(words, key, values.pop())
    return None


def _place(words: Words, key: str, text: str) -> int | None:
    """A number; Koordinator's index may have a name before it: w-10 comes after w-2."""
    match = _LAST_NUMBER.fullmatch(text) if key == INDEX else None
    return words.count(key, match[1] if match else text, least=0)


# One line per system, in order of precedence.
CONVENTIONS: Final[tuple[tuple[Callable[[Words], bool], Callable[[Words], Group | None]], ...]] = (
    (lambda words: NAME in words.labels or REPLICA in words.labels, _seed),
    (lambda words: bool(words.pod.scheduling_group), kubernetes),
    (speaks_gang, gang),
    (lambda words: SCHEDULER_PLUGINS in words.labels, scheduler_plugins),
    (lambda words: any(key in words.annotations for key in VOLCANO), volcano),
    (lambda words: KAI in words.annotations, kai),
    (lambda words: KUEUE in words.labels, kueue),
)
