"""Control groups of containers, which namespaces do not hide: prepared before, removed after."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from support.e2e.processes import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["delegate_controllers", "memory_limit", "remove_cgroups"]

ROOT: Final = Path("/sys/fs/cgroup")
PARENT: Final = "k8s.io"
"""where containerd puts the group of a container that kubelet gives no other place"""
SECONDS: Final = 10.0


def delegate_controllers(root: Path = ROOT) -> None:
    """Let groups below the root of a container have controllers, as a container runtime in it needs.

    With control groups v2, only a group without processes can pass its controllers on, so these move into a group of
    their own. With v1, and on a host that is not a container, there is nothing to do.
    """
    if not (root / "cgroup.type").exists():
        return
    controllers = (root / "cgroup.controllers").read_text().split()
    if set(controllers) <= set((root / "cgroup.subtree_control").read_text().split()):
        return
    own, wanted = root / "init", " ".join(f"+{name}" for name in controllers)
    own.mkdir(exist_ok=True)

    def delegated() -> bool:
        for process in (root / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                (own / "cgroup.procs").write_text(process)
        try:
            (root / "cgroup.subtree_control").write_text(wanted)
        except OSError as error:  # a process was started meanwhile
            raise AssertionError(error) from error
        return True

    wait_for(delegated, SECONDS, "the root control group passes its controllers on")


def memory_limit(process: Path) -> int:
    """The limit of the group of a process, by its /proc folder, in bytes."""
    groups = dict(line.split(":", 2)[1:] for line in (process / "cgroup").read_text().splitlines())
    if "memory" in groups:
        return int(Path(f"{ROOT}/memory{groups['memory']}/memory.limit_in_bytes").read_text())
    return int(Path(f"{ROOT}{groups['']}/memory.max").read_text())


def remove_cgroups(containers: Iterable[str]) -> None:
    """Remove the groups of containers whose processes have ended or are ending."""
    parents = [found for found in (ROOT / PARENT, *ROOT.glob(f"*/{PARENT}")) if found.is_dir()]
    groups = [parent / container for container in containers for parent in parents]

    def removed() -> bool:
        for group in groups:
            with suppress(OSError):  # still in use, or gone
                group.rmdir()
        return not any(group.exists() for group in groups)

    wait_for(removed, SECONDS, "the control groups of containers are removed")
    for parent in parents:
        with suppress(OSError):  # others have containers in it
            parent.rmdir()
