"""The extender over TLS: schedulers are known by a client certificate, strangers are refused, and nothing ever expires."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from linkwise.assembly.tls import open_port_warning
from linkwise.config.settings import HttpSettings, ServeSettings, TlsSettings
from linkwise.errors import ClusterError
from linkwise.net.certificates import Certificate, expiry
from linkwise.serve.app import application
from linkwise.testing.cluster import broker_of, device_pod
from linkwise.wire.kubernetes.to_objects import pod_object
from support.fakes.http_service import Served
from support.fakes.tls_service import TlsExtender, tls_extender
from support.tls_client import chain, client, trusting

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

DAY = 86_400.0
FILTER = {"Pod": pod_object(device_pod("p", 2)), "NodeNames": ["a"]}
SCHEDULERS = [
    *(
        f"{prefix}/{verb}"
        for prefix in ("", "/gpushare-scheduler")
        for verb in ("filter", "prioritize", "bind", "preempt")
    ),
    *("/volcano", "/volcano/", "/volcano/predicate", "/volcano/allocateFunc", "/volcano/jobEnqueueable"),
]


def played(story: Callable[[TlsExtender], Awaitable[None]], settings: TlsSettings | None = None) -> None:
    async def run() -> None:
        async with tls_extender(settings) as extender:
            await story(extender)

    asyncio.run(run())


def test_a_scheduler_with_the_certificate_of_the_secret_is_answered() -> None:
    async def story(extender: TlsExtender) -> None:
        answer = await extender.call("/filter", extender.client, FILTER)
        assert (answer.status, json.loads(answer.body)["NodeNames"]) == (200, ["a"])

    played(story)


@pytest.mark.parametrize("path", SCHEDULERS)
def test_the_routes_of_schedulers_are_closed_to_callers_without_a_certificate(path: str) -> None:
    async def story(extender: TlsExtender) -> None:
        answer = await extender.call(path, None, FILTER)
        assert answer.status == 403
        assert answer.body.startswith(b"access denied: this route is for schedulers; present a client certificate")
        assert extender.refused("no_certificate") == 1

    played(story)


def test_every_route_that_takes_a_body_is_one_of_schedulers() -> None:
    with Served(broker_of()) as served:
        routes = application(served.service, dict).routes
    posts = {route.path for route in routes if route.method == "POST"}
    assert posts >= set(SCHEDULERS)
    assert {path for path in posts if not path.startswith("/volcano/")} == {
        path for path in SCHEDULERS if not path.startswith("/volcano/")
    }


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics", "/version", "/debug/snapshot"])
def test_probes_and_metrics_need_no_certificate(path: str) -> None:
    async def story(extender: TlsExtender) -> None:
        assert (await extender.call(path)).status == 200
        assert extender.refused("no_certificate") == 0

    played(story)


def test_nothing_of_large_bodies_is_kept_for_callers_without_a_certificate() -> None:
    head = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 67000000\r\n\r\n"

    async def attack(extender: TlsExtender) -> bytes:
        """A caller that sends half a megabyte of its body, and waits for the answer."""
        trust = trusting(extender.secret()["ca.crt"], None)
        reader, writer = await asyncio.open_connection("127.0.0.1", extender.port, ssl=trust)
        try:
            writer.write(head + bytes(1 << 19))
            return await reader.readuntil(b"\r\n\r\n")
        finally:
            writer.transport.abort()

    async def story(extender: TlsExtender) -> None:
        attacks = [asyncio.create_task(attack(extender)) for _ in range(20)]
        assert {(await each).split(b" ")[1] for each in attacks} == {b"403"}
        assert (extender.server.budget.held, extender.refused("no_certificate")) == (0, 20)
        answer = await extender.call("/filter", extender.client, FILTER)
        assert json.loads(answer.body)["NodeNames"] == ["a"]

    played(story)


def test_a_refused_call_is_counted_by_its_verb() -> None:
    async def story(extender: TlsExtender) -> None:
        await extender.call("/bind", None, {})
        counted = extender.counting.registry.get_sample_value(
            "linkwise_requests_total", {"verb": "bind", "code": "403"}
        )
        assert counted == 1

    played(story)


def test_strangers_are_logged_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    async def story(extender: TlsExtender) -> None:
        for _ in range(3):
            await extender.call("/filter", None, FILTER)
        (line,) = [record.message for record in caplog.records if "caller refused" in record.message]
        assert line == "caller refused reason=no_certificate path=/filter client=127.0.0.1"

    played(story)


def test_certificates_are_renewed_while_the_service_runs_and_the_old_client_certificate_stays_valid() -> None:
    async def story(extender: TlsExtender) -> None:
        old, authorities = extender.client, extender.secret()["ca.crt"]
        extender.clock.now += 61 * DAY
        await extender.clock.wake()
        assert extender.client != old
        assert extender.secret()["ca.crt"] == authorities
        extender.clock.now -= 61 * DAY  # that of the TLS library did not move
        await extender.clock.wake()
        for known in (old, extender.client):
            assert (await extender.call("/filter", known, FILTER)).status == 200

    played(story)


def test_metrics_say_when_both_certificates_expire() -> None:
    async def story(extender: TlsExtender) -> None:
        expires = [
            extender.counting.registry.get_sample_value(
                "linkwise_tls_certificate_expiry_timestamp_seconds", {"certificate": which}
            )
            for which in ("serving", "client")
        ]
        assert expires == [
            expiry(extender.secret(name)["tls.crt"]).timestamp() for name in ("linkwise-tls", "linkwise-scheduler-tls")
        ]

    played(story)


def test_deleting_the_secret_revokes_every_client_certificate() -> None:
    async def story(extender: TlsExtender) -> None:
        stolen = extender.client
        extender.api.store.delete("secrets", "linkwise-tls", "linkwise-system")
        await extender.clock.wake()
        with pytest.raises(ClusterError):
            await extender.call("/bind", stolen, {})
        assert extender.refused("bad_certificate") == 1
        assert (await extender.call("/filter", extender.client, FILTER)).status == 200

    played(story)


def test_names_of_the_service_are_in_the_certificate() -> None:
    async def story(extender: TlsExtender) -> None:
        assert extender.tls.names == [
            *(
                "linkwise",
                "linkwise.linkwise-system",
                "linkwise.linkwise-system.svc",
                "linkwise.linkwise-system.svc.cluster.local",
            ),
            *("localhost", "127.0.0.1", "scheduling.example"),
        ]

    played(story, TlsSettings(enabled=True, names=("scheduling.example",)))


def write(folder: Path) -> tuple[TlsSettings, Certificate, str]:
    """Files as cert-manager writes them; and a client certificate, and the authority."""
    made = chain()
    files = {"tls.crt": made.serving.text, "tls.key": made.serving.key, "ca.crt": made.authorities}
    for name, text in files.items():
        (folder / name).write_text(text)
    paths = (str(folder / name) for name in files)
    settings = TlsSettings(True, cert_file=next(paths), key_file=next(paths), client_ca_file=next(paths))  # noqa: FBT003
    return settings, client(made), made.authorities


def test_files_are_read_again_when_they_change_and_no_secret_is_written(tmp_path: Path) -> None:
    settings, first, authorities = write(tmp_path)

    async def story(extender: TlsExtender) -> None:
        assert (await extender.call("/filter", first, FILTER, authorities)).status == 200
        _, second, newer = write(tmp_path)
        await extender.clock.wake()
        assert (await extender.call("/filter", second, FILTER, newer)).status == 200
        with pytest.raises(ClusterError):
            await extender.call("/filter", first, FILTER, newer)
        assert extender.api.store.list("secrets").items == []

    played(story, settings)


def test_files_that_can_t_be_read_keep_the_service_from_being_ready(tmp_path: Path) -> None:
    settings, _, _ = write(tmp_path)
    (tmp_path / "ca.crt").unlink()

    async def story(extender: TlsExtender) -> None:
        assert "tls.client_ca_file can't be read" in extender.tls.not_ready["tls"]
        write(tmp_path)
        await extender.clock.wake()
        assert (extender.tls.not_ready, extender.tls.problems) == ({}, ())

    played(story, settings)


@pytest.mark.parametrize(
    ("host", "tls", "warns"),
    [("0.0.0.0", False, True), ("10.0.0.7", False, True), ("127.0.0.1", False, False), ("0.0.0.0", True, False)],  # noqa: S104
)
def test_a_port_without_tls_that_others_reach_is_warned_of(host: str, tls: bool, warns: bool) -> None:  # noqa: FBT001
    settings = ServeSettings(http=HttpSettings(host=host), tls=TlsSettings(enabled=tls))
    assert ("can bind pods" in open_port_warning(settings)) == warns
