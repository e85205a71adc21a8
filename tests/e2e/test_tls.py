"""TLS between a real kube-scheduler and the service: it binds with the certificate of the Secret, strangers do not."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import pytest
import yaml

from linkwise.errors import ClusterError
from linkwise.net.certificates import self_signed
from linkwise.net.http.client import Origin
from support.blocking_http import BlockingHttp
from support.e2e.node_objects import machine
from support.e2e.processes import wait_for
from support.e2e.scheduler import Serve
from support.e2e.service import Placing, printed
from support.e2e.tls import running_tls
from support.tls_client import trusting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from linkwise.net.certificates import Certificate
    from support.e2e.cluster import Cluster
    from support.e2e.tls import TlsService

GPU = "nvidia.com/gpu"
LIFETIME = 12.0  # seconds
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def secured(cluster: Cluster) -> Iterator[TlsService]:
    with running_tls(cluster, "tls") as made:
        yield made


def ask(service: TlsService, path: str, body: object, certificate: Certificate | None = None) -> tuple[int, str]:
    """One call on a connection of its own, by a client that trusts the service."""
    tls = trusting(service.mount.authorities, certificate)
    http = BlockingHttp(Origin("127.0.0.1", service.serve.port, tls=tls), 10.0)
    try:
        answer = http.call("POST", path, JSON, json.dumps(body).encode())
    finally:
        http.close()
    return answer.status, answer.body.decode()


def test_kube_scheduler_binds_with_the_certificate_of_the_secret_under_the_shipped_role(
    cluster: Cluster, secured: TlsService
) -> None:
    placing = Placing(cluster, secured.serve)
    namespace = placing.namespace()
    placing.nodes(*machine("a", "nvlink"))
    assert [len(placing.place(namespace, f"p{number}", {GPU: 2}).devices) for number in range(3)] == [2, 2, 2]
    said = secured.serve.process.log.read_text()
    assert "Traceback" not in said
    assert "Secret" not in placing.text("/readyz")
    assert placing.text("/readyz").startswith("ok")
    assert set(secured.refused.values()) == {0.0}


def test_a_stranger_can_neither_filter_nor_bind(cluster: Cluster, secured: TlsService) -> None:
    placing = Placing(cluster, secured.serve)
    namespace = placing.namespace()
    placing.nodes(*machine("a", "nvlink"))
    pod = placing.create(namespace, "mine", {GPU: 2}, schedulerName="another-scheduler")
    placing.seen_pods(namespace, 1)
    call = {"PodName": "mine", "PodNamespace": namespace, "PodUID": pod["metadata"]["uid"], "Node": "a"}
    asked = {"Pod": pod, "NodeNames": ["a"]}
    for path, body in (("/filter", asked), ("/bind", call), ("/gpushare-scheduler/bind", call)):
        status, text = ask(secured, path, body)
        assert (status, text.partition(":")[0]) == (403, "access denied")
    assert "nodeName" not in cluster.pod(namespace, "mine")["spec"]
    assert secured.refused["no_certificate"] == 3
    assert ask(secured, "/filter", asked, secured.mount.client)[0] == 200
    status, text = ask(secured, "/bind", call, secured.mount.client)
    assert (status, json.loads(text).get("Error", "")) == (200, "")
    assert cluster.pod(namespace, "mine")["spec"]["nodeName"] == "a"


def test_a_kube_scheduler_without_a_certificate_or_with_a_foreign_authority_binds_nothing(
    cluster: Cluster, secured: TlsService
) -> None:
    placing = Placing(cluster, secured.serve)
    namespace = placing.namespace()
    placing.nodes(*machine("a", "nvlink"))
    way = ["--kubeconfig", str(cluster.kubeconfig("scheduler")), "--no-leader-elect", "--default-scheduler"]
    configuration = yaml.safe_load(
        printed("config", "scheduler", "--url", secured.serve.url, *secured.mount.files, *way)
    )
    tls = configuration["extenders"][0]["tlsConfig"]
    configuration["extenders"][0]["tlsConfig"] = {"caFile": tls["caFile"]}
    cluster.scheduler.run(configuration)
    placing.create(namespace, "refused", {GPU: 2})
    wait_for(lambda: secured.refused["no_certificate"] >= 1, 15, "the call without a certificate is counted")
    configuration["extenders"][0]["tlsConfig"] = {**tls, "caFile": str(other_authority(cluster))}
    cluster.scheduler.run(configuration)
    wait_for(lambda: secured.refused["untrusted_server"] >= 1, 30, "kube-scheduler does not trust the service")
    assert "nodeName" not in cluster.pod(namespace, "refused")["spec"]
    configuration["extenders"][0]["tlsConfig"] = tls
    cluster.scheduler.run(configuration)
    assert placing.placed(namespace, "refused", 30).node == "a"


def other_authority(cluster: Cluster) -> Path:
    """A file with another authority than the service's."""
    file = cluster.folder / "other-ca.crt"
    file.write_text(self_signed(["other"]).text)
    return file


def test_certificates_are_renewed_while_kube_scheduler_runs_and_pods_still_bind(cluster: Cluster) -> None:
    with running_tls(cluster, "renewing", tls={"certificate_lifetime": LIFETIME}) as service:
        placing = Placing(cluster, service.serve)
        namespace = placing.namespace()
        placing.nodes(*machine("a", "nvlink"))
        first, authorities = service.mount.client, service.mount.authorities
        placing.place(namespace, "before", {GPU: 1})
        process = cluster.scheduler.process.pid
        for number in range(3):
            old = service.mount.client
            wait_for(partial(is_renewed, service, old), 2 * LIFETIME, "the client certificate is renewed")
            # Connections are kept; a service that starts again makes kube-scheduler shake hands once more.
            service.serve.restart()
            placing.place(namespace, f"after-{number}", {GPU: 1})
        assert (cluster.scheduler.process.pid, service.mount.authorities) == (process, authorities)
        with pytest.raises(ClusterError):
            ask(service, "/filter", {}, first)
        assert service.refused["bad_certificate"] == 1


def is_renewed(service: TlsService, old: Certificate) -> bool:
    return service.mount.client != old


def test_two_replicas_share_the_certificates(cluster: Cluster, secured: TlsService) -> None:
    other = {"tls": {"enabled": True, "namespace": "kube-system"}}
    second = Serve(cluster.kubeconfig("linkwise"), cluster.folder, name="serve-second", configuration=other)
    before = (secured.mount.client, secured.mount.authorities)
    try:
        second.start()
        trust = trusting(secured.mount.authorities, secured.mount.client)
        http = BlockingHttp(Origin("127.0.0.1", second.port, tls=trust), 10.0)
        assert http.call("POST", "/filter", JSON, b"{}").status == 200
        http.close()
        assert (secured.mount.client, secured.mount.authorities) == before
    finally:
        second.stop()
