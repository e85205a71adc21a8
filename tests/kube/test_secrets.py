"""Replicas share the certificates in Secrets, and each of them can make or renew them."""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from linkwise.embedded.apiserver.server import EmbeddedApi
from linkwise.errors import ClusterError
from linkwise.kube.certificates import CertificateSecrets
from linkwise.kube.client.api import Connection
from linkwise.kube.client.kubeconfig import Credentials
from linkwise.net.certificates import new_chain
from linkwise.net.http.client import Http, Origin
from support.fakes.scripted_api import Reply, ScriptedApi, play

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from linkwise.net.certificates import Certificate, ServingChain

NOW = datetime(2026, 11, 18, tzinfo=UTC)
LIFETIME = 90 * 86_400.0
PATH = "/api/v1/namespaces/default/secrets/linkwise-webhook"


def with_api(story: Callable[[Connection, Connection], Awaitable[None]]) -> None:
    """Run a story with the connections of two replicas to one API server."""

    async def run() -> None:
        async with EmbeddedApi(tls=False) as api:
            header = {"token": api.token}
            made = [Connection(Http(Origin("127.0.0.1", api.port)), _Token(header["token"]), api.url) for _ in range(2)]
            try:
                await story(*made)
            finally:
                for connection in made:
                    await connection.close()

    asyncio.run(run())


class _Token(Credentials):
    """A bearer token."""

    def __init__(self, token: str) -> None:
        super().__init__(None, "test")
        self._line = f"Authorization: Bearer {token}\r\n".encode()


async def chain(connection: Connection, days: int = 0) -> ServingChain:
    secrets = CertificateSecrets(connection, "default")
    return await secrets.chain("linkwise-webhook", ["localhost"], NOW + timedelta(days=days), LIFETIME)


def test_the_second_replica_uses_what_the_first_made() -> None:
    async def story(one: Connection, two: Connection) -> None:
        made = await chain(one)
        assert await chain(two) == made
        stored = await one.call("GET", PATH)
        assert b'"type":"Opaque"' in stored.body.replace(b" ", b"")

    with_api(story)


def test_two_that_start_at_once_agree() -> None:
    async def story(one: Connection, two: Connection) -> None:
        found = await asyncio.gather(*(chain(each) for each in (one, two, one, two)))
        assert found.count(found[0]) == 4

    with_api(story)


def test_two_that_renew_at_once_agree() -> None:
    async def story(one: Connection, two: Connection) -> None:
        first = await chain(one)
        renewed = await asyncio.gather(chain(one, 61), chain(two, 61))
        assert renewed[0] == renewed[1]
        assert renewed[0].serving != first.serving
        assert renewed[0].authorities == first.authorities

    with_api(story)


@pytest.mark.parametrize(
    "data", [{}, {"ca.crt": "x"}, {"ca.crt": "", "ca.key": "", "tls.crt": "", "tls.key": ""}, {"tls.crt": "\xff"}]
)
def test_a_secret_that_somebody_broke_is_replaced(data: dict[str, str]) -> None:
    async def story(one: Connection, _: Connection) -> None:
        await chain(one)
        broken = {key: base64.b64encode(text.encode("latin-1")).decode() for key, text in data.items()}
        await replace_data(one, broken)
        made = await chain(one)
        assert await chain(one) == made

    with_api(story)


def test_labels_and_annotations_of_others_stay() -> None:
    """Helm neither removes nor adopts a Secret without its own."""
    helm = {
        "labels": {"app.kubernetes.io/managed-by": "Helm"},
        "annotations": {"meta.helm.sh/release-name": "linkwise"},
    }

    async def story(one: Connection, _: Connection) -> None:
        about = {"name": "linkwise-webhook", "namespace": "default", **helm}
        empty = {"apiVersion": "v1", "kind": "Secret", "metadata": about, "type": "Opaque"}
        await one.call("POST", PATH.rpartition("/")[0], json.dumps(empty).encode())
        await chain(one)
        found = json.loads((await one.call("GET", PATH)).body)
        assert found["data"].keys() >= {"ca.crt", "tls.crt"}
        assert {key: found["metadata"][key].items() >= helm[key].items() for key in helm} == dict.fromkeys(helm, True)

    with_api(story)


async def replace_data(connection: Connection, data: dict[str, str]) -> None:
    import msgspec  # noqa: PLC0415 - only here

    document: dict[str, Any] = msgspec.json.decode((await connection.call("GET", PATH)).body)
    answer = await connection.call("PUT", PATH, msgspec.json.encode({**document, "data": data}))
    assert answer.status == 200


def test_a_secret_that_is_deleted_is_made_again() -> None:
    async def story(one: Connection, _: Connection) -> None:
        first = await chain(one)
        await one.call("DELETE", PATH)
        assert await chain(one) != first

    with_api(story)


