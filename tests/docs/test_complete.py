"""Nothing that a user can write or read is left out of the documentation."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Final

import msgspec
import pytest

import linkwise
from linkwise import errors
from linkwise.model.link import Pcie
from linkwise.rulebook import table
from linkwise.vendors.profiles import PROFILES
from linkwise.wire.pick import (
    BandwidthAnswer,
    BandwidthLine,
    BrokenLine,
    LinkAffinityAnswer,
    LinkAffinityLine,
    Refused,
)
from linkwise.wire.topology_file import _TopologyFile

ROOT: Final = Path(__file__).resolve().parents[2]
TARGET: Final = re.compile(r"^([a-z0-9]+):.*?##", re.MULTILINE)
LINES: Final = (LinkAffinityLine, BandwidthLine, LinkAffinityAnswer, BandwidthAnswer, Refused, BrokenLine)


def page(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def in_code(name: str) -> set[str]:
    """Every word that a page sets as code: `word`, or `word(...)`."""
    return set(re.findall(r"`([\w.#-]+)(?:\([^`]*\))?`", page(name)))


def make_targets() -> set[str]:
    return set(TARGET.findall(page("Makefile")))


def test_every_public_name_is_in_the_reference() -> None:
    assert set(linkwise.__all__) - in_code("docs/reference/python-api.md") == set()


def test_every_exception_is_in_the_reference() -> None:
    assert set(errors.__all__) - in_code("docs/reference/python-api.md") == set()


@pytest.mark.parametrize("name", [name for name in linkwise.__all__ if is_dataclass(getattr(linkwise, name))])
def test_every_field_of_a_public_value_is_in_the_reference(name: str) -> None:
    told = page("docs/reference/python-api.md").partition(f"### `{name}`")[2].partition("\n### ")[0]
    known = {field.name for field in fields(getattr(linkwise, name))}
    assert known - set(re.findall(r"`(\w+)`", told)) == set()


def test_every_machine_profile_is_in_the_reference() -> None:
    assert set(PROFILES) - in_code("docs/reference/machine-file.md") == set()


def test_every_link_kind_is_in_the_reference() -> None:
    assert {kind.name for kind in Pcie if kind} - in_code("docs/reference/machine-file.md") == set()


def test_every_field_of_a_machine_file_is_in_the_reference() -> None:
    known = {field.name for field in msgspec.structs.fields(_TopologyFile)}
    assert known - in_code("docs/reference/machine-file.md") == set()


@pytest.mark.parametrize("line", LINES)
def test_every_field_of_a_batch_line_is_in_the_reference(line: type[msgspec.Struct]) -> None:
    known = {field.encode_name for field in msgspec.structs.fields(line)}
    assert known - in_code("docs/reference/batch.md") == set()


def test_every_system_is_in_the_readme() -> None:
    rows = [row for row in page("README.md").splitlines() if row.startswith("|")]
    assert [number for number in table.systems() if not any(f" {number} " in row for row in rows)] == []


def test_every_make_target_is_in_contributing() -> None:
    assert {f"make {target}" for target in make_targets()} - set(
        re.findall(r"`(make \w+)", page("CONTRIBUTING.md"))
    ) == set()


def test_every_make_target_that_the_documentation_names_is_there() -> None:
    hand_written = ["README.md", "CONTRIBUTING.md", *(str(found) for found in ROOT.glob("docs/**/*.md"))]
    named = {target for name in hand_written for target in re.findall(r"`make ([a-z]+)", page(name))}
    assert named - make_targets() == set()
