"""A bandwidth test runs on the devices it is given, and none of its processes outlives it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from linkwise.drivers.measured_bandwidth import BandwidthTest, find_test, run_test
from linkwise.errors import DriverError

if TYPE_CHECKING:
    from collections.abc import Iterator


class Calm:
    """An interruption by hand."""

    def __init__(self) -> None:
        self.near, self.far = socket.socketpair()

    def fileno(self) -> int:
        return self.near.fileno()

    def revoked(self) -> str:
        return self.near.recv(100).decode()


@pytest.fixture
def calm() -> Iterator[Calm]:
    found = Calm()
    yield found
    found.near.close()
    found.far.close()


def program(folder: Path, script: str, name: str = "nvbandwidth") -> BandwidthTest:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return find_test(str(path))


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def wait_gone(pid: int) -> None:
    limit = time.monotonic() + 10
    while not gone(pid):
        assert time.monotonic() < limit, f"{pid} still runs"
        time.sleep(0.01)  # the kernel needs a moment to end it


def test_the_program_sees_exactly_the_devices_in_their_order(tmp_path: Path, calm: Calm) -> None:
    command = program(tmp_path, 'echo "$CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER $*"')
    text = run_test(command, ["GPU-b", "GPU-a"], timeout=10, interruption=calm)
    assert text == "GPU-b,GPU-a PCI_BUS_ID -t device_to_device_memcpy_write_ce\n"


def test_p2p_bandwidth_latency_test_gets_no_arguments(tmp_path: Path, calm: Calm) -> None:
    command = program(tmp_path, 'echo "[$*]"', "p2pBandwidthLatencyTest")
    assert run_test(command, ["a", "b"], timeout=10, interruption=calm) == "[]\n"


def test_a_program_that_hangs_is_killed_with_its_children_at_the_limit(tmp_path: Path, calm: Calm) -> None:
    command = program(tmp_path, f"sleep 600 & echo $! > {tmp_path}/child\nsleep 600")
    with pytest.raises(DriverError, match=r"did not end within 0\.5 s and was killed"):
        run_test(command, ["a"], timeout=0.5, interruption=calm)
    wait_gone(int((tmp_path / "child").read_text()))


def test_a_child_that_a_program_leaves_behind_is_killed(tmp_path: Path, calm: Calm) -> None:
    command = program(tmp_path, f"sleep 600 & echo $! > {tmp_path}/child\necho done")
    assert run_test(command, ["a"], timeout=30, interruption=calm) == "done\n"
    wait_gone(int((tmp_path / "child").read_text()))


def test_an_interrupted_program_is_killed_at_once(tmp_path: Path, calm: Calm) -> None:
    command = program(tmp_path, f"echo $$ > {tmp_path}/pid\nsleep 600")
    calm.far.send(b"a pod needs a device")
    with pytest.raises(DriverError, match="the measurement was stopped: a pod needs a device"):
        run_test(command, ["a"], timeout=30, interruption=calm)


def test_the_interruption_stays_open_in_the_processes_of_the_program(tmp_path: Path, calm: Calm) -> None:
    calm.near.set_inheritable(False)
    run_test(program(tmp_path, f"ls -l /proc/self/fd > {tmp_path}/open"), ["a"], timeout=10, interruption=calm)
    assert (tmp_path / "open").read_text().count("socket:") == 1


def test_a_killed_measurement_takes_its_program_with_it(tmp_path: Path) -> None:
    program(tmp_path, f"echo $$ > {tmp_path}/pid\nexec sleep 600")
    script = textwrap.dedent(f"""
        import socket
        from linkwise.drivers.measured_bandwidth import find_test, run_test
        class Calm:
            def __init__(self): self.near, self.far = socket.socketpair()
            def fileno(self): return self.near.fileno()
            def revoked(self): return ""
        run_test(find_test({str(tmp_path / "nvbandwidth")!r}), ["a"], timeout=600, interruption=Calm())
    """)
    measurer = subprocess.Popen([sys.executable, "-c", script])
    limit = time.monotonic() + 20
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < limit
        time.sleep(0.01)
    measurer.send_signal(signal.SIGKILL)
    measurer.wait()
    wait_gone(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("echo CUDA error: no device; exit 3", "failed with exit code 3: CUDA error: no device"),
        ("exit 1", "failed with exit code 1: no output"),
        ("kill -SEGV $$", "failed with exit code -11"),
        ("yes", "printed more than 4194304 bytes and was killed"),
    ],
)
def test_a_program_that_fails_is_an_error_with_its_last_line(
    tmp_path: Path, script: str, sentence: str, calm: Calm
) -> None:
    with pytest.raises(DriverError) as error:
        run_test(program(tmp_path, script), ["a"], timeout=60, interruption=calm)
    assert sentence in str(error.value)


def test_a_missing_program_is_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calm: Calm
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DriverError, match="neither nvbandwidth nor p2pBandwidthLatencyTest is in PATH; give the path"):
        find_test()
    with pytest.raises(DriverError, match="/nowhere/nvbandwidth can't be run"):
        find_test("/nowhere/nvbandwidth")
    broken = tmp_path / "nvbandwidth"
    broken.write_bytes(b"\x00\x01 not a program")
    broken.chmod(0o755)
    with pytest.raises(DriverError, match="Exec format error"):
        run_test(find_test(), ["a"], timeout=5, interruption=calm)
