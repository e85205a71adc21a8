"""Stub of libnvidia-ml.so.1, compiled on first use, with the file that tells it its machine."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from support.stub_library import compiled

if TYPE_CHECKING:
    from support.nvml_stub.machine import StubMachine

__all__ = ["Stub"]

SOURCE: Final = Path(__file__).with_name("stub.c")
SONAME: Final = "libnvidia-ml.so.1"


class Stub:
    """The stub for one process or test; what `write` describes takes effect at the next discovery.

    The library finds its file by the environment variable NVML_STUB. A process started with `environment`
    loads it as it would load NVIDIA's.
    """

    def __init__(self, folder: Path, *, old_driver: bool = False) -> None:
        """Compile the library unless it is in the cache; skip the test if there is no C compiler."""
        self.library: Final = compiled(SOURCE, SONAME, ("-DOLD_DRIVER",) if old_driver else ())
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
