"""A restarted broker completes partially bound gangs before other pods take what they need."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import chain, permutations, product
from typing import TYPE_CHECKING

import pytest

from linkwise.dialects.linkwise.group_plan import GROUP_PLAN
from linkwise.model.settings import GroupSettings, PlacingSettings
from linkwise.testing.cluster import FakeNode, device_pod, in_gang, in_group, woken
from support.restarts import ApiObjects
from support.state import state_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.model.views import PodView

KEY = "default/g"
UNWRITTEN = PlacingSettings(group=GroupSettings(write_plans=False))


def nodes(count: int) -> list[FakeNode]:
    return [FakeNode(f"n{number}") for number in range(count)]


def gang(name: str, count: int, *, created: float = 0.0, priority: int = 0, bundle: str = "") -> list[PodView]:
    pods = (device_pod(f"{name}{number}", 2, priority=priority) for number in range(count))
    members = in_gang(*pods, least=count, name=name, bundle=bundle)
    return [replace(pod, created=pod.created + created) for pod in members]


def single(name: str = "s") -> PodView:
    return device_pod(name, 2, created=100.0)


def restarted(api: ApiObjects, *first: str) -> ApiObjects:
    """A new broker; these pods are tried first, then all that wait, several times."""
    api.start()
    for _ in range(3):
        for name in dict.fromkeys((*first, *sorted(api.pods, reverse=True))):
            api.place(name)
        api.now += 20.0
    return api


def nothing_is_granted_twice(api: ApiObjects) -> None:
    grants = [json.loads(pod.annotations["linkwise.dev/grant"]) for pod in api.pods.values() if pod.node]
    devices = Counter(
        (grant["node"], device)
        for grant in grants
        for part in grant["containers"].values()
        for device in part["devices"]
    )
    assert set(devices.values()) <= {1}


def beginnings() -> list[tuple[str, ...]]:
    """All orders in which members of a gang of three, a gang of two and a single pod may have been tried by the crash."""
    orders = set(permutations("ggghhs"))
    return sorted({order[:length] for order in orders for length in range(len(order) + 1)})


@pytest.mark.rule("001.gang", "001.replan", level="L")
@pytest.mark.parametrize("count", [3, 5])
@pytest.mark.parametrize("settings", [PlacingSettings(), UNWRITTEN], ids=["written", "unwritten"])
def test_wherever_a_crash_comes_gangs_are_whole_or_nothing_after_it(count: int, settings: PlacingSettings) -> None:
    for order in beginnings():
        api = ApiObjects(nodes(count), [*gang("g", 3), *gang("h", 2), single()], settings)
        tried: Counter[str] = Counter()
        for letter in order:
            api.place(letter if letter == "s" else f"{letter}{tried[letter]}")
            tried[letter] += 1
        restarted(api, "s")
        assert (len(api.bound("g")), len(api.bound("h"))) in {(3, 2), (3, 0), (0, 2)}, order
        nothing_is_granted_twice(api)


@pytest.mark.parametrize("landed", list(product([True, False], repeat=3)))
def test_a_bind_in_flight_at_the_crash_is_found_bound_or_waits_and_either_is_right(landed: tuple[bool, ...]) -> None:
    api = ApiObjects(nodes(3), gang("g", 3))
    sent = {name: api.send(name) for name in ("g0", "g1", "g2")}
    for (name, bind), there in zip(sent.items(), landed, strict=True):
        if bind and there:
            api.land(name, bind)
    api.pods["s"] = single()
    restarted(api, "s")
    assert (len(api.bound("g")), api.pods["s"].node) == ((3, "") if any(landed) else (0, api.pods["s"].node))
    assert len(api.bound("")) in {1, 3}
    nothing_is_granted_twice(api)


def test_the_smallest_case_a_single_pod_does_not_take_the_last_node_of_a_gang() -> None:
    api = ApiObjects(
        [FakeNode(f"n{number}", count=8) for number in range(4)],
        in_gang(*(device_pod(f"g{number}", 8) for number in range(4)), least=4),
    )
    api.place("g2")
    api.pods["s"] = device_pod("s", 8)
    restarted(api, "s")
    assert (len(api.bound("g")), api.bound("s")) == (4, [])


def test_a_restored_plan_has_the_same_devices_and_generation() -> None:
    api = ApiObjects([FakeNode(f"n{number}", count=8) for number in range(2)], gang("g", 4))
    api.place("g1")
    before = state_of(api.broker).groups.plans[KEY]
    after = state_of(api.start()).groups.plans[KEY]
    waiting = {"uid-g0", "uid-g2", "uid-g3"}
    parts = {uid: place.offer and place.offer.parts for uid, place in before.plan.placements.items() if uid in waiting}
    assert {uid: place.offer and place.offer.parts for uid, place in after.plan.placements.items()} == parts
    assert after.generation == before.generation


def test_a_plan_survives_one_crash_after_the_other() -> None:
    api = ApiObjects(nodes(4), gang("g", 4))
    for name in ("g0", "g1", "g2"):
        api.place(name)
        api.start()
        assert state_of(api.broker).groups.plans[KEY].generation == 1
    assert len(restarted(api).bound("g")) == 4


def test_shares_of_devices_are_restored_too() -> None:
    members = in_gang(*(device_pod(f"g{number}", 10, "aliyun.com/gpu-mem") for number in range(3)), least=3)
    api = ApiObjects([FakeNode("n0", "share", count=3)], members)
    api.place("g0")
    api.pods["s"] = device_pod("s", 16, "aliyun.com/gpu-mem")
    restarted(api, "s")
    assert (len(api.bound("g")), api.bound("s")) == (3, [])


def test_gangs_that_start_together_are_restored_together() -> None:
    api = ApiObjects(nodes(4), [*gang("a", 2, bundle="a b"), *gang("b", 2, bundle="a b")])
    api.place("a0")
    api.pods["s"] = single()
    api.start()
    assert {key: held.bundle for key, held in state_of(api.broker).groups.plans.items()} == {
        "default/a": ("default/b",),
        "default/b": ("default/a",),
    }
    restarted(api, "s")
    assert (len(api.bound("a")), len(api.bound("b")), api.bound("s")) == (2, 2, [])


def test_a_gang_is_completed_though_the_one_that_starts_with_it_has_started() -> None:
    api = ApiObjects(nodes(4), [*gang("a", 2, bundle="a b"), *gang("b", 2, bundle="a b")])
    for name in ("a0", "a1"):
        api.place(name)
    api.pods["s"] = single()
    restarted(api, "s")
    assert (len(api.bound("b")), api.bound("s")) == (2, [])


def test_a_member_whose_devices_are_taken_is_planned_again_beside_the_bound_ones() -> None:
    api = ApiObjects(nodes(4), gang("g", 3))
    api.place("g0")
    taken = state_of(api.broker).groups.plans[KEY].plan.placements["uid-g1"].node
    api.pods["thief"] = replace(single("thief"), node=taken)
    api.start()
    held = state_of(api.broker).groups.plans[KEY]
    assert held.generation == 2
    assert taken not in {place.node for place in held.plan.placements.values()}


@pytest.mark.parametrize("change", [{"ready": False}, {"cordoned": True}, {"unhealthy": frozenset({1})}, {"count": 1}])
def test_a_plan_whose_node_changed_meanwhile_is_made_again(change: dict[str, object]) -> None:
    api = ApiObjects(nodes(4), gang("g", 3))
    api.place("g0")
    name = state_of(api.broker).groups.plans[KEY].plan.placements["uid-g1"].node
    api.nodes[name] = replace(api.nodes[name], version=2, **change)  # type: ignore[arg-type]  # of several fields
    api.start()
    held = state_of(api.broker).groups.plans[KEY]
    assert (held.generation, name in held.plan.nodes) == (2, False)


def test_a_plan_that_gave_way_to_a_later_one_is_not_restored_over_it() -> None:
    api = ApiObjects(nodes(3), gang("g", 2))
    api.place("g0")
    api.now += 1000.0  # the plan expires
    api.broker.step(api.now)
    api.add(*gang("h", 2))
    api.place("h0")
    api.start()
    assert state_of(api.broker).groups.plans.keys() == {"default/h"}
    assert len(restarted(api).bound("h")) == 2


def test_without_records_half_bound_gangs_are_planned_by_priority_and_age() -> None:
    api = ApiObjects(nodes(6), [*gang("g", 2), *gang("h", 2, created=-5.0), *gang("i", 2, priority=5)], UNWRITTEN)
    for name in ("g0", "h0", "i0"):
        api.place(name)
    for node in sorted({f"n{number}" for number in range(6)} - {pod.node for pod in api.pods.values()})[1:]:
        api.nodes[node] = replace(api.nodes[node], cordoned=True, version=2)
    api.start()
    assert state_of(api.broker).groups.plans.keys() == {"default/i"}
    restarted(api)
    assert (len(api.bound("g")), len(api.bound("h")), len(api.bound("i"))) == (1, 1, 2)


def test_records_are_restored_before_anything_is_planned() -> None:
    """The gang without a record has the higher priority; planned first it would take the devices of the other."""
    api = ApiObjects(nodes(4), [*gang("g", 2), *gang("h", 2, priority=5)])
    for name in ("g0", "h0"):
        api.place(name)
    h0 = api.pods["h0"]
    api.pods["h0"] = replace(h0, annotations={key: text for key, text in h0.annotations.items() if key != GROUP_PLAN})
    node = state_of(api.broker).groups.plans["default/h"].plan.placements["uid-h1"].node
    api.nodes[node] = replace(api.nodes[node], cordoned=True, version=2)
    api.start()
    assert state_of(api.broker).groups.plans.keys() == {KEY}


def test_a_group_that_may_start_in_parts_gets_its_plan_back() -> None:
    api = ApiObjects(nodes(3), in_group(*(device_pod(f"g{number}", 2) for number in range(3))))
    api.place("g0")
    api.pods["s"] = single()
    restarted(api, "s")
    assert (len(api.bound("g")), api.bound("s")) == (3, [])


def test_a_gang_that_another_scheduler_began_is_left_alone() -> None:
    pods = gang("g", 2)
    api = ApiObjects(nodes(3), [replace(pods[0], node="n0"), pods[1]])
    assert state_of(api.broker).groups.plans == {}


def test_a_gang_of_which_nothing_is_bound_reserves_nothing() -> None:
    api = ApiObjects(nodes(3), gang("g", 2))
    assert api.send("g0")
    assert state_of(api.start()).groups.plans == {}


def texts(text: str) -> Iterable[str]:
    """Records that are not to be believed."""
    record = json.loads(text)
    plan = record["groups"][KEY]
    yield from ("", "{", "[]", "{}", json.dumps({**record, "version": 2}), json.dumps({**record, "pod": "uid-other"}))
    yield json.dumps({**record, "groups": {"default/other": plan}})
    for member in (
        {"node": "nowhere"},
        {"node": "n1", "containers": {}},
        {"node": "n1", "containers": {"main": {"devices": [0, 9]}}},
        {"node": "n1", "containers": {"main": {"devices": [0]}}},
        {"node": "n1", "containers": {"other": {"devices": [0, 1]}}},
    ):
        yield json.dumps({**record, "groups": {KEY: {**plan, "members": {"uid-g1": member, "uid-g2": member}}}})
    both = {"node": "n1", "containers": {"main": {"devices": [0, 1]}}}
    yield json.dumps({**record, "groups": {KEY: {**plan, "members": {"uid-g1": both, "uid-g2": both}}}})


def test_a_record_that_is_broken_or_copied_is_not_believed_and_the_group_is_planned_again() -> None:
    api = ApiObjects(nodes(4), gang("g", 3))
    before = api.place("g0")
    for text in chain(texts(before.annotations[GROUP_PLAN])):
        api.pods["g0"] = replace(before, annotations={**before.annotations, GROUP_PLAN: text})
        held = state_of(api.start()).groups.plans[KEY]
        assert (held.generation, set(held.plan.placements)) == (2, {"uid-g1", "uid-g2"}), text


def test_recovery_works_in_steps_and_ends() -> None:
    settings = PlacingSettings(group=GroupSettings(write_plans=False, steps=1))
    api = ApiObjects(nodes(3), gang("g", 3), settings)
    for _ in range(50):
        api.place("g0")
        api.broker.step(api.now, 1000)
    assert api.bound("g") == ["g0"]
    fresh = type(api)([], [], settings)
    fresh.nodes, fresh.pods, fresh.now = api.nodes, api.pods, api.now
    fresh.start()
    assert state_of(fresh.broker).groups.plans.keys() == {KEY}
    assert fresh.broker.recover(fresh.now) is False


def test_members_of_restored_plans_are_woken_before_pods_of_higher_priority() -> None:
    api = ApiObjects(nodes(4), gang("g", 2))
    api.place("g0")
    api.pods["s"] = replace(single(), priority=9)
    api.start()
    assert woken(api.broker.unanswered()) == ["g1", "s"]
