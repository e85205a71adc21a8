"""Planning runs: a plan is made in steps, in a filter call as far as the limit allows, then in the background.

Runs in the background are advanced one after the other, by priority and age. A plan is reserved only when it is complete;
if members, nodes or the minimum changed meanwhile, it is made again.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from linkwise.broker.access import barred_nodes, within_limits
from linkwise.broker.candidates import Candidates, misfit, needed_by
from linkwise.broker.groups.notices import bundle_warnings, unfit_events
from linkwise.broker.groups.planning.input import (
    minimum_of,
    planning_input,
    read_network,
    single_query,
    takes_any_model,
)
from linkwise.broker.groups.planning.priority import preempt_plans_for_group
from linkwise.broker.groups.readiness import alternatives, bundle, joined, pending_reason, waits_until
from linkwise.broker.groups.reservations import (
    drop_plan,
    give_up_places,
    move,
    overcommits,
    reserve,
    still_free,
)
from linkwise.broker.groups.stale_gangs import note_stale
from linkwise.broker.holding.reserved_devices import release, reserved_nodes
from linkwise.broker.records.members import NO_LIMITS, Idle, Planning, Reserved, Run, Unschedulable, Waiting
from linkwise.broker.volcano.nodes import pinned_node
from linkwise.broker.wake_ups import flush
from linkwise.engine.planning.make_plan import make_plan
from linkwise.engine.planning.plan import model_of
from linkwise.model.verdict import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

    from linkwise.broker.cluster.cluster import Cluster
    from linkwise.broker.groups.planning.input import Network
    from linkwise.broker.records.members import GroupView, Limits, Requested
    from linkwise.broker.state import State
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.planning.plan import Plan
    from linkwise.model.ask import Demand
    from linkwise.model.node import Node
    from linkwise.model.views import PodView

__all__ = [
    "adopt",
    "advance_plans",
    "begin",
    "capacity_gained",
    "plan_now",
    "planning",
    "requested_of",
    "without_demoted",
]

SITES_AT_ONCE: Final = 5000
"""nodes released between two steps"""
TRIES: Final = 50
"""nodes on which one pod is planned, the best first, before the planner gets all nodes"""
FEW_TRIES: Final = 5
"""of these, before the other resources of all nodes are checked"""
HOSTS_AT_ONCE: Final = 100
"""nodes whose other resources are checked between two steps"""


def begin(state: State, views: Sequence[GroupView], limits: Limits = NO_LIMITS) -> None:
    """Start planning a group, or the gangs of a bundle, beside their bound members; plans that they have are dropped."""
    keys = tuple(view.key for view in views)
    for key in keys:
        record = state.groups[key]
        give_up_places(state, key)
        if isinstance(record.stage, Reserved):
            # One that was planned with it may not be planned with it again: it has started, or was changed.
            ended = drop_plan(state, key, "break", Idle())
            state.cluster.changes.groups |= {each: None for each in ended if each not in keys}
    flush(state)
    pods = [pod for view in views for pod in view.waiting]
    run = Run(
        keys,
        requested_of(views),
        _steps(state, views),
        state.cluster.index.changes,
        max((pod.priority for pod in pods), default=0),
        min((pod.created for pod in pods), default=0.0),
    )
    for key in keys:
        move(state, key, "plan", Planning(run, limits))


def without_demoted(state: State, views: Iterable[GroupView], limits: Limits) -> Limits:
    """Return the limits, with the nodes avoided that Volcano refused for these groups."""
    demoted = {node for view in views for node in state.groups.demoted.get(view.key, ())}
    return replace(limits, avoided=limits.avoided | demoted) if demoted else limits


def requested_of(views: Iterable[GroupView]) -> Requested:
    """Return what a plan for these groups must place now, to detect changes."""
    return tuple(
        (
            minimum_of(view),
            tuple(pod.uid for pod in view.waiting),
            tuple(sorted(f"{pod.uid} {pod.node}" for pod in view.bound)),
        )
        for view in views
    )


def plan_now(state: State, key: str, now: float) -> None:
    """Advance the plan of a group as far as one filter call may; the stage is the result."""
    budget = state.settings.group.steps
    while budget > 0 and isinstance(stage := state.groups.stage(key), Planning):
        budget -= max(1, stage.run.advance(budget))
        if stage.run.done:
            _finish(state, stage.run, now)


def advance_plans(state: State, now: float, budget: int) -> None:
    """Advance plans in the background, the one of the highest priority first."""
    while budget > 0 and (runs := state.groups.runs()):
        budget -= max(1, runs[0].advance(budget))
        if runs[0].done:
            _finish(state, runs[0], now)


def _finish(state: State, run: Run, now: float) -> None:
    """Reserve a finished plan; if it is outdated, start again."""
    views = bundle(state, run.keys[0])
    _leave_run(state, run, views)
    if not views:
        return
    limits = state.groups.limits(run.keys[0])
    lacking = next(((view, reason) for view in views if (reason := pending_reason(state, view, now))), None)
    flush(state)
    if lacking:
        _wait(state, run, *lacking, now)
    elif run.requested != requested_of(views) or (run.plan is None and run.missed):
        begin(state, views, limits)
    elif run.plan is None and limits.avoided and not _has_open_binds(state, views):
        begin(state, views, replace(limits, avoided=frozenset()))  # a node that failed is better than none
    elif plan := run.plan or preempt_plans_for_group(state, views, now):
        _release_reserved(state, views)
        if _is_valid(state, views, plan):
            _reserve(state, run, views, plan, now)
        else:
            begin(state, views, limits)
    else:
        _fail(state, run, views, now)


def _release_reserved(state: State, views: Iterable[GroupView]) -> None:
    """Release what was kept free for the members, now that the plan reserves devices; what it leaves goes to others."""
    nodes = release(state, (pod.uid for view in views for pod in view.waiting)) if state.reservations.made else ()
    if nodes:
        state.groups.gain(state.cluster.settle(), state.cluster.index.changes)
        state.queue.untaken.update(dict.fromkeys(nodes))


def adopt(state: State, views: Sequence[GroupView], plan: Plan, now: float) -> None:
    """Reserve a plan that was made before; if it is outdated, the groups are planned as usual."""
    key = views[0].key
    begin(state, views, state.groups.limits(key))
    stage = state.groups.stage(key)
    if isinstance(stage, Planning):
        stage.run.plan, stage.run.done = plan, True
        _finish(state, stage.run, now)


def _has_open_binds(state: State, views: Iterable[GroupView]) -> bool:
    """Return whether members are being bound: these count as bound, and their binds may still be refused."""
    pods = state.cluster.pods
    return any(not pods[pod.uid].node for view in views for pod in view.bound)


def _leave_run(state: State, run: Run, views: Iterable[GroupView]) -> None:
    """Take groups out of a run that are not planned together with the others any more."""
    for key in set(run.keys) - {view.key for view in views}:
        stage = state.groups.stage(key)
        if isinstance(stage, Planning) and stage.run is run:
            move(state, key, "forget", Idle())
            state.cluster.changes.groups[key] = None


def _reserve(state: State, run: Run, views: Sequence[GroupView], plan: Plan, now: float) -> None:
    """Reserve a plan, split by gang."""
    limits = state.groups.limits(run.keys[0])
    for view in views:
        own = _share(plan, {pod.uid for pod in view.waiting}) if len(views) > 1 else plan
        if own.placements or not own.missing:  # members without devices may go to any node
            record, others = state.groups[view.key], tuple(key for key in run.keys if key != view.key)
            record.generation += 1
            reserve(state, view.key, Reserved(own, record.generation, now, bundle=others, limits=limits), now)
        else:
            left_out = Reason("001.tolerant", kind="left out")
            move(state, view.key, "fail", _unschedulable(state, run, left_out, now))
    flush(state)
    state.outbox.add(event for view in views for event in bundle_warnings(state, view))


def _wait(state: State, run: Run, view: GroupView, reason: Reason, now: float) -> None:
    """Leave a run, because the groups are not ready any more."""
    for key in run.keys:
        if key in state.groups:
            move(state, key, "wait", Waiting(reason, waits_until(state, view, reason, now)))
            state.cluster.changes.groups[key] = None  # reviewed for what it lacks itself


def _fail(state: State, run: Run, views: Sequence[GroupView], now: float) -> None:
    reason = _shortage_reason(state, joined(views))
    for view in views:
        note_stale(state, view, now)
        move(state, view.key, "fail", _unschedulable(state, run, reason, now))
        state.outbox.add(unfit_events(state, view, reason))


def _unschedulable(state: State, run: Run, reason: Reason, now: float) -> Unschedulable:
    limits = state.groups.limits(run.keys[0])
    return Unschedulable(reason, run.requested, now + state.settings.group.window, limits, run.at)


def _is_valid(state: State, views: Iterable[GroupView], plan: Plan) -> bool:
    """Return whether the plan's members are still pending and its nodes still have capacity."""
    nodes = state.cluster.nodes
    waiting = {pod.uid for view in views for pod in view.waiting}
    if not waiting.issuperset(plan.placements):
        return False
    if any(name not in nodes or nodes[name].unschedulable for name in plan.nodes):
        return False
    left: dict[str, Node] = {}
    free = all(still_free(state, uid, plan, left) for uid in plan.placements)
    return free and not overcommits(state, plan.placements.values())


