from __future__ import annotations

import ast
from pathlib import Path

import pytest

import linkwise.topology
from linkwise import Bottleneck, Partition, Reason, best_bottleneck, best_partition, refusal, score_matrix
from linkwise.engine.reasons.catalog import counted_nodes, short_refusal
from linkwise.explain.choice.links import bottleneck_lost, partition_lost
from linkwise.testing.machines import DGX1
from linkwise.topology.device_sets import Question
from linkwise.topology.fabric import fabric_of
from linkwise.topology.machine import machine_of
from linkwise.topology.partition import next_bottleneck, next_partition
from support.builders.seed_machines import M1


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        (best_partition(score_matrix(DGX1), 3, [0, 1]), "3 devices requested, but only 2 are available"),
        (best_partition(score_matrix(DGX1), 2, [5]), "2 devices requested, but only 1 is available"),
        (best_partition(score_matrix(DGX1), 1, []), "1 device requested, but none is available"),
        (best_partition(score_matrix(DGX1), 0), "0 devices requested; request at least 1"),
        (
            best_partition(score_matrix(DGX1), 2, [0, 1], [7]),
            "device 7 is required but not available; available: 0, 1",
        ),
        (
            best_partition(score_matrix(DGX1), 2, [], [6, 7]),
            "devices 6, 7 are required but not available; available: none",
        ),
        (
            best_partition(score_matrix(DGX1), 1, None, [0, 1]),
            "2 devices are required (0, 1), but only 1 is requested",
        ),
    ],
)
def test_a_refusal_says_what_was_asked_and_what_was_found(reason: Reason, sentence: str) -> None:
    assert refusal(reason) == sentence


def test_every_reason_in_the_maths_has_a_sentence() -> None:
    folder = Path(next(iter(linkwise.topology.__path__)))
    made = [
        node
        for file in folder.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Reason"
    ]
    assert made
    for call in made:
        rule = ast.literal_eval(call.args[0])
        kind = next(ast.literal_eval(word.value) for word in call.keywords if word.arg == "kind")
        assert refusal(Reason(rule, asked=1, found=2, kind=kind))


def test_a_partition_that_lost_says_by_how_much() -> None:
    scores = score_matrix(DGX1)
    chosen = best_partition(scores, 2, [0, 1, 2, 3])
    assert isinstance(chosen, Partition)
    other = next_partition(machine_of(scores), Question(0b1111, 0, 2), chosen, "partition")
    assert other is not None
    assert (other.devices, other.total) == ((1, 2), chosen.total)
    assert partition_lost(chosen, other).startswith("its partition has the same total of 460; tie broken")
    forced = best_partition(scores, 2, [0, 1, 2, 3], [0, 1])
    assert isinstance(forced, Partition)
    assert partition_lost(chosen, forced) == "its best partition has a total of 400, 60 less"


def test_a_near_tie_that_lost_says_what_it_would_have_left() -> None:
    winner, loser = (best_bottleneck(M1, 2, None, pair) for pair in ((0, 3), (0, 6)))
    assert isinstance(winner, Bottleneck)
    assert isinstance(loser, Bottleneck)
    assert bottleneck_lost(fabric_of(M1), 255, winner, loser) == (
        "96.4 and 96.25 GB/s are equal (within 5%), but it would leave 0 good sets of 4 instead of 1"
    )


def test_a_slow_set_that_lost_says_how_slow() -> None:
    winner, loser = (best_bottleneck(M1, 2, None, pair) for pair in ((0, 3), (0, 5)))
    assert isinstance(winner, Bottleneck)
    assert isinstance(loser, Bottleneck)
    assert bottleneck_lost(fabric_of(M1), 255, winner, loser) == "its slowest pair has 15.52 GB/s instead of 96.25 GB/s"


def test_there_is_no_runner_up_where_there_is_no_choice() -> None:
    fabric, found = fabric_of(M1), best_bottleneck(M1, 8)
    assert isinstance(found, Bottleneck)
    assert next_bottleneck(fabric, Question(255, 0, 8), found) is None


@pytest.mark.rule("003.predicate")
def test_a_refusal_by_rings_reports_every_ring() -> None:
    one, two = Reason("003.predicate", asked=2, found=(1, 1), kind="one group", noun="ring"), 2
    assert refusal(one) == f"ring 0 has 1 idle, ring 1 has 1 idle; {two} are needed in one ring"
    split = Reason("003.predicate", asked=10, found=(8, 3), kind="even split", noun="ring")
    assert refusal(split).endswith("10 are needed half in each of two rings, at matching positions")
    assert short_refusal(one) == short_refusal(split)


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        (
            Reason("003.count", asked=3, found=(1, 2, 4, 8), noun="ascend-910"),
            "3 devices can't be allocated on ascend-910; request 1, 2, 4 or 8",
        ),
        (
            Reason("003.count", asked=9, found=tuple(range(1, 9)), noun="ascend-910b"),
            "9 devices can't be allocated on ascend-910b; request 1 to 8",
        ),
        (
            Reason("003.one-pod", asked=(4, 2), found=8, kind="one pod"),
            "4 devices requested by 2 pods; a job of up to 8 devices must be one pod",
        ),
        (
            Reason("003.one-pod", asked=4, found=8, kind="full pods", noun="worker"),
            "task worker requests 4 devices per pod; a job of more than 8 devices must request 8 per pod",
        ),
        (
            Reason("004.filter", asked=8138, found=((0, 4069), (3, 4069))),
            "device 0 has 4069 free, device 3 has 4069 free; 8138 is needed on one device",
        ),
        (
            Reason("004.filter", asked=8138, found=((0, 4069),), unit="MiB"),
            "device 0 has 4069 MiB free; 8138 MiB is needed on one device",
        ),
        (
            Reason("004.one-card", asked=113, found=100, unit="%"),
            "113% requested on one device, but the largest has 100%",
        ),
        (
            Reason("004.filter", asked=90, found=((0, 20), (1, 70)), kind="core"),
            "device 0 has 20% free, device 1 has 70% free; 90% of compute is needed on one device",
        ),
        (
            Reason("004.mode", asked="share", found="whole"),
            "the pod requests device memory, but the node allocates whole devices",
        ),
        (Reason("002.whole", asked=2, found=(1, 8)), "2 devices requested, but only 1 of 8 is free"),
        (
            Reason("001.best-effort", asked=40.0, found=15.52),
            "the slowest link of the best free set has 15.52 GB/s, below the floor of 40 GB/s",
        ),
        (
            Reason("002.segregate", asked="team-c", found=("team-a",)),
            "devices with free memory are used by namespace team-a, and namespace team-c can't share them (placing.share.within is namespace)",
        ),
    ],
)
def test_a_policys_refusal_has_its_numbers(reason: Reason, sentence: str) -> None:
    assert refusal(reason) == sentence


@pytest.mark.parametrize(
    ("count", "short", "text"),
    [
        (1, "node(s) had too few free devices", "1 node had too few free devices"),
        (1, "node(s) use a different sharing mode", "1 node uses a different sharing mode"),
        (2, "node(s) use a different sharing mode", "2 nodes use a different sharing mode"),
        (1, "node(s) were not ready", "1 node was not ready"),
        (1, "node(s): the gang is incomplete", "1 node: the gang is incomplete"),
    ],
)
def test_a_count_of_nodes_is_a_sentence_in_the_singular_and_in_the_plural(count: int, short: str, text: str) -> None:
    assert counted_nodes(count, short) == text
