"""Guided tour: introduction, stories, score card, and the commands to continue with."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from dataclasses import dataclass
from shutil import which
from typing import TYPE_CHECKING, Final

import uvloop
from rich.table import Table
from rich.text import Text

from linkwise.cli.tour.page import BASELINE, Page, Score, check_mark, plain_table
from linkwise.cli.tour.stage import open_stage
from linkwise.cli.up.running import path_hint
from linkwise.embedded.api_errors import ApiError
from linkwise.errors import LinkwiseError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from rich.console import Console

    from linkwise.cli.tour.page import Check
    from linkwise.cli.tour.stage import Stage
    from linkwise.cli.tour.stories import Story
    from linkwise.model.settings import PlacingSettings

__all__ = ["EXIT_FAILED", "RULE", "Result", "print_score_card", "run_stories", "run_tour"]

EXIT_FAILED: Final = 1
PENDING: Final = "serve-a2"
"""pod of a story that is still pending at the end"""
_NEXT: Final = {
    "linkwise up": "your own simulated cluster; kubectl works on it",
    "linkwise explain pod/NAME": "why a pod is pending, or why it got its devices",
    "linkwise demo": "this demo, story by story; its cluster stays up",
}
RULE: Final = (
    "Linkwise is compared with a topology-unaware scheduler, which gets the same pods in the same order and takes the "
    "node with the largest free fraction (ties: the first by name) and the lowest-numbered free devices there."
)
"""how the baseline decides: the comparison is fair only if readers know it"""
MIN_WIDTH: Final = 77
"""columns that the table needs for one line per story"""


def run_tour(console: Console, stories: Sequence[Story], *, once: bool) -> int:
    """Run the stories and return the exit code; without `once`, keep the cluster until SIGINT or SIGTERM."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_run_until_signal(console, stories, once=once))


def run_stories(consoles: Mapping[Story, Console], placing: PlacingSettings | None = None) -> list[Result]:
    """Run stories on one cluster, each printed to a console of its own."""

    async def run() -> list[Result]:
        async with open_stage(placing) as stage:
            return [await _run_story(stage, Page(console), story) for story, console in consoles.items()]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())


@dataclass(frozen=True, slots=True)
class Result:
    """Outcome of a story."""

    story: Story
    checks: tuple[Check, ...]
    score: Score | None = None
    """None if the story was cut off by an error"""

    @property
    def passed(self) -> bool:
        """Whether the story came to its end and all its checks passed."""
        return self.score is not None and all(check.passed for check in self.checks)

    @property
    def failed(self) -> list[str]:
        """Claims of the checks that failed."""
        return [check.claim for check in self.checks if not check.passed]


def print_score_card(page: Page, results: Sequence[Result]) -> None:
    """Print the table, the number of checks passed and the claims that failed."""
    page.show(_table(page, results))
    page.console.print()
    page.console.print(Text(RULE, "dim"))
    page.console.print()
    checks = [check for result in results for check in result.checks]
    failed = [check.claim for check in checks if not check.passed]
    line = f"{len(checks) - len(failed)} of {len(checks)} checks passed on the running cluster"
    mark = check_mark(page.console, passed=not failed)
    page.console.print(Text.assemble(mark, " ", (f"{line}{'. Failed:' if failed else '.'}", mark.style)))
    for claim in failed:
        page.console.print(Text.assemble("  ", mark, f" {claim}"))


async def _run_until_signal(console: Console, stories: Sequence[Story], *, once: bool) -> int:
    page, stop = Page(console), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    pause = _wait_for_enter if not once and console.is_terminal and sys.stdin.isatty() else _no_pause
    tour = asyncio.create_task(_run_on_cluster(page, stories, pause, once=once))
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({tour, stopped}, return_when=asyncio.FIRST_COMPLETED)
    interrupted = once and not tour.done()
    for task in (tour, stopped):
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await tour
    return EXIT_FAILED if page.failed or interrupted else 0


async def _wait_for_enter(page: Page) -> None:
    """Wait for a line from the terminal while the cluster keeps running."""
    page.console.print()
    page.console.print(Text("Press Enter to continue, Ctrl-C to quit.", "dim"), end=" ")
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(sys.stdin.fileno())
    sys.stdin.readline()


