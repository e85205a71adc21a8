"""Moves of users and controllers on groups of pods; three numbers choose the object and the change."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from linkwise.dialects.groups.conventions import KUEUE, KUEUE_TOTAL, SCHEDULER_PLUGINS
from linkwise.dialects.groups.koordinator_gang import GROUPS, MINIMUM, MODE, NAME as GANG, POLICY, TOTAL
from linkwise.dialects.groups.membership import NAME, REPLICA
from linkwise.dialects.groups.pod_group_objects import KINDS
from linkwise.dialects.linkwise.group_plan import GROUP_PLAN
from linkwise.model.views import ContainerView, Owner, PodView
from support.properties.cluster_moves import ASKS, MOST_PODS, OURS, one_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from support.properties.broker_world import World
    from support.properties.cluster_moves import Move

__all__ = ["GROUP_MOVES", "SAID", "SPACES", "Said", "begin", "make_member"]

SPACES: Final = ("default", "team")
VOLCANO: Final = "scheduling.volcano.sh/group-name"
GATE: Final = "example.com/gate"


class Said(NamedTuple):
    """What members of a group say of it."""

    members: int
    """as many as are usually made"""
    labels: Mapping[str, str] = {}
    words: Mapping[str, str] = {}
    pointer: str = ""


def _seed(replica: int, **words: str) -> Said:
    return Said(
        replica, {NAME: f"s{replica}", REPLICA: str(replica)}, {_GANG[key]: text for key, text in words.items()}
    )


def _gang(name: str, members: int, **words: str) -> Said:
    return Said(members, {}, {GANG: name, **{_GANG[key]: text for key, text in words.items()}})


_GANG: Final = {"least": MINIMUM, "total": TOTAL, "policy": POLICY, "mode": MODE, "groups": GROUPS, "gang": GANG}
_BOTH: Final = json.dumps(["default/left", "default/right"])
SAID: Final = (
    _seed(2),
    _gang("g", 2, least="2"),
    _seed(3),
    _gang("h", 3, least="2", total="3"),
    _gang("left", 2, least="2", groups=_BOTH),
    _gang("right", 1, least="1", groups=_BOTH),
    Said(2, {}, {VOLCANO: "v"}),
    Said(2, {}, {}, "native"),
    _seed(3, gang="s3", least="2", policy="only-waiting"),
    _gang("w", 3, least="2", total="3", policy="waiting-and-running", mode="NonStrict"),
    _gang("most", 2, least="4"),
    Said(2, {KUEUE: "q"}, {KUEUE_TOTAL: "2"}),
    Said(2, {SCHEDULER_PLUGINS: "g"}),
    _gang("broken", 2, least="many"),
    _gang("only", 2, least="2", policy="only-waiting"),
    Said(2),
)
PODGROUPS: Final = (
    (KINDS["volcano"], "v", {"spec": {"minMember": 2}}),
    (KINDS["kubernetes"], "native", {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}),
    (KINDS["volcano"], "v", {"spec": {"minMember": 3}}),
    (KINDS["volcano"], "v", {"spec": {"minMember": "x"}}),
    (KINDS["scheduler-plugins"], "g", {"spec": {"minMember": 1}}),
    (KINDS["kubernetes"], "native", {"spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}}),
)


def make_group(world: World, a: int, b: int, c: int) -> None:
    """Somebody makes a group of pods, with equal asks or not; a few may be missing yet, or be too many."""
    said = SAID[a % len(SAID)]
    for number in range(max(1, said.members - (c % 5 == 1) + (c % 7 == 1))):
        make_member(world, said, SPACES[b % 8 == 0], b // 8 + number * (c % 3), c)


def join(world: World, a: int, b: int, c: int) -> None:
    """A member comes late, to a group that may be there or not."""
    make_member(world, SAID[a % len(SAID)], SPACES[b % 8 == 0], b // 8, c)


def make_member(world: World, said: Said, space: str, ask: int, c: int) -> None:
    """One more pod that says so of its group."""
    if len(world.api.pods) >= MOST_PODS:
        return
    space = SPACES[0] if GROUPS in said.words else space  # gangs that start together name each other
    family = world.families[c % len(world.families)]
    resource, amount = ASKS[family][ask % len(ASKS[family])]
    limits = {} if ask % 6 == 5 else {resource: str(amount)}
    number = world.next_number()
    pod = PodView(
        space,
        f"m{number}",
        f"u{number}",
        (ContainerView("main", limits=limits, requests={"cpu": "20"} if limits and c % 11 == 10 else {}),),
        said.labels,
        said.words,
        created=float(number),
        priority=c // 3 % 3,
        scheduler="other" if c % 37 == 36 else "",
        gates=(GATE,) if c % 17 == 16 else (),
        scheduling_group=said.pointer,
        owner=Owner("Job", "job", f"job-{c % 3}") if c % 2 else None,
    )
    world.api.put(pod)


def gate(world: World, a: int, _b: int, _c: int) -> None:
    """The gate of a pod goes; or one comes, which only an old view could show."""
    gated = [pod for pod in world.api.unbound() if pod.gates]
    if pod := one_of(gated, a):
        world.api.put(replace(pod, gates=()))


def relabel(world: World, a: int, b: int, c: int) -> None:
    """A pod's words change: it is in another group, in none, or what it says is garbage."""
    pod = one_of(list(world.api.pods.values()), a)
    if pod is None:
        return
    said = SAID[b % len(SAID)] if c % 3 else Said(0)
    words = {key: text for key, text in pod.annotations.items() if key in OURS}
    if c % 5 == 4 and pod.node:
        words[GROUP_PLAN] = ("{", '{"version":1,"groups":7}', words.get(GROUP_PLAN, "")[:40])[b % 3]
    world.api.put(replace(pod, labels=said.labels, annotations={**said.words, **words}))


def pod_group(world: World, a: int, b: int, c: int) -> None:
    """A PodGroup is made, changed or deleted."""
    kind, name, document = PODGROUPS[a % len(PODGROUPS)]
    world.api.put_object(kind, f"{SPACES[b % 4 == 0]}/{name}", document if c % 4 else None)


def cordon(world: World, a: int, _b: int, c: int) -> None:
    """A node takes no pods any more, or does again; or has less beside devices."""
    box = list(world.api.boxes.values())[a % len(world.api.boxes)]
    world.checks.reopened.add(box.name)
    less = {"cpu": "8" if box.cpu == "64" else "64"}
    world.api.change(box.name, **(less if c % 3 == 0 else {"cordoned": not box.cordoned}))


def begin(world: World, a: int, _b: int, _c: int) -> None:
    """A container of a bound pod begins to run."""
    bound = [pod for pod in world.api.pods.values() if pod.node and not pod.begun and not pod.deleting]
    if pod := one_of(bound, a):
        world.api.put(replace(pod, begun=True))


GROUP_MOVES: Final[dict[str, Move]] = {
    "group": make_group,
    "join": join,
    "gate": gate,
    "pod group": pod_group,
    "relabel": relabel,
    "cordon": cordon,
    "begin": begin,
}
