"""Stories in YAML: a cluster that is given, steps that happen to it, and what is expected of each.

How to write one stands in docs/how-to/write-a-scenario.md; tests/scenarios/ holds them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import yaml

from linkwise.errors import InputError
from linkwise.testing.scenario.steps import Play
from linkwise.testing.scenario.vocabulary import Words, named, only
from linkwise.wire.snapshot.snapshot import settings_of

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
    """how often it is played again, with members of groups seen and tried in another order"""


def load(file: Path) -> Scenario:
    """Read a file; InputError names what is wrong with it."""
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
    """Play it; AssertionError names the step and what was found in the place of what was expected."""
    for shuffle in range(scenario.shuffled + 1):
        _play(scenario, shuffle)


def _play(scenario: Scenario, shuffle: int) -> None:
    file = f"{scenario.file}, shuffled for the {shuffle}. time" if shuffle else scenario.file
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
