"""The line of pods that wait for a node: by priority and age, with pauses that double, back when something happens."""

from __future__ import annotations

from linkwise.embedded.scheduler.queue import Queue, QueueSettings


def queue(*pods: tuple[str, int, float]) -> Queue:
    made = Queue(QueueSettings(first=1.0, most=10.0, leftover=300.0))
    for uid, priority, created in pods:
        made.put(uid, priority, created)
    return made


def test_the_most_important_is_first_and_of_equals_the_oldest() -> None:
    line = queue(("young", 0, 2.0), ("old", 0, 1.0), ("high", 5, 3.0))
    assert [line.pop(0.0) for _ in range(4)] == ["high", "old", "young", None]


def test_a_pod_that_was_refused_waits_until_something_happens() -> None:
    line = queue(("a", 0, 0.0))
    line.refused(str(line.pop(0.0)), 0.0)
    assert line.pop(200.0) is None
    line.wake_all(200.0)
    assert line.pop(200.0) == "a"


def test_a_pod_that_was_refused_is_tried_again_after_a_long_time_though_nothing_happened() -> None:
    line = queue(("a", 0, 0.0))
    line.refused(str(line.pop(0.0)), 0.0)
    assert line.due() == 300.0
    assert line.pop(300.0) == "a"


def test_pauses_double_up_to_a_limit() -> None:
    line, now, pauses = queue(("a", 0, 0.0)), 0.0, list[float]()
    for _ in range(6):
        line.failed(str(line.pop(now)), now)
        due = line.due()
        assert due is not None
        pauses.append(due - now)
        now = due
    assert pauses == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_who_is_woken_early_still_waits_for_its_pause() -> None:
    line = queue(("a", 0, 0.0))
    line.refused(str(line.pop(0.0)), 0.0)
    line.wake("a", 0.5)
    assert line.pop(0.9) is None
    assert line.pop(1.0) == "a"


def test_what_happens_while_a_pod_is_tried_brings_it_back() -> None:
    for happen in (Queue.wake_all, lambda line, now: line.wake("a", now)):
        line = queue(("a", 0, 0.0))
        uid = str(line.pop(0.0))
        happen(line, 0.0)
        line.refused(uid, 0.0)
        assert line.places() == {"held back": 1}


def test_a_pod_that_left_is_nowhere() -> None:
    line = queue(("a", 0, 0.0), ("b", 0, 0.0))
    line.drop("a")
    line.wake("a", 0.0)
    assert (line.pop(0.0), line.pop(0.0), len(line)) == ("b", None, 1)


def test_a_pod_that_is_told_of_twice_is_tried_once() -> None:
    line = queue(("a", 0, 0.0), ("a", 0, 0.0))
    assert (line.pop(0.0), line.pop(0.0)) == ("a", None)
