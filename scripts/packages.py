"""Programs of Debian packages: which are missing, and their installation."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class BuildError(Exception):
    """The build is impossible; the message says what is missing and how to get it."""


def uninstalled(packages: Mapping[str, str]) -> dict[str, str]:
    """Packages whose program is not on the PATH; busybox has to be the static one, since it runs in an empty image."""
    return {
        program: package
        for program, package in packages.items()
        if (path := shutil.which(program)) is None or (package == "busybox-static" and dynamically_linked(Path(path)))
    }


def dynamically_linked(path: Path) -> bool:
    """Whether the head of a program names an interpreter."""
    with path.open("rb") as file:
        return b"/ld-" in file.read(4096)


def install(packages: Mapping[str, str]) -> None:
    """Install Debian packages, by the program that each is needed for."""
    if not packages:
        return
    names, programs = " ".join(packages.values()), " and ".join(packages)
    apt = shutil.which("apt-get")
    prefix = [] if os.geteuid() == 0 else [shutil.which("sudo") or ""]
    if apt is None or prefix == [""]:
        why = "there is no apt-get" if apt is None else "you are not root and there is no sudo"
        raise BuildError(f"{programs}: not on the PATH, and {names} can't be installed since {why}")
    print(f"{programs}: not on the PATH; installing {names}", file=sys.stderr, flush=True)
    for words in (["update", "-q"], ["install", "-q", "-y", "--no-install-recommends", *packages.values()]):
        command = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", apt, *words]
        done = subprocess.run(command, stdout=sys.stderr, check=False)  # noqa: S603 - our own command
        if done.returncode:
            raise BuildError(f"{' '.join(command)} failed with exit code {done.returncode}; see its output above")
    if missing := uninstalled(packages):
        raise BuildError(f"{' '.join(missing.values())} installed, but {' and '.join(missing)}: not on the PATH")
