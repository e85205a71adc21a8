"""What a person reads about a group of pods: how far it has come, where it goes, and what would have to change."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Bind
from linkwise.explain.group.group import explain_group
from linkwise.explain.pod import explain_pod, explanation_lines
from linkwise.model.settings import GroupSettings, PlacingSettings
from linkwise.model.views import ContainerView, PodView
from linkwise.sim.sample_nodes import fleet_node
from linkwise.vendors.machines import profile

if TYPE_CHECKING:
    from linkwise.explain.reports import GroupExplanation

GPU = "nvidia.com/gpu"
LABEL = "gputopology.scheduling.koordinator.sh"
GANG = "gang.scheduling.koordinator.sh"
ZONE = "topology.kubernetes.io/zone"


def pod(name: str, count: int = 2, **fields: Any) -> PodView:  # noqa: ANN401 - any field of a view
    limits = {GPU: str(count)} if count else {}
    return PodView("team", name, name, (ContainerView("main", limits=limits),), version=1, **fields)


def group(name: str, size: int, count: int, total: int = 0, minimum: int = 0, **fields: Any) -> list[PodView]:  # noqa: ANN401 - same
    """So many pods that ask for so many devices each; a gang if a minimum is given."""
    labels = {f"{LABEL}/name": name, f"{LABEL}/replica": str(total or count)}
    keys = {f"{GANG}/name": name, f"{GANG}/min-available": str(minimum)} if minimum else {}
    return [
        pod(f"{name}-{place}", size, labels=labels, annotations=keys, created=float(place), **fields)
        for place in range(count)
    ]


def cluster(settings: PlacingSettings | None = None, /, **machines: str) -> Broker:
    broker = Broker(settings)
    for name, machine in machines.items():
        broker.observe(fleet_node(profile(machine), name.replace("_", "-")), 0.0)
    return broker


def bound(broker: Broker, view: PodView, node: str) -> None:
    """Bind a pod, as a scheduler does that takes the node that it gets."""
    broker.observe([view], 0.0)
    broker.filter(view, [node], 0.0)
    effects = broker.bind(view.uid, node, 0.0).effects
    (effect,) = (effect for effect in effects if isinstance(effect, Bind))
    broker.outcome(effect, "written", 0.0)
    annotations = {**view.annotations, **effect.annotations}
    broker.observe([replace(view, node=node, annotations=annotations, version=2)], 0.0)


def tried(broker: Broker, pods: list[PodView], now: float = 0.0) -> None:
    broker.observe(pods, now)
    broker.filter(pods[0], list(broker.nodes), now)


def explained(broker: Broker, key: str, now: float = 0.0) -> GroupExplanation:
    found = explain_group(broker, key, now)
    assert found is not None
    json.dumps(asdict(found), allow_nan=False)
    return found


def lines(broker: Broker, key: str, now: float = 0.0) -> list[str]:
    return explanation_lines(explained(broker, key, now))


def test_a_group_that_is_not_complete_says_how_many_it_waits_for() -> None:
    broker = cluster(a="dgx1-v100")
    broker.observe(group("g", 2, 3, total=4), 0.0)
    assert lines(broker, "g-0") == [
        "group team/g/4 is pending: 1 member not created yet; it is planned without them 10 s after its first attempt",
        "3 of 4 members exist: 3 pending, 1 missing (koordinator)",
    ]


def test_a_gang_waits_for_its_members_however_long_it_takes() -> None:
    broker = cluster(a="dgx1-v100")
    tried(broker, group("g", 2, 2, total=4, minimum=4))
    assert lines(broker, "team/g/4", 100.0) == [
        "group team/g/4 is pending: 2 members not created yet",
        "2 of 4 members exist: 2 pending, 2 missing; 4 must start together (koordinator)",
    ]


def test_members_behind_gates_are_counted() -> None:
    broker = cluster(a="dgx1-v100")
    first, second = group("g", 2, 2)
    broker.observe([first, replace(second, gates=("quota",))], 0.0)
    assert lines(broker, "g-0") == [
        "group team/g/2 is pending: 1 member has scheduling gates",
        "2 of 2 members exist: 1 gated, 1 pending (koordinator)",
    ]


def test_a_plan_is_printed_by_node_and_level_with_the_runner_up() -> None:
    broker = cluster(a="dgx1-v100-measured", b="dgx1-v100-measured", c="dgx1-v100-measured")
    for name, node in (("x", "b"), ("y", "c")):
        bound(broker, pod(name, 4), node)
    tried(broker, group("g", 4, 2))
    assert lines(broker, "g-1", 1.5) == [
        "group team/g/2 is planned: 2 members on 1 node; devices are reserved for another 58.5 s",
        "2 of 2 members exist: 2 planned (koordinator)",
        "node a: g-0 {0,1,2,3} 48.33 GB/s, g-1 {4,5,6,7} 48.33 GB/s; slowest pair overall 14.62 GB/s; 0 devices left free",
        "placed: 2 members",
        "nodes: 1 node",
        "bottleneck: slowest pair on a node about 14.62 GB/s",
        "per pod: slowest pair of a member about 48.33 GB/s",
        "residual: good sets lost: 1 set of 8, 2 sets of 4, 4 sets of 2",
        "left-over: 0 devices left free on its nodes",
        "runner-up on nodes b, c: uses 2 nodes instead of 1",
    ]


def test_the_second_best_loses_by_its_links() -> None:
    broker = cluster(fast="dgx1-v100", slow="v100-pcie")
    broker.observe(group("g", 2, 2), 0.0)
    explanation = explained(broker, "g-0")
    assert explanation.stage == "schedulable"
    assert (
        explanation_lines(explanation)[-1] == "runner-up on node slow: its slowest pair has 20 GB/s instead of 48 GB/s"
    )


def test_a_plan_without_another_says_so() -> None:
    broker = cluster(a="dgx1-v100", b="dgx1-v100")
    broker.observe(group("g", 8, 2, minimum=2), 0.0)
    broker.observe(group("h", 8, 2), 0.0)
    assert lines(broker, "g-0")[-1] == "no other set of nodes fits the group"
    assert lines(broker, "h-0")[-1] == "runner-up on node a: places 1 member instead of 2"


def test_a_gang_that_does_not_fit_reads_what_is_short_and_what_would_help() -> None:
    broker = cluster(a="dgx1-v100", b="dgx1-v100", c="dgx1-v100")
    bound(broker, pod("solo", 1), "a")
    tried(broker, group("g", 8, 3, minimum=3))
    assert lines(broker, "g-0") == [
        "group team/g/3 does not fit now; no devices are reserved for it",
        "3 of 3 members exist: 3 pending; 3 must start together (koordinator)",
        "it needs 3 nodes with 8 free devices; 2 have them",
        "nodes with the most free devices: b 8, c 8, a 7",
        "2 of 3 nodes can take a member now",
        "node a: 8 devices requested, but only 7 of 8 are free",
        "it fits once pod team/solo (1 device) on node a finishes",
        "a group of 2 members would fit now, on b, c",
        "7 devices per member would fit now, on a, b, c",
    ]


def test_pods_that_have_to_end_together_are_all_named() -> None:
    broker = cluster(a="dgx1-v100", b="dgx1-v100")
    for name, node in (("x", "a"), ("y", "b"), ("small", "b")):
        bound(broker, pod(name, 1 if name == "small" else 4), node)
    broker.observe(group("g", 4, 4, minimum=4), 0.0)
    explanation = lines(broker, "g-0")
    assert "it needs 4 devices for each of 4 members; only 1 fits" in explanation
    ends = "team/small (1 device) on node b, team/x (4 devices) on node a, team/y (4 devices) on node b finish"
    assert f"it fits once pods {ends}" in explanation


def test_a_group_that_can_never_fit_is_refused_at_once() -> None:
    broker = cluster(a="dgx1-v100", b="dgx1-v100")
    bound(broker, pod("solo", 1), "a")
    broker.observe(group("g", 8, 3, minimum=3), 0.0)
    explanation = explained(broker, "g-0")
    assert explanation.never
    assert [remedy.kind for remedy in explanation.remedies] == ["fewer members", "fewer devices"]
    assert explanation_lines(explanation)[-1] == "it would not fit even if all other pods finished"


def test_members_that_find_no_room_are_left_out_where_no_gang_forbids_it() -> None:
    broker = cluster(a="dgx1-v100")
    tried(broker, group("g", 4, 3))
    assert lines(broker, "g-0") == [
        "group team/g/3 is planned: 2 members on 1 node, 1 left out; devices are reserved for another 60 s",
        "3 of 3 members exist: 2 planned, 1 left out (koordinator)",
        "node a: g-0 {0,1,2,3} 48 GB/s, g-1 {4,5,6,7} 48 GB/s; slowest pair overall 16 GB/s; 0 devices left free",
        "placed: 2 members",
        "nodes: 1 node",
        "bottleneck: slowest pair on a node about 16 GB/s",
        "per pod: slowest pair of a member about 48 GB/s",
        "residual: good sets lost: 1 set of 8, 2 sets of 4, 4 sets of 2",
        "left-over: 0 devices left free on its nodes",
        "no other set of nodes fits the group",
        "it needs 4 devices for each of 3 members; only 2 fit",
        "nodes with the most free devices without its plan: a 8",
        "1 of 1 node can take a member if the others are not placed",
        "2 devices per member would fit now, on a",
        "it would not fit as a whole even if all other pods finished",
    ]


def test_members_that_are_bound_are_not_among_those_that_do_not_fit() -> None:
    broker = cluster(a="dgx1-v100", b="dgx1-v100")
    bound(broker, pod("solo", 8), "b")
    members = group("g", 3, 5)
    tried(broker, members)
    bound(broker, members[0], "a")
    explanation = lines(broker, "g-0")
    assert "it needs 3 devices for each of 4 members that are not bound; only 1 fits" in explanation
    assert "1 device for each of 4 members that are not bound would fit now, on a" in explanation


def test_a_group_with_bound_members_needs_more_nodes_and_may_have_as_many_members_as_fit_beside_them() -> None:
    broker = cluster(a="dgx1-v100", b="dgx1-v100", c="dgx1-v100")
    bound(broker, pod("solo", 1), "c")
    members = group("g", 8, 4, minimum=4)
    broker.observe(members[:1], 0.0)
    granted = {"scheduling.koordinator.sh/device-allocated": json.dumps({"gpu": [{"minor": n} for n in range(8)]})}
    broker.observe([replace(members[0], node="a", annotations={**members[0].annotations, **granted}, version=2)], 0.0)
    tried(broker, members[1:])
    explanation = lines(broker, "g-1")
    assert "it needs 3 more nodes with 8 free devices; 1 has them" in explanation
    assert "a group of 2 members would fit now, on b" in explanation


def test_devices_of_one_model_are_what_is_short() -> None:
    broker = cluster(a="dgx1-v100", b="dgx-a100")
    broker.observe(group("g", 8, 2, minimum=2), 0.0)
    explanation = lines(broker, "g-0")
    assert "it needs 2 nodes of one model with 8 free devices; 1 has them" in explanation
    assert "it would fit on devices of different models (annotation linkwise.dev/models: any), on a, b" in explanation


def test_one_domain_of_the_network_is_what_is_short() -> None:
    broker = Broker()
    for name, zone in (("a", "east"), ("b", "west")):
        broker.observe(fleet_node(profile("dgx1-v100"), name, labels={ZONE: zone}), 0.0)
    spec = json.dumps({"gatherStrategy": [{"layer": ZONE, "strategy": "MustGather"}]})
    pods = group("g", 8, 2, minimum=2)
    keys = {**pods[0].annotations, f"{GANG}/network-topology-spec": spec}
    broker.observe([replace(view, annotations=keys) for view in pods], 0.0)
    explanation = lines(broker, "g-0")
    assert f"it needs 2 nodes in one domain of {ZONE} with 8 free devices; 1 has them" in explanation
    assert f"it would fit if one domain of {ZONE} were not required, on a, b" in explanation


def test_domains_of_the_network_are_named() -> None:
    broker = Broker()
    for name, zone in (("a", "east"), ("b", "east"), ("c", "west")):
        broker.observe(fleet_node(profile("dgx1-v100"), name, labels={ZONE: zone}), 0.0)
    broker.observe(group("g", 8, 2), 0.0)
    explanation = lines(broker, "g-0")
    assert f"network: 1 domain of {ZONE} (east)" in explanation
    assert explanation[-1] == f"runner-up on nodes a, c: spans 2 domains of {ZONE} instead of 1"


def test_a_group_of_which_all_are_bound_is_placed() -> None:
    broker = cluster(a="dgx1-v100")
    pods = group("g", 2, 2)
    broker.observe(pods, 0.0)
    for view in pods:
        bound(broker, view, "a")
    assert lines(broker, "g-0") == [
        "group team/g/2 is placed: 2 members on 1 node",
        "2 of 2 members exist: 2 bound (koordinator)",
        "node a: g-0 {0,3} 96 GB/s, g-1 {1,2} 96 GB/s; slowest pair overall 48 GB/s; 4 devices left free",
    ]


def test_pods_beyond_the_number_of_members_are_placed_alone() -> None:
    broker = cluster(a="dgx1-v100")
    broker.observe(group("g", 2, 3, total=2), 0.0)
    assert (
        lines(broker, "g-0")[1] == "2 of 2 members exist: 2 pending; 1 extra pod is scheduled separately (koordinator)"
    )


def test_a_plan_that_takes_longer_is_being_made() -> None:
    broker = cluster(PlacingSettings(group=GroupSettings(steps=1)), a="dgx1-v100")
    tried(broker, group("g", 2, 2))
    assert lines(broker, "g-0")[0] == (
        "group team/g/2 is being planned; its members are retried when the plan is ready"
    )


def test_a_member_without_devices_has_a_place_beside_the_others() -> None:
    broker = cluster(a="dgx1-v100")
    launcher, *workers = group("g", 2, 3)
    broker.observe([replace(launcher, containers=(ContainerView("main"),)), *workers], 0.0)
    explanation = lines(broker, "g-0")
    assert explanation[0] == "group team/g/3 fits now: 3 members on 1 node"
    assert (
        explanation[2]
        == "node a: g-0, g-1 {0,3} 96 GB/s, g-2 {1,2} 96 GB/s; slowest pair overall 48 GB/s; 4 devices left free"
    )


def test_gangs_that_start_together_are_planned_as_one() -> None:
    broker = cluster(a="dgx1-v100")
    keys = {f"{GANG}/groups": json.dumps(["team/g", "team/h"])}
    pods = [*group("g", 4, 1, minimum=1), *group("h", 4, 1, minimum=1)]
    bundle = [replace(view, annotations={**view.annotations, **keys}) for view in pods]
    broker.observe(bundle[:1], 0.0)
    assert lines(broker, "g-0")[0] == (
        "group team/g/1 is pending: the pod's gang must start together with gang team/h, which is incomplete"
    )
    broker.observe(bundle[1:], 0.0)
    explanation = lines(broker, "g-0")
    assert explanation[0] == "group team/g/1 fits now: 1 member on 1 node"
    assert explanation[2] == "it must start together with team/h/1"
    assert "placed: 2 members" in explanation


def test_invalid_keys_of_members_are_reported_once() -> None:
    broker = cluster(a="dgx1-v100")
    pods = group("g", 2, 3, minimum=2)
    broker.observe(pods, 0.0)
    (note,) = explained(broker, "g-0").notes
    assert note.startswith(f"pod g-0 and 2 more: {GANG}/min-available: it is 2, but {LABEL}/replica is 3")


def test_a_member_refers_to_its_group() -> None:
    broker = cluster(a="dgx1-v100")
    broker.observe(group("g", 2, 1, total=2), 0.0)
    explanation = explain_pod(broker, "g-0", 0.0)
    assert explanation is not None
    assert (explanation.state, explanation.group) == ("grouped", "team/g/2")
    assert explanation_lines(explanation) == [
        "pod team/g-0 is pending with its group: it requests 2 devices (nvidia.com/gpu)",
        "only 1 of 2 members of the pod's group have been created",
        "for its group, run: linkwise explain group/team/g/2",
    ]


def test_a_member_that_is_planned_or_left_out_says_so() -> None:
    broker = cluster(a="dgx1-v100")
    tried(broker, group("g", 4, 3))
    planned, left = explain_pod(broker, "g-0", 0.0), explain_pod(broker, "g-2", 0.0)
    assert planned is not None
    assert left is not None
    assert explanation_lines(planned) == [
        "pod team/g-0 has devices 0, 1, 2, 3 on node a reserved by the plan of its group",
        "it requests 4 devices (nvidia.com/gpu); placed by bandwidth",
        "{0,1,2,3}: slowest pair 48 GB/s (typical for its link kind)",
        "the node agent allocates exactly these devices",
        "its group is planned",
        "for its group, run: linkwise explain group/team/g/3",
    ]
    assert explanation_lines(left) == [
        "pod team/g-2 is pending with its group: it requests 4 devices (nvidia.com/gpu)",
        "its group is planned, and this pod is left out",
        "its group needs 4 devices for each of 3 members; only 2 fit",
        "2 devices per member would fit now, on a",
        "its group would not fit as a whole even if all other pods finished",
        "for its group, run: linkwise explain group/team/g/3",
    ]


def test_asking_why_changes_nothing() -> None:
    broker = cluster(a="dgx1-v100", b="dgx1-v100")
    bound(broker, pod("solo", 1), "a")
    broker.observe(group("g", 8, 2, minimum=2), 0.0)
    broker.observe(group("h", 2, 1, total=2), 0.0)
    before = broker.snapshot(0.0)
    explanation = [explain_group(broker, key, 0.0) for key in ("g-0", "h-0")]
    assert explanation == [explain_group(broker, key, 0.0) for key in ("g-0", "h-0")]
    assert broker.snapshot(0.0) == before


def test_an_unknown_group_has_no_explanation() -> None:
    assert explain_group(cluster(a="dgx1-v100"), "team/none", 0.0) is None


def test_members_that_no_node_can_serve_are_split() -> None:
    broker = cluster(a="dgx1-v100", b="dgx1-v100")
    broker.observe(group("g", 16, 1, minimum=1), 0.0)
    explanation = explained(broker, "g-0")
    assert "no node has that many devices: split each member into 2 members with 8 devices each" in explanation_lines(
        explanation
    )


def mixed() -> Broker:
    broker = cluster(a="dgx1-v100", b="dgx1-v100", c="atlas-800")
    broker.observe(fleet_node(profile("dgx1-v100"), "shared", mode="share"), 0.0)
    return broker


def test_a_plan_is_no_reason_against_itself_and_the_answer_is_the_same_before_and_after_it() -> None:
    before, after = mixed(), mixed()
    before.observe(group("g", 8, 3), 0.0)
    tried(after, group("g", 8, 3))
    waiting, planned = explained(before, "g-0"), explained(after, "g-0")
    assert (waiting.stage, planned.stage) == ("schedulable", "reserved")
    assert (waiting.fitting, waiting.against, waiting.best) == (planned.fitting, planned.against, planned.best)
    explanation = explanation_lines(planned)
    assert "2 of 4 nodes can take a member if the others are not placed" in explanation
    assert not [line for line in explanation if "had too few free devices" in line]


def test_nodes_in_another_sharing_mode_are_not_listed_among_those_with_free_devices() -> None:
    broker = mixed()
    broker.observe(group("g", 8, 3, minimum=3), 0.0)
    assert explained(broker, "g-0").best == (("a", 8), ("b", 8))
