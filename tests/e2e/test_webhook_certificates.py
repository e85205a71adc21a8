"""Certificates of the webhook on a real API server: renewed under load, shared by replicas, repaired."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from support.e2e.api_client import ApiError
from support.e2e.pod_objects import pod
from support.e2e.processes import free_ports, wait_for
from support.e2e.scheduler import Serve
from support.e2e.webhook import CONFIGURATIONS, NAME, NAMESPACE, SECRET, running_webhook

if TYPE_CHECKING:
    from support.e2e.cluster import Cluster
    from support.e2e.webhook import WebhookService

LIFETIME = 12.0  # seconds
GPU = "nvidia.com/gpu"


def served(webhook: WebhookService) -> str:
    """The certificate that a new connection gets, verified as the API server does it."""
    return peer(webhook.port, webhook.authorities())


def peer(port: int, authorities: str) -> str:
    """The certificate of the server at a port; SSLError if these authorities do not vouch for it."""
    trust = ssl.create_default_context(cadata=authorities)
    plain = socket.create_connection(("127.0.0.1", port), 5)
    with plain, trust.wrap_socket(plain, server_hostname="127.0.0.1") as secured:
        return ssl.DER_cert_to_PEM_cert(secured.getpeercert(binary_form=True) or b"")


def serves(port: int) -> bool:
    """Whether anything listens at a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_certificates_are_renewed_under_load_without_a_failed_admission(cluster: Cluster) -> None:
    settings = {"webhook": {"certificate_lifetime": LIFETIME}}
    with running_webhook(cluster, "renewing", configuration=settings) as webhook:
        seen: set[str] = set()
        failures: list[str] = []
        ended = threading.Event()

        def create() -> int:
            api, count = cluster.api.another(), 0
            while not ended.is_set():
                count += 1
                try:
                    api.call("POST", "/api/v1/namespaces/default/pods?dryRun=All", pod("default", "p", {GPU: 1}))
                except ApiError as error:
                    failures.append(str(error))
            api.close()
            return count

        with ThreadPoolExecutor(3) as pool:
            counts = [pool.submit(create) for _ in range(3)]
            try:
                end = time.monotonic() + 2.5 * LIFETIME
                while time.monotonic() < end:
                    seen.add(served(webhook))
            finally:
                ended.set()
        assert not failures
        assert len(seen) >= 3
        assert sum(count.result() for count in counts) > 100


def test_a_ca_bundle_that_somebody_removes_is_repaired(cluster: Cluster) -> None:
    with running_webhook(cluster, "repairing") as webhook:
        before = webhook.authorities()
        for path in CONFIGURATIONS:
            hooks = cluster.api.get(path)["webhooks"]
            for hook in hooks:
                hook["clientConfig"].pop("caBundle")
            cluster.api.patch(path, {"webhooks": hooks})
        assert webhook.authorities() == ""
        webhook.wait_trusted()
        assert webhook.authorities() == before


def test_a_secret_that_somebody_deletes_is_made_again_and_trusted(cluster: Cluster) -> None:
    with running_webhook(cluster, "remaking") as webhook:
        before = webhook.authorities()
        cluster.api.delete(SECRET)
        wait_for(lambda: webhook.authorities() not in {before, ""}, 30, "a new authority is in the configurations")
        webhook.wait_trusted()
        served(webhook)


def test_a_second_replica_serves_the_same_certificate(cluster: Cluster) -> None:
    with running_webhook(cluster, "first") as webhook:
        (port,) = free_ports(1)
        other = {
            "webhook": {
                "enabled": True,
                "host": "127.0.0.1",
                "port": port,
                "namespace": NAMESPACE,
                "configuration": NAME,
            }
        }
        second = Serve(cluster.kubeconfig("linkwise"), cluster.folder, name="serve-second", configuration=other)
        try:
            second.start()
            wait_for(lambda: serves(port), 15, "the second replica serves")
            assert peer(port, webhook.authorities()) == served(webhook)
        finally:
            second.stop()