@pytest.mark.parametrize("verb", ["GET", "PATCH"])
def test_a_missing_permission_is_named(verb: str) -> None:
    denied = Reply(403, {"kind": "Status", "message": 'User "x" cannot get resource "secrets"'})

    async def story(api: ScriptedApi, connection: Connection) -> None:
        api.script(f"{verb} {PATH}", denied)
        with pytest.raises(ClusterError, match=r"can't (get|create) Secret default/linkwise-webhook: User"):
            await chain(connection)

    play(story)


def test_a_secret_is_created_by_an_apply_without_data_that_a_role_can_restrict_to_its_name() -> None:
    created = Reply(201, {"kind": "Secret", "metadata": {"name": "linkwise-webhook", "resourceVersion": "1"}})
    missing = Reply(404, {"kind": "Status", "message": "not found"})

    async def story(api: ScriptedApi, connection: Connection) -> None:
        api.script(f"GET {PATH}", missing, replace(created, status=200))
        api.script(f"PATCH {PATH}", created)
        api.script(f"PUT {PATH}", Reply(200, {}))
        await chain(connection)
        _, apply, _, put = api.requests
        assert (apply.query, apply.headers["content-type"]) == (
            {"fieldManager": "linkwise"},
            "application/apply-patch+yaml",
        )
        assert "data" not in apply.document
        assert (put.verb, put.document["metadata"]["resourceVersion"]) == ("PUT", "1")
        assert put.document["data"].keys() == {"ca.crt", "ca.key", "tls.crt", "tls.key"}

    play(story)


def test_a_secret_that_changes_all_the_time_is_tried_again_later() -> None:
    async def story(api: ScriptedApi, connection: Connection) -> None:
        api.script(f"PATCH {PATH}", Reply(409, {"kind": "Status", "message": "exists"}))
        with pytest.raises(ClusterError, match="changed at the same time"):
            await chain(connection)

    play(story)


CLIENT = "/api/v1/namespaces/default/secrets/linkwise-scheduler-tls"


async def client(connection: Connection, of: ServingChain, days: int = 0) -> Certificate:
    secrets = CertificateSecrets(connection, "default")
    return await secrets.client("linkwise-scheduler-tls", of, "scheduler", NOW + timedelta(days=days), LIFETIME)


async def data(connection: Connection, path: str) -> dict[str, str]:
    found: dict[str, Any] = json.loads((await connection.call("GET", path)).body)
    return {key: base64.b64decode(value).decode() for key, value in found["data"].items()}


def test_the_secret_of_clients_has_the_authorities_and_not_their_key() -> None:
    async def story(one: Connection, two: Connection) -> None:
        made = await chain(one)
        found = await client(one, made)
        assert await client(two, made) == found
        assert await data(one, CLIENT) == {"ca.crt": made.authorities, "tls.crt": found.text, "tls.key": found.key}

    with_api(story)


def test_replicas_that_renew_the_clients_certificate_at_once_agree() -> None:
    async def story(one: Connection, two: Connection) -> None:
        made = await chain(one)
        first = await client(one, made)
        renewed = await asyncio.gather(*(client(each, made, 61) for each in (one, two, one, two)))
        assert renewed.count(renewed[0]) == 4
        assert renewed[0] != first

    with_api(story)


def test_a_new_authority_reaches_the_secret_of_clients_before_their_certificate_changes() -> None:
    async def story(one: Connection, _: Connection) -> None:
        made = await chain(one)
        found = await client(one, made)
        both = replace(made, authorities=new_chain(["x"], NOW, LIFETIME).authorities + made.authorities)
        assert await client(one, both) == found
        assert (await data(one, CLIENT))["ca.crt"] == both.authorities

    with_api(story)


def test_a_clients_certificate_of_a_lost_authority_is_replaced() -> None:
    async def story(one: Connection, _: Connection) -> None:
        lost = await client(one, await chain(one))
        await one.call("DELETE", PATH)
        made = await chain(one)
        assert await client(one, made) != lost
        assert (await data(one, CLIENT))["ca.crt"] == made.authorities

    with_api(story)


def test_the_type_of_a_secret_that_exists_is_kept() -> None:
    async def story(one: Connection, _: Connection) -> None:
        about = {"name": "linkwise-scheduler-tls", "namespace": "default"}
        document = {"apiVersion": "v1", "kind": "Secret", "metadata": about, "type": "kubernetes.io/tls"}
        texts = {"tls.crt": "", "tls.key": ""}
        body = json.dumps({**document, "data": texts}).encode()
        assert (await one.call("POST", CLIENT.rpartition("/")[0], body)).status == 201
        await client(one, await chain(one))
        assert json.loads((await one.call("GET", CLIENT)).body)["type"] == "kubernetes.io/tls"

    with_api(story)


def test_a_missing_namespace_is_named() -> None:
    missing = Reply(404, {"kind": "Status", "message": 'namespaces "default" not found'})

    async def story(api: ScriptedApi, connection: Connection) -> None:
        api.script(f"PATCH {PATH}", missing)
        with pytest.raises(ClusterError, match="can't create Secret default/linkwise-webhook: namespaces"):
            await chain(connection)

    play(story)
