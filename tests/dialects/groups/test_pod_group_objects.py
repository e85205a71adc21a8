"""PodGroup objects: what they add to groups whose pods say nothing of it."""

from __future__ import annotations

from typing import Any

import pytest

from linkwise.dialects.groups.membership import group_of
from linkwise.dialects.groups.pod_group_objects import KINDS, PodGroup, gang_name, pod_group_of, with_pod_group
from linkwise.model.ask import Group, NetworkWish
from linkwise.model.views import PodView

GANG = "gang.scheduling.koordinator.sh/"
RACK = "topology.example.com/rack"


def read(source: str, spec: object, **annotations: str) -> PodGroup:
    document = {
        "metadata": {"annotations": {f"{GANG}{key.replace('_', '-')}": text for key, text in annotations.items()}}
    }
    found, problems = pod_group_of(KINDS[source], "team/g", {**document, "spec": spec})
    assert found is not None
    assert problems == ()
    return found


@pytest.mark.parametrize(
    ("source", "spec"),
    [
        ("kubernetes", {"schedulingPolicy": {"gang": {"minCount": 4}}}),
        ("koordinator", {"minMember": 4}),
        ("scheduler-plugins", {"minMember": 4}),
        ("volcano", {"minMember": 4}),
        ("kai", {"minMember": 4}),
    ],
)
def test_every_systems_object_says_how_many_must_start_together(source: str, spec: object) -> None:
    assert read(source, spec) == PodGroup(minimum=4)


@pytest.mark.parametrize(
    ("source", "spec"),
    [("kubernetes", {"schedulingPolicy": {"basic": {}}}), ("volcano", {"minMember": 0}), ("scheduler-plugins", {})],
)
def test_an_object_without_a_minimum_makes_no_gang(source: str, spec: object) -> None:
    assert read(source, spec).minimum is None


def test_a_topology_key_of_a_native_group_is_required() -> None:
    spec = {"schedulingConstraints": {"topology": [{"key": RACK}]}}
    assert read("kubernetes", spec).network == (NetworkWish(RACK, required=True),)


@pytest.mark.parametrize(
    ("constraint", "wishes"),
    [
        ({"mode": "hard", "highestTierAllowed": 2}, (NetworkWish("volcano.sh/tier-2", required=True),)),
        ({"highestTierAllowed": 1}, (NetworkWish("volcano.sh/tier-1", required=True),)),
        ({"mode": "soft", "highestTierAllowed": 1}, (NetworkWish("volcano.sh/tier-1"),)),
        ({"mode": "hard", "highestTierName": "spine"}, (NetworkWish("volcano.sh/tier-spine", required=True),)),
        ({"mode": "soft"}, ()),
    ],
)
def test_volcanos_network_topology_names_a_tier(constraint: object, wishes: tuple[NetworkWish, ...]) -> None:
    assert read("volcano", {"networkTopology": constraint}).network == wishes


def test_kais_constraint_names_levels_by_their_labels() -> None:
    constraint = {"topology": "default", "requiredTopologyLevel": "zone", "preferredTopologyLevel": "rack"}
    wishes = (NetworkWish("zone", required=True), NetworkWish("rack"))
    assert read("kai", {"topologyConstraint": constraint}).network == wishes


def test_koordinators_object_may_have_gang_words() -> None:
    found = read(
        "koordinator",
        {"minMember": 2},
        total_number="3",
        waiting_time="90s",
        mode="NonStrict",
        groups='["team/g","team/h"]',
        match_policy="only-waiting",
    )
    assert found == PodGroup(2, 3, 90.0, "only-waiting", strict=False, bundle=("team/g", "team/h"))


@pytest.mark.parametrize(
    ("kind", "document", "message"),
    [
        ("volcano", {"spec": {"minMember": "four"}}, "spec.minMember is 'four'"),
        ("volcano", {"spec": {"networkTopology": {"mode": "firm"}}}, "spec.networkTopology.mode is 'firm'"),
        ("kubernetes", {"spec": {"schedulingPolicy": {"gang": 3}}}, "spec.schedulingPolicy.gang is 3"),
        ("kai", {}, "spec is null"),
    ],
)
def test_an_object_that_makes_no_sense_adds_nothing(kind: str, document: dict[str, Any], message: str) -> None:
    found, problems = pod_group_of(KINDS[kind], "team/g", document)
    assert found is None
    assert problems[0].where == "PodGroup team/g"
    assert problems[0].sentence.startswith(message)


def test_a_bad_gang_word_on_an_object_is_reported_as_the_objects() -> None:
    document = {"metadata": {"annotations": {f"{GANG}mode": "Lax"}}, "spec": {"minMember": 2}}
    found, problems = pod_group_of(KINDS["koordinator"], "team/g", document)
    assert found == PodGroup(2)
    assert (problems[0].where, problems[0].key) == ("PodGroup team/g", f"{GANG}mode")


def test_what_the_pod_says_itself_counts_before_the_object() -> None:
    message = Group("team/g", "koordinator", 8, 6, waiting_time=30.0, network=(NetworkWish("a"),), bundle=("team/x",))
    found = PodGroup(2, 3, 90.0, bundle=("team/y",), network=(NetworkWish("b"),))
    assert with_pod_group(message, found) == message


def test_where_the_pod_says_nothing_the_object_does() -> None:
    message = Group("team/g", "scheduler-plugins", waiting_time=60.0)
    full = with_pod_group(message, PodGroup(2, 1, 90.0, bundle=("team/y",), network=(NetworkWish("b"),)))
    assert (full.minimum, full.total, full.waiting_time) == (2, 2, 90.0)
    assert (full.bundle, full.network) == (("team/y",), (NetworkWish("b"),))


def test_a_group_by_labels_of_the_seed_is_a_gang_only_to_objects_that_it_names() -> None:
    labels = {"gputopology.scheduling.koordinator.sh/name": "g", "gputopology.scheduling.koordinator.sh/replica": "2"}
    alone = PodView("team", "p", "u", labels=labels)
    named = PodView("team", "p", "u", labels={**labels, "pod-group.scheduling.sigs.k8s.io": "g"})
    names = [gang_name(pod, group) for pod in (alone, named) if (group := group_of(pod)[0])]
    assert names == ["", "team/g"]
