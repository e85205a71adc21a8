"""Stub of libdcmi.so, compiled on first use, with the file from which it reads its machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from support.stub_library import compiled

if TYPE_CHECKING:
    from support.dcmi_stub.machine import StubNpus

__all__ = ["DcmiStub"]

SOURCE: Final = Path(__file__).with_name("stub.c")
SONAME: Final = "libdcmi.so"


class DcmiStub:
    """The stub for one process or test; what `write` describes takes effect at the next discovery.

    The library finds its file by the environment variable DCMI_STUB. A process started with `environment` loads it as it
    would load Huawei's.
    """

    def __init__(self, folder: Path, *, old_driver: bool = False) -> None:
        """Compile the library unless it is in the cache; skip the test if there is no C compiler."""
        self.library: Final = compiled(SOURCE, SONAME, ("-DOLD_DRIVER",) if old_driver else ())
        self.config: Final = folder / "dcmi.txt"

    @property
    def environment(self) -> dict[str, str]:
        """Variables for a process that shall load the stub."""
        return {"LD_LIBRARY_PATH": str(self.library.parent), "DCMI_STUB": str(self.config)}

    def write(self, machine: StubNpus) -> None:
        """Make this the machine; a process never sees half of the file."""
        new = self.config.with_suffix(".new")
        new.write_text(machine.text(), "ascii")
        new.replace(self.config)

    def remove(self) -> None:
        """Unload the driver: without a file, DCMI reports that it does not answer."""
        self.config.unlink()
