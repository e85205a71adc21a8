"""Parts of the demo: failed checks, the score card, the manifests and the topology-unaware scheduler."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
import yaml
from rich.console import Console

from linkwise.cli.tour.baseline import TopologyUnawareScheduler, nodes_by_free_memory
from linkwise.cli.tour.page import Check, Page, Score
from linkwise.cli.tour.stage import manifest
from linkwise.cli.tour.stories import STORIES, Story
from linkwise.cli.tour.tour import EXIT_FAILED, Result, print_score_card, run_stories, run_tour
from linkwise.explain.inspect import Holder, InspectedDevice, NodeInspection
from linkwise.model.settings import PlacingSettings

if TYPE_CHECKING:
    from linkwise.cli.tour.stage import Stage

BY_NAME = {story.name: story for story in STORIES}


def silent() -> Console:
    return Console(file=io.StringIO(), width=80)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def node(name: str, pods: dict[int, str], count: int = 4, unhealthy: tuple[int, ...] = ()) -> NodeInspection:
    """A node with this number of devices, some of them used by pods."""
    devices = tuple(
        InspectedDevice(
            f"{name}-{index}",
            index,
            "",
            100,
            index not in unhealthy,
            0,
            0,
            index in pods,
            100,
            (),
            tuple(Holder(pods[used], "default", pods[used], "bound") for used in (index,) if used in pods),
        )
        for index in range(count)
    )
    return NodeInspection(name, "whole", "", "", True, devices, (), 100 * count, 0, count - len(pods))  # noqa: FBT003 - whether our agent enforces it


async def claim_falsely(stage: Stage, page: Page) -> Score:
    page.check((f"{len(stage.names)} nodes are one", False))
    return Score("nodes", "14", "1")


async def wait_in_vain(stage: Stage, page: Page) -> Score:
    await stage.wait_for(lambda: page.failed, "a failed check", seconds=0.01)
    return Score("", "", "")


FALSE = Story("false", "False claim", "a check fails", claim_falsely)
LATE = Story("late", "Late", "the cluster does not get there", wait_in_vain)


def test_a_failed_check_is_marked_and_makes_the_exit_code_non_zero() -> None:
    assert EXIT_FAILED
    console = silent()
    assert run_tour(console, [FALSE], once=True) == EXIT_FAILED
    text = printed(console)
    assert "\n  ✗ 17 nodes are one" in text
    assert "\n  ✗ 1   False claim" in text
    assert "✗ 0 of 1 checks passed on the running cluster. Failed:\n  ✗ 17 nodes are one\n" in text
    assert "✓ 1" not in text


def test_a_story_that_waits_in_vain_fails_a_check_and_the_next_story_runs() -> None:
    late, links = run_stories({LATE: silent(), BY_NAME["links"]: silent()})
    assert late.failed == ["not within 0.01 s: a failed check"]
    assert not late.passed
    assert links.checks
    assert links.passed


def test_a_service_that_ignores_links_fails_the_checks() -> None:
    placing = PlacingSettings(policies={"nvidia.com/gpu": "whole-device"})
    links, failure = run_stories({BY_NAME["links"]: silent(), BY_NAME["failure"]: silent()}, placing)
    assert "no pair on either node has more NVLinks" in links.failed
    assert "no pair on either node has more NVLinks than the pair it got" in failure.failed


@pytest.mark.parametrize("story", [story for story in STORIES if story.name != "gang"], ids=lambda story: story.name)
def test_a_story_can_run_alone(story: Story) -> None:
    (result,) = run_stories({story: silent()})
    assert result.checks
    assert result.passed, result.failed


def test_the_gang_continues_the_story_of_the_training_job() -> None:
    results = run_stories({BY_NAME["bandwidth"]: silent(), BY_NAME["gang"]: silent()})
    assert all(result.checks and result.passed for result in results)


def test_the_score_card_has_a_row_per_story_and_counts_the_checks() -> None:
    console = silent()
    good = Result(BY_NAME["bandwidth"], (Check("a", True), Check("b", True)), Score("slowest link", "48", "15"))  # noqa: FBT003 - passed
    bad = Result(BY_NAME["gang"], (Check("c", True), Check("d is e", False)), Score("GPUs kept idle", "2", "2"))  # noqa: FBT003 - passed
    print_score_card(Page(console), [good, bad])
    rows = [line.split() for line in printed(console).splitlines()]
    assert ["✓", "1", "Bandwidth", "slowest", "link", "48", "15"] in rows
    assert ["✗", "2", "Gang", "GPUs", "kept", "idle", "2", "2"] in rows
    assert printed(console).endswith("✗ 3 of 4 checks passed on the running cluster. Failed:\n  ✗ d is e\n")


def test_a_story_that_was_cut_off_does_not_pass_on_the_score_card() -> None:
    console = silent()
    print_score_card(Page(console), [Result(BY_NAME["rings"], (Check("a", True),))])  # noqa: FBT003 - passed
    assert ["✗", "1", "Ascend", "rings", "-", "-", "-"] in [line.split() for line in printed(console).splitlines()]


def test_marks_are_words_where_the_encoding_has_no_check_mark() -> None:
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Page(Console(file=file, width=80)).check(("one", True), ("two", False))
    file.flush()
    assert isinstance(file.buffer, io.BytesIO)
    lines = file.buffer.getvalue().decode("ascii").splitlines()
    assert [line.split() for line in lines if line.strip()] == [["ok", "one"], ["FAILED", "two"]]


def test_the_strongest_story_comes_first() -> None:
    assert [story.name for story in STORIES][:3] == ["bandwidth", "failure", "gang"]


def test_only_lines_with_a_comment_are_shown_of_a_manifest() -> None:
    page = Page(silent())
    page.manifest_lines(manifest("links.yaml"))
    assert " ".join(printed(page.console).split()) == "nvidia.com/gpu: 2 two GPUs"


@pytest.mark.parametrize("name", [*BY_NAME, "cards-before"])
def test_a_manifest_contains_kubernetes_objects_with_comments(name: str) -> None:
    text = manifest(f"{name}.yaml")
    assert all(document["kind"] in {"Pod", "Job"} for document in yaml.safe_load_all(text))
    assert "  # " in text


def test_the_topology_unaware_scheduler_takes_the_emptiest_node_and_the_lowest_healthy_numbers() -> None:
    scheduler = TopologyUnawareScheduler(
        [node("a", {0: "p"}), node("b", {}, unhealthy=(0,)), node("c", {0: "p", 1: "p"})]
    )
    placements = [scheduler.place(1) for _ in range(3)]
    assert [(each.node, each.devices) for each in placements] == [("b", (1,)), ("a", (1,)), ("b", (2,))]


def test_the_topology_unaware_scheduler_reports_ties_and_leaves_pods_pending_that_do_not_fit() -> None:
    scheduler = TopologyUnawareScheduler([node("b", {}), node("a", {})])
    assert scheduler.place(2).tied == ("a", "b")
    assert not scheduler.place(5).node


def test_the_topology_unaware_scheduler_can_ignore_a_pod() -> None:
    assert TopologyUnawareScheduler([node("a", {0: "p", 1: "q"})], ignoring=("p",)).free == {"a": [0, 2, 3]}


def test_the_topology_unaware_scheduler_adds_up_the_memory_of_a_node() -> None:
    nodes = [node("a", {}, count=1), node("b", {}, count=3)]
    assert nodes_by_free_memory(nodes, 250) == [nodes[1]]
    assert nodes_by_free_memory(nodes, 100) == nodes
    assert nodes_by_free_memory(nodes, 301) == []
