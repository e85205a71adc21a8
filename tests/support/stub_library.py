"""Stub libraries in C, compiled on first use and kept in a cache."""

from __future__ import annotations

import os
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Final

import pytest

__all__ = ["compiled"]

CACHE: Final = Path(__file__).resolve().parents[2] / ".pytest_cache" / "stubs"
FLAGS: Final = ("-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread")


def compiled(source: Path, soname: str, options: tuple[str, ...] = ()) -> Path:
    """The library of a source file; the test is skipped if there is no C compiler."""
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip(f"no C compiler: the stub {soname} can't be built (install gcc, or set CC)")
    flags = (*FLAGS, f"-Wl,-soname,{soname}", *options)
    library = CACHE / sha256(f"{source.read_text('utf-8')} {flags}".encode()).hexdigest()[:16] / soname
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        new = library.with_name(f"{soname}.{os.getpid()}")  # workers may compile it at the same time
        subprocess.run([compiler, *flags, "-o", str(new), str(source)], check=True)
        new.replace(library)
    return library
