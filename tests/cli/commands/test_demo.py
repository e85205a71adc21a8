"""The demo tells its stories on a cluster that runs, keeps its promises, and serves until it is told to end."""

from __future__ import annotations

import os
import pty
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
LAST: Final = "Ctrl-C ends it"


def environment() -> dict[str, str]:
    """As of somebody whose terminal has 80 columns."""
    return {**surroundings(), "COLUMNS": "80", "TERM": "xterm"}


@pytest.fixture(scope="module")
def piped() -> subprocess.CompletedProcess[str]:
    """The tour once, with its output in a pipe."""
    return subprocess.run(
        [*DEMO, "--once"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        timeout=SECONDS,
    )


def test_every_promise_of_the_tour_holds(piped: subprocess.CompletedProcess[str]) -> None:
    assert piped.returncode == 0, piped.stdout + piped.stderr
    assert f"All {piped.stdout.count('  held   ')} promises held." in piped.stdout
    assert "BROKEN" not in piped.stdout
    assert not piped.stderr


def test_every_story_is_told_in_its_order(piped: subprocess.CompletedProcess[str]) -> None:
    places = [piped.stdout.find(f"\n{number}. {story.heading} ") for number, story in enumerate(STORIES, 1)]
    assert places == sorted(places)
    assert places[0] > 0


def test_a_file_of_the_tour_has_no_line_over_eighty_columns_and_no_codes_of_a_terminal(
    piped: subprocess.CompletedProcess[str],
) -> None:
    assert max(map(len, piped.stdout.splitlines())) <= 80
    assert "\x1b" not in piped.stdout


def test_every_story_fits_on_a_screen(piped: subprocess.CompletedProcess[str]) -> None:
    titles = [f"\n{number}. {story.heading} " for number, story in enumerate(STORIES, 1)]
    starts = [piped.stdout.index(title) for title in titles] + [piped.stdout.index("\nThe end")]
    lengths = [piped.stdout.count("\n", start, end) for start, end in pairwise(starts)]
    assert max(lengths) <= 44, lengths


def test_both_sides_of_the_figures_are_told(piped: subprocess.CompletedProcess[str]) -> None:
    lines = [" ".join(line.split()) for line in piped.stdout.splitlines()]
    for line in (
        "worth 230 points 150 or 50",
        "all four {4,5,6,7} 48.33 GB/s {1,2,3,4} 15.45 GB/s",
        "pair desk-3 {0,1} waits, with 3 cards free",
        "e, 2 atlas-1 {6,7} group A atlas-1 {3,4} CROSSES",
        "serve-1 n3, card 0 n2: 8138 in all, 4069 on a card: it can't start",
        "pods started 0 of 3 1 of 3",
    ):
        assert line in lines


@contextmanager
def running(*words: str, stdin: int, stdout: int) -> Iterator[subprocess.Popen[bytes]]:
    """A demo that is killed if it does not end by itself."""
    with subprocess.Popen(
        [*DEMO, *words], stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, env=environment()
    ) as demo:
        try:
            yield demo
        finally:
            demo.kill()


def read_until(source: int, word: str) -> str:
    """What comes, until a word has come."""
    text, end = b"", time.monotonic() + SECONDS
    while word.encode() not in text:
        ready, _, _ = select.select([source], [], [], end - time.monotonic())
        more = os.read(source, 65536) if ready else b""
        assert more, f"{word!r} did not come: {text!r}"
        text += more
    return text.decode(errors="ignore")  # its last letter may have come in part


def asked(text: str) -> subprocess.CompletedProcess[str]:
    """The answer to the question that is offered: a variable, and on the next line a command."""
    command = text[text.index("KUBECONFIG=") : text.index(LAST)].replace("\\\n", "")
    setting, _, *words = shlex.split(command)
    key, _, value = setting.partition("=")
    return subprocess.run(
        [sys.executable, "-m", "linkwise", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**environment(), key: value},
        timeout=SECONDS,
    )


def test_without_a_terminal_it_serves_on_answers_its_question_and_ends_with_an_interrupt() -> None:
    source, sink = os.pipe()
    with running(stdin=subprocess.DEVNULL, stdout=sink) as demo:
        told = read_until(source, LAST)
        assert max(map(len, told.splitlines())) <= 80
        answer = asked(told)
        assert "it fits on node n3 when pod" in " ".join(answer.stdout.split()), answer.stderr
        assert demo.poll() is None
        demo.send_signal(signal.SIGINT)
        assert demo.wait(SECONDS) == 0
    os.close(source)
    os.close(sink)


def test_a_reader_who_goes_away_ends_it_without_a_word() -> None:
    source, sink = os.pipe()
    with running(stdin=subprocess.DEVNULL, stdout=sink) as demo:
        os.close(sink)
        os.close(source)
        _, told = demo.communicate(timeout=SECONDS)
        assert (demo.returncode, told) == (0, b"")


def test_on_a_terminal_enter_goes_on_and_an_interrupt_ends_it_in_the_middle() -> None:
    ours, theirs = pty.openpty()
    with running(stdin=theirs, stdout=theirs) as demo:
        read_until(ours, "Enter goes on")
        os.write(ours, b"\n")
        story = read_until(ours, "Enter goes on")
        assert "\x1b[" in story
        assert STORIES[0].title in story
        assert STORIES[1].title not in story
        demo.send_signal(signal.SIGINT)
        assert demo.wait(SECONDS) == 0
    os.close(ours)
    os.close(theirs)
