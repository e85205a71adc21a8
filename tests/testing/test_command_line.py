"""Commands that run in the process of the tests leave it as it was."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from support.command_line import run_linkwise
from support.environment import surroundings

if TYPE_CHECKING:
    from pathlib import Path


def test_a_completion_that_reads_the_cluster_does_not_silence_later_tests(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("apiVersion: v1\nkind: Config\n", "utf-8")
    environment = {**surroundings(), "KUBECONFIG": str(kubeconfig)}
    run_linkwise("get", "pods", "", folder=tmp_path, environment=environment, program="kubectl_complete-linkwise")
    assert logging.getLogger("linkwise").isEnabledFor(logging.CRITICAL)
