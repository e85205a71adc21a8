"""Freed capacity wakes the first pods in line that fit, and no more."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given, strategies as st

from linkwise.engine.index.node_index import Query
from linkwise.engine.queue.scheduling_queue import MAX_TRIES, QueuedPod, SchedulingQueue
from linkwise.engine.usage import gained_capacity
from linkwise.model.device import Device
from linkwise.model.node import Node, Use
from linkwise.model.views import PodView
from linkwise.policies.memory_share import MemoryShare
from linkwise.policies.registry import POLICIES
from linkwise.testing.nodes import ask, node, share_ask, share_node

if TYPE_CHECKING:
    from linkwise.model.ask import Ask
    from linkwise.model.verdict import Offer, Reject

ONE = Query(ask(1), "w", POLICIES["whole-device"])
TWO = Query(ask(2), "w", POLICIES["whole-device"])


class Counting(MemoryShare):
    """Tells who asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def pick(self, ask: Ask, node: Node) -> Offer | Reject:
        self.asked.append(ask.namespace)
        return super().pick(ask, node)


def asked(pod: str, wanted: Query = ONE, *, created: float = 0.0, priority: int = 0) -> QueuedPod:
    return QueuedPod(PodView("default", pod, pod, created=created, priority=priority), 1.0, query=wanted)


def waiting(*pods: QueuedPod) -> SchedulingQueue:
    made = SchedulingQueue()
    for pod in pods:
        made.refuse(pod)
    return made


def woken(line: SchedulingQueue, *nodes: Node, unserved: str = "", barred: str = "") -> list[tuple[str, str]]:
    found = line.pods_to_wake(nodes, (), lambda wanted, _: wanted.word != unserved, lambda pod, _: pod not in barred)
    return [(queued.uid, name) for queued, name in found]


def again(line: SchedulingQueue, *nodes: Node) -> list[tuple[str, str]]:
    found = line.pods_to_wake((), nodes, lambda *_: True, lambda *_: True)
    return [(queued.uid, name) for queued, name in found]


def test_as_many_are_woken_as_find_room() -> None:
    line = waiting(*(asked(pod) for pod in "abcd"))
    assert woken(line, node(2, name="n")) == [("a", "n"), ("b", "n")]


def test_the_line_is_by_priority_and_then_by_age() -> None:
    line = waiting(asked("a", created=3.0), asked("b", created=1.0), asked("c", created=9.0, priority=5))
    assert [queued.uid for queued in line.unschedulable()] == ["c", "b", "a"]
    assert woken(line, node(2)) == [("c", "n"), ("b", "n")]


def test_a_smaller_ask_is_woken_for_room_that_is_too_little_for_those_before_it() -> None:
    line = waiting(asked("large", TWO), asked("small", created=1.0), asked("large too", TWO, created=2.0))
    assert woken(line, node(1)) == [("small", "n")]


def test_every_node_is_filled_and_no_pod_is_woken_twice() -> None:
    line = waiting(asked("a"), asked("b"), asked("c", TWO))
    assert woken(line, node(1, name="n"), node(3, name="m")) == [("a", "n"), ("b", "m"), ("c", "m")]


def test_no_pod_is_woken_for_a_node_that_does_not_serve_its_dialect() -> None:
    line = waiting(asked("a"), asked("b", Query(ask(1), "v", POLICIES["whole-device"])))
    assert woken(line, node(2), unserved="w") == [("b", "n")]


def test_who_may_not_go_to_a_node_does_not_keep_its_room_from_those_behind() -> None:
    line = waiting(asked("a", priority=9), asked("b"), asked("c"))
    assert woken(line, node(1), barred="a") == [("b", "n")]
    assert woken(line, node(1), barred="abc") == []


def test_those_behind_too_many_who_may_not_go_to_a_node_wait_for_another() -> None:
    barred = [chr(0x4E00 + number) for number in range(MAX_TRIES)]
    behind = asked("z", created=2.0)
    assert woken(waiting(*map(asked, barred[1:]), behind), node(1), barred="".join(barred)) == [("z", "n")]
    assert woken(waiting(*map(asked, barred), behind), node(1), barred="".join(barred)) == []


def test_parts_of_devices_are_filled_in_thought_too() -> None:
    asks = [Query(share_ask(size), "w", POLICIES["memory-share"]) for size in (8, 8, 8, 2)]
    line = waiting(*(asked(pod, wanted) for pod, wanted in zip("abcd", asks, strict=True)))
    assert woken(line, share_node(16, [16])) == [("a", "n"), ("b", "n")]


def test_who_was_answered_is_no_longer_in_line() -> None:
    line = waiting(asked("a"), asked("b"))
    line.offer(asked("a"), ["n"])
    line.forget("never seen")
    assert woken(line, node(2)) == [("b", "n")]


