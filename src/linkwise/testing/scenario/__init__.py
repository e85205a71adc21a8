"""Scenario runner: plays a YAML file of an initial cluster, steps and expectations on a broker.

The format is described in docs/how-to/write-a-scenario.md; `tests/scenarios/` has many examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import yaml

from linkwise.errors import InputError
from linkwise.testing.scenario.steps import Play
from linkwise.testing.scenario.vocabulary import Words, named, only
from linkwise.wire.snapshot import settings_of

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Scenario", "load", "run"]

SCENARIO: Final = frozenset({"story", "seed", "rules", "settings", "shuffled", "given", "steps"})
GIVEN: Final = frozenset({"nodes", "objects", "pods"})


@dataclass(frozen=True, slots=True)
class Scenario:
    """One file."""

    file: str
    story: str
    seed: str
    rules: tuple[str, ...]
    settings: Words
    given: Words
    steps: tuple[object, ...]
    shuffled: int = 0
    """how many more times it is played, with members of groups observed and scheduled in another order"""


def load(file: Path) -> Scenario:
    """Read a file; InputError if it is not a valid scenario."""
    try:
        words = only(yaml.safe_load(file.read_text("utf-8")), SCENARIO, "the file")
        return Scenario(
            file.name,
            str(named(words, "story", "the file")),
            str(words.get("seed", "")),
            tuple(words.get("rules", ())),
            words.get("settings", {}),
            only(words.get("given", {}), GIVEN, "given"),
            tuple(named(words, "steps", "the file")),
            words.get("shuffled", 0),
        )
    except (InputError, yaml.YAMLError) as error:
        raise InputError(f"{file.name}: {error}") from error


def run(scenario: Scenario) -> None:
    """Play a scenario; AssertionError names the step, the expectation and the actual value."""
    for shuffle in range(scenario.shuffled + 1):
        _play(scenario, shuffle)


def _play(scenario: Scenario, shuffle: int) -> None:
    file = f"{scenario.file}, shuffle {shuffle}" if shuffle else scenario.file
    where = f"{file}, given"
    try:
        play = Play(settings_of(scenario.settings), scenario.given, shuffle)
        for number, step in enumerate(scenario.steps, start=1):
            where = f"{file}, step {number}"
            play.step(step)
    except AssertionError as error:
        raise AssertionError(f"{where}: {error}") from error
    except (InputError, LookupError, TypeError) as error:
        raise InputError(f"{where}: {error}") from error
