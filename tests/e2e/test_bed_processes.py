"""Programs that the test cluster starts end with it, and say why if they do not start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.e2e.processes import BedError, Process, free_ports, wait_for

STARTER = """
import sys, time
from pathlib import Path
from support.e2e.processes import Process
child = Process("sleeper", ["sleep", "600"], Path(sys.argv[1]))
child.start()
print(child.pid, flush=True)
time.sleep(600)
"""


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


def test_a_killed_run_leaves_nothing_running(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        child = int(starter.stdout.readline())
        assert runs(child)
        starter.kill()
    wait_for(lambda: not runs(child), 5, "the child of a killed run is gone")


def test_a_program_that_ends_early_is_reported_with_its_last_words(tmp_path: Path) -> None:
    process = Process("early", ["sh", "-c", "echo no such flag; exit 3"], tmp_path)
    process.start()
    with pytest.raises(BedError, match=r"early ended with 3\n--- .*early.log\nno such flag"):
        process.wait_until(lambda: False, 5)


def test_a_program_that_is_not_ready_in_time_is_reported(tmp_path: Path) -> None:
    process = Process("slow", ["sleep", "600"], tmp_path)
    process.start()
    with pytest.raises(BedError, match=r"slow is not ready after 0\.1 s"):
        process.wait_until(lambda: False, 0.1)
    assert process.stop() == -signal.SIGTERM


def test_a_program_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    process = Process(
        "deaf", ["sh", "-c", "trap '' TERM; echo listening to no signal; while :; do sleep 1; done"], tmp_path
    )
    process.start()
    wait_for(lambda: "listening" in process.tail(), 5, "it listens no more")
    assert process.stop(0.1) == -signal.SIGKILL
    assert not process.alive


def test_waiting_says_what_was_seen_last() -> None:
    with pytest.raises(AssertionError, match=r"three pods: not within 0 s; seen last: \[\]"):
        wait_for(list[str], 0, "three pods")


def test_ports_are_those_that_no_client_is_given() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    found = free_ports(3)
    assert len(set(found)) == 3
    assert max(found) < lowest, os.uname()
