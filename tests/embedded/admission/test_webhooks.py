"""Webhooks of the embedded cluster beyond what any API server does: Services, controllers, and what they cost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import pytest

from linkwise.embedded.admission import Admission
from linkwise.embedded.apiserver.server import EmbeddedApi
from linkwise.embedded.cluster import EmbeddedCluster
from linkwise.embedded.store import Store
from linkwise.embedded.users import ADMIN
from support.embedded.conformance import Space, pod
from support.embedded.thread import EmbeddedThread
from support.fakes.scripted_api import until
from support.webhook_server import WebhookServer, allow, deny, patch, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

PODS: Final = rule("pods", operations=("CREATE", "DELETE"))
LABEL: Final = {"op": "add", "path": "/metadata/labels/changed", "value": "yes"}


@pytest.fixture
def served() -> Iterator[EmbeddedThread]:
    with EmbeddedThread() as thread:
        yield thread


def job(name: str) -> dict[str, Any]:
    container = {"name": "main", "image": "example.com/none:1"}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container], "restartPolicy": "Never"}}
    return {"metadata": {"name": name}, "spec": {"template": template}}


def configure(store: Store, kind: str, *webhooks: dict[str, Any]) -> None:
    resource = f"{kind.lower()}webhookconfigurations.admissionregistration.k8s.io"
    store.create(resource, {"metadata": {"name": "test"}, "webhooks": list(webhooks)})


def service_objects(name: str, port: int) -> tuple[dict[str, Any], dict[str, Any]]:
    ports = [{"name": "https", "port": 443}]
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": ports}}
    subset = {"addresses": [{"ip": "127.0.0.1"}], "ports": [{"name": "https", "port": port}]}
    return service, {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name}, "subsets": [subset]}


def test_a_webhook_behind_a_service_is_called_at_its_endpoints(space: Space) -> None:
    with WebhookServer("gate.default.svc") as server:
        server.on("/label", patch(LABEL))
        service, endpoints = service_objects("gate", server.port)
        space.make("services", service)
        space.make("endpoints", endpoints)
        reference = {"namespace": "default", "name": "gate", "path": "/label"}
        webhook = server.webhook("/label", PODS)
        webhook["clientConfig"] = {"service": reference, "caBundle": server.ca_bundle}
        with server.installed(space, "Mutating", webhook):
            made = space.make("pods", pod("a", labels={"x": "y"}))
    assert made["metadata"]["labels"]["changed"] == "yes"


@pytest.mark.parametrize(
    ("name", "port", "reason"),
    [
        ("nothing", 443, 'service "nothing" not found'),
        ("gate", 8443, 'no service port "8443" found for service "gate"'),
        ("gate", 443, 'no endpoints available for service "gate"'),
    ],
)
def test_a_service_without_an_address_fails_the_call(space: Space, name: str, port: int, reason: str) -> None:
    space.make("services", service_objects("gate", 1)[0])
    with WebhookServer() as server:
        webhook = server.webhook("/gate", PODS)
        webhook["clientConfig"] = {"service": {"namespace": "default", "name": name, "port": port}}
        with server.installed(space, "Mutating", webhook):
            error = space.refused("POST", space.path("pods"), pod("a"))
    assert error.message.endswith(f'failed calling webhook "gate.webhook.test": failed to call webhook: {reason}')


def test_match_conditions_count_as_met(space: Space) -> None:
    condition = {"name": "never", "expression": "false"}
    with WebhookServer() as server:
        server.on("/look", allow())
        with server.installed(space, "Validating", server.webhook("/look", PODS, matchConditions=[condition])):
            space.make("pods", pod("a"))
    assert len(server.requests) == 1


def test_other_requests_are_served_while_a_webhook_is_asked(space: Space) -> None:
    def look(asked: dict[str, Any]) -> dict[str, Any]:
        del asked
        other = space.api.another()
        names = [found["metadata"]["name"] for found in other.list("/api/v1/namespaces")]
        other.close()
        return deny(" ".join(names))

    with WebhookServer() as server:
        server.on("/look", look)
        with server.installed(space, "Validating", server.webhook("/look", PODS)):
            assert "kube-system" in space.refused("POST", space.path("pods"), pod("a")).message


def test_without_webhooks_a_write_is_complete_at_once() -> None:
    store = Store()
    write = Admission(store).complete(lambda: store.begin_create("pods", pod("a"), "default"), ADMIN)
    with pytest.raises(StopIteration) as ended:
        write.send(None)
    assert ended.value.value.name == "a"


def test_a_webhook_for_other_resources_does_not_delay_a_write() -> None:
    store = Store()
    with WebhookServer() as server:
        configure(store, "Validating", server.webhook("/look", rule("configmaps")))
        write = Admission(store).complete(lambda: store.begin_create("pods", pod("a"), "default"), ADMIN)
        with pytest.raises(StopIteration):
            write.send(None)
    assert server.requests == []


def test_controllers_create_pods_as_their_service_accounts() -> None:
    async def story(server: WebhookServer) -> None:
        async with EmbeddedCluster(api=EmbeddedApi(tls=False)) as cluster:
            configure(cluster.store, "Mutating", server.webhook("/label", PODS))
            cluster.store.create("jobs.batch", job("work"), "default")
            await until(lambda: cluster.store.list("pods").items)
            assert cluster.store.list("pods").items[0].labels["changed"] == "yes"

    with WebhookServer() as server:
        server.on("/label", patch(LABEL))
        asyncio.run(story(server))
    user = server.requests[0]["userInfo"]
    assert user["username"] == "system:serviceaccount:kube-system:job-controller"
    assert "system:serviceaccounts:kube-system" in user["groups"]


def test_a_controller_reports_denied_pods_and_tries_again() -> None:
    async def story(server: WebhookServer) -> list[str]:
        async with EmbeddedCluster(api=EmbeddedApi(tls=False)) as cluster:
            store = cluster.store
            configure(store, "Validating", server.webhook("/judge", PODS))
            store.create("jobs.batch", job("work"), "default")
            await until(lambda: store.list("pods").items)
            return [event.read()["message"] for event in store.list("events").items]

    verdicts = iter([deny("not yet"), deny("not yet")])
    with WebhookServer() as server:
        server.on("/judge", lambda _: next(verdicts, allow()))
        messages = asyncio.run(story(server))
    assert 'Error creating: admission webhook "judge.webhook.test" denied the request: not yet' in messages
