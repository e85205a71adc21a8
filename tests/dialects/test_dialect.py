from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from linkwise import (
    Ask,
    ContainerAsk,
    ContainerView,
    Grant,
    Link,
    NodeView,
    Offer,
    Part,
    PodView,
    Topology,
)
from linkwise.dialects.dialect import Writing
from linkwise.dialects.nvidia import (
    FACTS,
    OLD_RESOURCE,
    RESOURCE,
    TOPOLOGY,
    Nvidia,
    matrix_annotation,
    opaque,
    read_matrix,
)
from linkwise.model.link import SELF, Pcie
from linkwise.model.topology import numbered
from linkwise.model.verdict import Problem
from linkwise.topology.link_values import pair_score

if TYPE_CHECKING:
    from pathlib import Path

    from linkwise.model.inventory import NodeFacts

DIALECT = Nvidia()
KINDS = ["SYS", "NODE", "PHB", "PXB", "PIX", "BOARD", "NV1", "NV2", "NV18+NODE", "NV2+PHB", "?", "HCCS", "XGMI"]


def pod(*containers: ContainerView) -> PodView:
    return PodView("team", "p", "uid", containers)


def gpus(name: str, count: str, resource: str = RESOURCE) -> ContainerView:
    return ContainerView(name, limits={resource: count})


def facts(count: str = "", matrix: object = None, allocatable: str = "", **labels: str) -> NodeFacts:
    """Labels are given without their prefix, with `_` for what Python's names can't hold."""
    view = NodeView(
        "n",
        labels={f"nvidia.com/{key.replace('__', '-').replace('_', '.')}": value for key, value in labels.items()},
        annotations={} if matrix is None else {TOPOLOGY: matrix if isinstance(matrix, str) else json.dumps(matrix)},
        capacity={RESOURCE: count} if count else {},
        allocatable={RESOURCE: allocatable} if allocatable else {},
    )
    found = DIALECT.node(view, {})
    assert found is not None
    return found


def links(found: NodeFacts) -> list[list[str]]:
    assert found.topology is not None
    return [[str(link) for link in row] for row in found.topology.links]


def keys(found: NodeFacts) -> list[str]:
    return [problem.key for problem in found.problems]


def machine(kinds: list[list[Link]]) -> Topology:
    rows = tuple(tuple(SELF if i == j else link for j, link in enumerate(row)) for i, row in enumerate(kinds))
    return Topology(numbered(len(kinds)), rows)


def square_of(cells: st.SearchStrategy[Link]) -> st.SearchStrategy[Topology]:
    sizes = st.integers(1, 8)
    return sizes.flatmap(
        lambda size: st.lists(st.lists(cells, min_size=size, max_size=size), min_size=size, max_size=size)
    ).map(machine)


def test_whole_devices_are_asked_by_container() -> None:
    view = pod(gpus("a", "2"), ContainerView("b"), gpus("c", "1"))
    assert DIALECT.ask(view) == Ask(RESOURCE, (ContainerAsk("a", 2), ContainerAsk("c", 1)), "team")


def test_a_pod_that_asks_for_nothing_is_left_alone() -> None:
    assert DIALECT.ask(pod(gpus("a", "0"))) is None


def test_claims_change_nothing_of_what_is_requested() -> None:
    claiming = replace(pod(gpus("a", "1")), claims=("nic",), hosted_by_claims=(RESOURCE,))
    assert DIALECT.ask(claiming) == DIALECT.ask(pod(gpus("a", "1"))) is not None


@pytest.mark.parametrize("text", ["half", "-1", "500m", ""])
def test_a_quantity_that_is_no_count_is_a_problem(text: str) -> None:
    found = DIALECT.ask(pod(gpus("a", text)))
    assert isinstance(found, Problem)
    assert (found.where, found.key) == ("pod team/p", RESOURCE)


