"""Constraints other than devices, checked as Kubernetes checks them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from linkwise import NodeView, Reason, Taint, Toleration, refusal
from linkwise.engine.feasibility import HOST, all_unfit, lasting, no_neighbours, spread_limit, unfit, unless_first
from linkwise.engine.reasons.catalog import short_refusal
from linkwise.model.ask import Capacity, Demand, Load
from linkwise.model.views import HostPort, NodeTerm, PodTerm, SelectorRequirement, SpreadConstraint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.engine.feasibility import Neighbour

GIB = 1 << 30
NODE = NodeView("n1", labels={"zone": "a", "gen": "3"})
ROOM = Capacity(cpu=16_000, memory=64 * GIB, ephemeral=90 * GIB, pods=110)
CORDONED = "node.kubernetes.io/unschedulable"
WEB = PodTerm(HOST, {"app": "web"}, namespaces=("ns",))
PODS: list[Neighbour] = [("ns", {"app": "web"})]


def kind_of(
    demand: Demand,
    view: NodeView = NODE,
    capacity: Capacity = ROOM,
    load: Load | None = None,
    pods: Iterable[Neighbour] = (),
) -> str | None:
    found = unfit(demand, view, capacity, load or Load(), lambda: pods)
    return found.kind if found else None


def tainted(effect: str = "NoSchedule") -> NodeView:
    return NodeView("n1", taints=(Taint("dedicated", "infra", effect),))


def test_a_pod_that_asks_for_nothing_fits_anywhere() -> None:
    assert unfit(Demand(), NODE, Capacity(), Load()) is None
    assert all_unfit(Demand(), NODE, ROOM, Load()) == ()


def test_a_cordoned_node_takes_only_pods_that_put_up_with_it() -> None:
    cordoned = NodeView("n1", unschedulable=True)
    assert kind_of(Demand(), cordoned) == "unschedulable"
    assert kind_of(Demand(tolerations=(Toleration(CORDONED, "Exists"),)), cordoned) is None
    assert (
        kind_of(Demand(tolerations=(Toleration(CORDONED, "Exists", effect="NoExecute"),)), cordoned) == "unschedulable"
    )


def test_a_node_that_is_not_ready_takes_nothing() -> None:
    assert kind_of(Demand(tolerations=(Toleration(operator="Exists"),)), NodeView("n1", ready=False)) == "not ready"


@pytest.mark.parametrize(("selector", "found"), [({"zone": "a"}, None), ({"zone": "b"}, "zone=a"), ({"disk": "x"}, "")])
def test_a_selector_needs_every_label(selector: dict[str, str], found: str | None) -> None:
    reason = unfit(Demand(selector={"gen": "3", **selector}), NODE, ROOM, Load())
    assert (reason and (reason.found or "")) == found


@pytest.mark.parametrize(
    ("affinity", "kind"),
    [
        (None, None),
        ((), "affinity"),
        ((NodeTerm(),), "affinity"),
        ((NodeTerm(), NodeTerm((SelectorRequirement("zone", "Exists"),))), None),
        ((NodeTerm((SelectorRequirement("zone", "Exists"), SelectorRequirement("disk", "Exists"))),), "affinity"),
        ((NodeTerm(fields=(SelectorRequirement("metadata.name", "In", ("n1",)),)),), None),
        ((NodeTerm(fields=(SelectorRequirement("metadata.name", "In", ("n2",)),)),), "affinity"),
    ],
)
def test_of_terms_one_is_enough_and_an_empty_one_means_no_node(
    affinity: tuple[NodeTerm, ...] | None, kind: str | None
) -> None:
    assert kind_of(Demand(affinity=affinity)) == kind


@pytest.mark.parametrize(
    ("effect", "kind"), [("NoSchedule", "taint"), ("NoExecute", "taint"), ("PreferNoSchedule", None)]
)
def test_only_taints_that_keep_pods_off_count(effect: str, kind: str | None) -> None:
    assert kind_of(Demand(), tainted(effect)) == kind


@pytest.mark.parametrize(
    ("taken", "kind"),
    [
        (HostPort(80), "ports"),
        (HostPort(80, ip="10.0.0.1"), "ports"),
        (HostPort(81), None),
        (HostPort(80, "UDP"), None),
    ],
)
def test_a_port_is_taken_on_all_addresses_or_on_its_own(taken: HostPort, kind: str | None) -> None:
    load = Load().plus(Demand(ports=(taken,)))
    assert kind_of(Demand(ports=(HostPort(80),)), load=load) == kind
    assert kind_of(Demand(ports=(HostPort(80, ip="10.0.0.2"),)), load=load) == (kind if taken == HostPort(80) else None)


@pytest.mark.parametrize(
    ("one", "capacity", "kind"),
    [
        (Demand(cpu=1), Capacity(cpu=2), "cpu"),
        (Demand(memory=1), Capacity(memory=2), "memory"),
        (Demand(ephemeral=1), Capacity(ephemeral=2), "ephemeral"),
        (Demand(), Capacity(pods=2), "pods"),
    ],
)
def test_amounts_fit_to_the_last_unit(one: Demand, capacity: Capacity, kind: str) -> None:
    load = Load().plus(one)
    assert unfit(one, NODE, capacity, load) is None
    assert unfit(one, NODE, capacity, load.plus(one)) == Reason("001.filters", 1, (0, 2), kind)


def test_a_pod_that_asks_for_nothing_is_not_stopped_where_too_much_is_taken() -> None:
    load = Load().plus(Demand(cpu=20_000))
    assert kind_of(Demand(), load=load) is None
    assert unfit(Demand(cpu=1), NODE, ROOM, load) == Reason("001.filters", 1, (0, 16_000), "cpu")


@pytest.mark.rule("001.filters")
def test_each_member_is_checked_with_the_earlier_ones_added() -> None:
    member, load, capacity = Demand(cpu=4000, ports=(HostPort(80),)), Load(), Capacity(cpu=11_000, pods=2)
    kinds = []
    for demand in (member, Demand(cpu=4000), Demand(cpu=4000), member):
        kinds.append([reason.kind for reason in all_unfit(demand, NODE, capacity, load)])
        load = load if kinds[-1] else load.plus(demand)
    assert kinds == [[], [], ["cpu", "pods"], ["ports", "cpu", "pods"]]


def test_pods_that_must_be_apart_are_kept_apart_by_either() -> None:
    shy, web = Demand(namespace="ns", apart=(WEB,)), Demand(namespace="ns", labels={"app": "web"})
    assert kind_of(shy, pods=PODS) == "apart"
    assert kind_of(shy, pods=[("other", {"app": "web"}), ("ns", {"app": "db"})]) is None
    assert kind_of(web, load=Load().plus(shy)) == "apart"
    assert kind_of(web, load=Load().plus(shy).minus(shy)) is None


def test_a_pod_must_be_with_one_that_all_its_conditions_mean() -> None:
    both = Demand(namespace="ns", together=(WEB, PodTerm("zone", {"tier": "x"}, namespaces=("ns",))))
    assert kind_of(both, pods=PODS) == "together"
    assert kind_of(both, pods=[*PODS, ("ns", {"app": "web", "tier": "x"})]) is None


def test_the_first_of_pods_that_must_be_together_may_begin_anywhere() -> None:
    first = Demand(namespace="ns", labels={"app": "web"}, together=(WEB,))
    assert kind_of(first) == "together"
    assert kind_of(unless_first(first, [("ns", {"app": "db"})])) is None
    assert kind_of(unless_first(first, PODS)) == "together"
    assert kind_of(unless_first(Demand(namespace="ns", together=(WEB,)), [])) == "together"


def test_places_other_than_hosts_are_left_to_kube_scheduler() -> None:
    zone = PodTerm("zone", {"app": "web"}, all_namespaces=True)
    pod = Demand(namespace="ns", labels={"app": "web"}, apart=(zone,), together=(zone,))
    assert kind_of(pod, pods=PODS, load=Load().plus(pod)) is None


def test_neighbours_are_asked_for_only_by_pods_with_conditions_on_them() -> None:
    asked: list[int] = []

    def neighbours() -> list[Neighbour]:
        asked.append(1)
        return PODS

    for demand in (Demand(cpu=1), Demand(apart=(WEB,))):
        unfit(demand, NODE, ROOM, Load(), neighbours)
    assert asked == [1]


def everything_wrong() -> tuple[Reason, ...]:
    port, all_pods = HostPort(80), PodTerm(HOST, all_namespaces=True)
    demand = Demand(
        *(17_000, 65 * GIB, 91 * GIB),
        selector={"disk": "ssd"},
        affinity=(NodeTerm((SelectorRequirement("zone", "In", ("b", "c")),)),),
        ports=(port,),
        apart=(all_pods,),
        together=(WEB,),
    )
    view = NodeView("n1", unschedulable=True, ready=False, taints=(Taint("dedicated", "infra"), Taint("x")))
    load = Load(pods=110, ports={port: 1}, apart={all_pods: 1})
    return all_unfit(demand, view, ROOM, load, lambda: [("ns", {})])


def test_obstacles_of_a_pod_are_listed_in_one_order() -> None:
    order = ["unschedulable", "not ready", "selector", "affinity", "taint", "taint", "ports"]
    order += ["cpu", "memory", "ephemeral", "pods", "apart", "apart", "together"]
    assert [reason.kind for reason in everything_wrong()] == order


def test_only_what_pods_can_change_does_not_last() -> None:
    assert [reason.kind for reason in everything_wrong() if not lasting(reason)] == [
        *("ports", "pods", "apart", "apart", "together")
    ]
    assert not lasting(Reason("001.filters", 4000, (1500, 16_000), "cpu"))


def test_every_reason_has_a_sentence() -> None:
    long = [refusal(reason) for reason in everything_wrong()]
    assert long == [
        "the node is cordoned",
        "the node is not ready",
        "the pod's node selector requires disk=ssd, but the node has no such label",
        "the node does not match the pod's node affinity, zone in (b,c)",
        "the pod does not tolerate taint dedicated=infra:NoSchedule",
        "the pod does not tolerate taint x:NoSchedule",
        "host port 80/TCP is in use",
        "17 cpu requested, but only 16 of 16 are free",
        "65 GiB of memory requested, but only 64 GiB of 64 GiB is free",
        "91 GiB of ephemeral storage requested, but only 90 GiB of 90 GiB is free",
        "the node already runs its maximum of 110 pods",
        "the pod has anti-affinity to any pod, and the node runs one",
        "a pod on the node has anti-affinity to any pod, which includes this pod",
        "the pod has affinity to pods with app=web, and the node runs none",
    ]


def test_short_texts_hold_no_numbers_or_names() -> None:
    short = {short_refusal(reason) for reason in everything_wrong()}
    assert len(short) == 12
    assert not any(character.isdigit() for text in short for character in text)


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        (("cpu", 4000, 1500, 16_000), "4 cpu requested, but only 1.5 of 16 are free"),
        (("cpu", 1000, 999, 16_000), "1 cpu requested, but only 0.999 of 16 are free"),
        (("memory", 8 * GIB + 1, 8 * GIB, 64 * GIB), "8.01 GiB of memory requested, but only 8 GiB of 64 GiB is free"),
        (("memory", GIB, GIB - 1, 2 * GIB), "1 GiB of memory requested, but only 1023.99 MiB of 2 GiB is free"),
        (("ephemeral", 2048, 0, 3 << 40), "2 KiB of ephemeral storage requested, but none of 3 TiB is free"),
    ],
)
def test_amounts_are_printed_as_people_write_them(reason: tuple[str, int, int, int], text: str) -> None:
    kind, asked, left, there = reason
    assert refusal(Reason("001.filters", asked, (left, there), kind)) == text


DEMANDS = st.builds(
    Demand,
    cpu=st.integers(0, 9),
    memory=st.integers(0, 9),
    ephemeral=st.integers(0, 9),
    ports=st.lists(st.builds(HostPort, st.integers(1, 3), st.sampled_from(["TCP", "UDP"])), max_size=3).map(tuple),
    apart=st.lists(st.sampled_from([WEB, PodTerm(HOST), PodTerm("zone", {"app": "db"})]), max_size=2).map(tuple),
)


@given(st.lists(DEMANDS, max_size=6), st.permutations(range(6)), DEMANDS)
def test_a_load_forgets_pods_in_any_order(demands: list[Demand], order: list[int], last: Demand) -> None:
    load = Load().plus(last)
    for demand in demands:
        load = load.plus(demand)
    for place in order:
        load = load.minus(demands[place]) if place < len(demands) else load
    assert load == Load().plus(last)
    assert load.minus(last) == Load()


@given(DEMANDS, DEMANDS)
def test_the_first_reason_is_the_first_of_all(one: Demand, other: Demand) -> None:
    capacity, load = Capacity(cpu=9, memory=9, pods=2), Load().plus(one)
    found = all_unfit(other, NODE, capacity, load, no_neighbours)
    assert unfit(other, NODE, capacity, load, no_neighbours) == (found[0] if found else None)


SPREAD = SpreadConstraint(HOST, 1, WEB)


@pytest.mark.parametrize(
    ("open_", "full", "members", "limit"),
    [
        ([0, 0, 0, 0], [], 4, 1),
        ([0, 0, 0, 0], [], 8, 2),
        ([0, 0, 0, 0], [], 6, 2),
        ([2, 0, 0], [], 2, 1),
        ([2, 0, 0], [], 4, 2),
        ([0, 0], [0], 8, 1),  # a node that takes no member stays empty
        ([3, 3], [5], 4, 5),
        ([], [], 4, 1),
    ],
)
def test_topology_spread_limits_the_pods_of_a_node_by_those_of_the_others(
    open_: list[int], full: list[int], members: int, limit: int
) -> None:
    assert spread_limit(SPREAD, open_, full, members) == limit


def test_topology_spread_over_too_few_nodes_allows_its_skew_on_each() -> None:
    assert spread_limit(SpreadConstraint(HOST, 2, WEB, min_domains=3), [1, 1], [], 8) == 2


def test_a_node_has_no_more_pods_than_topology_spread_allows() -> None:
    web = Demand(namespace="ns", labels={"app": "web"}, crowd=((WEB, 2),))
    assert kind_of(web, pods=PODS) is None
    assert kind_of(web, pods=PODS * 2) == "spread"
    assert kind_of(Demand(namespace="ns", crowd=((WEB, 2),)), pods=PODS * 2) is None
