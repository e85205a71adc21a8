"""What goes wrong in the life of pods that share memory of devices: names used again, endings, lost answers, containers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from linkwise.broker.effects import Wake
from linkwise.broker.watch_events import PodDeleted
from linkwise.explain.inspect import inspect_nodes
from linkwise.model.views import ContainerView, PodView
from linkwise.testing.cluster import MEMORY, FakeNode, binds, broker_of, device_pod, place, seen_bound

if TYPE_CHECKING:
    from linkwise.broker.broker import Broker

NOW = 100.0
BOX = FakeNode("n", "share", 1, 16)


def pod(name: str, amount: int = 8, uid: str = "", created: float = 0.0) -> PodView:
    return device_pod(name, amount, MEMORY, uid=uid, created=created)


def room(broker: Broker) -> int:
    ((device,),) = [found.devices for found in inspect_nodes(broker, "n", NOW)]
    return device.room


def later(seen: PodView, **changes: Any) -> PodView:  # noqa: ANN401 - any field of a view
    return replace(seen, version=seen.version + 1, **changes)


def container(name: str, amount: int, *, init: bool = False, sidecar: bool = False) -> ContainerView:
    return ContainerView(name, limits={MEMORY: str(amount)}, init=init, sidecar=sidecar)


def test_a_pod_made_again_under_its_name_frees_what_the_old_one_had_though_no_deletion_was_seen() -> None:
    broker = broker_of(BOX)
    old = place(broker, pod("a", 12), "n")
    new = replace(pod("a", 4, uid="new", created=50.0), version=9)
    broker.observe([new], NOW)
    assert room(broker) == 16
    place(broker, new, "n", NOW)
    broker.observe([later(old, phase="Running"), PodDeleted(old.uid)], NOW)  # late news of the old one
    assert room(broker) == 12
    assert [entry.pod for entry in broker.entries()] == ["new"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_is_not_counted(phase: str) -> None:
    broker = broker_of(BOX)
    seen = place(broker, pod("a", 12), "n")
    broker.observe([later(seen, phase=phase)], NOW)
    assert room(broker) == 16


@pytest.mark.parametrize("phase", ["Running", "Pending", "Unknown"])
def test_a_pod_keeps_its_memory_while_its_containers_are_started_again(phase: str) -> None:
    broker = broker_of(BOX)
    seen = place(broker, pod("a", 12), "n")
    broker.observe([later(seen, phase=phase)], NOW)
    assert room(broker) == 4


@pytest.mark.rule("002.release")
def test_a_pod_being_deleted_is_counted_until_its_containers_have_stopped() -> None:
    broker = broker_of(BOX)
    leaving = later(place(broker, pod("a", 12), "n"), deleting=True)
    broker.observe([leaving], NOW)
    assert room(broker) == 4
    broker.observe([later(leaving, stopped=True)], NOW)
    assert room(broker) == 16


def test_a_pod_deleted_by_force_is_counted_while_its_node_has_it_in_use() -> None:
    broker = broker_of(BOX)
    seen = place(broker, pod("a", 12), "n")
    broker.observe(replace(BOX, allocations={seen.uid: ("n-d0",)}).events(), NOW)
    broker.observe([PodDeleted(seen.uid)], NOW)
    assert room(broker) == 0  # how much of the device is in use is no longer known
    broker.observe(BOX.events(), NOW)
    assert room(broker) == 16


def test_freed_memory_is_available_at_once_and_waiting_pods_are_woken() -> None:
    broker = broker_of(BOX)
    seen = place(broker, pod("a", 12), "n")
    broker.observe([pod("b")], NOW)
    assert broker.filter(pod("b"), ["n"], NOW).nodes == []
    effects = broker.observe([PodDeleted(seen.uid)], NOW)
    assert effects == (Wake("default", "b", "uid-b", "it may fit on node n now", fits=True),)
    assert broker.filter(pod("b"), ["n"], NOW).nodes == ["n"]


@pytest.mark.parametrize(
    ("containers", "taken"),
    [
        ([("init", 10, True, False), ("main", 4, False, False)], 10),
        ([("init", 2, True, False), ("main", 4, False, False)], 4),
        ([("first", 3, True, False), ("second", 6, True, False), ("main", 4, False, False)], 6),
        ([("init", 10, True, False)], 10),
        ([("side", 4, True, True), ("main", 6, False, False)], 10),
        ([("side", 4, True, True), ("init", 8, True, False), ("main", 6, False, False)], 12),
        ([("init", 8, True, False), ("side", 4, True, True), ("main", 6, False, False)], 10),
    ],
)
def test_init_containers_reuse_memory_and_sidecars_add_to_it(
    containers: list[tuple[str, int, bool, bool]], taken: int
) -> None:
    broker = broker_of(BOX)
    parts = tuple(container(name, amount, init=init, sidecar=side) for name, amount, init, side in containers)
    seen = place(broker, replace(pod("a"), containers=parts), "n")
    assert room(broker) == 16 - taken
    assert seen.annotations["ALIYUN_COM_GPU_MEM_POD"] == str(taken)
    broker.observe([later(seen, phase="Running")], NOW)  # its init containers have ended, its sidecars have not
    assert room(broker) == 16 - taken


def test_what_was_promised_and_never_collected_is_shown_and_not_freed_by_the_clock() -> None:
    broker = broker_of(BOX)
    broker.observe([pod("a", 12)], NOW)
    (bound,) = binds(broker.bind("uid-a", "n", NOW).effects)
    broker.outcome(bound, "unknown", NOW)
    assert broker.next_deadline() is None
    broker.step(NOW + 1e8)
    (found,) = inspect_nodes(broker, "n", NOW + 1e8)
    assert [(holder.name, holder.state, holder.share) for holder in found.devices[0].pods] == [("a", "binding", 12)]
    assert room(broker) == 4


def test_what_was_bound_and_never_started_is_shown_and_not_freed_by_the_clock() -> None:
    broker = broker_of(BOX)
    seen = place(broker, pod("a", 12), "n", NOW)
    assert seen.annotations["ALIYUN_COM_GPU_MEM_ASSIGNED"] == "false"
    broker.step(NOW + 1e8)
    (found,) = inspect_nodes(broker, "n", NOW + 1e8)
    assert [(holder.name, holder.state) for holder in found.devices[0].pods] == [("a", "bound")]


def test_a_bind_asked_for_twice_is_one_promise() -> None:
    broker = broker_of(BOX)
    broker.observe([pod("a")], NOW)
    (first,) = binds(broker.bind("uid-a", "n", NOW).effects)
    (second,) = binds(broker.bind("uid-a", "n", NOW).effects)
    assert first.grant == second.grant
    assert room(broker) == 8
    broker.outcome(second, "written", NOW)
    again = broker.bind("uid-a", "n", NOW)
    assert (again.error, again.effects) == ("", ())


def test_a_bind_for_a_pod_that_was_made_again_is_refused_and_the_new_one_keeps_its_own() -> None:
    broker = broker_of(BOX)
    old, new = pod("a", uid="old"), pod("a", uid="new", created=50.0)
    broker.observe([old], NOW)
    broker.observe([new], NOW)
    assert broker.bind("old", "n", NOW).error == "pod old was deleted"
    (bound,) = binds(broker.bind("new", "n", NOW).effects)
    assert (bound.name, bound.uid) == ("a", "new")


def test_a_bind_whose_end_is_not_known_and_that_was_written_is_counted_once() -> None:
    broker = broker_of(BOX)
    broker.observe([pod("a")], NOW)
    (bound,) = binds(broker.bind("uid-a", "n", NOW).effects)
    broker.outcome(bound, "unknown", NOW)
    broker.observe([seen_bound(pod("a"), bound)], NOW)
    assert room(broker) == 8
    again = broker.bind("uid-a", "n", NOW)
    assert (again.error, again.effects) == ("", ())


def test_a_bind_whose_end_is_not_known_and_that_was_not_written_is_tried_again_on_the_same_device() -> None:
    broker = broker_of(BOX)
    broker.observe([pod("a")], NOW)
    (first,) = binds(broker.bind("uid-a", "n", NOW).effects)
    broker.outcome(first, "unknown", NOW)
    (second,) = binds(broker.bind("uid-a", "n", NOW).effects)
    assert second.grant == first.grant
    broker.outcome(second, "refused", NOW)
    assert room(broker) == 8  # the first may still have been written
    broker.outcome(first, "refused", NOW)
    assert room(broker) == 16


def test_a_refused_bind_gives_its_memory_back_at_once_and_late_news_of_it_change_nothing() -> None:
    broker = broker_of(BOX)
    broker.observe([pod("a")], NOW)
    (bound,) = binds(broker.bind("uid-a", "n", NOW).effects)
    broker.outcome(bound, "refused", NOW)
    assert room(broker) == 16
    seen = place(broker, pod("a"), "n", NOW)
    broker.outcome(bound, "refused", NOW)
    assert room(broker) == 8
    broker.observe([PodDeleted(seen.uid)], NOW)
    assert room(broker) == 16
