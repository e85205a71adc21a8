"""Stub of libnvidia-ml.so.1, compiled on first use, with the file that tells it its machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from support.nvml_stub.machine import StubMachine

__all__ = ["Stub"]

SOURCE: Final = Path(__file__).with_name("stub.c")
CACHE: Final = Path(__file__).resolve().parents[3] / ".pytest_cache" / "nvml-stub"
SONAME: Final = "libnvidia-ml.so.1"
FLAGS: Final = ("-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread", f"-Wl,-soname,{SONAME}")


class Stub:
    """The stub for one process or test; what `write` describes takes effect at the next discovery.

    The library finds its file by the environment variable NVML_STUB. A process started with `environment`
    loads it as it would load NVIDIA's.
    """

    def __init__(self, folder: Path, *, old_driver: bool = False) -> None:
        """Compile the library unless it is in the cache; skip the test if there is no C compiler."""
        self.library: Final = _compiled(("-DOLD_DRIVER",) if old_driver else ())
        self.config: Final = folder / "nvml.txt"

    @property
    def environment(self) -> dict[str, str]:
        """Variables for a process that shall load the stub."""
        return {"LD_LIBRARY_PATH": str(self.library.parent), "NVML_STUB": str(self.config)}

    def write(self, machine: StubMachine) -> None:
        """Make this the machine; a process never sees half of the file."""
        new = self.config.with_suffix(".new")
        new.write_bytes(machine.text())
        new.replace(self.config)

    def remove(self) -> None:
        """Unload the driver: without a file, NVML reports that it is not loaded."""
        self.config.unlink()

    def calls(self) -> Counter[str]:
        """Number of calls by symbol since the first `write`."""
        record = self.config.with_name(f"{self.config.name}.calls")
        return Counter(record.read_text("ascii").split()) if record.exists() else Counter()


def _compiled(options: tuple[str, ...]) -> Path:
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler: the stub of NVML can't be built (install gcc, or set CC)")
    recipe = f"{SOURCE.read_text('utf-8')} {FLAGS} {options}"
    library = CACHE / sha256(recipe.encode()).hexdigest()[:16] / SONAME
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        new = library.with_name(f"{SONAME}.{os.getpid()}")  # workers may compile it at the same time
        subprocess.run([compiler, *FLAGS, *options, "-o", str(new), str(SOURCE)], check=True)
        new.replace(library)
    return library