def test_amounts_that_belong_to_no_container_are_a_problem() -> None:
    assert isinstance(DIALECT.ask(replace(pod(gpus("a", "1")), overhead={RESOURCE: "1"})), Problem)
    assert isinstance(DIALECT.ask(pod(gpus("a", "1"), gpus("a", "2"))), Problem)


def test_the_name_of_seed_002_is_explained(shared: Path) -> None:
    text = next((shared / "seeds").glob("002_*")).read_text("utf-8")
    assert f"`{OLD_RESOURCE}: 1`" in text
    found = DIALECT.ask(pod(gpus("a", "1", OLD_RESOURCE)))
    assert isinstance(found, Problem)
    assert found.key == OLD_RESOURCE
    assert "refuse this name" in found.sentence
    assert "request nvidia.com/gpu" in found.sentence


def test_the_resource_of_seed_000_is_this_dialects(shared: Path) -> None:
    text = next((shared / "seeds").glob("000_*")).read_text("utf-8")
    assert f"`{RESOURCE}`" in text
    assert DIALECT.owns(RESOURCE)


def test_parts_made_by_the_vendors_plugin_are_left_to_it() -> None:
    view = pod(gpus("a", "1", "nvidia.com/mig-1g.5gb"), gpus("b", "1", "nvidia.com/gpu.shared"))
    assert DIALECT.ask(view) is None
    assert opaque(view) == ("nvidia.com/mig-1g.5gb", "nvidia.com/gpu.shared")
    assert opaque(pod(gpus("a", "1"))) == ()
    assert [DIALECT.owns(name) for name in (RESOURCE, OLD_RESOURCE, *opaque(view))] == [True, True, False, False]


def test_nothing_is_written_on_pods_and_nothing_is_read_from_them() -> None:
    view, grant = pod(gpus("a", "1")), Grant("uid", "p", Offer("n", (Part("a", ("#0",)),)))
    assert DIALECT.write(Writing(view, grant, {}, 1)) == {}
    assert DIALECT.held(view).grant is None


def test_devices_are_counted_and_described_by_labels() -> None:
    found = facts("2", gpu_product="NVIDIA-A100-SXM4-40GB", gpu_memory="40960", gpu_count="2", gpu_clique="c.1")
    assert [(device.id, device.index) for device in found.devices] == [("#0", 0), ("#1", 1)]
    assert {(device.model, device.memory) for device in found.devices} == {("NVIDIA-A100-SXM4-40GB", 40960)}
    assert (found.unit, found.problems) == ("MiB", ())
    assert found.labels == {"model": "NVIDIA-A100-SXM4-40GB", "memory": "40960", "count": "2", "clique": "c.1"}


def test_versions_are_read_whole_in_parts_or_by_their_older_labels() -> None:
    whole = facts(cuda_driver__version_full="550.54.15", cuda_runtime__version_full="12.4")
    parts = facts(cuda_driver__version_major="550", cuda_driver__version_minor="54", cuda_driver__version_revision="15")
    older = facts(cuda_driver_major="455", cuda_driver_minor="06", cuda_driver_rev="", cuda_runtime_major="11")
    assert whole.labels == {"driver": "550.54.15", "cuda": "12.4"}
    assert parts.labels == {"driver": "550.54.15"}
    assert older.labels == {"driver": "455.06", "cuda": "11"}


def test_mig_labels_are_reported() -> None:
    view = NodeView("n", labels={"nvidia.com/mig.strategy": "mixed", "nvidia.com/mig-1g.5gb.count": "7"})
    found = DIALECT.node(view, {})
    assert found is not None
    assert found.labels == {"mig.strategy": "mixed", "mig-1g.5gb.count": "7"}


def test_devices_that_are_not_handed_out_are_counted_but_not_located() -> None:
    found = facts("8", allocatable="6")
    assert found.labels == {"unhealthy": "2"}
    assert all(device.healthy for device in found.devices)
    assert facts("8", allocatable="8").labels == {}
    assert keys(facts("8", allocatable="9")) == keys(facts("8", allocatable="x")) == [RESOURCE]