def _share(plan: Plan, members: set[str]) -> Plan:
    placements = {uid: placement for uid, placement in plan.placements.items() if uid in members}
    return replace(plan, placements=placements, missing=tuple(uid for uid in plan.missing if uid in members))


def _steps(state: State, views: Sequence[GroupView]) -> Generator[None, None, Plan | None]:
    for view, left in alternatives(views):
        permitted, over = within_limits(state, view)
        plan = yield from planning(state, permitted)
        if plan is not None:
            return replace(plan, missing=(*plan.missing, *over, *left))
    return None


def planning(state: State, view: GroupView) -> Generator[None, None, Plan | None]:
    """Compute a plan in steps; None if too few members fit."""
    network = yield from read_network(state.cluster, view.group)
    if query := single_query(state, view):
        found, plan = yield from _single(state, view, network, query)
        if found:
            return plan
    task, sites = yield from planning_input(state, view, network)
    plan = yield from make_plan(task, sites, state.hosts)
    while sites:  # releasing many thousands at once takes longer than a step may
        yield
        del sites[-SITES_AT_ONCE:]
    return plan


def _single(
    state: State, view: GroupView, network: Network, query: Query
) -> Generator[None, None, tuple[bool, Plan | None]]:
    """Plan one pod on the first node of its policy's order that fits, and return whether the search came to an end.

    The index has all nodes in that order: the planner, which would rank them all again, gets them one by one.
    """
    (pod,), cluster = view.waiting, state.cluster
    demand, candidates = needed_by(cluster, pod), Candidates(state, query, pod.uid)
    without = set(state.groups.limits(view.key).avoided).union(barred_nodes(state, pod, query) if state.access else ())
    pinned = pinned_node(pod)
    names = [pinned] if pinned else list(cluster.nodes)
    for number in range(TRIES):
        if number == FEW_TRIES:  # other resources or its affinity exclude many nodes
            names = yield from _hosts_of(cluster, pod, demand, names)
        best = candidates.best(names, 1, without)
        if not best:
            return True, None
        without.update(best)
        if best[0] in cluster.nodes and not misfit(cluster, pod, demand, best[0]):
            task, sites = yield from planning_input(state, view, network, best)
            if plan := (yield from make_plan(task, sites, state.hosts)):
                return True, plan
    return False, None


