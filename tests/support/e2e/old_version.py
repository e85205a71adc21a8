"""Earlier version of Linkwise, from the history of the repository: its service runs beside the current one."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from io import BytesIO
from typing import TYPE_CHECKING, Final

import pytest

from support.e2e.scheduler import Serve

if TYPE_CHECKING:
    from pathlib import Path

    from support.e2e.cluster import Cluster

__all__ = ["REVISION", "old_serve", "old_source"]

REVISION: Final = "4c162e61"
"""the last one without a chart: one replica, extender over HTTP"""


def old_source(root: Path, folder: Path) -> Path:
    """The package of that revision, in a folder that is put before the current one on Python's path."""
    command = ["git", "-C", str(root), "archive", REVISION, "src/linkwise"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"the history of the repository is not there: {done.stderr.decode().strip()}")
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    source = folder / "src"
    command = [sys.executable, "-c", "import linkwise; print(linkwise.__file__)"]
    used = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(source)}).stdout
    assert used.startswith(str(source)), f"Python imports {used}"
    return source


def old_serve(cluster: Cluster, source: Path, name: str, port: int) -> Serve:
    """A service of that revision, to be started on the port of the current one."""
    made = Serve(
        cluster.kubeconfig("linkwise"), cluster.folder, name=name, environment={"PYTHONPATH": str(source)}, alone={}
    )
    made.process.command = [word if word != str(made.port) else str(port) for word in made.process.command]
    made.port, made.url = port, f"http://127.0.0.1:{port}"
    made.http = type(made.http)(made.url)
    return made
