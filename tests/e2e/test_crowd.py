"""Two hundred pods at once: nothing is given twice, and whatever fits is placed; judged from the API objects alone."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from support.e2e.invariants import INVENTORIES, all_is_well, claims, nothing_is_sold_twice, records_are_whole
from support.e2e.node_objects import gpushare, koordinator, machine
from support.e2e.pod_objects import pod
from support.e2e.processes import wait_for
from support.e2e.service import running_service_for_koordinator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.e2e.api_client import Raw
    from support.e2e.cluster import Cluster
    from support.e2e.invariants import Claim
    from support.e2e.scheduler import Serve
    from support.e2e.service import Placing

GPU: Final = "nvidia.com/gpu"
MEMORY: Final = "aliyun.com/gpu-mem"
PERCENT: Final = "koordinator.sh/gpu"
CARD: Final = 22  # GiB
ROOM: Final = {**{f"w{number}": 8 for number in range(40)}, **{f"s{number}": 4 for number in range(6)}}
"""devices by node; those of s hand out memory, those of k percents"""
ROOM.update({f"k{number}": 8 for number in range(4)})


@pytest.fixture(scope="module")
def answering(kubernetes: Cluster) -> Iterator[Serve]:
    with running_service_for_koordinator(kubernetes, "crowd") as serve:
        yield serve


@pytest.mark.rule("002.whole", "002.fractions", "004.one-card", level="R")
def test_of_two_hundred_concurrent_pods_no_two_share_a_device_and_all_that_fit_are_placed(placing: Placing) -> None:
    namespace, chance = placing.namespace(), Random(200)
    placing.nodes(*nodes())
    placing.cluster.create(pod(namespace, f"p{number}", ask(chance)) for number in range(200))
    path = f"/api/v1/namespaces/{namespace}/pods"
    wait_for(lambda: no_pod_that_fits_is_left(placing.cluster.api.list(path)), 60, "every pod that fits is placed")
    pods = all_is_well(placing)
    assert len([found for found in pods if found["spec"].get("nodeName")]) > 100
    shared = Counter((claim.node, claim.device) for claim in claims(pods) if claim.share)
    assert max(shared.values()) > 1


@pytest.mark.rule("002.whole", "002.release", level="R")
def test_two_hundred_pods_that_come_and_go_never_share_a_device_and_all_are_placed_in_the_end(placing: Placing) -> None:
    namespace, chance = placing.namespace(), Random(7)
    placing.nodes(*(thing for number in range(6) for thing in machine(f"w{number}", "nvlink")))
    path = f"/api/v1/namespaces/{namespace}/pods"
    placing.cluster.create(pod(namespace, f"p{number}", {GPU: chance.randint(1, 8)}) for number in range(200))
    seen, end = set[str](), time.monotonic() + 90
    while len(seen) < 200:  # what is wrong for a moment is wrong
        pods = placing.cluster.api.list(path)
        nothing_is_sold_twice(placing.cluster.api, pods)
        records_are_whole(pods, placing.cluster.api.list(INVENTORIES))
        names = {found["metadata"]["name"] for found in pods if found["spec"].get("nodeName")}
        seen |= names
        for name in names:
            placing.cluster.api.delete(f"{path}/{name}")
        assert time.monotonic() < end, f"only {len(seen)} were placed"
    all_is_well(placing)


@pytest.mark.rule("001.gang", "001.hold", level="R")
def test_gangs_and_single_pods_that_want_the_same_nodes_all_get_their_turn(placing: Placing) -> None:
    namespace, chance = placing.namespace(), Random(12)
    placing.nodes(*(thing for number in range(4) for thing in machine(f"w{number}", "nvlink")))
    path, groups = f"/api/v1/namespaces/{namespace}/pods", gangs(chance)
    pods = [member(namespace, name, place, sizes) for name, sizes in groups.items() for place in range(len(sizes))]
    placing.cluster.create(chance.sample(pods, len(pods)))
    left, end = dict(groups), time.monotonic() + 90
    while left:
        found = placing.cluster.api.list(path)
        nothing_is_sold_twice(placing.cluster.api, found)
        there = Counter(one["metadata"]["labels"]["gang"] for one in found if one["spec"].get("nodeName"))
        for name in [name for name in left if there[name] == len(left[name])]:
            for place in range(len(left.pop(name))):
                placing.cluster.api.delete(f"{path}/{name}-{place}")
        assert time.monotonic() < end, f"{left} wait, {there} are there"
    all_is_well(placing)


def gangs(chance: Random) -> dict[str, list[int]]:
    """Names of gangs and what their members want; a gang of one is a single pod."""
    made: dict[str, list[int]] = {}
    for number in range(30):
        members = chance.choice([1, 1, 2, 3, 4])
        made[f"g{number}"] = [chance.choice([1, 2, 4, 8]) for _ in range(members)]
    return {name: sizes for name, sizes in made.items() if sum(sizes) <= 4 * 8}


def member(namespace: str, name: str, place: int, sizes: list[int]) -> Raw:
    prefix = "gang.scheduling.koordinator.sh"
    words = {f"{prefix}/name": name, f"{prefix}/min-available": str(len(sizes))} if len(sizes) > 1 else {}
    return pod(namespace, f"{name}-{place}", {GPU: sizes[place]}, labels={"gang": name}, annotations=words)


def nodes() -> list[Raw]:
    tell: dict[str, Callable[[str], list[Raw]]] = {"w": linked, "s": gpushare, "k": koordinator}
    return [thing for name in ROOM for thing in tell[name[0]](name)]


def linked(name: str) -> list[Raw]:
    return machine(name, "nvlink")


def ask(chance: Random) -> dict[str, int | str]:
    kind = chance.random()
    if kind < 0.5:
        return {GPU: chance.randint(1, 8)}
    if kind < 0.8:
        return {MEMORY: chance.randint(1, CARD)}
    return {PERCENT: chance.choice([10, 25, 50, 75, 100, 200, 400])}


def no_pod_that_fits_is_left(pods: list[Raw]) -> bool:
    taken: dict[str, dict[str, list[Claim]]] = defaultdict(lambda: defaultdict(list))
    for claim in claims(pods):
        taken[claim.node][claim.device].append(claim)
    for found in pods:
        if not found["spec"].get("nodeName"):
            ((resource, amount),) = found["spec"]["containers"][0]["resources"]["limits"].items()
            there = [name for name in ROOM if fits(resource, int(amount), name, taken[name])]
            assert not there, f"{found['metadata']['name']} wants {amount} {resource} and {there} could take it"
    return True


def fits(resource: str, amount: int, name: str, taken: dict[str, list[Claim]]) -> bool:
    """Whether a node could take the ask by what the records of its pods leave."""
    if {GPU: "w", MEMORY: "s", PERCENT: "k"}[resource] != name[0]:
        return False
    whole = amount if resource == GPU else amount // 100 if resource == PERCENT and amount >= 100 else 0
    if whole:
        return ROOM[name] - len(taken) >= whole
    room = CARD if resource == MEMORY else 100
    used = [sum(claim.share for claim in found) if found[0].share else room for found in taken.values()]
    return len(taken) < ROOM[name] or any(one + amount <= room for one in used)