def _hosts_of(cluster: Cluster, pod: PodView, demand: Demand, names: Iterable[str]) -> Generator[None, None, list[str]]:
    """Return the nodes that have everything but devices for a pod."""
    found = []
    for number, name in enumerate(names):
        if number % HOSTS_AT_ONCE == 0:
            yield
        if name in cluster.nodes and not misfit(cluster, pod, demand, name):
            found.append(name)
    return found


def capacity_gained(state: State, gained: Mapping[str, int], *, anywhere: bool) -> None:
    """Plan groups again that did not fit and may fit now; with `anywhere` any node may have gained capacity.

    Their members are woken only if the plan succeeds.
    """
    for run in state.groups.runs():
        run.missed = run.missed or anywhere or any(at > run.at for at in gained.values())
    room = _Room(state, partial(_usable, state))
    for key, record in state.groups.in_stage(Unschedulable):
        if not isinstance(record.stage, Unschedulable):
            continue
        nodes = None if anywhere else [name for name, at in gained.items() if at > record.stage.at]
        if nodes is None or nodes:
            views = bundle(state, key)
            *_, (least, _) = alternatives(views)
            own = reserved_nodes(state, (pod.uid for pod in least.waiting)) if state.reservations.made else {}
            there = _Room(state, partial(_usable, state, own=own)) if own else room
            if there.has_for(least, nodes):
                begin(state, views, without_demoted(state, views, NO_LIMITS))


