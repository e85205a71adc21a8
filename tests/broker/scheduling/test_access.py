"""AcceleratorPolicies in scheduling: filter, bind, bursts, wake-ups, changes while pods wait, restarts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.watch_events import ClusterObject, PodDeleted
from linkwise.explain.group.group import explain_group
from linkwise.explain.pod import explain_pod, explanation_lines
from linkwise.model.access_policy import Requester
from linkwise.model.settings import PlacingSettings, ReservationSettings, ShareSettings
from linkwise.testing.cluster import (
    KOORDINATOR,
    MEMORY,
    NVIDIA,
    FakeNode,
    binds,
    broker_of,
    in_gang,
    place,
    seen_bound,
    woken,
    woken_set,
)
from support.builders.access_objects import EVERYBODY, access_policy, deleted_policy, labelled, team_pod

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.broker.effects import Effect, PolicyStatus
    from linkwise.model.views import PodView

NOW = 100.0
BIG = FakeNode("n", count=8)
CARDS = FakeNode("n", "share", 2, 16)
NOT_PERMITTED = "node(s): an AcceleratorPolicy doesn't permit the request"
LIMIT = "node(s): an AcceleratorPolicy's limit of devices at one time is reached"


def with_policies(
    *nodes: FakeNode, policies: Sequence[ClusterObject], settings: PlacingSettings | None = None
) -> Broker:
    broker = broker_of(*nodes, settings=settings)
    broker.observe(policies, 0.0)
    return broker


def asked(broker: Broker, pod: PodView, *names: str, now: float = NOW) -> tuple[list[str], set[str]]:
    """The nodes that filter answers with, and its reasons."""
    broker.observe([pod], now)
    answer = broker.filter(pod, names or ("n",), now)
    assert not answer.failed  # no eviction changes what policies permit
    return answer.nodes, set(answer.unresolvable.values())


def drained(broker: Broker, now: float = NOW) -> list[Effect]:
    """Effects of background work until there is none left."""
    effects: list[Effect] = []
    for _ in range(100):
        if broker.next_deadline() != 0.0:
            break
        effects += broker.step(now, 100)
    return effects


# what may be requested


@pytest.mark.rule("002.access")
def test_a_namespace_gets_only_the_resources_that_its_policy_permits() -> None:
    broker = with_policies(BIG, policies=[access_policy("p", resources=["huawei.com/*"])])
    assert asked(broker, team_pod("a")) == ([], {NOT_PERMITTED})
    assert asked(broker, team_pod("b", namespace="other")) == (["n"], set())


@pytest.mark.rule("002.access")
def test_a_service_account_and_a_recorded_user_are_judged_in_filter() -> None:
    robot = {"serviceAccounts": [{"namespace": "team", "name": "robot"}]}
    policies = [access_policy("p", robot, resources=[]), access_policy("q", {"users": ["eve"]}, resources=[])]
    broker = with_policies(BIG, policies=policies)
    assert asked(broker, team_pod("a", account="robot")) == ([], {NOT_PERMITTED})
    assert asked(broker, team_pod("b", user="eve")) == ([], {NOT_PERMITTED})
    assert asked(broker, team_pod("c", user="ann", account="default")) == (["n"], set())


@pytest.mark.rule("002.access")
def test_nodes_of_a_model_that_is_not_permitted_are_left_out() -> None:
    old, new = FakeNode("old", model="Tesla T4"), FakeNode("new", model="NVIDIA H100")
    broker = with_policies(old, new, policies=[access_policy("p", models=["*T4"])])
    assert asked(broker, team_pod("a", 2), "new", "old") == (["old"], set())
    nodes, reasons = asked(broker, team_pod("b", 2), "new")
    assert (nodes, reasons) == ([], {"node(s) had devices of a model that an AcceleratorPolicy doesn't permit"})
    assert asked(broker, team_pod("c", 2, namespace="other"), "new", "old")[0] == ["new"]


def test_a_node_whose_devices_are_replaced_by_permitted_ones_is_not_left_out_any_more() -> None:
    node = FakeNode("n", model="H100")
    broker = with_policies(node, policies=[access_policy("p", models=["T4"])])
    assert asked(broker, team_pod("a"))[0] == []
    broker.observe(replace(node, model="T4", version=2).events(), NOW)
    assert asked(broker, team_pod("a"))[0] == ["n"]


@pytest.mark.rule("002.access")
def test_a_share_above_the_permitted_one_is_refused() -> None:
    sharing = {"maxShare": "50%"}
    broker = with_policies(CARDS, policies=[access_policy("p", sharing=sharing)])
    assert asked(broker, team_pod("a", 9, MEMORY)) == ([], {NOT_PERMITTED})
    assert asked(broker, team_pod("b", 8, MEMORY)) == (["n"], set())


def test_an_invalid_policy_permits_nothing_to_those_it_selects() -> None:
    broker = with_policies(BIG, policies=[access_policy("p", maxDevices="eight")])
    assert asked(broker, team_pod("a")) == ([], {"node(s): an AcceleratorPolicy that applies to the pod is invalid"})
    assert asked(broker, team_pod("b", namespace="other"))[0] == ["n"]


def test_pods_that_request_no_devices_are_never_refused() -> None:
    broker = with_policies(BIG, policies=[access_policy("p", EVERYBODY, resources=[])])
    assert asked(broker, team_pod("a", 1, "cpu"))[0] == ["n"]


# how many at one time


@pytest.mark.rule("002.access")
def test_a_burst_of_fifty_pods_does_not_pass_the_limit() -> None:
    nodes = [FakeNode(f"n{number}", count=8) for number in range(8)]
    broker = with_policies(*nodes, policies=[access_policy("p", maxDevices=20)])
    pods, names = [team_pod(f"p{number:02}", created=number) for number in range(50)], [node.name for node in nodes]
    broker.observe(pods, NOW)
    offered = {pod.uid: broker.filter(pod, names, NOW).nodes for pod in pods}
    assert sum(map(bool, offered.values())) == 20
    # Some scheduler may bind without asking again.
    answers = [broker.bind(pod.uid, (offered[pod.uid] or names)[0], NOW) for pod in pods]
    assert sum(not answer.error for answer in answers) == 20
    refusals = {answer.error for answer in answers if answer.error}
    assert refusals == {
        "1 device requested, but AcceleratorPolicy p permits namespace team at most 20 at one time, and 20 are in use"
    }


@pytest.mark.rule("002.access")
def test_the_limit_counts_each_namespace_by_itself_and_a_share_as_one_device() -> None:
    policies = [access_policy("p", {"namespaces": ["team", "other"]}, maxDevices=2)]
    broker = with_policies(CARDS, policies=policies)
    place(broker, team_pod("a", 2, MEMORY), "n")
    place(broker, team_pod("b", 2, MEMORY), "n")
    assert asked(broker, team_pod("c", 2, MEMORY)) == ([], {LIMIT})
    assert asked(broker, team_pod("d", 2, MEMORY, namespace="other"))[0] == ["n"]


@pytest.mark.rule("002.access")
def test_a_pod_refused_for_the_limit_is_woken_when_a_pod_of_its_namespace_ends_on_a_node_it_could_not_use() -> None:
    small, large = FakeNode("small", count=1), FakeNode("large", count=8)
    broker = with_policies(small, large, policies=[access_policy("p", maxDevices=4)])
    running = place(broker, team_pod("running"), "small")
    assert asked(broker, team_pod("waiting", 4), "small", "large") == ([], {LIMIT})
    effects = broker.observe([PodDeleted(running.uid)], NOW)
    assert woken([*effects, *drained(broker)]) == ["waiting"]
    assert asked(broker, team_pod("waiting", 4), "small", "large")[0] == ["large"]


def test_of_the_pods_that_wait_for_the_limit_only_as_many_are_woken_as_it_permits_the_oldest_first() -> None:
    broker = with_policies(BIG, policies=[access_policy("p", maxDevices=2)])
    running = [place(broker, team_pod(f"r{number}"), "n") for number in range(2)]
    for number in range(5):
        assert asked(broker, team_pod(f"w{number}", created=10.0 - number))[1] == {LIMIT}
    effects = broker.observe([PodDeleted(running[0].uid)], NOW)
    assert woken([*effects, *drained(broker)]) == ["w4"]
    # It is gone before it is tried: the next one gets its turn.
    effects = broker.observe([PodDeleted("uid-w4")], NOW)
    assert woken([*effects, *drained(broker)]) == ["w3"]


def test_a_pod_that_was_woken_for_the_limit_and_fits_nowhere_leaves_it_to_the_next() -> None:
    broker = with_policies(FakeNode("n", count=4), policies=[access_policy("p", maxDevices=4)])
    running = place(broker, team_pod("running"), "n")
    place(broker, team_pod("other", 1, namespace="other"), "n")
    assert asked(broker, team_pod("big", 4, created=1.0))[1] == {LIMIT}
    place(broker, team_pod("more", 2), "n")
    assert asked(broker, team_pod("small", 2, created=2.0))[1] == {LIMIT}
    effects = broker.observe([PodDeleted(running.uid), PodDeleted("uid-more")], NOW)
    assert woken([*effects, *drained(broker)]) == ["big"]
    assert broker.filter(team_pod("big", 4, created=1.0), ("n",), NOW).nodes == []  # another namespace has a device
    assert "small" in woken(drained(broker))


def test_pods_wait_for_no_limit_that_is_far_away() -> None:
    broker = with_policies(FakeNode("n", count=2), policies=[access_policy("p", maxDevices=50)])
    place(broker, team_pod("a"), "n")
    broker.observe([team_pod("b", 2)], NOW)
    answer = broker.filter(team_pod("b", 2), ("n",), NOW)
    assert answer.failed == {"n": "node(s) had too few free devices"}


def test_a_raised_limit_wakes_as_many_pods_as_it_permits() -> None:
    broker = with_policies(BIG, policies=[access_policy("p", maxDevices=1)])
    place(broker, team_pod("running"), "n")
    for number in range(5):
        assert asked(broker, team_pod(f"w{number}", created=number))[1] == {LIMIT}
    assert woken(broker.observe([access_policy("p", maxDevices=3)], NOW)) == ["w0", "w1"]
    assert woken(broker.observe([deleted_policy("p")], NOW)) == ["w2", "w3", "w4"]


# changes while pods wait


@pytest.mark.rule("002.access")
def test_pods_that_wait_are_woken_when_a_policy_permits_them() -> None:
    broker = with_policies(BIG, policies=[access_policy("p", resources=[])])
    assert asked(broker, team_pod("a"))[0] == []
    assert asked(broker, team_pod("b", namespace="other"))[0] == ["n"]
    effects = broker.observe([access_policy("p", resources=["nvidia.com/gpu"])], NOW)
    assert woken(effects) == ["a"]
    assert asked(broker, team_pod("a"))[0] == ["n"]


@pytest.mark.parametrize("after", [access_policy("p", maxDevices=3), deleted_policy("p")])
def test_a_raised_or_deleted_limit_wakes_those_that_it_kept_waiting(after: ClusterObject) -> None:
    broker = with_policies(BIG, policies=[access_policy("p", maxDevices=1)])
    place(broker, team_pod("running"), "n")
    assert asked(broker, team_pod("a", 2))[0] == []
    broker.observe([access_policy("p", maxDevices=2)], NOW)  # not enough for it
    assert asked(broker, team_pod("a", 2))[1] == {LIMIT}
    assert woken(broker.observe([after], NOW)) == ["a"]
    assert asked(broker, team_pod("a", 2))[0] == ["n"]


@pytest.mark.rule("002.access")
def test_a_policy_that_comes_between_filter_and_bind_stops_the_bind() -> None:
    broker = with_policies(BIG, policies=[])
    assert asked(broker, team_pod("a"))[0] == ["n"]
    broker.observe([access_policy("p", resources=[])], NOW)
    answer = broker.bind("uid-a", "n", NOW)
    assert answer.error == "nvidia.com/gpu requested, but AcceleratorPolicy p permits namespace team no accelerators"
    assert not list(broker.entries())
    assert woken(broker.observe([deleted_policy("p")], NOW)) == ["a"]


def test_running_pods_stay_and_count_when_a_limit_falls_below_them() -> None:
    broker = with_policies(BIG, policies=[])
    place(broker, team_pod("a", 4), "n")
    broker.observe([access_policy("p", maxDevices=2)], NOW)
    assert asked(broker, team_pod("b")) == ([], {LIMIT})
    assert [entry.pod for entry in broker.entries()] == ["uid-a"]


@pytest.mark.rule("002.access")
def test_a_label_of_a_namespace_decides_and_its_change_wakes_pods() -> None:
    policy = access_policy("p", {"namespaceSelector": {"matchLabels": {"tier": "trial"}}}, resources=[])
    broker = with_policies(BIG, policies=[policy, labelled("team", tier="trial")])
    assert asked(broker, team_pod("a"))[0] == []
    assert woken(broker.observe([labelled("team", tier="paid")], NOW)) == ["a"]
    assert asked(broker, team_pod("a"))[0] == ["n"]
    broker.observe([labelled("team", tier="trial")], NOW)
    assert asked(broker, team_pod("b"))[0] == []


# gangs


def tried(broker: Broker, pods: list[PodView], now: float = NOW) -> dict[str, list[str]]:
    return {pod.name: broker.filter(pod, ("n", "m"), now).nodes for pod in pods}


@pytest.mark.rule("002.access")
def test_a_gang_that_would_exceed_its_limit_is_refused_as_a_whole() -> None:
    broker = with_policies(BIG, FakeNode("m", count=8), policies=[access_policy("p", maxDevices=6)])
    running = place(broker, team_pod("running"), "n")
    gang = in_gang(*(team_pod(f"g{number}", 2) for number in range(3)), least=3)
    broker.observe(gang, NOW)
    assert tried(broker, gang) == {"g0": [], "g1": [], "g2": []}
    assert [entry.pod for entry in broker.entries()] == [running.uid]
    assert broker.filter(gang[0], ("n",), NOW).unresolvable == {"n": LIMIT}
    effects = [*broker.observe([PodDeleted(running.uid)], NOW), *drained(broker)]
    assert woken_set(effects) == {"g0", "g1", "g2"}
    assert all(tried(broker, gang).values())


def test_of_an_elastic_gang_only_as_many_members_start_as_the_limit_permits() -> None:
    broker = with_policies(BIG, policies=[access_policy("p", maxDevices=4)])
    gang = in_gang(*(team_pod(f"g{number}", 2) for number in range(3)), least=2)
    broker.observe(gang, NOW)
    assert {name for name, nodes in tried(broker, gang).items() if nodes} == {"g0", "g1"}


@pytest.mark.rule("002.access")
def test_a_gang_goes_to_nodes_of_permitted_models_only() -> None:
    nodes = [FakeNode("n", count=8, model="H100"), FakeNode("m", count=4, model="T4")]
    broker = with_policies(*nodes, policies=[access_policy("p", models=["T4"])])
    gang = in_gang(*(team_pod(f"g{number}", 2) for number in range(2)), least=2)
    broker.observe(gang, NOW)
    assert tried(broker, gang) == {"g0": ["m"], "g1": ["m"]}
    large = in_gang(*(team_pod(f"x{number}", 4) for number in range(2)), least=2, name="x")
    broker.observe(large, NOW)
    assert not any(tried(broker, large).values())


@pytest.mark.rule("002.access")
def test_a_planned_gang_that_is_not_permitted_any_more_holds_nothing_and_comes_back_when_it_is() -> None:
    broker = with_policies(BIG, policies=[])
    gang = in_gang(*(team_pod(f"g{number}", 2) for number in range(2)), least=2)
    broker.observe(gang, NOW)
    assert all(tried(broker, gang).values())
    broker.observe([access_policy("p", maxDevices=3)], NOW)
    drained(broker)
    assert not list(broker.entries())
    assert broker.bind("uid-g0", "n", NOW).error
    assert not any(tried(broker, gang).values())
    effects = [*broker.observe([deleted_policy("p")], NOW), *drained(broker)]
    assert woken_set(effects) == {"g0", "g1"}
    assert all(tried(broker, gang).values())


@pytest.mark.rule("002.access")
def test_a_plan_on_devices_of_a_model_that_is_not_permitted_any_more_is_made_elsewhere() -> None:
    broker = with_policies(FakeNode("n", count=4, model="H100"), FakeNode("m", count=8, model="T4"), policies=[])
    gang = in_gang(*(team_pod(f"g{number}", 2) for number in range(2)), least=2)
    broker.observe(gang, NOW)
    assert tried(broker, gang) == {"g0": ["n"], "g1": ["n"]}
    broker.observe([access_policy("p", models=["T4"])], NOW)
    drained(broker)
    assert {entry.node for entry in broker.entries()} == {"m"}
    assert tried(broker, gang) == {"g0": ["m"], "g1": ["m"]}


# sharing


def neighbours(broker: Broker, pods: list[PodView]) -> list[set[str]]:
    """The pods that share a device, placed one after the other."""
    homes: dict[str, set[str]] = {}
    for pod in pods:
        nodes, _ = asked(broker, pod)
        if nodes:
            broker.observe([pod], NOW)
            (bound,) = binds(broker.bind(pod.uid, "n", NOW).effects)
            broker.outcome(bound, "written", NOW)
            broker.observe([seen_bound(pod, bound)], NOW)
            homes.setdefault(bound.grant.offer.devices[0] if bound.grant else "", set()).add(pod.name)
    return list(homes.values())


FOUR = [
    team_pod("a", 2, MEMORY, user="ann"),
    team_pod("b", 2, MEMORY, user="bob"),
    team_pod("c", 2, MEMORY, user="ann", namespace="other"),
    team_pod("d", 2, MEMORY, user="ann"),
]


@pytest.mark.rule("002.segregate")
@pytest.mark.parametrize(
    ("within", "expected"),
    [
        ("namespace", [{"a", "b", "d"}, {"c"}]),
        ("user", [{"a", "c", "d"}, {"b"}]),
        ("namespace-and-user", [{"a", "d"}, {"b"}, {"c"}]),
        ("never", [{"a"}, {"b"}, {"c"}, {"d"}]),
        ("any", [{"a", "b", "c", "d"}]),
    ],
)
@pytest.mark.parametrize("default", ["namespace", "any"])
def test_pods_share_a_device_as_their_policy_says(within: str, default: str, expected: list[set[str]]) -> None:
    settings = PlacingSettings(share=ShareSettings(within="any" if default == "any" else "namespace"))
    node = FakeNode("n", "share", 4, 16)
    broker = with_policies(node, policies=[access_policy("p", EVERYBODY, sharing={"with": within})], settings=settings)
    assert neighbours(broker, FOUR) == expected


@pytest.mark.rule("002.segregate")
def test_a_pod_of_which_no_user_is_known_shares_with_none_where_users_decide() -> None:
    policy = access_policy("p", EVERYBODY, sharing={"with": "user"})
    broker = with_policies(FakeNode("n", "share", 4, 16), policies=[policy])
    pods = [team_pod("a", 2, MEMORY), team_pod("b", 2, MEMORY), team_pod("c", 2, MEMORY, user="ann")]
    assert neighbours(broker, pods) == [{"a"}, {"b"}, {"c"}]


@pytest.mark.rule("002.segregate")
def test_without_a_policy_the_setting_decides() -> None:
    assert neighbours(broker_of(FakeNode("n", "share", 4, 16)), FOUR) == [{"a", "b", "d"}, {"c"}]
    settings = PlacingSettings(share=ShareSettings(within="any"))
    assert neighbours(broker_of(FakeNode("n", "share", 4, 16), settings=settings), FOUR) == [{"a", "b", "c", "d"}]


@pytest.mark.rule("002.segregate")
def test_sharing_rules_that_change_hold_for_pods_that_run_already() -> None:
    broker = with_policies(FakeNode("n", "share", 1, 16), policies=[])
    place(broker, team_pod("a", 2, MEMORY), "n")
    stranger = team_pod("b", 2, MEMORY, namespace="other")
    broker.observe([stranger], NOW)
    assert broker.filter(stranger, ("n",), NOW).failed
    effects = broker.observe([access_policy("p", EVERYBODY, sharing={"with": "any"})], NOW)
    assert woken(effects)[:1] == ["b"]
    assert asked(broker, stranger)[0] == ["n"]
    broker.observe([access_policy("p", EVERYBODY, sharing={"with": "never"})], NOW)
    answer = broker.bind("uid-b", "n", NOW)
    assert "the pod may not share a device" in answer.error


@pytest.mark.rule("002.segregate")
def test_after_a_restart_domains_are_derived_from_the_pods_again() -> None:
    policy = access_policy("p", EVERYBODY, sharing={"with": "user"})
    node = FakeNode("n", "share", 1, 16)
    broker = with_policies(node, policies=[policy])
    running = place(broker, team_pod("a", 2, MEMORY, user="ann"), "n")
    again = Broker()
    again.see([policy, *node.events(), running])
    again.step(NOW)
    assert asked(again, team_pod("b", 2, MEMORY, user="ann", namespace="other"))[0] == ["n"]
    again.observe([team_pod("c", 2, MEMORY, user="bob")], NOW)
    refused = again.filter(team_pod("c", 2, MEMORY, user="bob"), ("n",), NOW)
    assert refused.failed == {"n": "node(s) had free memory only on devices that the pod may not share"}


def test_limits_hold_after_a_restart_whatever_is_listed_first() -> None:
    node, policy = FakeNode("n", count=8), access_policy("p", maxDevices=2)
    running = place(broker_of(node), team_pod("a", 2), "n")
    for order in ([policy, *node.events(), running], [running, *node.events(), policy]):
        broker = Broker()
        broker.see(order)
        broker.step(NOW)
        assert asked(broker, team_pod("b")) == ([], {LIMIT})


# admission


@pytest.mark.rule("002.access")
def test_admission_refuses_what_its_user_or_group_may_not_request() -> None:
    policies = [
        access_policy("interns", {"groups": ["interns"]}, resources=["nvidia.com/gpu"], maxDevices=1),
        access_policy("eve", {"users": ["eve"]}, resources=[]),
    ]
    broker = with_policies(BIG, policies=policies)
    eve = broker.admit(team_pod("a"), Requester("eve"))
    assert eve.refusal == "nvidia.com/gpu requested, but AcceleratorPolicy eve permits user eve no accelerators"
    intern = Requester("ian", ("interns", "system:authenticated"))
    assert broker.admit(team_pod("a"), intern).refusal == ""
    assert broker.admit(team_pod("a", 2), intern).refusal == (
        "2 devices requested, but AcceleratorPolicy interns permits group interns at most 1 at one time"
    )
    assert broker.admit(team_pod("a", 8), Requester("ann")).refusal == ""


def test_admission_lets_a_pod_wait_for_a_limit_that_others_have_used_up() -> None:
    broker = with_policies(BIG, policies=[access_policy("p", maxDevices=1)])
    place(broker, team_pod("a"), "n")
    assert broker.admit(team_pod("b"), Requester("ann")).refusal == ""


def test_admission_says_who_created_a_pod_whatever_its_manifest_claims() -> None:
    broker = with_policies(BIG, policies=[access_policy("p", {"groups": ["ops"]}, maxDevices=8)])
    added = broker.additions(team_pod("a", user="root"), Requester("ann", ("dev", "ops")))
    assert added.creator == {"linkwise.dev/user": "ann", "linkwise.dev/groups": "ops"}


@pytest.mark.rule("002.access")
def test_the_default_share_is_added_to_requests_for_compute_alone() -> None:
    policy = access_policy("p", sharing={"defaultShare": "25%", "maxShare": "50%"})
    broker = with_policies(FakeNode("n", "percent"), policies=[policy])
    ann, lacking, explicit = (
        Requester("ann"),
        team_pod("a", 40, "koordinator.sh/gpu-core"),
        team_pod("b", 40, KOORDINATOR),
    )
    assert broker.admit(lacking, ann).refusal == broker.admit(explicit, ann).refusal == ""
    assert broker.additions(lacking, ann).resources == {"main": {"koordinator.sh/gpu-memory-ratio": "25"}}
    assert broker.additions(explicit, ann).resources == {}
    other = broker.admit(team_pod("c", 40, "koordinator.sh/gpu-core", namespace="other"), ann)
    assert "compute without memory" in other.refusal


# reports


def statuses(broker: Broker, now: float = NOW) -> dict[str, PolicyStatus]:
    return {effect.name: effect for effect in broker.policy_statuses(now)}


def test_the_status_counts_pods_devices_and_refusals() -> None:
    broker = with_policies(BIG, policies=[access_policy("p", maxDevices=4), labelled("team")])
    place(broker, team_pod("a", 3), "n")
    for _ in range(3):
        asked(broker, team_pod("b", 2))  # the same pod, again and again
    broker.admit(team_pod("c", 5), Requester("ann"))
    status = statuses(broker)["p"].status
    assert {key: status[key] for key in ("observedGeneration", "pods", "devices", "refusals")} == {
        "observedGeneration": 1,
        "pods": 1,
        "devices": 3,
        "refusals": 2,
    }


def test_a_limit_that_pods_of_another_scheduler_exceed_is_a_condition() -> None:
    broker = with_policies(BIG, policies=[access_policy("p", maxDevices=2), labelled("team")])
    past = replace(
        team_pod("past", 3), labels={"linkwise.dev/webhook": "ignore"}, scheduler="default-scheduler", node="n"
    )
    broker.observe([past], NOW)
    conditions = {each["type"]: each for each in statuses(broker)["p"].status["conditions"]}  # type: ignore[attr-defined]
    assert (conditions["Exceeded"]["status"], conditions["Exceeded"]["reason"]) == ("True", "LimitExceeded")
    assert "devices: team (3)." in conditions["Exceeded"]["message"]


def test_a_status_that_the_object_has_is_not_written_again_and_keeps_its_times() -> None:
    policy = access_policy("p", maxDevices=4)
    broker = with_policies(BIG, policies=[policy, labelled("team")])
    written = statuses(broker)["p"].status
    document = {**policy.document, "status": written}  # type: ignore[dict-item]  # a document
    broker.observe([replace(policy, document=document)], NOW)
    assert statuses(broker, NOW + 60) == {}
    broker.observe([access_policy("q", maxDevices=2), access_policy("p", maxDevices=4)], NOW)
    broker.observe([replace(policy, document=document)], NOW)
    later = statuses(broker, NOW + 60)["p"].status["conditions"]
    times = {each["type"]: (each["status"], each["lastTransitionTime"]) for each in later}  # type: ignore[attr-defined]
    assert times["Conflicting"] == ("True", "1970-01-01T00:02:40Z")
    assert times["Effective"] == ("True", "1970-01-01T00:01:40Z")


def test_without_policies_nothing_is_counted_and_nothing_is_reported() -> None:
    broker = with_policies(BIG, policies=[])
    place(broker, team_pod("a"), "n")
    assert broker.policy_statuses(NOW) == ()
    assert broker.policy_reports() == ()


def test_an_explanation_names_the_policy_and_what_it_permits() -> None:
    broker = with_policies(BIG, policies=[access_policy("p", maxDevices=2)])
    place(broker, team_pod("a"), "n")
    asked(broker, team_pod("b", 2))
    found = explain_pod(broker, "uid-b", NOW)
    assert found is not None
    assert explanation_lines(found)[0] == (
        "pod team/b is not permitted: 2 devices requested, but AcceleratorPolicy p permits namespace team at most 2 at one "
        "time, and 1 is in use"
    )


def test_an_explanation_names_the_nodes_that_a_policy_leaves_out() -> None:
    broker = with_policies(FakeNode("n", model="H100"), policies=[access_policy("p", models=["T4"])])
    asked(broker, team_pod("a"))
    found = explain_pod(broker, "uid-a", NOW)
    assert found is not None
    assert [(each.rule, each.kind, each.final) for each in found.against] == [("002.access", "model", True)]
    assert "AcceleratorPolicy p permits namespace team only T4" in found.against[0].sentence


def test_a_dry_run_says_what_is_not_permitted() -> None:
    broker = with_policies(BIG, policies=[access_policy("p", resources=[])])
    dry = broker.dry_run(team_pod("a"), NOW)
    assert (dry.offer, {reason.rule for reason in dry.refused.values()}) == (None, {"002.access"})


def test_an_explanation_of_a_gang_names_the_limit_that_it_would_exceed() -> None:
    broker = with_policies(BIG, policies=[access_policy("p", maxDevices=4)])
    place(broker, team_pod("running"), "n")
    gang = in_gang(*(team_pod(f"g{number}", 2) for number in range(2)), least=2)
    broker.observe(gang, NOW)
    assert not any(tried(broker, gang).values())
    group = explain_group(broker, broker.group_of("uid-g0"), NOW)
    assert group is not None
    sentence = (
        "the members of the pod's group that must start together request 4 devices, but AcceleratorPolicy p permits namespace "
        "team at most 4 at one time, and 1 is in use"
    )
    assert sentence in " ".join(explanation_lines(group))
    member = explain_pod(broker, "uid-g0", NOW)
    assert member is not None
    assert sentence in " ".join(explanation_lines(member))


@pytest.mark.rule("002.access")
def test_no_pod_is_evicted_for_one_that_is_not_permitted() -> None:
    broker = with_policies(FakeNode("n", count=2), policies=[access_policy("p", resources=[])])
    victim = place(broker, team_pod("victim", 2, namespace="other"), "n")
    urgent = replace(team_pod("urgent", 2), priority=100)
    broker.observe([urgent], NOW)
    assert broker.preempt(urgent, {"n": [victim.uid]}, NOW) == {}
    broker.observe([deleted_policy("p")], NOW)
    assert broker.preempt(urgent, {"n": [victim.uid]}, NOW) == {"n": [victim.uid]}


@pytest.mark.rule("002.access")
@pytest.mark.parametrize(("limit", "reservations"), [(2, 0), (8, 1)])
def test_no_node_is_drained_for_a_pod_that_waits_for_a_limit(limit: int, reservations: int) -> None:
    settings = PlacingSettings(reservation=ReservationSettings(after=10.0))
    broker = with_policies(FakeNode("n", count=4), policies=[access_policy("p", maxDevices=limit)], settings=settings)
    place(broker, team_pod("running", 2), "n")
    place(broker, team_pod("other", 1, namespace="other"), "n")
    starved = replace(team_pod("starved", 2), unschedulable_since=NOW - 60)
    broker.observe([starved], NOW)
    broker.filter(starved, ("n",), NOW)
    broker.step(NOW + 60)
    assert broker.counts().reservations == reservations


# snapshots


@pytest.mark.rule("002.access")
def test_a_restored_broker_judges_and_wakes_as_the_one_it_was_taken_of() -> None:
    policies = [
        access_policy("p", maxDevices=2),
        labelled("team"),
        access_policy("s", EVERYBODY, sharing={"with": "any"}),
    ]
    broker = with_policies(BIG, policies=policies)
    running = place(broker, team_pod("a", 2), "n")
    assert asked(broker, team_pod("b"))[1] == {LIMIT}
    again = Broker.restore(broker.snapshot(NOW))
    assert again.snapshot(NOW) == broker.snapshot(NOW)
    for each in (broker, again):
        assert asked(each, team_pod("c"))[1] == {LIMIT}
        effects = each.observe([PodDeleted(running.uid)], NOW)
        assert woken([*effects, *drained(each)]) == ["b", "c"]


@pytest.mark.rule("002.segregate")
def test_a_snapshot_keeps_the_domain_of_a_pod_that_is_not_observed_yet() -> None:
    policy = access_policy("p", EVERYBODY, sharing={"with": "user"})
    broker = with_policies(FakeNode("n", "share", 1, 16), policies=[policy])
    early = team_pod("early", 2, MEMORY, user="ann")
    assert broker.filter(early, ("n",), NOW).nodes == ["n"]
    again = Broker.restore(broker.snapshot(NOW))
    assert again.snapshot(NOW) == broker.snapshot(NOW)
    assert asked(again, team_pod("a", 2, MEMORY, user="ann", namespace="other"))[0] == ["n"]
    again.observe([team_pod("b", 2, MEMORY)], NOW)
    assert again.filter(team_pod("b", 2, MEMORY), ("n",), NOW).nodes == []


def test_resources_of_other_vendors_do_not_count_against_a_limit_of_another_policy() -> None:
    policies = [access_policy("p", {"serviceAccounts": [{"namespace": "team", "name": "x"}]}, maxDevices=1)]
    broker = with_policies(BIG, policies=policies)
    place(broker, team_pod("a", 4, NVIDIA), "n")
    assert asked(broker, team_pod("b", account="x"))[0] == ["n"]


@pytest.mark.rule("002.access")
def test_only_devices_of_permitted_models_are_given_on_a_node_with_several() -> None:
    node = FakeNode("n", models=("H100", "NVIDIA T4", "H100", "NVIDIA T4"), count=4)
    broker = with_policies(node, policies=[access_policy("p", models=["T4"])])
    pod = team_pod("p", 2)
    broker.observe([pod], 0.0)
    (bound,) = binds(broker.bind(pod.uid, "n", 0.0).effects)
    assert bound.grant
    assert set(bound.grant.offer.devices) == set(node.devices(1, 3))
    more = broker.filter(team_pod("q", 3), ["n"], 0.0)
    assert list(more.unresolvable.values()) == [
        "node(s) had devices of a model that an AcceleratorPolicy doesn't permit"
    ]


@pytest.mark.rule("002.access")
def test_permitted_models_and_the_pods_own_requirement_must_both_hold() -> None:
    nodes = [FakeNode(name, model=name) for name in ("A100", "T4", "V100")]
    broker = with_policies(*nodes, policies=[access_policy("p", models=["T4", "V100"])])
    pod = replace(team_pod("p"), annotations={"linkwise.dev/require": "model in (A100, V100)"})
    assert broker.filter(pod, ["A100", "T4", "V100"], 0.0).nodes == ["V100"]
