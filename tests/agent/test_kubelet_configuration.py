from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from linkwise.agent.kubelet.state import alignment_in
from linkwise.model.node import NumaAlignment

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = {"topologyManagerPolicy": "restricted", "topologyManagerScope": "pod", "cpuManagerPolicy": "static"}
YAML = """
kind: KubeletConfiguration
# topologyManagerPolicy: none
topologyManagerPolicy: "restricted"
topologyManagerScope: pod # all containers
cpuManagerPolicy: static
"""


@pytest.mark.parametrize("text", [YAML, json.dumps(SETTINGS), json.dumps(SETTINGS, indent=2)])
def test_the_policies_are_read_from_yaml_and_json(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    assert alignment_in(tmp_path) == NumaAlignment("restricted", "pod")


def test_a_file_without_policies_has_the_kubelets_defaults(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("kind: KubeletConfiguration\n")
    assert alignment_in(tmp_path) == NumaAlignment("none", static_cpus=False)


def test_without_a_file_or_with_an_unknown_policy_nothing_is_known(tmp_path: Path) -> None:
    assert alignment_in(tmp_path) is None
    (tmp_path / "config.yaml").write_bytes(b"\xff\x00topologyManagerPolicy: x\ntopologyManagerPolicy: strict\n")
    assert alignment_in(tmp_path) is None
