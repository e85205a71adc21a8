"""`linkwise demo` as a user runs it: piped, on a terminal, interrupted."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pytest

from linkwise.cli.tour.stories import STORIES
from support.environment import surroundings

if TYPE_CHECKING:
    from collections.abc import Iterator

DEMO: Final = (sys.executable, "-m", "linkwise", "demo")
SECONDS: Final = 200.0
LAST: Final = "Press Ctrl-C to stop"
PROMPT: Final = "Press Enter to continue"


def environment() -> dict[str, str]:
    """The environment of a terminal with 80 columns."""
    return {**surroundings(), "COLUMNS": "80", "TERM": "xterm"}


@pytest.fixture(scope="module")
def piped() -> subprocess.CompletedProcess[str]:
    """The complete demo, with its output in a pipe."""
    return subprocess.run(
        [*DEMO, "--once"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        timeout=SECONDS,
    )


def test_every_check_of_the_demo_passes(piped: subprocess.CompletedProcess[str]) -> None:
    assert piped.returncode == 0, piped.stdout + piped.stderr
    stories, _, card = piped.stdout.partition("\nScore card ")
    count = stories.count("\n  ✓ ")
    assert count >= 22
    assert f"\n✓ {count} of {count} checks passed on the running cluster.\n" in card
    assert "✗" not in piped.stdout
    assert not piped.stderr


def test_the_score_card_compares_all_stories(piped: subprocess.CompletedProcess[str]) -> None:
    card = [" ".join(line.split()) for line in piped.stdout.partition("\nScore card ")[2].splitlines()]
    assert [line for line in card if line.startswith("✓") and "checks" not in line] == [
        "✓ 1 Bandwidth slowest link 48 GB/s (3.1x) 15 GB/s",
        "✓ 2 Device failure link after failure 2 NVLinks PCIe only",
        "✓ 3 Gang GPUs kept idle 0 2",
        "✓ 4 ResourceClaims slowest link 48 GB/s (3.1x) 15 GB/s",
        "✓ 5 Link scoring link of the pod 2 NVLinks 1 NVLink or PCIe",
        "✓ 6 Ascend rings pods across rings 0 of 6 2 of 6",
        "✓ 7 GPU share pods that start 2 of 2 1 of 2",
        "✓ 8 Packing pod with two GPUs runs pending",
    ]
    assert any(line.startswith("linkwise up ") for line in card)
    assert any(line.startswith("linkwise explain ") for line in card)


def test_the_strongest_result_is_on_the_first_screen(piped: subprocess.CompletedProcess[str]) -> None:
    lines = piped.stdout.splitlines()
    assert lines.index("3.1x faster slowest link: 48.33 GB/s (topology-unaware: 15.45 GB/s).") < 24


def test_the_demo_prints_no_internal_terms(piped: subprocess.CompletedProcess[str]) -> None:
    words = ("BROKEN", "blind", "figure", " of 100", "points", "group A", "000", "promise")
    assert [word for word in words if word in piped.stdout] == []


def test_stories_are_shown_in_order(piped: subprocess.CompletedProcess[str]) -> None:
    places = [piped.stdout.find(f"\n{number}. {story.heading} ") for number, story in enumerate(STORIES, 1)]
    assert places == sorted(places)
    assert places[0] > 0


def test_piped_output_fits_eighty_columns_and_has_no_escape_codes(
    piped: subprocess.CompletedProcess[str],
) -> None:
    assert max(map(len, piped.stdout.splitlines())) <= 80
    assert "\x1b" not in piped.stdout


def test_every_story_fits_on_a_screen(piped: subprocess.CompletedProcess[str]) -> None:
    titles = [f"\n{number}. {story.heading} " for number, story in enumerate(STORIES, 1)]
    starts = [piped.stdout.index(title) for title in titles] + [piped.stdout.index("\nScore card")]
    lengths = [piped.stdout.count("\n", start, end) for start, end in pairwise(starts)]
    assert max(lengths) <= 44, lengths


def test_both_sides_of_the_comparisons_are_shown(piped: subprocess.CompletedProcess[str]) -> None:
    lines = [" ".join(line.split()) for line in piped.stdout.splitlines()]
    for line in (
        "all four GPUs {4,5,6,7} 48.33 GB/s {1,2,3,4} 15.45 GB/s",
        "pods started 0 of 3 1 of 3",
        "link 2 NVLinks (NV2) 1 NVLink (NV1) or PCIe only (PIX)",
        "e, 2 chips atlas-1 {6,7} ring 1 is full atlas-1 {3,4} SPLIT",
        "serve-a1 share-3, GPU 0 share-2 (tied with share-3): can't start",
        "pair desk-3 {0,1} pending, with 3 GPUs free",
    ):
        assert line in lines


@contextmanager
def running(*words: str, stdin: int, stdout: int) -> Iterator[subprocess.Popen[bytes]]:
    """A running demo, killed at the end if it is still running."""
    with subprocess.Popen(
        [*DEMO, *words], stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, env=environment()
    ) as demo:
        try:
            yield demo
        finally:
            demo.kill()


def read_until(source: int, word: str) -> str:
    """Output up to and including a word."""
    text, end = b"", time.monotonic() + SECONDS
    while word.encode() not in text:
        ready, _, _ = select.select([source], [], [], end - time.monotonic())
        more = os.read(source, 65536) if ready else b""
        assert more, f"{word!r} did not come: {text!r}"
        text += more
    return text.decode(errors="ignore")  # the last character can be incomplete


def run_offered(text: str) -> list[subprocess.CompletedProcess[str]]:
    """Run the commands that the demo suggests at its end: an export, then linkwise commands."""
    export, *commands = map(shlex.split, text[text.index("export KUBECONFIG=") : text.index(LAST)].strip().splitlines())
    key, _, value = export[1].partition("=")
    assert [command[0] for command in commands] == ["linkwise"] * len(commands)
    return [
        subprocess.run(
            [sys.executable, "-m", *command],
            capture_output=True,
            text=True,
            check=False,
            env={**environment(), key: value},
            timeout=SECONDS,
        )
        for command in commands
    ]


def test_without_a_terminal_the_cluster_serves_the_suggested_commands_until_interrupted() -> None:
    source, sink = os.pipe()
    with running(stdin=subprocess.DEVNULL, stdout=sink) as demo:
        text = read_until(source, LAST)
        assert max(map(len, text.splitlines())) <= 80
        nodes, answer = run_offered(text)
        assert "share-4" in nodes.stdout, nodes.stderr
        remedy = r"share-3 .{,40}default/(serve-a1|share-3-0) \(8138 MiB\)"
        assert re.search(remedy, " ".join(answer.stdout.split())), answer.stdout + answer.stderr
        assert demo.poll() is None
        demo.send_signal(signal.SIGINT)
        assert demo.wait(SECONDS) == 0
    os.close(source)
    os.close(sink)


def test_a_closed_pipe_ends_the_demo_silently() -> None:
    source, sink = os.pipe()
    with running(stdin=subprocess.DEVNULL, stdout=sink) as demo:
        os.close(sink)
        os.close(source)
        _, errors = demo.communicate(timeout=SECONDS)
        assert (demo.returncode, errors) == (0, b"")


def test_on_a_terminal_enter_continues_and_an_interrupt_stops_the_demo() -> None:
    ours, theirs = pty.openpty()
    with running(stdin=theirs, stdout=theirs) as demo:
        first = read_until(ours, PROMPT)
        assert "\x1b[" in first
        assert STORIES[0].title in first
        assert STORIES[1].title not in first
        os.write(ours, b"\n")
        second = read_until(ours, PROMPT)
        assert STORIES[1].title in second
        assert STORIES[2].title not in second
        demo.send_signal(signal.SIGINT)
        assert demo.wait(SECONDS) == 0
    os.close(ours)
    os.close(theirs)
