"""Machine of a real node: namespaces in which kubelet, containerd and containers run, and which vanish as a whole.

Inside, /run, /var/log, /var/lib/kubelet, /var/lib/containerd and /dev are new and empty, so that programs use their
default paths. Several machines can run at once, beside a kubelet of the host. When the first process of the machine
ends, the kernel ends all others and removes every mount: containers and their shims can't outlive the tests.
"""

from __future__ import annotations

import os
import stat
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from support.e2e.processes import BedError, Process
from support.e2e.real_node.cgroups import delegate_controllers

if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["Inside", "Machine", "UnsupportedError", "demanded_machine", "running_machine"]

READY: Final = 10.0  # seconds

MOUNTS: Final = """
set -e
mount -t tmpfs -o mode=755 run /run
mount -t tmpfs -o mode=755 log /var/log
mkdir /run/cdi /run/lib /run/lib/upper /run/lib/work /run/dev
# The host may have no folders to mount on, and gets none.
mount -t overlay -o lowerdir=/var/lib,upperdir=/run/lib/upper,workdir=/run/lib/work lib /var/lib
for folder in kubelet containerd; do
  mkdir -p /var/lib/$folder
  mount -t tmpfs -o mode=755 $folder /var/lib/$folder
done
mount -t tmpfs -o mode=755 dev /run/dev
cd /run/dev
mknod -m 666 null c 1 3
mknod -m 666 zero c 1 5
mknod -m 666 full c 1 7
mknod -m 666 random c 1 8
mknod -m 666 urandom c 1 9
mknod -m 666 tty c 5 0
mknod -m 600 kmsg c 1 11
mkdir pts shm
ln -s pts/ptmx ptmx
ln -s /proc/self/fd fd
mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts pts
mount -t tmpfs -o mode=1777 shm shm
cd /
mount --move /run/dev /dev
mount --make-rshared / # as kubelet and containerd expect it
touch /run/ready
trap '' CHLD # orphans, such as shims, are adopted by this process and leave no zombies
exec sleep infinity
"""

REBOOT: Final = """
for folder in containerd netns; do
  # Some are mounted twice, and go together.
  grep -o " /run/$folder[^ ]*" /proc/self/mounts | sort --reverse --unique | xargs --no-run-if-empty umount --lazy || true
  rm -rf /run/$folder
done
"""


class UnsupportedError(BedError):
    """This host does not permit a machine."""


class Inside(Process):
    """Program that unshare or nsenter runs as a child in other namespaces; they exit when it does, with its exit code."""

    @property
    def inner(self) -> int:
        """Process id of the program, as the host counts; 0 if there is none yet."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        with suppress(FileNotFoundError, ProcessLookupError):
            return int((children.read_text().split() or ["0"])[0])
        return 0

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the program only: unshare or nsenter must live to report its exit code."""
        inner = self.inner
        if not inner:
            super().signal(number)
            return
        with suppress(ProcessLookupError):
            os.kill(inner, number)


class Machine:
    """Namespaces for mounts and processes, with folders that the tests reach through `root`."""

    def __init__(self, folder: Path, enter: Sequence[str] = ()) -> None:
        """Make it in namespaces that the words of `enter` lead to, such as a network of its own."""
        self.folder = folder
        command = [*enter, "unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", MOUNTS]
        self._first = Inside("machine", command, folder)
        self._processes: list[Inside] = []

    @property
    def root(self) -> Path:
        """The machine's file system as the host sees it; sockets below it can be connected to."""
        return Path(f"/proc/{self._first.inner}/root")

    def start(self) -> None:
        """Make the namespaces and mounts; UnsupportedError if that is not permitted here."""
        if os.geteuid() != 0:
            raise UnsupportedError("a real node needs root: it mounts file systems and starts containers")
        try:
            delegate_controllers()
            self._first.start()
            self._first.wait_until(self._ready, READY)
        except (BedError, OSError, AssertionError) as error:
            why = "a real node needs permission to create namespaces, mounts, device nodes and control groups"
            raise UnsupportedError(f"{why}: {error}") from error

    def process(self, name: str, command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> Inside:
        """A program that runs in the machine once it is started."""
        made = Inside(name, [*self._enter(), *command], self.folder, environment)
        self._processes.append(made)
        return made

    def run(self, *command: str | Path) -> str:
        """Output of a command that runs in the machine; AssertionError with its error output if it fails."""
        words = [*self._enter(), *map(str, command)]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode:
            said = done.stderr.strip() or done.stdout.strip()
            raise AssertionError(f"{' '.join(words)} ended with {done.returncode}: {said}")
        return done.stdout

    def mknod(self, name: str, major: int, minor: int) -> Path:
        """Make a character device in the machine's /dev; it needs no driver unless it is opened."""
        path = self.root / "dev" / name
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))
        return path

    def reboot(self) -> None:
        """End all programs, and lose what is below /run; files of kubelet and containerd stay."""
        with suppress(AssertionError):  # the shell that does it ends with the others
            self.run("sh", "-c", "kill -9 -1")
        for process in self._processes:
            process.kill()
        self.run("sh", "-ec", REBOOT)

    def close(self) -> None:
        """End everything that runs in the machine, as if the power failed; logs stay."""
        self._first.kill()
        for process in self._processes:
            process.kill()

    def _ready(self) -> bool:
        return (self.root / "run/ready").exists()

    def _enter(self) -> list[str]:
        return ["nsenter", f"--target={self._first.inner}", "--mount", "--net", "--pid", "--"]


@contextmanager
def running_machine(folder: Path, enter: Sequence[str] = ()) -> Iterator[Machine]:
    """A machine until the end of the block; what its programs print is in the folder."""
    machine = Machine(folder, enter)
    try:
        machine.start()
        yield machine
    finally:
        machine.close()


@contextmanager
def demanded_machine(folder: Path, enter: Sequence[str] = ()) -> Iterator[Machine]:
    """The same; where it is not permitted, the test is skipped unless LINKWISE_E2E is 1."""
    try:
        with running_machine(folder, enter) as machine:
            yield machine
    except UnsupportedError as error:
        if os.environ.get("LINKWISE_E2E") == "1":
            raise
        pytest.skip(str(error))
