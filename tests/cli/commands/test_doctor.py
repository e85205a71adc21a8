"""`linkwise doctor` without a cluster: its list of checks, and words that it does not know."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import TYPE_CHECKING

from linkwise.doctor.examine import CHECKS

if TYPE_CHECKING:
    from pathlib import Path

Linkwise = Callable[..., subprocess.CompletedProcess[str]]


def test_all_checks_are_listed_without_a_cluster(linkwise: Linkwise) -> None:
    head, *lines = linkwise("doctor", "--list").stdout.splitlines()
    assert head.split() == ["ID", "GROUP", "CLAIM"]
    assert [line.split()[0] for line in lines] == [each.id for each in CHECKS]
    names = linkwise("doctor", "--list", "-o", "name", "--check", "agent-missing").stdout
    assert names == "check/agent-missing\n"
    (item,) = json.loads(linkwise("doctor", "--list", "-o", "json", "--check", "agent-missing").stdout)["items"]
    assert item["page"] == "docs/reference/doctor.md#agent-missing"


def test_an_unknown_check_is_refused_with_a_similar_one(linkwise: Linkwise) -> None:
    done = linkwise("doctor", "--check", "agent-mising")
    assert done.returncode == 2
    assert done.stderr == 'linkwise: unknown check "agent-mising"; did you mean agent-missing?\n'


def test_a_cluster_that_is_not_configured_is_exit_code_three(linkwise: Linkwise, tmp_path: Path) -> None:
    done = linkwise("doctor", "--kubeconfig", str(tmp_path / "missing"))
    assert done.returncode == 3
    assert done.stderr.startswith("linkwise: ")
    assert "Traceback" not in done.stderr
