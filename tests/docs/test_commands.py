"""Commands, flags, settings and values that the documentation names exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from linkwise.config.schema import SCHEMA
from support.doc_commands import commands, missing
from support.doc_examples import pages

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = {page.relative_to(ROOT).as_posix(): page.read_text("utf-8") for page in pages(ROOT)}
VALUES: Final = ROOT / "deploy/chart/values.yaml"
SECTIONS: Final = sorted({name.partition(".")[0] for name in SCHEMA})
DOTTED: Final = re.compile(rf"`((?:{'|'.join(SECTIONS)})(?:\.(?!(?:py|crt|key)`)[a-z_]+)+)(?:[:=][^`]*)?`")
CHART_VALUE: Final = re.compile(r"--set '?([A-Za-z.]+)=")


def settings() -> set[str]:
    """Settings, and their sections at every depth."""
    return {name.rsplit(".", depth)[0] for name in SCHEMA for depth in range(name.count(".") + 1)}


def chart_values() -> set[str]:
    """Values of the chart, at every depth."""

    def paths(values: Mapping[str, Any], before: str) -> Iterator[str]:
        for key, value in values.items():
            yield f"{before}{key}"
            if isinstance(value, dict):
                yield from paths(value, f"{before}{key}.")

    return set(paths(yaml.safe_load(VALUES.read_text("utf-8")), "")) if VALUES.exists() else set()


def unknown_values(names: list[str]) -> list[str]:
    """Values that the chart does not have; those below a table of free content are not known."""
    known = chart_values()
    free = ("config.", "agent.nodeSelector.", "service.nodeSelector.", "scheduler.nodeSelector.")
    return [name for name in names if name not in known and not name.startswith(free)]


@pytest.mark.parametrize("page", PAGES)
def test_every_command_and_flag_of_a_page_exists(page: str) -> None:
    absent = {missing(command) for command in commands(PAGES[page])} - {""}
    assert absent == set()


@pytest.mark.parametrize("page", [page for page in PAGES if "decisions" not in page])  # these tell of former settings
def test_every_setting_of_a_page_exists(page: str) -> None:
    named = set(DOTTED.findall(PAGES[page])) - settings()
    assert named - chart_values() == set()


@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if "--set" in text])
def test_every_value_of_the_chart_that_a_page_sets_exists(page: str) -> None:
    assert unknown_values(CHART_VALUE.findall(PAGES[page])) == []


def test_commands_are_found_in_blocks_in_lists_and_in_prose() -> None:
    page = "Run `linkwise get\nnodes`:\n\n1. do\n\n   ```sh\n   X=1 linkwise read -f a.yaml | linkwise apply -f -\n   ```\n"
    assert list(commands(page)) == ["linkwise read -f a.yaml", "linkwise apply -f -", "linkwise get nodes"]


@pytest.mark.parametrize(
    "command", ["linkwise gett", "linkwise get --wide", "linkwise config volcan", "linkwise get things"]
)
def test_what_does_not_exist_is_named(command: str) -> None:
    assert missing(command) == command
