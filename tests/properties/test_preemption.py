"""Over generated nodes: the victims that preempt names do the least harm of all sets that let the pod fit."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, combinations
from typing import TYPE_CHECKING

from hypothesis import given, strategies as st

from linkwise.broker.watch_events import ClusterObject, PodDeleted
from linkwise.dialects.kubernetes.objects import BUDGET
from linkwise.engine.preemption import EXACT, Search, harm_of
from linkwise.testing.cluster import ASCEND, KOORDINATOR, MEMORY, NVIDIA, FakeNode, broker_of, device_pod, place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.broker.broker import Broker
    from linkwise.model.views import PodView

NOW = 100.0
HIGH = 3
BOXES = {
    ASCEND: (FakeNode("n", "ring", 8), st.sampled_from([1, 2, 4])),
    NVIDIA: (FakeNode("n", count=4), st.integers(1, 4)),
    KOORDINATOR: (FakeNode("n", "percent", count=2), st.sampled_from([30, 50, 100, 200])),
    MEMORY: (FakeNode("n", "share", 2, 12), st.integers(2, 12)),
}


@st.composite
def crowded(draw: st.DrawFn) -> tuple[Broker, PodView]:
    """A node with pods of all priorities, some gone since, perhaps with a budget; and a pod of high priority."""
    resource = draw(st.sampled_from(sorted(BOXES)))
    box, sizes = BOXES[resource]
    broker = broker_of(replace(box, cpu="6"))
    placed = []
    for number, (size, priority) in enumerate(draw(st.lists(st.tuples(sizes, st.integers(0, HIGH)), max_size=EXACT))):
        pod = replace(
            device_pod(f"p{number}", size, resource, priority=priority, cpu=draw(st.sampled_from(["", "1"]))),
            labels={"app": draw(st.sampled_from("ab"))},
        )
        if broker.filter(pod, ["n"], 0.0, keep=False).nodes:
            placed.append(place(broker, pod, "n"))
    for pod in placed:
        if draw(st.integers(0, 3)) == 0:
            broker.observe([PodDeleted(pod.uid)], NOW)
    spec = {"selector": {"matchLabels": {"app": "a"}}}
    status = {"disruptionsAllowed": draw(st.integers(0, 2))}
    broker.observe([ClusterObject(BUDGET, "default/b", {"spec": spec, "status": status})], NOW)
    return broker, device_pod("high", draw(sizes), resource, priority=HIGH, cpu=draw(st.sampled_from(["", "1", "3"])))


def fits_without(broker: Broker, pod: PodView, victims: Sequence[PodView]) -> bool:
    """Whether the pod fits on a copy of the cluster without the victims."""
    copy = type(broker).restore(broker.snapshot(NOW))
    copy.observe([PodDeleted(victim.uid) for victim in victims], NOW)
    return any(name == "n" for name, _ in copy.dry_run(pod, NOW).ranking)


@given(crowded())
def test_no_other_set_of_pods_does_less_harm(story: tuple[Broker, PodView]) -> None:
    broker, pod = story
    lower = [other for other in broker.pods.values() if other.priority < pod.priority]
    budgets = [*broker.state_at(NOW).cluster.shared.budgets.values()]
    sets = chain.from_iterable(combinations(lower, size) for size in range(1, len(lower) + 1))
    sufficient = [pods for pods in sets if fits_without(broker, pod, pods)]
    named = broker.preempt(pod, {"n": ["never-seen"]}, NOW)
    if fits_without(broker, pod, ()):
        return  # the scheduler does not ask for a pod that fits
    assert bool(named) == bool(sufficient)
    if named:
        victims = [broker.pods[uid] for uid in named["n"]]
        assert tuple(victims) in sufficient or set(named["n"]) in [{each.uid for each in pods} for pods in sufficient]
        assert harm_of(victims, budgets) == min(harm_of(pods, budgets) for pods in sufficient)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 5)), min_size=EXACT + 1, max_size=24), st.integers(1, 12))
def test_of_many_pods_none_is_named_that_could_stay(pods: list[tuple[int, int]], needed: int) -> None:
    """Each pod frees so much; the search must not name one more than needed, and no single pod may do less harm."""
    views = [device_pod(f"p{number}", size, priority=priority) for number, (size, priority) in enumerate(pods)]
    freed = {view.uid: size for view, (size, _) in zip(views, pods, strict=True)}

    def enough(gone: frozenset[str]) -> bool:
        return sum(freed[uid] for uid in gone) >= needed

    victims = Search(enough, lambda each: harm_of(each, ()), 2000).victims(views)
    assert bool(victims) == (sum(freed.values()) >= needed)
    uids = frozenset(victim.uid for victim in victims)
    assert not any(enough(uids - {uid}) for uid in uids)
    alone = [harm_of([view], ()) for view in views if freed[view.uid] >= needed]
    assert not victims or not alone or harm_of(victims, ()) <= min(alone)


def test_a_search_that_runs_out_of_tries_names_no_pod() -> None:
    views = [device_pod(f"p{number}") for number in range(20)]
    for tries in range(20):
        assert not Search(lambda gone: len(gone) > 12, lambda each: harm_of(each, ()), tries).victims(views)
