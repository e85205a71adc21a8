"""The tour from beginning to end: the fleet, every story, what held, and a question to go on with."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from shutil import which
from typing import TYPE_CHECKING, Final

import uvloop
from rich.text import Text

from linkwise.cli.get.nodes import MODES
from linkwise.cli.render.matrix import links_text
from linkwise.cli.tour.page import Page, plain_table
from linkwise.cli.tour.stage import raised_stage
from linkwise.cli.up.messages import reaching
from linkwise.embedded.api_errors import ApiError
from linkwise.errors import LinkwiseError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from rich.console import Console
    from rich.table import Table

    from linkwise.cli.tour.stage import Stage
    from linkwise.cli.tour.stories import Story
    from linkwise.model.settings import PlacingSettings

__all__ = ["EXIT_BROKEN", "guide", "tell_apart"]

EXIT_BROKEN: Final = 1
QUESTION: Final = "explain pod/serve-2"
"""about the pod that still waits when the stories are told"""
_INTRODUCTION: Final = (
    "This is a cluster of its own in one process: an API server, a scheduler, simulated nodes, and Linkwise, which "
    "the scheduler asks. Its machines are of several kinds; each story keeps to its own by a nodeSelector:"
)
_BLIND: Final = (
    "Beside each choice stands what a link-blind scheduler would have done with the same pods in the same order. It "
    "is worked out here as Kubernetes counts what it does not understand: the node of which the largest part is left "
    "(of equal nodes the first by name), and there the lowest free devices."
)


def guide(console: Console, stories: Sequence[Story], *, once: bool) -> int:
    """Tell the stories; serve until SIGINT or SIGTERM unless it is for `once`. The exit code."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_until_a_signal(console, stories, once=once))


def tell_apart(consoles: Mapping[Story, Console], placing: PlacingSettings | None = None) -> dict[str, Page]:
    """Tell stories on one stage, each to a console of its own; the pages by the stories' names."""

    async def tell() -> dict[str, Page]:
        pages = {story.name: Page(console) for story, console in consoles.items()}
        async with raised_stage(placing) as stage:
            for story in consoles:
                await _tell(stage, pages[story.name], story)
        return pages

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(tell())


async def _until_a_signal(console: Console, stories: Sequence[Story], *, once: bool) -> int:
    page, stop = Page(console), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    pause = _no_pause if once or not _is_a_terminal(console) else _enter
    tour = asyncio.create_task(_toured(page, stories, pause, once=once))
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({tour, stopped}, return_when=asyncio.FIRST_COMPLETED)
    cut_short = once and not tour.done()
    for task in (tour, stopped):
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await tour
    return EXIT_BROKEN if page.broken or cut_short else 0


async def _toured(
    page: Page, stories: Sequence[Story], pause: Callable[[Page], Awaitable[None]], *, once: bool
) -> None:
    async with raised_stage() as stage:
        failed = asyncio.create_task(stage.local.failed())
        telling = asyncio.create_task(_told(stage, page, stories, pause, once=once))
        try:
            await asyncio.wait({failed, telling}, return_when=asyncio.FIRST_COMPLETED)
            if failed.done() and not telling.done():
                page.promises(("all parts of the cluster run until the end", False))
            elif telling.done():
                telling.result()
        finally:
            for task in (failed, telling):
                task.cancel()
            await asyncio.gather(failed, telling, return_exceptions=True)


async def _told(
    stage: Stage, page: Page, stories: Sequence[Story], pause: Callable[[Page], Awaitable[None]], *, once: bool
) -> None:
    page.title("Linkwise: a tour")
    page.say(_INTRODUCTION)
    page.show(_fleet(stage))
    page.say(_BLIND)
    for number, story in enumerate(stories, 1):
        await pause(page)
        page.title(f"{number}. {story.heading}")
        await _tell(stage, page, story)
    _ending(stage, page, once=once)
    if not once:
        await asyncio.Event().wait()


async def _tell(stage: Stage, page: Page, story: Story) -> None:
    """Tell one; what it waited for in vain is a promise that did not hold."""
    try:
        await story.tell(stage, page)
    except (LinkwiseError, ApiError) as error:
        page.promises((str(error), False))


def _fleet(stage: Stage) -> Table:
    """A row for nodes that are alike."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for name in stage.names:
        node = stage.inspect(name)
        broken = sum(not device.healthy for device in node.devices)
        count = f"{len(node.devices)}{f', {broken} faulty' if broken else ''}"
        models = (
            ", ".join(sorted({device.model.removeprefix("Tesla ") for device in node.devices} - {""})) or "not told"
        )
        linked = links_text(stage.stock(name)).partition(",")[0] or "not told"
        alike.setdefault((count, models, linked, MODES[node.mode]), []).append(name)
    table = plain_table("nodes", "devices", "model", "links", "handed out")
    for cells, names in alike.items():
        table.add_row(names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}", *cells)
    return table


def _ending(stage: Stage, page: Page, *, once: bool) -> None:
    page.title("The end, and a beginning")
    page.console.print()
    count = len(page.held) + len(page.broken)
    if page.broken:
        page.console.print(Text(f"{len(page.broken)} of {count} promises did not hold:", "bold red"))
        for sentence in page.broken:
            page.console.print(Text(f"  {sentence}", "red"))
    else:
        page.console.print(Text(f"All {count} promises held.", "bold green"))
    if once:
        return
    page.say("The cluster runs on, and pod serve-2 still waits. Ask in another terminal what would let it in:")
    page.console.print()
    for line in (
        *reaching(sys.argv[0], which("linkwise")),
        f"KUBECONFIG={stage.local.kubeconfig} \\",
        f"  linkwise {QUESTION}",
    ):
        page.console.print(Text(f"  {line}", "bold"), soft_wrap=True)
    page.say("Ctrl-C ends it; nothing is left behind.")


def _is_a_terminal(console: Console) -> bool:
    return console.is_terminal and sys.stdin.isatty()


async def _no_pause(_: Page) -> None:
    return


async def _enter(page: Page) -> None:
    """Wait for a line from the terminal, while the cluster runs on."""
    page.console.print()
    page.console.print(Text("Enter goes on, Ctrl-C ends.", "dim"), end=" ")
    loop, there = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), there.set)
    try:
        await there.wait()
    finally:
        loop.remove_reader(sys.stdin.fileno())
    sys.stdin.readline()
