"""Device objects: cards, their matrix and what is in use, as the seed and Koordinator write them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, strategies as st

from linkwise import Offer
from linkwise.dialects.koordinator.dialect import Koordinator
from linkwise.model.ask import Ask
from linkwise.model.node import Node, Use
from linkwise.model.verdict import Part
from linkwise.model.views import ContainerView, NodeView, PodView
from linkwise.policies.bandwidth import Bandwidth
from linkwise.policies.memory_share import MemoryShare
from support.builders.seed_machines import M2

if TYPE_CHECKING:
    from pathlib import Path

    from linkwise.model.inventory import NodeFacts

DIALECT = Koordinator()
GIB = 2**30


def card(minor: object, **fields: object) -> dict[str, object]:
    resources = {
        "koordinator.sh/gpu-core": 100,
        "koordinator.sh/gpu-memory": "16Gi",
        "koordinator.sh/gpu-memory-ratio": 100,
    }
    return {"type": "gpu", "id": f"GPU-{minor}", "minor": minor, "health": True, "resources": resources, **fields}


def matrix(text: object) -> dict[str, list[object]]:
    return {"gpu": [{"name": "bandwidth", "topology": text}]}


def read(devices: object, view: NodeView | None = None, **spec: object) -> NodeFacts:
    facts = DIALECT.node(view or NodeView("n1"), {"Device": {"spec": {"devices": devices, **spec}}})
    assert facts is not None
    return facts


def problem_keys(facts: NodeFacts) -> list[str]:
    assert {problem.where for problem in facts.problems} <= {"node n1"}
    return [problem.key for problem in facts.problems]


@pytest.fixture
def seed(shared: Path) -> dict[str, Any]:
    (text,) = (file.read_text("utf-8") for file in (shared / "seeds").glob("001_*"))
    found = re.search(r"```\n(apiVersion: scheduling\S+\nkind: Device\nmetadata:.*?)```", text, re.DOTALL)
    assert found
    document: dict[str, Any] = yaml.safe_load(found[1])
    return document


@pytest.mark.rule("001.device")
def test_the_seeds_own_object_is_read_with_its_matrix(seed: dict[str, Any]) -> None:
    facts = DIALECT.node(NodeView("host04"), {"Device": seed})
    assert facts is not None
    assert facts.problems == ()
    assert [device.minor for device in facts.devices] == list(range(8))
    assert all(device.healthy and device.memory == 100 for device in facts.devices)
    assert facts.devices[1].id == "GPU-3680858f-1753-371e-3c1a-"
    assert facts.topology is not None
    assert facts.topology.bandwidth == M2
    assert facts.topology.devices == tuple(device.id for device in facts.devices)
    assert (facts.mode, facts.unit) == ("any", "%")
    assert [device.bytes for device in facts.devices] == [16 * GIB] * 8


def test_the_seeds_machine_serves_whole_cards_and_parts(seed: dict[str, Any]) -> None:
    facts = DIALECT.node(NodeView("host04"), {"Device": seed})
    assert facts is not None

    def ask(amount: str, word: str = "gpu") -> Ask:
        found = DIALECT.ask(PodView("a", "p", "u", (ContainerView("main", {f"koordinator.sh/{word}": amount}),)))
        assert isinstance(found, Ask)
        return found

    ids = [device.id for device in facts.devices]
    node = Node("host04", facts.devices, {ids[6]: Use(60, 60)}, facts.topology, mode=facts.mode)
    four, part = (
        Bandwidth().pick(ask("400"), node),
        MemoryShare().pick(ask("40"), Node("n", facts.devices, mode=facts.mode)),
    )
    assert isinstance(four, Offer)
    assert set(four.devices) == set(ids[:4])
    assert isinstance(part, Offer)
    assert part.devices == (ids[0],)
    memory = MemoryShare().pick(ask("6Gi", "gpu-memory"), node)
    assert isinstance(memory, Offer)
    # Beside the device in use: other pods lose least.
    assert memory.parts == (Part("main", (ids[5],), 38),)


@pytest.mark.rule("001.device")
def test_rows_belong_to_cards_in_the_order_of_their_minors() -> None:
    facts = read(
        [card(3), card(1, topology={"nodeID": 0, "busID": "0000:3b:00.0"})], topologies=matrix("[[9,1],[2,9]]")
    )
    assert facts.topology is not None
    assert (facts.topology.devices, facts.topology.bandwidth) == (("GPU-1", "GPU-3"), ((9, 1), (2, 9)))
    assert [(device.index, device.numa, device.bus_id) for device in facts.devices] == [
        (1, 0, "0000:3b:00.0"),
        (3, None, ""),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "[[1,2],[3]]",
        "[[1,NaN],[2,1]]",
        "[[1,-2],[2,1]]",
        "[[1,1e999],[2,1]]",
        "[[1,true],[2,1]]",
        '[[1,"2"],[2,1]]',
        "[[1]]",
        "[[1,2,3],[1,2,3],[1,2,3]]",
        "[]",
        "[1,2]",
        "{}",
        "",
        "[" * 9000,
        "1" * 9000,
        None,
        [[1, 2], [3, 4]],
    ],
)
def test_a_matrix_that_makes_no_sense_is_a_problem_and_the_cards_stay(text: object) -> None:
    facts = read([card(0), card(1)], topologies=matrix(text))
    assert facts.topology is None
    assert len(facts.devices) == 2
    assert problem_keys(facts) == ["Device spec.topologies.gpu[0].topology"]


@pytest.mark.parametrize("diagonal", ["750.5", "-1", '"X"', "null"])
def test_whatever_stands_on_the_diagonal_is_not_read(diagonal: str) -> None:
    facts = read([card(0), card(1)], topologies=matrix(f"[[{diagonal},5],[6,{diagonal}]]"))
    assert facts.topology is not None
    assert facts.problems == ()


def test_two_matrices_are_none() -> None:
    twice = {"gpu": matrix("[[0]]")["gpu"] * 2}
    facts = read([card(0)], topologies=twice)
    assert (facts.topology, problem_keys(facts)) == (None, ["Device spec.topologies.gpu"])
    assert read([card(0)], topologies={"gpu": [{"name": "latency", "topology": "?"}]}).problems == ()


@pytest.mark.parametrize(
    ("fields", "healthy"),
    [
        ({}, True),
        ({"health": False}, False),
        ({"health": None}, False),
        ({"health": "yes"}, False),
        ({"conditions": [{"type": "Healthy", "status": "False"}]}, False),
        ({"health": False, "conditions": [{"type": "Healthy", "status": "True"}]}, True),
        ({"conditions": [{"type": "Warm", "status": "False"}]}, True),
    ],
)
def test_a_card_is_healthy_only_if_it_is_said_to_be(fields: dict[str, object], *, healthy: bool) -> None:
    assert read([card(0, **fields)]).devices[0].healthy == healthy


def test_ids_that_stand_twice_or_are_none_give_way_to_minors() -> None:
    facts = read([card(0, id="GPU-a"), card(1, id="GPU-a"), card(2, id="#0"), card(3, id=""), card(4, id=7)])
    assert [device.id for device in facts.devices] == ["#0", "#1", "#2", "#3", "#4"]
    assert problem_keys(facts) == [f"Device spec.devices[{place}].id" for place in (2, 4, 0, 1)]


def test_a_card_without_a_number_of_its_own_is_left_out() -> None:
    facts = read([card(0), card(0, id="GPU-x"), card("1"), card(None), card(-1), card(0.0), 5, {"minor": 8}])
    assert [device.id for device in facts.devices] == ["GPU-0"]
    assert len(problem_keys(facts)) == 8


def test_network_cards_are_no_devices() -> None:
    assert DIALECT.node(NodeView("n1"), {"Device": {"spec": {"devices": [{"type": "rdma", "minor": 0}]}}}) is None


def test_amounts_under_either_prefix_and_none_that_differ() -> None:
    seed_words = {"kubernetes.io/gpu-memory": "16Gi", "kubernetes.io/gpu-memory-ratio": "100"}
    both = {"kubernetes.io/gpu-memory": "16Gi", "koordinator.sh/gpu-memory": 17}
    facts = read(
        [card(0, resources=seed_words), card(1, resources=both), card(2, resources={"koordinator.sh/gpu-memory": "x"})]
    )
    assert [device.bytes for device in facts.devices] == [16 * GIB, 0, 0]
    assert problem_keys(facts) == [
        "Device spec.devices[1].resources gpu-memory",
        "Device spec.devices[2].resources koordinator.sh/gpu-memory",
    ]
    odd = read([card(0, resources={"koordinator.sh/gpu-memory-ratio": 101})])
    assert (odd.devices[0].memory, len(odd.problems)) == (100, 1)


def test_labels_are_reported_in_plain_words() -> None:
    view = NodeView(
        "n1", {"node.koordinator.sh/gpu-model": "A100", "node.koordinator.sh/gpu-vendor": "nvidia", "x": "y"}
    )
    facts = DIALECT.node(view, {})
    assert facts is not None
    assert (facts.labels, facts.devices, facts.mode) == ({"model": "A100", "vendor": "nvidia"}, (), "any")
    assert read([card(0)], view).devices[0].model == "A100"
    device = {"metadata": {"labels": {"node.koordinator.sh/gpu-model": "H100"}}}
    other = DIALECT.node(view, {"Device": device})
    assert other is not None
    assert (other.labels["model"], problem_keys(other)) == ("H100", ["node.koordinator.sh/gpu-model"])


def test_a_node_that_koordinator_does_not_know_has_no_facts() -> None:
    assert DIALECT.node(NodeView("n1", {"a": "b"}), {}) is None
    assert DIALECT.node(NodeView("n1"), {"Device": {}}) is None


def test_used_devices_are_listed_by_pod() -> None:
    entries = [
        {"name": "p", "namespace": "a", "uuid": "uid-1", "minors": [1, 0]},
        {"name": "q", "namespace": "a", "uuid": "uid-2", "minors": [1, 9, "0", True]},
        {"name": "r", "minors": [1]},
    ]
    status = {"allocations": [{"type": "gpu", "entries": entries}, {"type": "rdma", "entries": "?"}]}
    document = {"spec": {"devices": [card(0), card(1)]}, "status": status}
    facts = DIALECT.node(NodeView("n1"), {"Device": document})
    assert facts is not None
    assert facts.allocations == {"uid-1": ("GPU-1", "GPU-0"), "uid-2": ("GPU-1",)}
    assert problem_keys(facts) == [f"Device status.allocations[0].entries[{n}]" + ".minors" * (n == 1) for n in (1, 2)]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["gpu", "bandwidth", "[[0]]"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(st.data())
def test_no_content_of_the_object_raises(data: st.DataObject) -> None:
    fields = ("type", "id", "minor", "health", "resources", "topology", "conditions", "labels")
    device = {name: data.draw(JSON, name) for name in fields} | {"type": data.draw(st.just("gpu") | JSON)}
    if data.draw(st.booleans()):
        device |= {"minor": data.draw(st.integers(0, 2))}
    topologies = data.draw(JSON | st.builds(matrix, JSON | JSON.map(json.dumps)))
    entry = {"uuid": data.draw(JSON), "minors": data.draw(JSON)}
    allocations = data.draw(JSON | st.just([{"type": "gpu", "entries": [entry]}]))
    spec = data.draw(JSON | st.just({"devices": [device, card(1)], "topologies": topologies}))
    document = {"metadata": data.draw(JSON), "spec": spec, "status": {"allocations": allocations}}
    facts = DIALECT.node(NodeView("n1"), {"Device": document})
    if facts is not None:
        assert len({device.id for device in facts.devices}) == len(facts.devices)
        assert all(problem.key and problem.sentence for problem in facts.problems)
