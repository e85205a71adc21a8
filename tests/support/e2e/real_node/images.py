"""Container images of the tests, as archives that `ctr images import` reads: busybox, and others of one program each."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from support.e2e.processes import BedError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["IMAGE", "write_image", "write_program_image"]

IMAGE: Final = "linkwise.dev/e2e/busybox:1"
"""what pods name; there is nowhere to pull it from, so they also say `imagePullPolicy: Never`"""
WAITING: Final = ("/bin/sh", "-c", "trap 'exit 0' TERM; sleep 2147483647 & wait")
"""what containers do that name no command: nothing, until they are asked to end"""
ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


def write_image(path: Path) -> Path:
    """Write the archive of the image of the tests."""
    return _write(path, IMAGE, _layer(), {"Env": ["PATH=/bin"], "Entrypoint": list(WAITING)})


def write_program_image(path: Path, name: str, program: Path) -> Path:
    """Write the archive of an image of this name that has nothing but one static program, on its PATH."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as layer:
        _add(layer, f"usr/local/bin/{program.name}", program.read_bytes(), mode=0o755)
    return _write(path, name, content.getvalue(), {"Env": ["PATH=/usr/local/bin"], "Entrypoint": [program.name]})


def _write(path: Path, name: str, layer: bytes, settings: Mapping[str, object]) -> Path:
    """One layer, a configuration, a manifest."""
    config = {
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": settings,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(path, "w") as archive:
        _add(archive, "layer.tar", layer)
        _add(archive, "config.json", json.dumps(config).encode())
        _add(archive, "manifest.json", json.dumps(manifest).encode())
    return path


def _layer() -> bytes:
    """busybox under all its names."""
    program = shutil.which("busybox")
    if program is None:
        raise BedError("there is no busybox on the PATH: `python scripts/kubernetes.py build` installs it")
    names = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as layer:
        _add(layer, "bin/busybox", Path(program).read_bytes(), mode=0o755)
        for name in names:
            if name != "busybox":
                link = tarfile.TarInfo(f"bin/{name}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                layer.addfile(link)
    return content.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))
