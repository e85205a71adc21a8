"""The page about asking a cluster shows what the commands print."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from support.doc_examples import blocks, examples
from support.e2e.node_objects import ascend, gpushare, machine
from support.e2e.pod_objects import pod
from support.embedded.cli_cluster import AskedCluster, gpushare_pod

FOLDER: Final = Path(__file__).resolve().parents[2] / "docs/how-to"
PAGE: Final = FOLDER / "ask-a-cluster.md"
CAPACITY: Final = FOLDER / "see-usage.md"
AGE: Final = re.compile(r"\b\d+s\b")


def fill(cluster: AskedCluster) -> None:
    """The cluster that the page tells of."""
    cluster.make(*machine("gpu-1", "nvlink"), *ascend("npu-1"), *gpushare("share-1"))
    cluster.make(pod("default", "train", {"nvidia.com/gpu": 2}), pod("default", "huge", {"nvidia.com/gpu": 16}))
    cluster.make(pod("default", "three", {"huawei.com/Ascend910": 3}), gpushare_pod("serve", "share-1", 6, 1))


def plain(text: str) -> list[str]:
    """Lines without spaces at their ends; words in any order where ages, which differ, decide on order and widths."""
    if AGE.search(text):
        return sorted(AGE.sub("", text).replace("─", "").split())
    return [line.rstrip() for line in text.rstrip("\n").splitlines()]


def test_commands_print_what_the_page_about_asking_says(tmp_path: Path) -> None:
    shown = [
        example
        for page in (PAGE, CAPACITY)
        for block in blocks(page.read_text("utf-8"))
        if block.text.startswith("$ linkwise")
        for example in examples(block.text)
    ]
    assert len(shown) >= 6
    with AskedCluster(tmp_path) as cluster:
        fill(cluster)
        for example in shown:
            words = example.command.removeprefix("linkwise ").split()
            assert plain(cluster.ask(*words, columns=100).stdout) == plain(example.output), f"$ {example.command}"
