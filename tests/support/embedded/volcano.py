"""Volcano Jobs for tests, and a cluster that has only controllers, so that a test can stop them at any point."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec

from linkwise.embedded.apiserver.server import EmbeddedApi
from linkwise.embedded.controllers.manager import Controllers
from support.virtual_clock import run_idle

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from linkwise.embedded.storage.collection import Raw

__all__ = ["GROUPS", "JOBS", "NPU", "QUEUES", "OnlyControllers", "only_controllers", "volcano_job", "volcano_task"]

P = ParamSpec("P")

JOBS: Final = "jobs.batch.volcano.sh"
GROUPS: Final = "podgroups.scheduling.volcano.sh"
QUEUES: Final = "queues.scheduling.volcano.sh"
NPU: Final = "huawei.com/Ascend910"
SECONDS: Final = 20.0


def volcano_task(
    name: str = "worker",
    replicas: int = 1,
    limits: Mapping[str, int | str] | None = None,
    *,
    annotations: Mapping[str, str] | None = None,
    **more: Any,  # noqa: ANN401 - further fields of the task
) -> Raw:
    """A task whose pods have one container and are not restarted."""
    container = {"name": "train", "image": "example.com/none", "resources": {"limits": dict(limits or {})}}
    template = {
        "metadata": {"labels": {"app": "train"}, "annotations": dict(annotations or {})},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]},
    }
    return {"name": name, "replicas": replicas, "template": template, **more}


def volcano_job(name: str, *tasks: Raw, **spec: Any) -> Raw:  # noqa: ANN401 - further fields of the spec
    """A Volcano Job; by default with one task of one pod."""
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"tasks": list(tasks) or [volcano_task()], **spec},
    }


class OnlyControllers:
    """An API server and its controllers; pods are scheduled, run and end as the test says."""

    def __init__(self) -> None:
        self.api: Final = EmbeddedApi(tls=False)
        self.store: Final = self.api.store
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start controllers that know nothing yet."""
        self._task = asyncio.create_task(Controllers(self.store, self.api.admission).run())

    async def stop(self) -> None:
        """Stop the controllers wherever they are."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def restart(self) -> None:
        """Stop the controllers, and start others on the same objects."""
        await self.stop()
        self.start()

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until a condition is true."""
        async with asyncio.timeout(SECONDS):
            while not condition():
                if self._task is not None and self._task.done():
                    self._task.result()
                self.store.garbage_collector.finish()
                await asyncio.sleep(0)
        assert condition(), what

    def create(self, job: Raw) -> Raw:
        """Create a Job."""
        return self.store.create(JOBS, job, "default").read()

    def job(self, name: str = "job") -> Raw:
        """A Job as it is."""
        return self.store.get(JOBS, name, "default").read()

    def phase(self, name: str = "job") -> str:
        """The phase of a Job."""
        return str(((self.job(name).get("status") or {}).get("state") or {}).get("phase", ""))

    def pods(self) -> dict[str, Raw]:
        """All pods by name."""
        return {pod.name: pod.read() for pod in self.store.list("pods").items}

    def groups(self) -> list[Raw]:
        """All PodGroups."""
        return [group.read() for group in self.store.list(GROUPS).items]

    def events(self, reason: str) -> list[str]:
        """The messages of events with this reason."""
        return [
            event["message"] for found in self.store.list("events").items if (event := found.read())["reason"] == reason
        ]

    def set_phase(self, phase: str, *names: str, code: int = 0) -> None:
        """Give pods a phase, as a kubelet would."""
        state = {"terminated": {"exitCode": code}} if phase in {"Succeeded", "Failed"} else {"running": {}}
        statuses = [{"name": "train", "state": state}]
        for name in names:
            self.store.patch(
                "pods", name, {"status": {"phase": phase, "containerStatuses": statuses}}, "default", "status"
            )

    async def running(self, *names: str, job: str = "job") -> None:
        """Wait until these are the pods, and let them run."""
        await self.until(lambda: set(self.pods()) == set(names), f"the pods are {names}")
        self.set_phase("Running", *names)
        await self.until(lambda: self.phase(job) == "Running", "the Job is Running")


def only_controllers(
    story: Callable[Concatenate[OnlyControllers, P], Coroutine[Any, Any, None]],
) -> Callable[P, None]:
    """Make a test of a coroutine that gets an API server with controllers."""

    @functools.wraps(story)
    def test(*args: P.args, **kwargs: P.kwargs) -> None:
        async def run() -> None:
            cluster = OnlyControllers()
            cluster.start()
            try:
                await story(cluster, *args, **kwargs)
            finally:
                await cluster.stop()

        run_idle(run())

    del test.__dict__["__wrapped__"]
    test.__dict__["__signature__"] = inspect.Signature(list(inspect.signature(story).parameters.values())[1:])
    return test
