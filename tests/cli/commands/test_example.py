from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from linkwise.cli import examples
from linkwise.cli.examples import NAMES, example
from linkwise.cli.reports.manifests import read_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from subprocess import CompletedProcess

    Linkwise = Callable[..., CompletedProcess[str]]


def test_every_example_is_listed_with_a_description(linkwise: Linkwise) -> None:
    shown = linkwise("example").stdout
    assert [line.split()[0] for line in shown.splitlines() if not line.startswith(" ")] == list(NAMES)
    assert "link-pair     One pod with two GPUs that need a fast link." in shown


def test_every_yaml_file_of_the_package_is_listed_as_an_example() -> None:
    there = {file.stem for file in Path(examples.__path__[0]).glob("*.yaml")}
    assert there == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_example_is_valid_except_the_invalid_device_count(tmp_path: Path, name: str) -> None:
    (tmp_path / "example.yaml").write_text(example(name), "utf-8")
    found = read_file(str(tmp_path / "example.yaml"))
    assert all(pod["asks"] for pod in found)
    assert bool(found[0]["problems"]) == (name == "three-chips")


def test_an_example_is_printed_unchanged(linkwise: Linkwise) -> None:
    assert linkwise("example", "gpu-mem").stdout == example("gpu-mem")


def test_a_similar_example_name_is_suggested(linkwise: Linkwise) -> None:
    shown = linkwise("example", "linkpair")
    assert shown.returncode == 2
    assert shown.stderr == "linkwise: unknown example 'linkpair'; did you mean link-pair?\n"
    assert "examples: link-pair, group" in linkwise("example", "xyz").stderr
