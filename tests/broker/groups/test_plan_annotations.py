"""A bind of a member carries the plan of the members that are not bound yet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from linkwise.dialects.linkwise.group_plan import GROUP_PLAN, MAX_BYTES, RecordedPlans, recorded_plans
from linkwise.model.settings import GroupSettings, PlacingSettings
from linkwise.testing.cluster import FakeNode, device_pod, in_gang
from support.restarts import ApiObjects
from support.state import state_of

NODES = [FakeNode(f"n{number}") for number in range(4)]
KEY = "default/g"


def gang(count: int = 3, *, name: str = "g", bundle: str = "") -> ApiObjects:
    pods = in_gang(
        *(device_pod(f"{name}{number}", 2) for number in range(count)), least=count, name=name, bundle=bundle
    )
    return ApiObjects(NODES, pods)


def carried(api: ApiObjects, name: str) -> RecordedPlans:
    record, problems = recorded_plans(api.pods[name])
    assert record is not None
    assert problems == ()
    return record


def test_a_bind_carries_the_placements_of_all_members_that_are_not_bound() -> None:
    api = gang()
    bound = api.place("g0")
    held = state_of(api.broker).groups.plans[KEY]
    plan = carried(api, "g0").groups[KEY]
    assert plan.generation == held.generation
    assert {uid: member.node for uid, member in plan.members.items()} == {
        uid: held.plan.placements[uid].node for uid in ("uid-g1", "uid-g2")
    }
    assert [part.devices for member in plan.members.values() for part in member.containers] == [(0, 1), (0, 1)]
    assert bound.annotations.keys() >= {"linkwise.dev/grant", GROUP_PLAN}


def test_a_bind_in_flight_is_in_the_record_of_the_next_because_it_may_fail() -> None:
    api = gang()
    assert api.send("g0")
    bind = api.send("g1")
    assert bind is not None
    api.land("g1", bind)
    assert carried(api, "g1").groups[KEY].members.keys() == {"uid-g0", "uid-g2"}


def test_the_plan_is_not_repeated_once_a_bound_member_shows_it() -> None:
    api = gang()
    api.place("g0")
    assert GROUP_PLAN not in api.place("g1").annotations


def test_the_plan_is_written_again_when_the_member_that_carries_it_is_deleted() -> None:
    api = ApiObjects(NODES, in_gang(*(device_pod(f"g{number}", 2) for number in range(4)), least=2))
    api.place("g0")
    api.place("g1")
    api.delete("g0")
    assert carried(api, api.place("g2").name).groups[KEY].members.keys() == {"uid-g3"}


def test_the_last_member_carries_no_plan() -> None:
    api = gang(1)
    assert GROUP_PLAN not in api.place("g0").annotations


def test_a_pod_without_a_group_carries_no_plan() -> None:
    api = ApiObjects(NODES, [device_pod("alone")])
    assert GROUP_PLAN not in api.place("alone").annotations


def test_nothing_is_recorded_if_the_setting_says_so() -> None:
    api = gang()
    api.settings = PlacingSettings(group=GroupSettings(write_plans=False))
    api.start()
    assert GROUP_PLAN not in api.place("g0").annotations


def test_a_member_without_devices_carries_the_plan_of_the_others() -> None:
    launcher = replace(device_pod("launcher"), containers=())
    api = ApiObjects(NODES, in_gang(launcher, device_pod("g1", 2), device_pod("g2", 2), least=3))
    api.place("launcher")
    assert carried(api, "launcher").groups[KEY].members.keys() == {"uid-g1", "uid-g2"}


def test_a_bind_carries_the_plans_of_gangs_that_must_start_together() -> None:
    api = gang(2, name="a", bundle="a b")
    api.add(*in_gang(device_pod("b0", 2), device_pod("b1", 2), least=2, name="b", bundle="a b"))
    api.place("a0")
    members = {key: list(plan.members) for key, plan in carried(api, "a0").groups.items()}
    assert members == {"default/a": ["uid-a1"], "default/b": ["uid-b0", "uid-b1"]}


def test_a_record_that_would_not_fit_on_the_pod_is_left_out() -> None:
    api = gang()
    full = {**api.pods["g0"].annotations, "team.example.com/notes": "x" * 240 * 1024}
    api.add(replace(api.pods["g0"], annotations=full, version=2))
    assert GROUP_PLAN not in api.place("g0").annotations
    assert GROUP_PLAN in api.place("g1").annotations


@pytest.mark.parametrize(("name", "most"), [("gpu-{:04}", 32 * 1024), ("x" * 240 + "-{:04}", MAX_BYTES)])
def test_the_record_of_a_gang_of_256_members_of_8_devices_is_small(name: str, most: int) -> None:
    nodes = [FakeNode(name.format(number), count=8, inventory=False) for number in range(256)]
    uids = (f"{number:08}-aaaa-bbbb-cccc-0123456789ab" for number in range(256))
    pods = in_gang(*(device_pod(f"g{uid[:8]}", 8, uid=uid) for uid in uids), least=256)
    api = ApiObjects(nodes, pods, PlacingSettings(group=GroupSettings(steps=10**6)))
    bound = api.place("g00000000")
    assert len(carried(api, "g00000000").groups[KEY].members) == 255
    assert len(bound.annotations[GROUP_PLAN]) < most


def test_a_plan_that_is_too_large_for_one_record_is_written_in_pieces() -> None:
    name = "x" * 240 + "-{:04}"
    nodes = [FakeNode(name.format(number), count=8, inventory=False) for number in range(400)]
    uids = [f"{number:08}-aaaa-bbbb-cccc-0123456789ab" for number in range(400)]
    pods = in_gang(*(device_pod(f"g{number}", 8, uid=uid) for number, uid in enumerate(uids)), least=400)
    api = ApiObjects(nodes, pods, PlacingSettings(group=GroupSettings(steps=10**6)))
    for number in range(3):
        api.place(f"g{number}")
    pieces = [set(carried(api, f"g{number}").groups[KEY].members) for number in range(2)]
    assert all(len(api.pods[f"g{number}"].annotations[GROUP_PLAN]) <= MAX_BYTES for number in range(2))
    assert not pieces[0] & pieces[1]
    assert pieces[0] | pieces[1] == set(uids[1:])
    assert GROUP_PLAN not in api.pods["g2"].annotations
    planned = plan_of(api)
    api.start()
    assert plan_of(api) == planned


def plan_of(api: ApiObjects) -> dict[str, str]:
    """The node of each member that is not bound."""
    plan = state_of(api.broker).groups.plan_of(KEY)
    assert plan
    bound = {pod.uid for pod in api.pods.values() if pod.node}
    return {uid: place.node for uid, place in plan.plan.placements.items() if uid not in bound}