async def _no_pause(_: Page) -> None:
    return


async def _run_on_cluster(
    page: Page, stories: Sequence[Story], pause: Callable[[Page], Awaitable[None]], *, once: bool
) -> None:
    """Run the tour as long as all components of the cluster run."""
    async with open_stage() as stage:
        failed = asyncio.create_task(stage.local.failed())
        showing = asyncio.create_task(_show(stage, page, stories, pause, once=once))
        try:
            await asyncio.wait({failed, showing}, return_when=asyncio.FIRST_COMPLETED)
            if failed.done() and not showing.done():
                page.check(("all components of the cluster keep running", False))
            elif showing.done():
                showing.result()
        finally:
            for task in (failed, showing):
                task.cancel()
            await asyncio.gather(failed, showing, return_exceptions=True)


async def _show(
    stage: Stage, page: Page, stories: Sequence[Story], pause: Callable[[Page], Awaitable[None]], *, once: bool
) -> None:
    _introduce(stage, page)
    results: list[Result] = []
    for number, story in enumerate(stories, 1):
        if results:
            await pause(page)
        page.title(f"{number}. {story.heading}")
        results.append(await _run_story(stage, page, story))
    await pause(page)
    page.title("Score card")
    print_score_card(page, results)
    if once:
        _print_next_steps(page)
        return
    _print_commands(stage, page)
    await asyncio.Event().wait()


def _introduce(stage: Stage, page: Page) -> None:
    page.title("Linkwise demo")
    page.say(
        "Linkwise is a topology-aware GPU and NPU scheduler for Kubernetes. It runs here on an embedded cluster of "
        f"{len(stage.names)} simulated nodes; no GPU is needed. {check_mark(page.console, passed=True)} marks what was "
        "checked on that cluster."
    )
    page.say(RULE)


async def _run_story(stage: Stage, page: Page, story: Story) -> Result:
    """Run one story; an error of the cluster ends it with a failed check."""
    earlier, score = len(page.checks), None
    try:
        score = await story.run(stage, page)
    except (LinkwiseError, ApiError) as error:
        page.check((str(error), False))
    return Result(story, tuple(page.checks[earlier:]), score)


def _print_next_steps(page: Page) -> None:
    page.say("Next:")
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold cyan", no_wrap=True)
    for command, purpose in _NEXT.items():
        table.add_row(Text(command), Text(purpose))
    for line in path_hint(sys.argv[0], which("linkwise")):
        page.console.print()
        page.console.print(Text(f"  {line}", "bold cyan"), soft_wrap=True)
    page.show(table)


def _print_commands(stage: Stage, page: Page) -> None:
    """Print commands for another terminal; they are copied, so they are never wrapped."""
    page.say(f"The cluster is still running, and pod {PENDING} is pending. Ask why, in another terminal:")
    page.console.print()
    for line in (
        *path_hint(sys.argv[0], which("linkwise")),
        f"export KUBECONFIG={stage.local.kubeconfig}",
        "linkwise get nodes",
        f"linkwise explain pod/{PENDING}",
    ):
        page.console.print(Text(f"  {line}", "bold cyan"), soft_wrap=True)
    page.say("Press Ctrl-C to stop the cluster; nothing is left behind. `linkwise up` starts one of your own.")


def _table(page: Page, results: Sequence[Result]) -> Table:
    """One row per story; on a narrow console what was measured is in the column of the story."""
    wide = page.width >= MIN_WIDTH
    table = plain_table("", "story", *(["measured"] if wide else []), "Linkwise", BASELINE)
    table.columns[-2].style = "bold green"
    for number, result in enumerate(results, 1):
        mark = Text.assemble(check_mark(page.console, passed=result.passed), f" {number}")
        score, feature = result.score or Score("-", "-", "-"), result.story.feature
        story = (feature, score.measured) if wide else (f"{feature}: {score.measured}",)
        table.add_row(mark, *story, score.linkwise, score.baseline)
    return table
