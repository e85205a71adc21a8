"""A cluster on the embedded API server, and the command line that asks about it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

from support.embedded.thread import EmbeddedThread
from support.environment import surroundings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from typing import Self

    from linkwise.embedded.apiserver.faults import Fault
    from linkwise.embedded.apiserver.server import EmbeddedApi

__all__ = ["AskedCluster", "gpushare_pod"]

Raw = dict[str, Any]


class AskedCluster:
    """Serves for as long as the `with` lasts; nobody schedules in it."""

    def __init__(self, folder: Path) -> None:
        self.kubeconfig, self._folder = folder / "kubeconfig", folder
        self._thread = EmbeddedThread()

    def __enter__(self) -> Self:
        self._thread.__enter__()
        self.kubeconfig.write_text(self._thread.server.kubeconfig(), "utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.__exit__()

    def make(self, *things: Mapping[str, Any]) -> None:
        """Make objects, with their status."""
        api = self._thread.api()
        for thing in things:
            api.create(thing)
        api.close()

    def names(self, kind: str) -> list[str]:
        """What there is of a kind."""
        found: Iterable[Any] = self._thread.do(lambda server: server.store.list(kind).items)
        return sorted(one.name for one in found)

    def fail(self, *faults: Fault) -> None:
        """Let these things go wrong."""

        def add(server: EmbeddedApi) -> None:
            server.faults.add(*faults)

        self._thread.do(add)

    def ask(
        self, *words: str, stdin: str = "", program: str = "", columns: int = 100
    ) -> subprocess.CompletedProcess[str]:
        """Run the command line as a user would, with the cluster in $KUBECONFIG; under another name if there is one."""
        environment = {**surroundings(), "COLUMNS": str(columns), "NO_COLOR": "1", "KUBECONFIG": str(self.kubeconfig)}
        call = ["-c", f"import sys; sys.argv[0] = {program!r}; from linkwise.cli.main import run; run()"]
        return subprocess.run(
            [sys.executable, *(call if program else ["-m", "linkwise"]), *words],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            cwd=self._folder,
            env=environment,
            timeout=200,
        )


def gpushare_pod(name: str, node: str, memory: int, index: int | None = None, namespace: str = "default") -> Raw:
    """A bound pod with memory of a device, as gpushare's extender records it; of no known device without an index."""
    record = {
        "ALIYUN_COM_GPU_MEM_IDX": str(index),
        "ALIYUN_COM_GPU_MEM_POD": str(memory),
        "ALIYUN_COM_GPU_MEM_DEV": "22",
        "ALIYUN_COM_GPU_MEM_ASSIGNED": "true",
        "ALIYUN_COM_GPU_MEM_ASSUME_TIME": "1",
    }
    container = {"name": "main", "image": "example.com/none"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "annotations": {} if index is None else record},
        "spec": {
            "nodeName": node,
            "containers": [{**container, "resources": {"limits": {"aliyun.com/gpu-mem": str(memory)}}}],
        },
    }
