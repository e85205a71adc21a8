"""Container image of the checkout: built once for all tests and workers, and again when its sources change."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

__all__ = ["built_image"]

SOURCES: Final = (
    "LICENSE",
    "README.md",
    "deploy/Dockerfile",
    "deploy/image",
    "docs/rules.md",
    "hatch_build.py",
    "pyproject.toml",
    "scripts/image",
    "scripts/oci_image.py",
    "src",
)
SECONDS: Final = 280


def built_image(root: Path) -> Path:
    """The OCI archive that `make image` writes, in the cache of the programs; earlier ones are removed."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "linkwise/image"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        file = folder / f"{_fingerprint(root)}.oci.tar"
        if not file.exists():
            for old in folder.glob("*.oci.tar"):
                old.unlink()
            command = [sys.executable, str(root / "scripts/oci_image.py"), "--install", str(file)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
            assert done.returncode == 0, done.stderr
    return file


def _fingerprint(root: Path) -> str:
    found = hashlib.sha256()
    for name in SOURCES:
        paths = sorted((root / name).rglob("*")) if (root / name).is_dir() else [root / name]
        for path in paths:
            if path.is_file() and "__pycache__" not in path.parts:
                found.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]
