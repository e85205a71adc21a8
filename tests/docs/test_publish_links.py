"""The page about nodes without an agent shows what the commands print."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from support.doc_examples import blocks, examples
from support.e2e.node_objects import machine, node
from support.embedded.cli_cluster import AskedCluster

PAGE: Final = Path(__file__).resolve().parents[2] / "docs/how-to/read-a-machine.md"


def test_commands_print_what_the_page_about_links_says(tmp_path: Path) -> None:
    found = blocks(PAGE.read_text("utf-8"))
    shown = [
        example
        for block in found
        if block.language == "text" and block.text.startswith("$ ")
        for example in examples(block.text)
    ]
    assert len(shown) == 5
    with AskedCluster(tmp_path) as cluster:
        cluster.make(*machine("gpu-1", "nvlink"), node("gpu-2", {"nvidia.com/gpu": 4}))
        for block in found:
            if block.file:
                (tmp_path / block.file).write_text(block.text, "utf-8")
        for example in shown:
            printed = cluster.ask(*example.command.removeprefix("linkwise ").split(), columns=130).stdout
            lines = [line.rstrip() for line in printed.rstrip("\n").splitlines()]
            assert lines == example.output.rstrip("\n").splitlines(), f"$ {example.command}"
