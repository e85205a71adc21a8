"""Moves of users, other schedulers, nodes and the watch; three numbers choose the object and the change."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from linkwise.dialects.linkwise.dialect import GRANT
from linkwise.dialects.linkwise.group_plan import GROUP_PLAN
from linkwise.model.views import ContainerView, NodeView, PodView
from linkwise.testing.cluster import AMD, ASCEND, KOORDINATOR, MEMORY, NVIDIA
from support.properties.broker_invariants import asked_of, claims, devices_of, must
from support.properties.model_api import runs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from linkwise.testing.cluster import FakeNode, Family
    from support.properties.broker_world import World

    Move = Callable[[World, int, int, int], None]

__all__ = ["CLUSTER_MOVES", "box_of", "deliver", "one_of"]

T = TypeVar("T")

ASKS: Final[Mapping[Family, tuple[tuple[str, int], ...]]] = {
    "linked": ((NVIDIA, 1), (NVIDIA, 2), (NVIDIA, 4)),
    "amd": ((AMD, 1), (AMD, 2)),
    "ring": ((ASCEND, 1), (ASCEND, 2), (ASCEND, 4), (ASCEND, 8), (ASCEND, 3)),
    "share": ((MEMORY, 4), (MEMORY, 8), (MEMORY, 16), (MEMORY, 5)),
    "percent": ((KOORDINATOR, 30), (KOORDINATOR, 50), (KOORDINATOR, 100), (KOORDINATOR, 200)),
}
OURS: Final = frozenset({GRANT, GROUP_PLAN})
BY_DEVICE: Final = ("linked", "amd", "ring")
MOST_PODS: Final = 14
JUMPS: Final = (0.1, 1.0, 3.0, 60.0, -1.0, -3600.0, 1e9, 0.0, 600.0)


def one_of(things: Sequence[T], number: int) -> T | None:
    """One of them, if there are any."""
    return things[number % len(things)] if things else None


def box_of(world: World, number: int) -> FakeNode:
    """One of the nodes."""
    boxes = list(world.api.boxes.values())
    return boxes[number % len(boxes)]


def create(world: World, a: int, b: int, c: int) -> None:
    """Somebody makes a pod."""
    if len(world.api.pods) >= MOST_PODS:
        return
    asks = ASKS[world.families[a % len(world.families)]]
    resource, amount = asks[b % len(asks)]
    main = ContainerView("main", limits={resource: str(amount)})
    two = (main, ContainerView("side", limits=main.limits)) if amount <= 8 and not c % 5 else (main,)
    number = world.next_number()
    world.api.put(
        PodView(("default", "team")[c % 2], f"p{number}", f"u{number}", two, created=float(number), priority=c % 3)
    )


def finish(world: World, a: int, _b: int, c: int) -> None:
    """A pod's containers end."""
    if pod := one_of([pod for pod in world.api.pods.values() if runs(pod)], a):
        world.api.put(replace(pod, phase=("Succeeded", "Failed")[c % 2]))


def delete(world: World, a: int, b: int, c: int) -> None:
    """Somebody deletes a pod: it ends, stops and goes, a step each; or is gone at once, and its name taken again."""
    pod = one_of(list(world.api.pods.values()), a)
    if pod is None:
        return
    if pod.node and not pod.stopped and b % 4:
        world.api.put(replace(pod, deleting=True, stopped=pod.deleting))
        return
    world.api.remove(pod.uid)
    if b % 3 == 0:
        if c % 2:  # a list by name shows a pod that has changed, and not that one is gone
            world.api.owed.pop(f"pod/{pod.uid}", None)
        number = world.next_number()
        words = {key: text for key, text in pod.annotations.items() if key not in OURS}
        made = PodView(pod.namespace, pod.name, f"u{number}", pod.containers, pod.labels, words, created=float(number))
        world.api.put(replace(made, scheduling_group=pod.scheduling_group))


def bind_elsewhere(world: World, a: int, b: int, _c: int) -> None:
    """Another scheduler binds a pod, and records nothing."""
    pod = one_of([pod for pod in world.api.unbound() if not pod.deleting], a)
    asked = pod.containers[0].limits.keys() if pod else ()
    node = one_of([box.name for box in world.api.boxes.values() if box.view().capacity.keys() & asked], b)
    if pod and node:
        world.api.put(replace(pod, node=node))


