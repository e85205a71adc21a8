"""Planning a group beside everything else that the broker does: in steps, and held only when it is whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.beside import needed_by
from linkwise.broker.demand import capacity_of
from linkwise.broker.group_book import HeldPlan
from linkwise.broker.network import network_of
from linkwise.broker.pods import holds_devices
from linkwise.dialects.linkwise import any_model
from linkwise.engine.groups.caps import Ground
from linkwise.engine.groups.making import Site, Task, make_plan
from linkwise.engine.groups.plan import Member
from linkwise.engine.groups.seating import takes
from linkwise.engine.ledger import Entry
from linkwise.engine.usage import resolved
from linkwise.model.verdict import Grant

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from linkwise.broker.group_book import Gathered
    from linkwise.broker.network import Network
    from linkwise.broker.state import State
    from linkwise.engine.feasibility import Neighbour
    from linkwise.engine.groups.plan import Plan
    from linkwise.model.group import Group

__all__ = ["Run", "gathered", "hold", "prolong", "release", "start"]

AT_ONCE: Final = 100
"""nodes gathered between two steps"""
ROUGHLY: Final = 0.1
"""part of a plan's time that is not worth the while to add"""


@dataclass(slots=True)
class Run:
    """A plan that is being made."""

    key: str
    members: tuple[str, ...]
    steps: Generator[None, None, Plan | None]
    plan: Plan | None = None
    done: bool = False

    def advance(self, budget: int) -> bool:
        """Work for so many steps; whether it is done."""
        for _ in range(budget):
            try:
                next(self.steps)
            except StopIteration as end:
                self.plan, self.done = end.value, True
                return True
        return self.done


def gathered(state: State, key: str) -> Gathered | None:
    """The group as it is now; who was promised devices by a bind that has not ended counts as bound."""
    found = state.groups.gather(key)
    if found is None:
        return None
    get = state.cluster.ledger.get
    homes = {pod.uid: entry.node for pod in found.waiting if (entry := get(pod.uid)) and entry.state == "ASSUMED"}
    if not homes:
        return found
    under_way = [replace(pod, node=homes[pod.uid]) for pod in found.waiting if pod.uid in homes]
    waiting = tuple(pod for pod in found.waiting if pod.uid not in homes)
    return replace(found, waiting=waiting, bound=(*found.bound, *under_way))


def start(state: State, key: str, found: Gathered) -> Run:
    """Begin to plan the members that wait, beside those that are bound."""
    return Run(key, tuple(pod.uid for pod in found.waiting), _planning(state, found))


def hold(state: State, key: str, plan: Plan, now: float, generation: int | None = None) -> HeldPlan | None:
    """Let the plan count as taken; None if it can't be kept any more, because nodes changed while it was made.

    The generation is the next one, unless it was held before.
    """
    ledger, book = state.cluster.ledger, state.groups
    if not all(_still_free(state, uid, plan) for uid in plan.placements):
        return None
    found = book.gather(key)
    generation = book.next_generation(key) if generation is None else generation
    expires = now + _patience(state, found.group if found else None)
    entries = []
    for uid, placement in plan.placements.items():
        pod = state.pod(uid)
        wanted = state.wanted(state.wish(pod)) if pod else None
        if pod is None or placement.offer is None or wanted is None:
            continue
        grant = Grant(uid, wanted.policy.name, placement.offer, key, generation, wanted.ask.mode)
        entries.append(Entry(grant, "PLANNED", pod.namespace, pod.created, expires=expires))
    # rule 001.hold: a complete plan counts as taken for everybody else, for a limited time.
    ledger.plan(entries, _told(state, plan))
    priority = max((pod.priority for uid in plan.placements if (pod := state.pod(uid))), default=0)
    book.plans[key] = HeldPlan(plan, key, generation, expires, priority)
    book.short.pop(key, None)
    state.settle()
    return book.plans[key]


def prolong(state: State, key: str, now: float) -> None:
    """A member is being bound: the plan's time begins anew."""
    held, found = state.groups.plans.get(key), state.groups.gather(key)
    if held is None or found is None:
        return
    patience = _patience(state, found.group)
    ledger, expires = state.cluster.ledger, now + patience
    if expires - held.expires < patience * ROUGHLY:
        return
    entries = [entry for uid in held.plan.placements if (entry := ledger.get(uid)) and entry.state == "PLANNED"]
    ledger.plan([replace(entry, expires=expires) for entry in entries], _told(state, held.plan))
    state.groups.plans[key] = replace(held, expires=expires)


