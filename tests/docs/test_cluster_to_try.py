"""Every command of the `linkwise up` tutorial is run on such a cluster and prints what the page shows."""

from __future__ import annotations

import contextlib
import re
import shlex
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import yaml

from linkwise.cli.inputs.fleet import MAX_NODES, MODES, fleet_of
from linkwise.embedded.nodes import faults, kubelet
from support.command_line import run_linkwise
from support.doc_examples import blocks, examples
from support.embedded.up_process import TriedCluster

if TYPE_CHECKING:
    from support.doc_examples import Example

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
TUTORIAL: Final = (DOCS / "tutorial/a-cluster-to-try.md").read_text("utf-8")
HOW_TO: Final = (DOCS / "how-to/try-a-fleet.md").read_text("utf-8")
LOOKS: Final = re.compile(r"linkwise (get|describe|explain) ")
AGE: Final = re.compile(r"\b\d+[sm]\b *")
SECONDS: Final = 100.0
"""in which a pod is placed, started or stopped, however busy the machine is"""
PAUSE: Final = 0.1  # seconds between two looks, which would otherwise keep a processor busy


def printed(cluster: TriedCluster, command: str) -> str:
    """What a command prints."""
    if command == "linkwise up":
        said = cluster.printed.replace(str(cluster.kubeconfig), "...")
        said = re.sub(r"(?<=127\.0\.0\.1:)\d+", "...", re.sub(r"after \d+\.\d s", "after 0.3 s", said))
    else:
        said = piped(cluster, command)
    return "\n".join(line.rstrip() for line in said.rstrip("\n").splitlines())


def piped(cluster: TriedCluster, command: str) -> str:
    """What a line of linkwise and sed prints; ours are run in this process, where starting them costs nothing."""
    said = ""
    for part in command.split(" | "):
        program, *words = shlex.split(part)
        if program == "linkwise":
            said = run_linkwise(
                *words, folder=Path.cwd(), environment=cluster.environment, stdin=said, joined=True
            ).stdout
            assert "Traceback" not in said, f"$ {part}\n{said}"
        else:
            said = subprocess.run([program, *words], input=said, capture_output=True, text=True, check=True).stdout
    return said


def becomes(cluster: TriedCluster, example: Example) -> str:
    """What a command prints; one that only looks may look again until what was begun is done."""
    end = time.monotonic() + SECONDS
    found = printed(cluster, example.command)
    while LOOKS.match(example.command) and ageless(found) != ageless(example.output) and time.monotonic() < end:
        time.sleep(PAUSE)
        found = printed(cluster, example.command)
    return found


def ageless(text: str) -> str:
    """A table without the ages of its objects."""
    return AGE.sub("", text)


def wait_for_the_next_second() -> None:
    """Objects are dated by the second, and listed in that order; a user does not type this fast."""
    time.sleep(1.0 - time.time() % 1.0)


def test_every_command_of_the_tutorial_prints_what_the_page_says(tmp_path: Path) -> None:
    count = 0
    with TriedCluster(tmp_path) as cluster, contextlib.chdir(tmp_path):
        for block in blocks(TUTORIAL):
            if block.file:
                (tmp_path / block.file).write_text(block.text, "utf-8")
            for example in examples(block.text) if block.text.startswith("$ ") else ():
                if " apply " in example.command:
                    wait_for_the_next_second()
                assert ageless(becomes(cluster, example)) == ageless(example.output), f"$ {example.command}"
                count += 1
    assert count > 20


def test_the_fleet_of_the_page_is_one(tmp_path: Path) -> None:
    (block,) = [found for found in blocks(HOW_TO) if found.file == "fleet.yaml"]
    (tmp_path / "fleet.yaml").write_text(block.text, "utf-8")
    assert fleet_of(str(tmp_path / "fleet.yaml")) == yaml.safe_load(block.text)["nodes"]


def test_every_mode_limit_and_annotation_of_the_simulation_is_on_the_page() -> None:
    words = [f"`dgx1-v100/{mode}`" for mode in MODES]
    words += [f"`{key}`" for key in (kubelet.SECONDS, kubelet.EXIT_CODE, kubelet.STOP_SECONDS)]
    words += [f"`{key}`" for key in (faults.DEAD, faults.SILENT)]
    assert [word for word in [*words, f"The maximum is {MAX_NODES:,} nodes"] if word not in HOW_TO] == []
