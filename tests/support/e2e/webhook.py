"""Service with its admission webhook over TLS on the loopback, called by the API server of the test cluster."""

from __future__ import annotations

import base64
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from support.e2e.api_client import ApiError
from support.e2e.pod_objects import pod
from support.e2e.processes import free_ports, wait_for
from support.e2e.scheduler import Serve
from support.e2e.service import SINGLE, printed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from support.e2e.api_client import Api, Raw
    from support.e2e.cluster import Cluster

__all__ = ["NAMESPACE", "SECRET", "WebhookService", "running_webhook"]

NAMESPACE: Final = "kube-system"
"""of the Secret: clearing the cluster leaves it"""
NAME: Final = "linkwise-e2e"
SECRET: Final = f"/api/v1/namespaces/{NAMESPACE}/secrets/linkwise-webhook"
CONFIGURATIONS: Final = tuple(
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{NAME}" for kind in ("mutating", "validating")
)
SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class WebhookService:
    """A service whose webhook the API server calls; kube-scheduler asks it too."""

    serve: Serve
    port: int
    api: Api

    @property
    def url(self) -> str:
        """Where the webhook listens."""
        return f"https://127.0.0.1:{self.port}"

    def configurations(self) -> list[Raw]:
        """Both webhook configurations as they are now."""
        return [dict(self.api.get(path)) for path in CONFIGURATIONS]

    def authorities(self) -> str:
        """The certificates that the API server trusts for the webhooks; empty if the webhooks do not agree."""
        hooks = [hook for one in self.configurations() for hook in one["webhooks"]]
        bundles = {hook["clientConfig"].get("caBundle", "") for hook in hooks}
        return base64.b64decode(bundles.pop()).decode() if len(bundles) == 1 else ""

    def wait_trusted(self, seconds: float = SECONDS) -> None:
        """Wait until the API server calls the webhook and believes its certificate."""
        wait_for(self.authorities, seconds, "the authority is in both configurations")
        wait_for(self._admits, seconds, "the API server trusts the webhook")

    def _admits(self) -> bool:
        probe = pod("default", "webhook-probe", {"nvidia.com/gpu": 1})
        try:
            made = self.api.call("POST", "/api/v1/namespaces/default/pods?dryRun=All", probe)
        except ApiError as error:
            raise AssertionError(str(error)) from error
        return "linkwise.dev/user" in made["metadata"]["annotations"]


@contextmanager
def running_webhook(
    cluster: Cluster,
    name: str,
    *,
    configuration: Mapping[str, Mapping[str, Any]] | None = None,
    flags: tuple[str, ...] = (),
) -> Iterator[WebhookService]:
    """A service of the user linkwise under the shipped roles, with its webhook; kube-scheduler asks it.

    Args:
        cluster: where it runs
        name: of the service, in logs
        configuration: further settings by section; those of `webhook` are added to the ones that are needed
        flags: further ones of `linkwise manifests webhook`
    """
    (port,) = free_ports(1)
    given = configuration or {}
    needed = {"enabled": True, "host": "127.0.0.1", "port": port, "namespace": NAMESPACE, "configuration": NAME}
    settings = {**given, "webhook": {**needed, **given.get("webhook", {})}}
    url = f"https://127.0.0.1:{port}"
    words = ("--user", "linkwise", "--namespace", NAMESPACE, "--name", NAME, "--url", url)
    manifest = printed("manifests", "webhook", *words, *flags)
    role = printed("manifests", "rbac", "--user", "linkwise", "--name", f"e2e-{name}", *SINGLE)
    serve = Serve(cluster.kubeconfig("linkwise"), cluster.folder, name=f"serve-{name}", configuration=settings)
    try:
        for text in (role, manifest):
            cluster.apply(text, NAMESPACE)
        serve.start()
        way = ["--kubeconfig", str(cluster.kubeconfig("scheduler")), "--no-leader-elect"]
        cluster.scheduler.run(printed("config", "scheduler", "--url", serve.url, "--default-scheduler", *way))
        made = WebhookService(serve, port, cluster.api)
        made.wait_trusted()
        yield made
    finally:
        cluster.scheduler.stop()
        serve.stop()
        for text in (manifest, role):
            cluster.kubectl("delete", "--ignore-not-found", "--filename", "-", stdin=text)
        cluster.api.delete(SECRET)
