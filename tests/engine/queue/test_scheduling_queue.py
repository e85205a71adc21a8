"""Transitions of queued pods: those in the table happen, all others are errors; and what a record remembers."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import pytest

from linkwise.engine.index.node_index import Query
from linkwise.engine.queue.scheduling_queue import TABLE, UNOBSERVED_TIME, QueuedPod, SchedulingQueue, State, Transition
from linkwise.model.views import PodView
from linkwise.policies.registry import POLICIES
from linkwise.testing.nodes import ask, node

if TYPE_CHECKING:
    from collections.abc import Callable

ONE = Query(ask(1), "w", POLICIES["whole-device"])


def asked(uid: str = "a", now: float = 1.0, *, observed: bool = True) -> QueuedPod:
    return QueuedPod(PodView("default", uid, uid), now, observed, query=ONE)


def wake(queue: SchedulingQueue, name: str = "n") -> list[str]:
    woken = queue.pods_to_wake([node(1, name=name)], (), lambda *_: True, lambda *_: True)
    return [queued.uid for queued, _ in woken]


def queue_in(state: State | None) -> SchedulingQueue:
    """A queue in which pod `a` has come so far."""
    queue = SchedulingQueue()
    if state == "IN_FLIGHT":
        queue.join(asked())
    elif state == "NOMINATED":
        queue.offer(asked(), ["n"])
    elif state is not None:
        queue.refuse(asked())
    if state == "WOKEN":
        wake(queue)
    return queue


def state_of(queue: SchedulingQueue) -> State | None:
    queued = queue.get("a")
    return queued.state if queued else None


@pytest.mark.parametrize("state", [None, *get_args(State)])
def test_a_pod_can_be_brought_into_every_state(state: State | None) -> None:
    assert state_of(queue_in(state)) == state


@pytest.mark.parametrize(("state", "transition"), TABLE)
def test_what_the_table_lists_happens(state: State | None, transition: Transition) -> None:
    queue = queue_in(state)
    acts: dict[Transition, Callable[[], object]] = {
        "offer": lambda: queue.offer(asked(), ["n"]),
        "refuse": lambda: queue.refuse(asked()),
        "join": lambda: queue.join(asked()),
        "assume": lambda: queue.assume(asked(), "n"),
        "reject": lambda: queue.reject(asked(), "n"),
        "wake": lambda: wake(queue),
        "lose node": lambda: queue.lose_node("n"),
    }
    acts[transition]()
    assert state_of(queue) == TABLE[state, transition]


@pytest.mark.parametrize("state", get_args(State))
def test_nothing_is_left_of_a_pod_that_is_forgotten(state: State) -> None:
    queue = queue_in(state)
    queue.forget("a")
    assert (list(queue), queue.unschedulable(), queue.unobserved(), wake(queue)) == ([], [], [], [])


def test_who_asks_again_was_offered_the_last_nodes_in_vain() -> None:
    queue = SchedulingQueue()
    queue.offer(asked(), ["n1", "n2"])
    queue.retry("a")
    queue.retry("a")  # it was offered nothing in between
    queue.offer(asked(), ["n3"])
    queue.retry("a")
    queued = queue.get("a")
    assert queued is not None
    assert (set(queued.failed), queued.rounds) == ({"n1", "n2", "n3"}, 2)


def test_a_bind_under_way_is_no_failure_until_it_is_rejected() -> None:
    queue = queue_in("NOMINATED")
    queue.assume(asked(), "n")
    queue.retry("a")
    assert [queued.rounds for queued in queue] == [0]
    queue.reject(asked(), "n")
    assert [(queued.rounds, set(queued.failed)) for queued in queue] == [(1, {"n"})]


def test_a_pod_that_was_not_observed_is_not_woken_until_it_is() -> None:
    queue = SchedulingQueue()
    queue.refuse(asked(observed=False))
    assert (wake(queue), queue.waiting) == ([], 0)
    queue.show("a")
    queue.observe("a")
    assert (wake(queue), queue.waiting) == (["a"], 1)


def test_unobserved_pods_are_forgotten_in_the_order_of_their_last_questions() -> None:
    queue = SchedulingQueue()
    for now, uid in enumerate("abca"):
        queue.refuse(asked(uid, float(now), observed=False))
    queue.reject(asked("b"), "n")  # it did not ask
    assert [queued.uid for queued in queue.unobserved()] == ["b", "c", "a"]
    assert queue.surplus(3.0, most=1) == ["b", "c"]
    assert queue.surplus(1.0 + UNOBSERVED_TIME) == ["b"]
    assert queue.next_deadline() == 1.0 + UNOBSERVED_TIME


def test_a_queue_becomes_what_a_snapshot_holds() -> None:
    queue = queue_in("WOKEN")
    queue.refuse(asked("b", 2.0, observed=False))
    other = queue_in("NOMINATED")
    other.restore(list(queue), untaken=["m"])
    assert (list(other), other.waiting) == (list(queue), 1)
    assert (other.take_untaken(), wake(other, "m"), other.surplus(3.0, most=0)) == (["m"], [], ["b"])


def test_a_dropped_pod_that_is_deleted_is_forgotten() -> None:
    queue = SchedulingQueue()
    queue.join(asked(observed=False))
    queue.drop("a")
    assert list(queue.dropped) == ["a"]
    queue.forget("a")
    assert not queue.dropped
