"""Admission webhook of a test: HTTPS on loopback, with an answer per path, and the configuration that calls it."""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Self

from linkwise.net.certificates import self_signed
from linkwise.net.http.messages import Response
from support.http_thread import HttpThread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from linkwise.net.http.messages import Request
    from support.embedded.conformance import Space

__all__ = ["WebhookServer", "allow", "deny", "patch", "rule"]

Raw = dict[str, Any]
Verdict = Raw | bytes | None
"""the fields of a response, raw bytes instead of a review, or None for no response at all"""
_GROUP: Final = "admissionregistration.k8s.io"
_markers: Final = count(1)


def allow(**more: object) -> Raw:
    """A response that allows the request."""
    return {"allowed": True, **more}


def deny(message: str = "", code: int = 403, **more: object) -> Raw:
    """A response that denies the request."""
    return {"allowed": False, "status": {"message": message, "code": code}, **more}


def patch(*operations: Raw, **more: object) -> Raw:
    """A response that changes the object."""
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded, **more}


def rule(*resources: str, operations: tuple[str, ...] = ("CREATE",), groups: tuple[str, ...] = ("",)) -> Raw:
    """A rule for resources of version v1."""
    return {
        "operations": list(operations),
        "apiGroups": list(groups),
        "apiVersions": ["v1"],
        "resources": list(resources),
    }


class WebhookServer:
    """Serves for the duration of the `with`, in a thread of its own."""

    def __init__(self, *names: str) -> None:
        self._certificate = self_signed(["localhost", "127.0.0.1", *names])
        self._verdicts: dict[str, Callable[[Raw], Verdict]] = {}
        self._thread = HttpThread(self, self._certificate.context())
        self.port: Final = self._thread.port
        self.requests: list[Raw] = []
        """of the reviews received, without those that only wait for the configuration"""

    @property
    def ca_bundle(self) -> str:
        """Its certificate, as a configuration has it."""
        return base64.b64encode(self._certificate.text.encode()).decode()

    def on(self, path: str, verdict: Callable[[Raw], Verdict] | Verdict) -> None:
        """Answer reviews at a path: always the same, or by their request."""
        self._verdicts[path] = verdict if callable(verdict) else lambda _: verdict

    def webhook(self, path: str, *rules: Raw, **fields: object) -> Raw:
        """A webhook of a configuration, with the path as its name."""
        return {
            "name": f"{path.strip('/')}.webhook.test",
            "clientConfig": {"url": f"https://127.0.0.1:{self.port}{path}", "caBundle": self.ca_bundle},
            "rules": list(rules),
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **fields,
        }

    @contextmanager
    def installed(self, space: Space, kind: str, *webhooks: Raw, name: str = "") -> Iterator[str]:
        """A configuration for the namespace of a test, from when it has an effect until the end of the `with`.

        API servers learn of a configuration a moment after it is written. A webhook in it denies a ConfigMap with a label that
        nothing else has; once it does, the configuration is in use.
        """
        marker = f"marker-{next(_markers)}"
        name = name or f"{space.name}-{marker}"
        self.on(f"/{marker}", deny(marker))
        probe = self.webhook(f"/{marker}", rule("configmaps"), objectSelector={"matchLabels": {"marker": marker}})
        here = {"matchLabels": {"kubernetes.io/metadata.name": space.name}}
        listed = [{"namespaceSelector": here, **webhook} for webhook in (*webhooks, probe)]
        about = {"name": name, "labels": {"linkwise.dev/e2e": "true"}}
        path = f"/apis/{_GROUP}/v1/{kind.lower()}webhookconfigurations"
        document = {"apiVersion": f"{_GROUP}/v1", "kind": f"{kind}WebhookConfiguration", "metadata": about}
        space.call("POST", path, {**document, "webhooks": listed})
        try:
            space.until(lambda: self._denies(space, marker), f"{kind}WebhookConfiguration {name} is in use")
            self.requests.clear()
            yield name
        finally:
            space.api.delete(f"{path}/{name}")

    def _denies(self, space: Space, marker: str) -> bool:
        about = {"generateName": "probe-", "labels": {"marker": marker}}
        document = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": about}).encode()
        status, body = space.api.raw("POST", f"{space.path('configmaps')}?dryRun=All", document, "application/json")
        return status == 403 and marker in body.decode()

    def __enter__(self) -> Self:
        self._thread.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.__exit__()

    async def handle(self, request: Request) -> Response:
        """Answer an AdmissionReview."""
        asked: Raw = json.loads(request.body)["request"]
        if not request.path.startswith("/marker-"):
            self.requests.append(asked)
        verdict = await asyncio.to_thread(self._verdicts[request.path], asked)  # it may call the API server
        if verdict is None:
            await request.gone.wait()
            return Response(b"")
        if isinstance(verdict, bytes):
            return Response(verdict)
        head = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        return Response(json.dumps({**head, "response": {"uid": asked["uid"], **verdict}}).encode())

    def admit(self, request: Request) -> None:
        """Every body is received."""
        del request

    def refuse(self, request: Request, status: int, sentence: str) -> Response:
        """Requests that are not HTTP, or fail."""
        del request
        return Response(sentence.encode(), status)
