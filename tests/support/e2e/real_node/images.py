"""Container image of the tests: busybox, as an archive that `ctr images import` reads."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Final

from support.e2e.processes import BedError

__all__ = ["IMAGE", "write_image"]

IMAGE: Final = "linkwise.dev/e2e/busybox:1"
"""what pods name; there is nowhere to pull it from, so they also say `imagePullPolicy: Never`"""
WAITING: Final = ("/bin/sh", "-c", "trap 'exit 0' TERM; sleep 2147483647 & wait")
"""what containers do that name no command: nothing, until they are asked to end"""
ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


def write_image(path: Path) -> Path:
    """Write the archive: one layer, a configuration, a manifest."""
    layer = _layer()
    config = {
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Env": ["PATH=/bin"], "Entrypoint": list(WAITING)},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]
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
