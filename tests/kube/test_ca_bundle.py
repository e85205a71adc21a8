"""The authority of the webhook is written into its configurations, and only where it is missing."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from linkwise.kube.certificates import write_ca_bundle
from support.fakes.scripted_api import Reply, ScriptedApi, play

if TYPE_CHECKING:
    from linkwise.kube.client.api import Connection

ROOT = "/apis/admissionregistration.k8s.io/v1"
MUTATING, VALIDATING = (f"{ROOT}/{kind}webhookconfigurations/linkwise" for kind in ("mutating", "validating"))
PEM = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"
BUNDLE = base64.b64encode(PEM.encode()).decode()


def configuration(*bundles: str | None) -> Reply:
    hooks = [
        {"name": f"hook-{place}", "clientConfig": {"url": "https://x", **({"caBundle": text} if text else {})}}
        for place, text in enumerate(bundles)
    ]
    return Reply(200, {"kind": "MutatingWebhookConfiguration", "webhooks": hooks})


def test_it_is_written_into_every_webhook_that_lacks_it() -> None:
    async def story(api: ScriptedApi, connection: Connection) -> None:
        api.script(f"GET {MUTATING}", configuration(None, BUNDLE, "b2xk"))
        api.script(f"GET {VALIDATING}", configuration(BUNDLE))
        api.script(f"PATCH {MUTATING}", Reply(200, {}))
        assert await write_ca_bundle(connection, "linkwise", PEM) == []
        (patch,) = api.asked("PATCH")
        assert patch.headers["content-type"] == "application/json-patch+json"
        assert patch.document == [
            {"op": "test", "path": "/webhooks/0/name", "value": "hook-0"},
            {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": BUNDLE},
            {"op": "test", "path": "/webhooks/2/name", "value": "hook-2"},
            {"op": "add", "path": "/webhooks/2/clientConfig/caBundle", "value": BUNDLE},
        ]

    play(story)


def test_what_is_missing_or_forbidden_is_a_problem_and_the_other_is_written() -> None:
    async def story(api: ScriptedApi, connection: Connection) -> None:
        api.script(f"GET {VALIDATING}", configuration(None))
        api.script(f"PATCH {VALIDATING}", Reply(403, {"kind": "Status", "message": "forbidden"}))
        assert await write_ca_bundle(connection, "linkwise", PEM) == [
            "mutatingwebhookconfigurations/linkwise does not exist; `linkwise manifests webhook` prints it",
            "the authority of the webhook is not in validatingwebhookconfigurations/linkwise: forbidden",
        ]

    play(story)


def test_a_configuration_without_webhooks_needs_nothing() -> None:
    async def story(api: ScriptedApi, connection: Connection) -> None:
        for path in (MUTATING, VALIDATING):
            api.script(f"GET {path}", Reply(200, {"kind": "X", "webhooks": None}))
        assert await write_ca_bundle(connection, "linkwise", PEM) == []
        assert not api.asked("PATCH")

    play(story)
