"""Stub of libamd_smi.so, compiled on first use, with the file from which it reads its machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from support.stub_library import compiled

if TYPE_CHECKING:
    from support.amdsmi_stub.machine import StubAmd

__all__ = ["AmdSmiStub"]

SOURCE: Final = Path(__file__).with_name("stub.c")
SONAME: Final = "libamd_smi.so"


class AmdSmiStub:
    """The stub for one process or test; what `write` describes takes effect at the next discovery.

    The library finds its file by the environment variable AMDSMI_STUB. A process started with `environment` loads it as it
    would load ROCm's.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        """Compile the library unless it is in the cache; skip the test if there is no C compiler."""
        self.library: Final = compiled(SOURCE, SONAME, options)
        folder.mkdir(parents=True, exist_ok=True)
        self.config: Final = folder / "amdsmi.txt"
        self.host: Final = folder
        """the root below which the kernel's files are written"""

    @property
    def environment(self) -> dict[str, str]:
        """Variables for a process that shall load the stub."""
        return {"LD_LIBRARY_PATH": str(self.library.parent), "AMDSMI_STUB": str(self.config)}

    def write(self, machine: StubAmd) -> None:
        """Make this the machine, with the files of its kernel driver; a process never sees half of a file."""
        machine.write_kernel_files(self.host)
        new = self.config.with_suffix(".new")
        new.write_text(machine.text(), "ascii")
        new.replace(self.config)

    def remove(self) -> None:
        """Unload the driver: without a file, AMD SMI reports that it is not loaded."""
        self.config.unlink()
