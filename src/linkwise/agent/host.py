"""Host files: device nodes, files of the driver, and the CDI specification in its folder."""

from __future__ import annotations

import json
import logging
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from linkwise.vendors.container_needs import Mount

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from linkwise.vendors.vendor import DriverFiles

__all__ = ["Host", "runtime_has_cdi", "write_cdi_spec"]

log = logging.getLogger(__name__)

_PROGRAM_FOLDERS: Final = ("usr/bin", "usr/local/bin", "bin")
_LIBRARY_FOLDERS: Final = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib", "lib64")
_VERSION: Final = re.compile(r"(?P<name>[a-z-]+)://v?(?P<major>\d+)\.(?P<minor>\d+)")
_CDI_SINCE: Final[Mapping[str, tuple[int, int]]] = {"containerd": (2, 0), "cri-o": (1, 28)}
"""versions in which CDI is on by default"""


@dataclass(frozen=True, slots=True)
class Host:
    """The host's file system.

    Args:
        root: where it is mounted.
        driver_root: folder of the host in which the driver is installed.
    """

    root: Path
    driver_root: str = "/"

    def host_path(self, path: str) -> str:
        """Path of a device node or file of the driver on the host."""
        return path if self.driver_root == "/" else f"{self.driver_root.rstrip('/')}{path}"

    def exists(self, path: str) -> bool:
        """Whether the host has this device node or file of the driver."""
        return self._seen(self.host_path(path)).exists()

    def has_toolkit(self, files: DriverFiles) -> bool:
        """Whether the vendor's container toolkit is installed, which adds files of the driver to containers."""
        return self.has_any(
            f"{folder}/{name}" for folder in (*_PROGRAM_FOLDERS, *files.folders) for name in files.toolkit
        )

    def has_any(self, programs: Iterable[str]) -> bool:
        """Whether one of these files of the host exists."""
        return any((self.root / program).exists() for program in programs)

    def driver_files(self, files: DriverFiles) -> tuple[Mount, ...]:
        """Libraries and programs of the driver, and where containers find them."""
        # rule 002.libraries: without a toolkit, the files are mounted one by one.
        return tuple(
            Mount(self.host_path(f"/{path}"), f"{files.inside}/{kind}/{Path(path).name}")
            for kind, path in self._files(files)
        )

    def _files(self, files: DriverFiles) -> Iterator[tuple[str, str]]:
        seen: set[str] = set()
        for folder in _LIBRARY_FOLDERS:
            with suppress(OSError):
                for entry in sorted(self._seen(self.host_path(f"/{folder}")).iterdir()):
                    if re.fullmatch(files.libraries, entry.name) and entry.name not in seen:
                        seen.add(entry.name)
                        yield "lib64", f"{folder}/{entry.name}"
        for folder in (*_PROGRAM_FOLDERS, *files.folders):
            for name in files.programs:
                if name not in seen and self.exists(f"/{folder}/{name}"):
                    seen.add(name)
                    yield "bin", f"{folder}/{name}"

    def _seen(self, path: str) -> Path:
        return self.root / path.lstrip("/")


def runtime_has_cdi(runtime: str) -> bool:
    """Whether a container runtime, as a node reports it, reads CDI specifications without configuration."""
    found = _VERSION.match(runtime)
    since = _CDI_SINCE.get(found["name"]) if found else None
    return bool(found and since and (int(found["major"]), int(found["minor"])) >= since)


def write_cdi_spec(folder: Path, name: str, spec: Mapping[str, Any]) -> str:
    """Write a specification, whole or not at all; return why it could not be written, or an empty text."""
    text = json.dumps(spec, indent=1).encode()
    target, unfinished = folder / name, folder / f".{name}.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if target.is_file() and target.read_bytes() == text:
            return ""
        unfinished.write_bytes(text)
        unfinished.replace(target)
    except OSError as error:
        with suppress(OSError):
            unfinished.unlink()
        return f"{target} can't be written: {error.strerror or error}"
    log.info("cdi: wrote %s", target)
    return ""
