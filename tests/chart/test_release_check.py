"""The pod of `helm test`: what it says about a service that answers, and about one that does not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from linkwise.testing.cluster import FakeNode, broker_of
from support.fakes.http_service import Served

CHECK = Path(__file__).resolve().parents[2] / "deploy/chart/files/check.py"


def checked(port: int) -> tuple[int, list[str]]:
    """Exit code and lines of the check, run as the pod runs it."""
    environ = {**os.environ, "URL": f"http://127.0.0.1:{port}"}
    command = [sys.executable, "-c", CHECK.read_text("utf-8")]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, [line.rstrip() for line in done.stdout.splitlines()]


def test_a_service_that_answers_passes() -> None:
    with Served(broker_of(FakeNode("a", count=4))) as served:
        found = checked(served.port)
    assert found == (0, ["ok   the leader is ready", "ok   the extender answers kube-scheduler"])


def test_a_service_that_is_not_ready_fails_with_what_it_waits_for() -> None:
    with Served(broker_of(FakeNode("a", count=4)), synced=False) as served:
        code, lines = checked(served.port)
    assert code == 1
    assert lines[0].startswith("FAIL the leader is ready (")
