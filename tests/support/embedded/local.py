"""A local cluster as `linkwise up` starts it, with the webhook, for tests of what users meet."""

from __future__ import annotations

import asyncio
import functools
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any, Final

import pytest
import uvloop

from linkwise.assembly.local_cluster import LocalCluster
from linkwise.config.settings import HttpSettings, ServeSettings
from linkwise.embedded.api_errors import ApiError
from linkwise.embedded.cluster import ClusterSettings
from linkwise.embedded.nodes.kubelet import SimulationSettings
from linkwise.embedded.users import ADMIN
from support.environment import surroundings

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from linkwise.model.access_policy import Requester

__all__ = ["SECONDS", "Trial", "trial"]

SECONDS: Final = 200.0  # until a test counts as hung


class Trial:
    """A local cluster to try things on."""

    def __init__(self, local: LocalCluster) -> None:
        self.store, self.local = local.cluster.store, local
        self.warnings: list[str] = []

    async def create(
        self, kind: str, document: dict[str, Any], user: Requester = ADMIN, namespace: str = "default"
    ) -> dict[str, Any]:
        """Create an object as a user."""
        begin = functools.partial(self.store.begin_create, kind, document, namespace)
        return (await self.local.cluster.api.admission.complete(begin, user, self.warnings)).read()

    async def refused(self, kind: str, document: dict[str, Any], user: Requester = ADMIN) -> str:
        """Why an object can't be created."""
        with pytest.raises(ApiError) as error:
            await self.create(kind, document, user)
        return str(error.value)

    async def running(self, name: str = "") -> dict[str, Any]:
        """The first pod that runs, or the pod of this name as soon as it does."""
        async with asyncio.timeout(SECONDS):
            async for event in self.store.watch("pods"):
                if event.object["status"]["phase"] == "Running" and name in {"", event.stored.name}:
                    return dict(event.object)
        raise AssertionError("the watch has ended")

    async def command(self, *words: str, user: Requester, namespace: str) -> tuple[int, str, str]:
        """Exit code and both outputs of the command line with a kubeconfig of the user, in a namespace."""
        api = self.local.cluster.api
        text = api.kubeconfig(namespace, token=api.tokens.add(user), user=user.user)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "linkwise", *words),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**surroundings(), "COLUMNS": "200", "NO_COLOR": "1", "KUBECONFIG": file.name},
            )
            async with asyncio.timeout(SECONDS):
                output, errors = await process.communicate()
        return process.returncode or 0, output.decode(), errors.decode()


def trial(**fleet: int) -> Callable[[Callable[[Trial], Coroutine[Any, Any, None]]], Callable[[], None]]:
    """Make a test of a coroutine, on a local cluster with these machines."""

    def wrap(story: Callable[[Trial], Coroutine[Any, Any, None]]) -> Callable[[], None]:
        def test() -> None:
            async def played() -> None:
                settings = ClusterSettings(simulation=SimulationSettings(start_delay=0.01, stop_seconds=0.01))
                machines = {name.replace("_", "-"): count for name, count in fleet.items()}
                async with LocalCluster(machines, ServeSettings(http=HttpSettings(port=0)), settings) as local:
                    await story(Trial(local))

            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(played())

        test.__name__, test.__doc__, test.__module__ = story.__name__, story.__doc__, story.__module__
        return test

    return wrap
