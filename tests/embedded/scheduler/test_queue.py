"""The scheduling queue: order, backoff, and requeueing on cluster changes."""

from __future__ import annotations

from linkwise.embedded.scheduler.queue import QueueSettings, SchedulingQueue


def queue(*pods: tuple[str, int, float]) -> SchedulingQueue:
    made = SchedulingQueue(QueueSettings(initial_backoff=1.0, max_backoff=10.0, max_unschedulable=300.0))
    for uid, priority, created in pods:
        made.add(uid, priority, created)
    return made


def test_pods_are_popped_by_priority_and_then_by_age() -> None:
    pods = queue(("young", 0, 2.0), ("old", 0, 1.0), ("high", 5, 3.0))
    assert [pods.pop(0.0) for _ in range(4)] == ["high", "old", "young", None]


def test_an_unschedulable_pod_is_requeued_when_the_cluster_changes() -> None:
    pods = queue(("a", 0, 0.0))
    pods.add_unschedulable(str(pods.pop(0.0)), 0.0)
    assert pods.pop(200.0) is None
    pods.move_all(200.0)
    assert pods.pop(200.0) == "a"


def test_an_unschedulable_pod_is_retried_after_a_long_time_without_a_change() -> None:
    pods = queue(("a", 0, 0.0))
    pods.add_unschedulable(str(pods.pop(0.0)), 0.0)
    assert pods.next_deadline() == 300.0
    assert pods.pop(300.0) == "a"


def test_the_backoff_doubles_up_to_a_limit() -> None:
    pods, now, backoffs = queue(("a", 0, 0.0)), 0.0, list[float]()
    for _ in range(6):
        pods.add_backoff(str(pods.pop(now)), now)
        deadline = pods.next_deadline()
        assert deadline is not None
        backoffs.append(deadline - now)
        now = deadline
    assert backoffs == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_a_requeued_pod_still_waits_for_the_end_of_its_backoff() -> None:
    pods = queue(("a", 0, 0.0))
    pods.add_unschedulable(str(pods.pop(0.0)), 0.0)
    pods.activate("a", 0.5)
    assert pods.pop(0.9) is None
    assert pods.pop(1.0) == "a"


def test_a_change_during_a_scheduling_attempt_requeues_the_pod() -> None:
    for happen in (SchedulingQueue.move_all, lambda pods, now: pods.activate("a", now)):
        pods = queue(("a", 0, 0.0))
        uid = str(pods.pop(0.0))
        happen(pods, 0.0)
        pods.add_unschedulable(uid, 0.0)
        assert pods.counts() == {"backoff": 1}


def test_a_deleted_pod_is_not_popped() -> None:
    pods = queue(("a", 0, 0.0), ("b", 0, 0.0))
    pods.delete("a")
    pods.activate("a", 0.0)
    assert (pods.pop(0.0), pods.pop(0.0), len(pods)) == ("b", None, 1)


def test_a_pod_added_twice_is_popped_once() -> None:
    pods = queue(("a", 0, 0.0), ("a", 0, 0.0))
    assert (pods.pop(0.0), pods.pop(0.0)) == ("a", None)