@pytest.mark.parametrize("count", ["x", "-1", "1025", "1e900"])
def test_a_count_that_can_not_be_is_a_problem(count: str) -> None:
    found = facts(count)
    assert (found.devices, keys(found)) == ((), [RESOURCE])
    assert found.problems[0].where == "node n"


def test_a_node_that_says_nothing_has_no_facts() -> None:
    assert DIALECT.node(NodeView("n", capacity={RESOURCE: "0"}, labels={"zone": "a"}), {}) is None


def test_devices_shared_by_the_vendors_plugin_are_counts_only() -> None:
    found = facts("8", [["X", "NV2"], ["NV2", "X"]], gpu_replicas="4", gpu_count="2", gpu_product="T4-SHARED")
    assert (len(found.devices), found.topology, keys(found)) == (8, None, ["nvidia.com/gpu.replicas"])
    assert "4 ways" in found.problems[0].sentence
    assert (found.labels["model"], found.labels["replicas"]) == ("T4", "4")


def test_mig_slices_under_the_name_of_devices_are_counts_only() -> None:
    found = facts("7", [["X"]], mig_strategy="single", gpu_product="A100-MIG-1g.5gb", gpu_count="7")
    assert (found.topology, keys(found)) == (None, ["nvidia.com/mig.strategy"])


@pytest.mark.parametrize(("strategy", "product"), [("single", "A100-SXM4-40GB"), ("none", "A100-MIG-1g.5gb")])
def test_a_node_without_mig_slices_keeps_its_links(strategy: str, product: str) -> None:
    """The strategy is the same on all nodes of a cluster; the product names the slices where there are some."""
    found = facts("2", [["X", "NV12"], ["NV12", "X"]], mig_strategy=strategy, gpu_product=product, gpu_count="2")
    assert (links(found), keys(found)) == ([["X", "NV12"], ["NV12", "X"]], [])


def test_labels_that_contradict_the_count_or_are_broken_are_problems() -> None:
    assert keys(facts("7", gpu_count="8")) == ["nvidia.com/gpu.count"]
    assert keys(facts("7", gpu_count="8", mig_strategy="mixed")) == []
    assert keys(facts("1", gpu_memory="lots")) == ["nvidia.com/gpu.memory"]


def test_link_kinds_are_read_from_the_annotation() -> None:
    found = facts("2", [["X", "NV2"], ["nv2", "X"]])
    assert links(found) == [["X", "NV2"], ["NV2", "X"]]
    assert found.topology is not None
    assert found.topology.devices == ("#0", "#1")


def test_scores_are_turned_back_into_links() -> None:
    found = facts("3", [[-1, 230, 20], [230, -1, 0], [20, 1860, -1]])
    assert links(found) == [["X", "NV2+PHB", "NODE"], ["NV2+PHB", "X", "?"], ["NODE", "NV18+BOARD", "X"]]
    assert found.problems == ()


def test_every_score_of_a_link_gives_that_link_again() -> None:
    for pcie in list(Pcie)[1:]:
        for nvlinks in range(19):
            link = Link.of(nvlinks, pcie)
            assert links(facts("2", [[-1, pair_score(link)], [10, -1]]))[0][1] == link


def test_links_are_known_where_devices_are_counted_by_another_name() -> None:
    found = facts("", [["X", "NV2"], ["NV2", "X"]])
    assert found.devices == ()
    assert found.topology is not None


def test_a_kind_that_is_not_known_stays_and_is_reported() -> None:
    found = facts("2", [["X", "NVX9"], ["SYS", "X"]])
    assert links(found)[0][1] == "NVX9"
    assert "'NVX9' is not known" in found.problems[0].sentence


