"""The page about failing devices shows what the commands print, and settings that are valid."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from linkwise.config.loading import load
from support.doc_examples import blocks, examples
from support.e2e.node_objects import machine
from support.embedded.cli_cluster import AskedCluster

PAGE: Final = Path(__file__).resolve().parents[2] / "docs/how-to/failing-devices.md"


def test_commands_print_what_the_page_about_failing_devices_says(tmp_path: Path) -> None:
    found = blocks(PAGE.read_text("utf-8"))
    shown = [example for block in found if block.text.startswith("$ ") for example in examples(block.text)]
    assert len(shown) == 3
    with AskedCluster(tmp_path) as cluster:
        cluster.make(*machine("gpu-1", "dgx1-v100"))
        for example in shown:
            printed = cluster.ask(*shlex.split(example.command)[1:], columns=130).stdout
            lines = [line.rstrip() for line in printed.rstrip("\n").splitlines()]
            assert lines == example.output.rstrip("\n").splitlines(), f"$ {example.command}"


def test_the_settings_on_the_page_are_valid(tmp_path: Path) -> None:
    (block,) = (block for block in blocks(PAGE.read_text("utf-8")) if block.language == "yaml")
    file = tmp_path / "settings.yaml"
    file.write_text(block.text, "utf-8")
    health = load(file, {}).agent.health
    assert (health.recovery, health.ignored_xids, health.fatal_xids) == (300.0, (74,), (94, 109))
