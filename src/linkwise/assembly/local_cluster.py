"""Local cluster: an embedded cluster and the service next to it with its webhook, installed as on a real cluster.

`linkwise up` and the demo start one. Its kubeconfig lives in a scratch directory, which is removed at the end; directories
of killed processes are removed at the next start.

The service has a ServiceAccount with the printed roles, and the API server calls its webhook through a Service. Nothing
creates Endpoints there, so they are written here, with the ports that were free.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import yaml

from linkwise.assembly.service import Serving
from linkwise.config.rbac import (
    SERVICE_PORT,
    TENANTS_PORT,
    TENANTS_PORT_NUMBER,
    rbac_yaml,
    webhook_rbac_yaml,
)
from linkwise.config.settings import ServeSettings
from linkwise.config.webhook_manifests import WebhookFile, webhook_configurations
from linkwise.embedded.apiserver.server import EmbeddedApi
from linkwise.embedded.cluster import EmbeddedCluster
from linkwise.embedded.kinds.crds import CRD_RESOURCE
from linkwise.embedded.nodes.faults import FaultAnnotations
from linkwise.embedded.nodes.machines import make_fleet
from linkwise.embedded.users import service_account
from linkwise.kube.client.api import connect
from linkwise.net.http.server import listen

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Mapping

    from linkwise.broker.broker import Broker
    from linkwise.embedded.cluster import ClusterSettings
    from linkwise.embedded.store import Store

__all__ = [
    "NAME",
    "NAMESPACE",
    "LocalCluster",
    "expose",
    "install",
    "scratch_directory",
    "service_kubeconfig",
    "with_webhook",
]

POLL_INTERVAL: Final = 0.005  # seconds between readiness checks of the service
_SCRATCH_PREFIX: Final = "linkwise-up-"
_LOCK_FILE: Final = "lock"
_MIN_AGE: Final = 60.0  # seconds; a new directory may not be locked yet
NAMESPACE: Final = "linkwise-system"
NAME: Final = "linkwise"
"""of the ServiceAccount, and of the Service for HTTP"""


class LocalCluster:
    """The cluster and the service while the `async with` lasts; leaves no files behind.

    Args:
        fleet: number of nodes per machine profile.
        service: settings of the service, including host and port.
        cluster: settings of the cluster's components.
        api_port: port of the API server, 0 for any free one.
    """

    def __init__(
        self,
        fleet: Mapping[str, int],
        service: ServeSettings | None = None,
        cluster: ClusterSettings | None = None,
        api_port: int = 0,
    ) -> None:
        self.service: Final = service or ServeSettings()
        self._fleet, self._settings, self._api_port = fleet, cluster, api_port
        self._created_nodes = 0  # nodes
        self._open = contextlib.AsyncExitStack()
        self.cluster: EmbeddedCluster
        self.kubeconfig: Path
        """the kubeconfig file of the cluster"""
        self._serving: Serving
        self._service_task: asyncio.Task[None]
        self._faults_task: asyncio.Task[None]
        self._socket: socket.socket

    @property
    def url(self) -> str:
        """The URL of the service."""
        host, port = self._socket.getsockname()[:2]
        return f"http://{host}:{port}"

    @property
    def page(self) -> str:
        """The URL of the page; empty if it is turned off."""
        host, port = self._socket.getsockname()[0], self.service.explain.port or self._socket.getsockname()[1]
        return f"http://{host}:{port}/page/" if self.service.page.enabled else ""

    @property
    def broker(self) -> Broker:
        """The service's broker."""
        return self._serving.broker

    @property
    def progress(self) -> float:
        """Progress of the start, from 0 to 1."""
        observed = len(self.broker.nodes) if hasattr(self, "_serving") else 0
        return (self._created_nodes + observed) / (2 * max(1, sum(self._fleet.values())))

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:
            http = self.service.http
            self._socket = stack.enter_context(contextlib.closing(listen(http.host, http.port)))
            api = EmbeddedApi(port=self._api_port)
            self.cluster = EmbeddedCluster(None, self.url, api=api, settings=self._settings)
            for _ in make_fleet(api.store, self.cluster.nodes.add_node, self._fleet):
                self._created_nodes += 1
                await asyncio.sleep(0)
            settings = with_webhook(self.service)
            install(api.store, settings)
            await stack.enter_async_context(self.cluster)
            self._faults_task = asyncio.create_task(
                FaultAnnotations(api.store, self.cluster.nodes).run(), name="fault annotations"
            )
            stack.push_async_callback(self._stop_faults)
            folder = stack.enter_context(scratch_directory())
            self.kubeconfig = _write_private(folder / "kubeconfig", api.kubeconfig())
            # The service has a user of its own: its rights are those of its roles, and webhooks know it from users.
            own_file = _write_private(folder / "service.kubeconfig", service_kubeconfig(api))
            self._serving = Serving(settings, connect(own_file, environ={}), local=True)
            self._service_task = asyncio.create_task(self._serving.run(self._socket), name="service")
            stack.push_async_callback(self._stop_service)
            webhook = self._serving.webhook
            while not self._serving.ready or (webhook is not None and not webhook.serving):
                if self._service_task.done():
                    await self._service_task
                await asyncio.sleep(POLL_INTERVAL)
            port = self._socket.getsockname()[1]
            expose(api.store, NAME, {"http": port, TENANTS_PORT: settings.explain.port or port})
            if webhook is not None:
                expose(api.store, settings.webhook.service, {"webhook": webhook.port})
            self._open = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    async def failed(self) -> None:
        """Wait until a component stops unexpectedly; its exception is raised on exit."""
        cluster_failed = asyncio.create_task(self.cluster.failed.wait())
        try:
            await asyncio.wait(
                {self._service_task, self._faults_task, cluster_failed}, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            cluster_failed.cancel()

    async def _stop_service(self) -> None:
        self._serving.stop()
        await self._service_task

    async def _stop_faults(self) -> None:
        self._faults_task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._faults_task


@contextlib.contextmanager
def scratch_directory(parent: Path | None = None) -> Iterator[Path]:
    """A temporary directory; stale ones of killed processes are removed first."""
    parent = parent or Path(tempfile.gettempdir())
    _remove_stale(parent, time.time())
    with tempfile.TemporaryDirectory(prefix=_SCRATCH_PREFIX, dir=parent) as name:
        lock = os.open(Path(name) / _LOCK_FILE, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield Path(name)
        finally:
            os.close(lock)


def with_webhook(settings: ServeSettings) -> ServeSettings:
    """The settings with the webhook on, at a free port unless it was on before; one replica, whose scheduler is local."""
    webhook = settings.webhook
    port = webhook.port if webhook.enabled else 0
    return replace(
        settings,
        webhook=replace(webhook, enabled=True, port=port, namespace=NAMESPACE),
        leader=replace(settings.leader, enabled=False),
        tls=replace(settings.tls, enabled=False),
    )


def install(store: Store, settings: ServeSettings) -> None:
    """Create namespace, ServiceAccount, roles, Services and webhook configurations, and the schema of AcceleratorPolicies."""
    webhook = settings.webhook
    _add_policy_schema(store)
    store.create("namespaces", {"metadata": {"name": NAMESPACE}})
    wanted = WebhookFile(
        name=webhook.configuration,
        namespace=NAMESPACE,
        scheduler=webhook.scheduler,
        hide_devices=webhook.hide_devices,
    )
    roles = webhook_rbac_yaml(
        namespace=NAMESPACE, account=NAME, secret=webhook.secret, configuration=webhook.configuration
    )
    for text in (rbac_yaml(name=NAME, namespace=NAMESPACE), roles):
        for document in yaml.load_all(text, yaml.CSafeLoader):
            _create(store, document)
    for document in webhook_configurations(wanted):  # not as text: they are long, and writing YAML is slow
        _create(store, document)
    ports = {
        NAME: {"http": SERVICE_PORT, TENANTS_PORT: TENANTS_PORT_NUMBER},
        webhook.service: {"webhook": 443},
    }
    for name, numbers in ports.items():
        spec = {"ports": [{"name": each, "port": number} for each, number in numbers.items()]}
        store.create("services", {"metadata": {"name": name}, "spec": spec}, NAMESPACE)


def service_kubeconfig(api: EmbeddedApi) -> str:
    """A kubeconfig with a token of the ServiceAccount."""
    token = api.tokens.add(service_account(NAMESPACE, NAME))
    return api.kubeconfig(NAMESPACE, token=token, user=NAME)


def expose(store: Store, service: str, ports: Mapping[str, int]) -> None:
    """Write the Endpoints of a Service, by the names of its ports."""
    listed = [{"name": name, "port": port} for name, port in ports.items()]
    subset = {"addresses": [{"ip": "127.0.0.1"}], "ports": listed}
    store.create("endpoints", {"metadata": {"name": service}, "subsets": [subset]}, NAMESPACE)


def _write_private(path: Path, text: str) -> Path:
    """Write a file with mode 0600, as it holds a token."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    return path


def _remove_stale(parent: Path, now: float) -> None:
    """Remove directories that no process holds; directories of other users are skipped."""
    for folder in parent.glob(f"{_SCRATCH_PREFIX}*"):
        with contextlib.suppress(OSError):
            status = folder.lstat()
            if status.st_uid == os.getuid() and now - status.st_mtime > _MIN_AGE and _is_stale(folder):
                shutil.rmtree(folder)


def _is_stale(folder: Path) -> bool:
    """Whether the owning process has ended: it would hold a lock."""
    lock = os.open(folder / _LOCK_FILE, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


def _add_policy_schema(store: Store) -> None:
    """Add the schema that a real cluster has: of the kinds of Linkwise, people write this one."""
    text = (files("linkwise.config") / "crds" / "acceleratorpolicies.linkwise.dev.yaml").read_text("utf-8")
    crd = yaml.load(text, yaml.CSafeLoader)
    store.patch(CRD_RESOURCE, crd["metadata"]["name"], {"spec": crd["spec"]})


def _create(store: Store, document: dict[str, Any]) -> None:
    kind = store.database.kinds.for_object(document["apiVersion"], document["kind"])
    if kind is None:
        raise AssertionError(f"kind {document['kind']} is not served")
    store.create(kind, document)
