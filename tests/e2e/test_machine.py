"""Machines of real nodes keep to themselves, and leave nothing behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.e2e.processes import wait_for
from support.e2e.real_node.cgroups import delegate_controllers

if TYPE_CHECKING:
    from support.e2e.real_node.machine import Machine

MOUNTS = Path("/proc/self/mountinfo")
STARTER = """
import sys, time
from pathlib import Path
from support.e2e.real_node.machine import running_machine
with running_machine(Path(sys.argv[1])) as machine:
    machine.run("sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $! >/run/orphan")
    print(machine.root, flush=True)
    time.sleep(600)
"""


def test_mounts_and_devices_of_a_machine_are_its_own(machine: Machine) -> None:
    before = MOUNTS.read_text()
    machine.mknod("accelerator", 195, 0)
    assert machine.run("ls", "/dev/accelerator") == "/dev/accelerator\n"
    assert machine.run("ls", "-A", "/var/lib/kubelet") == ""
    assert not Path("/dev/accelerator").exists()
    assert MOUNTS.read_text() == before


def test_a_process_ends_with_its_machine(machine: Machine) -> None:
    process = machine.process("sleeper", ["sleep", "600"])
    process.start()
    inner = wait_for(lambda: process.inner, 5, "it has started")
    machine.close()
    assert not Path(f"/proc/{inner}").exists()
    assert not process.alive


@pytest.mark.usefixtures("machine")  # skips where there can be none
def test_a_machine_ends_with_a_killed_run(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        root = Path(starter.stdout.readline().strip())
        assert (root / "run/orphan").exists()
        starter.kill()
    wait_for(lambda: not root.parent.exists(), 5, "the machine is gone with all its processes")


def test_processes_make_way_for_controllers(tmp_path: Path) -> None:
    texts = {"type": "domain", "controllers": "cpu memory", "subtree_control": "", "procs": "1\n"}
    for name, text in texts.items():
        (tmp_path / f"cgroup.{name}").write_text(text)
    delegate_controllers(tmp_path)
    assert (tmp_path / "init/cgroup.procs").read_text() == "1"
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu +memory"
