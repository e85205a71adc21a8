"""Embedded API server and the command line that reads it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from support.command_line import run_linkwise
from support.embedded.thread import EmbeddedThread
from support.environment import surroundings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from subprocess import CompletedProcess
    from typing import Self

    from linkwise.embedded.apiserver.faults import Fault
    from linkwise.embedded.apiserver.server import EmbeddedApi

__all__ = ["AskedCluster", "gpushare_pod"]

Raw = dict[str, Any]


class AskedCluster:
    """API server without a scheduler, for the duration of the `with`."""

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
        """Create objects with their status."""
        api = self._thread.api()
        for thing in things:
            api.create(thing)
        api.close()

    def names(self, kind: str) -> list[str]:
        """Names of the objects of a kind."""
        objects: Iterable[Any] = self._thread.do(lambda server: server.store.list(kind).items)
        return sorted(each.name for each in objects)

    def uid(self, kind: str, name: str) -> str:
        """UID of an object."""
        objects: Iterable[Any] = self._thread.do(lambda server: server.store.list(kind).items)
        return next(str(each.uid) for each in objects if each.name == name)

    def annotations(self, kind: str, name: str) -> dict[str, str]:
        """Annotations of an object."""
        objects: Iterable[Any] = self._thread.do(lambda server: server.store.list(kind).items)
        (found,) = (each for each in objects if each.name == name)
        return dict(json.loads(found.data)["metadata"].get("annotations") or {})

    def fail(self, *faults: Fault) -> None:
        """Inject faults."""

        def add(server: EmbeddedApi) -> None:
            server.faults.add(*faults)

        self._thread.do(add)

    def ask(self, *words: str, stdin: str = "", program: str = "linkwise", columns: int = 100) -> CompletedProcess[str]:
        """Run the command line with the cluster in $KUBECONFIG, under the name of another `program` if given."""
        environment = {**surroundings(), "COLUMNS": str(columns), "NO_COLOR": "1", "KUBECONFIG": str(self.kubeconfig)}
        return run_linkwise(*words, folder=self._folder, environment=environment, stdin=stdin, program=program)


def gpushare_pod(name: str, node: str, memory: int, index: int | None = None, namespace: str = "default") -> Raw:
    """A bound pod with memory of a device, as gpushare's extender records it; without a record if `index` is None."""
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