def test_who_is_refused_again_for_something_else_is_in_line_with_that() -> None:
    line = waiting(asked("a"), asked("b"))
    line.refuse(asked("a", TWO))
    assert woken(line, node(2)) == [("a", "n")]
    assert [queued.uid for queued in line.unschedulable()] == ["a", "b"]


def test_room_that_a_woken_pod_does_not_take_is_for_others() -> None:
    line = waiting(asked("a"), asked("b"), asked("c"))
    assert woken(line, node(3)) == [("a", "n"), ("b", "n"), ("c", "n")]
    line.offer(asked("a"), ["n", "m"])
    assert line.take_untaken() == []
    line.offer(asked("c"), ["m"])
    assert line.take_untaken() == ["n"]
    assert line.take_untaken() == []


def test_who_is_woken_in_vain_is_not_woken_for_the_same_room_again() -> None:
    line = waiting(asked("a"), asked("b"))
    assert woken(line, node(1)) == [("a", "n")]
    line.refuse(asked("a"))
    assert line.take_untaken() == ["n"]
    assert again(line, node(1)) == [("b", "n")]
    line.refuse(asked("b"))
    assert again(line, node(1)) == []
    assert woken(line, node(1)) == [("a", "n")]  # it has more room than before


def test_who_was_woken_and_did_not_ask_yet_leaves_other_room_to_others() -> None:
    line = waiting(asked("a"), asked("b"))
    assert woken(line, node(1)) == [("a", "n")]
    assert woken(line, node(1, name="m")) == [("b", "m")]


def test_room_is_more_when_anything_can_be_had_that_could_not_be_before() -> None:
    full, empty = node(2, free=[0]), node(2)
    assert gained_capacity(full, empty)
    assert not gained_capacity(empty, full)
    assert not gained_capacity(full, full)
    assert gained_capacity(node(2, faulty=[0]), empty)
    assert gained_capacity(None, empty)
    assert not gained_capacity(None, node(0))
    assert gained_capacity(share_node(16, [4]), share_node(16, [5]))
    assert not gained_capacity(share_node(16, [5]), share_node(16, [4]))
    assert gained_capacity(share_node(16, [4]), share_node(16, [4], mode="any"))
    assert gained_capacity(share_node(16, [4], owners={0: "team"}), share_node(16, [4]))


@given(st.lists(st.integers(0, 3), min_size=3, max_size=3), st.lists(st.integers(0, 3), min_size=3, max_size=3))
def test_room_is_more_whether_or_not_the_devices_are_known_to_be_the_same(before: list[int], after: list[int]) -> None:
    devices = tuple(Device(f"d{index}", index, memory=16) for index in range(3))
    uses = (None, Use(4, 0, whole=False, domains=frozenset({"a"})), Use(8), Use(whole=True))
    one, other = (
        Node("n", devices, {f"d{place}": use for place, kind in enumerate(kinds) if (use := uses[kind])}, mode="share")
        for kinds in (before, after)
    )
    assert gained_capacity(one, other) == gained_capacity(one, replace(other, devices=(*devices[:1], *devices[1:])))


def test_bytes_that_are_rounded_up_for_fewer_containers_are_a_kind_of_their_own() -> None:
    two, one = (replace(share_ask(*sizes), in_bytes=True) for sizes in ((15, 15), (30,)))
    line = waiting(*(asked(pod, Query(each, "w", POLICIES["memory-share"])) for pod, each in (("a", two), ("b", one))))
    room = replace(share_node(10, [3]), devices=(Device("d0", 0, memory=10, bytes=100),))
    assert woken(line, room) == [("b", "n")]


def test_of_many_namespaces_that_have_nothing_on_a_node_one_is_tried_there() -> None:
    policy = Counting()
    asks = [Query(share_ask(8, namespace=f"team-{number}"), "w", policy) for number in range(20)]
    line = waiting(*(asked(f"p{number}", wanted) for number, wanted in enumerate(asks)))
    assert woken(line, share_node(16, [8, 4], owners={0: "team-7", 1: "team-9"})) == [("p7", "n")]
    assert policy.asked == ["team-0", "team-7", "team-9"]


def test_nothing_is_remembered_of_a_node_that_is_gone() -> None:
    line = waiting(asked("a"), asked("b"))
    woken(line, node(1))
    line.refuse(asked("a"))
    assert again(line, node(1)) == [("b", "n")]
    line.lose_node("n")
    line.refuse(asked("b"))
    assert not any(queued.woken_for or queued.passed for queued in line)
    assert woken(line, node(2, name="m")) == [("a", "m"), ("b", "m")]