@pytest.mark.parametrize(
    ("matrix", "text"),
    [
        ("", "it is not valid JSON"),
        ("[" * 100_000, "it is not valid JSON"),
        ("{}", "it is not a list of rows"),
        ([1, 2], "it is not a list of rows"),
        ([["X", "SYS"]], "has 1 rows for 2 devices"),
        ([["X"], ["X"]], "row 0 has 1 values"),
        ([["X", "X"], ["SYS", "X"]], "row 0 column 1 is X"),
        ([["X", ""], ["SYS", "X"]], "row 0 column 1 holds no link kind"),
        ([["X", "\u0000"], ["SYS", "X"]], "row 0 column 1 holds no link kind"),
        ([["X", "N" * 33], ["SYS", "X"]], "row 0 column 1 holds no link kind"),
        ([["X", "SYS"], [10, "X"]], "all cells must be"),
        ([[-1, 20.5], [20, -1]], "all cells must be"),
        ([[-1, True], [20, -1]], "all cells must be"),
        ([[-1, None], [20, -1]], "all cells must be"),
        ([[-1, 25], [20, -1]], "row 0 column 1 is 25, which no links score"),
        ([[-1, 20], [-1, -1]], "row 1 column 0 is -1"),
        ([[-1, 70], [20, -1]], "is 70"),
        ([[-1, 1900], [20, -1]], "is 1900"),
        ([[-1, 10**50], [20, -1]], "a number of many digits"),
    ],
)
def test_a_broken_matrix_is_a_problem_and_links_are_not_known(matrix: object, text: str) -> None:
    found = facts("2", matrix)
    assert (found.topology, len(found.devices), keys(found)) == (None, 2, [TOPOLOGY])
    assert text in found.problems[0].sentence
    assert "; it is ignored, correct it: run the node agent (`linkwise agent`) or `linkwise topo --annotate node/" in (
        found.problems[0].sentence
    )


@given(square_of(st.sampled_from(KINDS).map(Link)))
def test_a_published_matrix_is_read_back(topology: Topology) -> None:
    assert facts(str(len(topology.devices)), matrix_annotation(topology)).topology == topology


@given(
    square_of(st.builds(lambda text, pcie: Link(text, pcie=pcie), st.sampled_from(["NV2", "?"]), st.sampled_from(Pcie)))
)
def test_a_path_reported_beside_the_link_is_published_too(topology: Topology) -> None:
    found = read_matrix(matrix_annotation(topology))
    assert found is not None
    read = [(link.direct, link.pcie) for row in found.links for link in row]
    assert read == [(link.direct, link.pcie) for row in topology.links for link in row]


def test_a_machine_without_links_publishes_none() -> None:
    found = facts("2", matrix_annotation(Topology(("#0", "#1"))))
    assert (found.topology, found.problems) == (None, ())


def test_the_matrix_of_the_seed_survives_its_annotation(shared: Path) -> None:
    text = next((shared / "seeds").glob("000_*")).read_text("utf-8")
    rows = [line.split()[1:] for line in text.splitlines() if line.startswith("GPU") and " X " in f"{line} "]
    found = facts("8", rows)
    assert links(found) == rows
    assert found.topology is not None
    assert read_matrix(matrix_annotation(found.topology)) == found.topology


@given(st.text(), st.text(), st.dictionaries(st.sampled_from([*FACTS, "nvidia.com/mig.strategy"]), st.text()))
def test_no_text_makes_reading_fail(matrix: str, count: str, labels: dict[str, str]) -> None:
    amounts = {RESOURCE: count}
    DIALECT.node(NodeView("n", labels, {TOPOLOGY: matrix}, amounts, amounts), {})
    DIALECT.ask(replace(pod(gpus("a", count), gpus("a", count)), overhead=amounts))


_CELLS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers())


@given(st.lists(st.lists(_CELLS, max_size=3), max_size=3) | _CELLS)
def test_no_json_makes_reading_fail(matrix: object) -> None:
    DIALECT.node(NodeView("n", annotations={TOPOLOGY: json.dumps(matrix)}), {})
