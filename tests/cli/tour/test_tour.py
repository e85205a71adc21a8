"""The parts of the demo: what it does with a broken promise, its manifests, and the link-blind scheduler."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
import yaml
from rich.console import Console

from linkwise.cli.tour.link_blind import Blind, blind_room
from linkwise.cli.tour.page import Page
from linkwise.cli.tour.stage import manifest
from linkwise.cli.tour.stories import STORIES, Story
from linkwise.cli.tour.tour import EXIT_BROKEN, guide, tell_apart
from linkwise.explain.inspect import Holder, InspectedDevice, NodeInspection
from linkwise.model.settings import PlacingSettings

if TYPE_CHECKING:
    from linkwise.cli.tour.stage import Stage


def silent() -> Console:
    return Console(file=io.StringIO(), width=80)


def node(name: str, taken: dict[int, str], count: int = 4, sick: tuple[int, ...] = ()) -> NodeInspection:
    """A node of so many devices, of which pods have some."""
    devices = tuple(
        InspectedDevice(
            f"{name}-{index}",
            index,
            "",
            100,
            index not in sick,
            0,
            0,
            index in taken,
            100,
            (),
            tuple(Holder(taken[found], "default", taken[found], "bound") for found in (index,) if found in taken),
        )
        for index in range(count)
    )
    return NodeInspection(name, "whole", "", "", True, devices, (), 100 * count, 0, count - len(taken))  # noqa: FBT003 - whether our agent enforces it


async def a_lie(stage: Stage, page: Page) -> None:
    page.promises((f"{len(stage.names)} nodes are one", False))


async def waits_in_vain(stage: Stage, page: Page) -> None:
    await stage.until(lambda: page.broken, "a promise is broken", seconds=0.01)


def test_a_promise_that_does_not_hold_is_told_and_ends_with_a_code_of_its_own() -> None:
    console = silent()
    assert guide(console, [Story("lie", "A lie", a_lie)], once=True) == EXIT_BROKEN
    assert isinstance(console.file, io.StringIO)
    told = console.file.getvalue()
    assert "BROKEN" in told
    assert "1 of 1 promises did not hold:\n  12 nodes are one\n" in told


def test_what_is_waited_for_in_vain_breaks_a_promise_and_the_next_story_is_told() -> None:
    late, links = Story("late", "Late", waits_in_vain), STORIES[0]
    pages = tell_apart({late: silent(), links: silent()})
    assert pages["late"].broken == ["not within 0.01 s: a promise is broken"]
    assert pages["links"].held
    assert not pages["links"].broken


def test_a_service_that_is_link_blind_itself_breaks_the_promises() -> None:
    links = STORIES[0]
    page = tell_apart({links: silent()}, PlacingSettings(policies={"nvidia.com/gpu": "whole-device"}))[links.name]
    assert "two NVLinks join its devices" in page.broken


@pytest.mark.parametrize("story", [story for story in STORIES if story.system], ids=lambda story: story.name)
def test_a_story_can_be_told_alone(story: Story) -> None:
    page = tell_apart({story: silent()})[story.name]
    assert page.held
    assert not page.broken


def test_manifests_show_their_telling_lines_alone() -> None:
    page = Page(silent())
    page.words(manifest("links.yaml"))
    assert isinstance(page.console.file, io.StringIO)
    told = " ".join(page.console.file.getvalue().split())
    assert told == "nvidia.com/gpu: 2 two devices, as NVIDIA's plugin counts them"


@pytest.mark.parametrize("name", [*(story.name for story in STORIES), "cards-before"])
def test_a_manifest_is_kubernetes_objects_with_something_to_tell(name: str) -> None:
    text = manifest(f"{name}.yaml")
    assert all(document["kind"] in {"Pod", "Job"} for document in yaml.safe_load_all(text))
    assert "  # " in text


def test_a_blind_scheduler_takes_the_emptiest_node_and_the_lowest_numbers_that_work() -> None:
    blind = Blind([node("a", {0: "p"}), node("b", {}, sick=(0,)), node("c", {0: "p", 1: "p"})])
    chosen = [blind.place(1) for _ in range(3)]
    assert [(one.node, one.devices) for one in chosen] == [("b", (1,)), ("a", (1,)), ("b", (2,))]


def test_a_blind_scheduler_says_which_nodes_are_equal_to_it_and_places_nobody_where_nothing_is_left() -> None:
    blind = Blind([node("b", {}), node("a", {})])
    assert blind.place(2).equals == ("a", "b")
    assert not blind.place(5).node


def test_a_blind_scheduler_can_be_asked_as_if_a_pod_was_not_there() -> None:
    assert Blind([node("a", {0: "p", 1: "q"})], without=("p",)).free == {"a": [0, 2, 3]}


def test_memory_is_summed_up_by_the_blind() -> None:
    nodes = [node("a", {}, count=1), node("b", {}, count=3)]
    assert blind_room(nodes, 250) == nodes[1]
    assert blind_room(nodes, 301) is None