def health(world: World, a: int, b: int, _c: int) -> None:
    """A device dies or recovers."""
    box = box_of(world, a)
    world.api.change(box.name, unhealthy=box.unhealthy ^ {b % box.count})


def ready(world: World, a: int, _b: int, c: int) -> None:
    """A node, or its device plugin, stops being ready, or is ready again."""
    box = box_of(world, a)
    world.api.change(box.name, **({"ready": not box.ready} if c % 2 else {"registered": not box.registered}))


def leave(world: World, a: int, _b: int, _c: int) -> None:
    """A node goes, or comes back."""
    name = box_of(world, a).name
    (world.api.return_node if name in world.api.gone else world.api.lose_node)(name)


def inventory(world: World, a: int, b: int, _c: int) -> None:
    """An inventory is deleted, or made again; or it says that devices are handed out in another way."""
    box = box_of(world, a)
    switched = None if box.mode else "whole" if box.family in {"share", "percent"} else "share"
    world.api.change(box.name, **({"inventory": not box.inventory} if b % 3 else {"mode": switched}))


def definition(world: World, _a: int, _b: int, _c: int) -> None:
    """The kind of inventories is removed with all of its objects, or made again with one for every node."""
    away = any(box.inventory for box in world.api.boxes.values())
    for name in list(world.api.boxes):
        world.api.change(name, inventory=not away)


def agent(world: World, a: int, b: int, c: int) -> None:
    """A node's agent tells what it sees in use; sometimes that is not what was recorded."""
    box = box_of(world, a)
    found = _in_use(box, world.api.holding(box.name))
    if c % 4 == 0 and box.family in {"linked", "share"}:
        world.checks.contradicted.add(box.name)
        shift = box.count - 1 + b
        found = {
            uid: tuple(box.device((shift - i) % box.count) for i in range(len(names))) for uid, names in found.items()
        }
    seen = {uid: names for place, (uid, names) in enumerate(found.items()) if names and (b >> place) % 3}
    world.api.change(box.name, allocations=seen)


def _in_use(box: FakeNode, pods: Sequence[PodView]) -> dict[str, tuple[str, ...]]:
    """What pods have by their records; of whole devices no two the same, and any that are left where none is recorded."""
    by_index = {f"#{index}": box.device(index) for index in range(box.count)}
    found = {pod.uid: tuple(by_index.get(name, name) for name in devices_of(pod)) for pod in pods}
    if box.family not in BY_DEVICE:
        return found
    left = list(by_index.values())
    for uid, names in found.items():
        found[uid] = names if set(names) <= set(left) else ()
        left = [name for name in left if name not in found[uid]]
    for pod in pods:
        if not found[pod.uid]:
            found[pod.uid], left = tuple(left[: asked_of(pod)]), left[asked_of(pod) :]
    return found


def deliver(world: World, a: int, b: int, _c: int) -> None:
    """News of one object come through."""
    if key := one_of(sorted(world.api.owed), a):
        world.see(world.api.deliver(key, 1 + b % 2))


def deliver_all(world: World, _a: int, _b: int, _c: int) -> None:
    """All news come through."""
    world.see(world.api.deliver_all())


def repeat(world: World, a: int, b: int, _c: int) -> None:
    """News come again; of pods old ones too, and of nodes that are there: their versions tell."""
    key = one_of(sorted(world.api.delivered), a)
    if key is None:
        return
    delivered = world.api.delivered[key]
    dated = delivered if key.startswith("pod/") else [sight for sight in delivered if isinstance(sight, NodeView)]
    sights = dated if dated and delivered[-1] is dated[-1] else delivered[-1:]
    before = claims(world.broker)
    world.see([sights[b % len(sights)]])
    must(claims(world.broker) == before, "old news changed something")


def jump(world: World, a: int, _b: int, _c: int) -> None:
    """The clock goes on, or is set."""
    world.now += JUMPS[a % len(JUMPS)]


CLUSTER_MOVES: Final[dict[str, Move]] = {
    "create": create,
    "deliver": deliver,
    "deliver all": deliver_all,
    "finish": finish,
    "delete": delete,
    "agent": agent,
    "jump": jump,
    "repeat": repeat,
    "bind elsewhere": bind_elsewhere,
    "health": health,
    "ready": ready,
    "leave": leave,
    "inventory": inventory,
    "definition": definition,
}
