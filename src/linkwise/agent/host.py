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

__all__ = ["Host", "runtime_has_cdi", "write_cdi_spec"]

log = logging.getLogger(__name__)

_TOOLKIT: Final = ("nvidia-container-runtime", "nvidia-container-cli", "nvidia-ctk", "nvidia-cdi-hook")
_PROGRAM_FOLDERS: Final = ("usr/bin", "usr/local/bin", "usr/local/nvidia/toolkit", "bin", "opt/nvidia/toolkit")
_LIBRARY_FOLDERS: Final = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib", "lib64")
_LIBRARIES: Final = re.compile(
    r"lib(?:cuda|cudadebugger|nvidia-(?:ml|ptxjitcompiler|nvvm|gpucomp|allocator|fatbinaryloader|opencl|cfg|encode))"
    r"\.so(?:\.[0-9.]+)?"
)
_PROGRAMS: Final = ("nvidia-smi", "nvidia-debugdump", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server")
_INSIDE: Final = "/usr/local/nvidia"
"""where images of CUDA look for libraries and programs of the driver"""
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

    def has_toolkit(self) -> bool:
        """Whether the vendor's container toolkit is installed, which adds files of the driver to containers."""
        return any((self.root / folder / name).exists() for folder in _PROGRAM_FOLDERS for name in _TOOLKIT)

    def has_any(self, programs: Iterable[str]) -> bool:
        """Whether one of these files of the host exists."""
        return any((self.root / program).exists() for program in programs)

    def driver_files(self) -> tuple[Mount, ...]:
        """Libraries and programs of the driver, and where containers find them."""
        # rule 002.libraries: without a toolkit, the files are mounted one by one.
        return tuple(
            Mount(self.host_path(f"/{path}"), f"{_INSIDE}/{kind}/{Path(path).name}") for kind, path in self._files()
        )

    def _files(self) -> Iterator[tuple[str, str]]:
        seen: set[str] = set()
        for folder in _LIBRARY_FOLDERS:
            with suppress(OSError):
                for entry in sorted(self._seen(self.host_path(f"/{folder}")).iterdir()):
                    if _LIBRARIES.fullmatch(entry.name) and entry.name not in seen:
                        seen.add(entry.name)
                        yield "lib64", f"{folder}/{entry.name}"
        for folder in _PROGRAM_FOLDERS:
            for name in _PROGRAMS:
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