def release(state: State, key: str) -> list[str]:
    """Let go of what a plan holds and was not promised by a bind; the UIDs of those members."""
    # rule 001.replan: made anew for all if nobody is bound, else for the rest: who is bound is fixed in every plan.
    held = state.groups.plans.pop(key, None)
    if held is None:
        return []
    ledger = state.cluster.ledger
    planned = [uid for uid in held.plan.placements if (entry := ledger.get(uid)) and entry.state == "PLANNED"]
    ledger.drop(planned)
    for mate in held.mates:
        if (other := state.groups.plans.get(mate)) and key in other.mates:
            planned += release(state, mate)
    return planned


def _told(state: State, plan: Plan) -> set[str]:
    """Pods of which the agents of the plan's nodes tell what they use."""
    stocks = state.cluster.stocks
    return {uid for node in plan.nodes if node in stocks for uid in stocks[node].allocations}


def _patience(state: State, group: Group | None) -> float:
    least = state.settings.group.hold
    return max(least, group.waiting_time) if group and group.minimum else least


def _still_free(state: State, uid: str, plan: Plan) -> bool:
    placement = plan.placements[uid]
    node = state.cluster.index.nodes.get(placement.node)
    if node is None or placement.node in state.cluster.unready:
        return False
    pod = state.pod(uid)
    wanted = state.wanted(state.wish(pod)) if pod else None
    return placement.offer is None or (wanted is not None and takes(node, wanted, placement.offer))


def _planning(state: State, found: Gathered) -> Generator[None, None, Plan | None]:
    members = yield from _members(state, found)
    network = network_of(state.cluster, found.group)
    sites = yield from _sites(state, found, members, network)
    bound = [site.model for site in sites if site.held]
    task = Task(
        members,
        network.levels,
        network.required,
        mixed=takes_any_model(state, found),
        seed_order=state.settings.group.order == "seed",
        minimum=_minimum(state, found),
        fixed=frozenset(bound),
    )
    return (yield from make_plan(task, sites, state.hosts))


def takes_any_model(state: State, found: Gathered) -> bool:
    """Whether devices of different models may serve the group."""
    return state.settings.group.models == "any" or any(map(any_model, found.waiting))


def _minimum(state: State, found: Gathered) -> int:
    """How many of the waiting members must be placed: for a gang that has not started those that it still lacks."""
    minimum, key = found.group.minimum, found.group.key
    if minimum is None or key in state.groups.satisfied:
        return 1
    there = 0 if found.group.match_policy == "only-waiting" else len(found.bound)
    return max(1, minimum - there)


def _members(state: State, found: Gathered) -> Generator[None, None, tuple[Member, ...]]:
    members = []
    for place, pod in enumerate(found.waiting):
        if place % AT_ONCE == 0:
            yield
        wanted = state.wanted(state.wish(pod))
        members.append(Member(pod.uid, pod.name, wanted, needed_by(state, pod), place, pod.created))
    return tuple(members)


def _sites(
    state: State, found: Gathered, members: tuple[Member, ...], network: Network
) -> Generator[None, None, list[Site]]:
    """The nodes that serve what the members ask for, and those that they run on."""
    cluster, sites = state.cluster, []
    words = {member.wanted.word: member.wanted for member in members if member.wanted}
    parts = any(member.wanted and not member.wanted.ask.devices for member in members)
    avoided = state.groups.avoided.get(found.group.key, ())
    held: dict[str, set[str]] = {}
    for pod in found.bound:
        entry = cluster.ledger.get(pod.uid)
        if entry:
            stock = cluster.stocks.get(pod.node)
            held.setdefault(pod.node, set()).update(resolved(stock, entry.grant.offer.devices) if stock else ())
    for number, (name, view) in enumerate(cluster.nodes.items()):
        if number % AT_ONCE == 0:
            yield
        node = cluster.index.nodes.get(name)
        served = frozenset(word for word, wanted in words.items() if not cluster.index.unserved(wanted, name))
        if node is None or name in avoided or (words and not served):
            continue
        if words and not parts and not node.free() and name not in held:
            continue
        ground = Ground(view, capacity_of(view), cluster.load(name), _neighbours(state, name))
        sites.append(
            Site(node, cluster.index.shape(name), ground, network.path(view), frozenset(held.get(name, ())), served)
        )
    return sites


def _neighbours(state: State, name: str) -> Callable[[], list[Neighbour]]:
    def found() -> list[Neighbour]:
        return [(pod.namespace, pod.labels) for pod in state.cluster.known.on(name) if holds_devices(pod)]

    return found