def _shortage_reason(state: State, view: GroupView) -> Reason:
    """Return the refusal of a group: it does not fit now, or never."""
    room = _Room(state, lambda name: len(state.cluster.index.nodes[name].healthy()))
    kind = "short" if room.has_for(view, None) else "never"
    return Reason("001.gang" if view.least else "001.fewest-nodes", len(view.waiting), kind=kind)


class _Room:
    """Devices per node, to rule out by counts alone that a group fits."""

    def __init__(self, state: State, count: Callable[[str], int]) -> None:
        self._state = state
        self._count = count
        self._counts: dict[tuple[frozenset[str], bool], dict[str, list[int]]] = {}

    def has_for(self, view: GroupView, gained: Sequence[str] | None) -> bool:
        """Return whether as many members may fit as must, one of them on a node that gained capacity."""
        queries = [query for pod in view.waiting if (query := self._state.query(pod))]
        if not queries:
            return True
        words = {query.word: query for query in queries}
        smallest = min(query.ask.devices for query in queries)  # 0 for parts of a device
        if gained is not None and not any(
            self._serves(words.values(), name) and self._count(name) >= smallest
            for name in gained
            if name in self._state.cluster.index.nodes
        ):
            return False
        least = minimum_of(view) - (len(view.waiting) - len(queries))
        # Parts count as nothing: how many of them a device fits depends on what is left of it.
        needed = sorted(query.ask.devices for query in queries)[: max(0, least)]
        sizes = [size for size in needed if size]
        by_model = self._by_model(words, mixed=takes_any_model(self._state, view))
        return any(any(own) and all(_enough(own, sizes, each) for each in set(sizes)) for own in by_model.values())

    def _by_model(self, words: dict[str, Query], *, mixed: bool) -> dict[str, list[int]]:
        key = (frozenset(words), mixed)
        if key not in self._counts:
            counts = self._counts[key] = {}
            for name, node in self._state.cluster.index.nodes.items():
                if self._serves(words.values(), name):
                    counts.setdefault("" if mixed else model_of(node), []).append(self._count(name))
        return self._counts[key]

    def _serves(self, queries: Iterable[Query], name: str) -> bool:
        return any(not self._state.cluster.index.unserved(query, name) for query in queries)


def _usable(state: State, name: str, own: Mapping[str, Node] | None = None) -> int:
    """Return how many devices of a node may be free, completely or in part; `own` nodes have devices reserved for the group."""
    node = own[name] if own and name in own else state.cluster.index.nodes[name]
    if node.mode in {"share", "percent"}:
        return len(node.healthy())
    return len(node.free()) if own and name in own else state.cluster.index.shape(name).free.bit_count()


def _enough(counts: list[int], sizes: list[int], each: int) -> bool:
    """Return whether there are enough sets of one size for members of at least that size."""
    return sum(count // each for count in counts) >= sum(size // each for size in sizes)
