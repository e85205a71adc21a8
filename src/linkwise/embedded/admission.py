"""Admission webhooks: which of them apply to a write, the review that each is sent, and what follows from its response.

Source: Kubernetes, "Dynamic Admission Control", matching requests. There is no CEL interpreter: matchConditions are not
evaluated and count as met, so a webhook sees requests that it would not see on a real cluster.

Mutating webhooks are called one after another, each with the object as the one before left it; validating ones together.
Other requests are served in the meantime. If the object is written while a webhook is being asked, the write starts again
with the new object, so that it never overwrites what it has not seen.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import ssl
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

import msgspec

from linkwise.embedded.api_errors import ApiError, conflict
from linkwise.embedded.kinds.object_types import GROUP, MUTATING, VALIDATING, ApiType, WebhookFields, without_nulls
from linkwise.embedded.service_addresses import NoAddressError, service_address
from linkwise.embedded.storage.collection import encode
from linkwise.embedded.storage.list_watch import labels_match
from linkwise.embedded.writes.admission import ChangedMeanwhileError, without_admission
from linkwise.embedded.writes.patch import json_patch
from linkwise.errors import ClusterError, LinkwiseError
from linkwise.net.http.client import Http, NotSentError, Origin, SlowError

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.kinds.object_types import ClientConfig, Rule
    from linkwise.embedded.storage.collection import Change, Raw
    from linkwise.embedded.storage.database import Database
    from linkwise.embedded.store import Store
    from linkwise.embedded.writes.admission import AdmissionRequest, Write
    from linkwise.model.access_policy import Requester

__all__ = [
    "Admission",
    "CallFailedError",
    "InvalidReviewError",
    "ReviewResponse",
    "Webhook",
    "WebhookCalls",
    "Webhooks",
    "decode_review",
    "review_of",
    "user_info",
]

_HEADERS: Final = b"Content-Type: application/json\r\nAccept: application/json\r\n"
API_VERSION: Final = "admission.k8s.io/v1"
_OPTIONS: Final = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}
log = logging.getLogger(__name__)
T = TypeVar("T")
_MAX_ATTEMPTS: Final = 5
"""of a write whose object keeps changing during admission; kube-apiserver tries patches as often"""


class Webhook(WebhookFields, frozen=True):
    """One webhook, with the requests that it applies to."""

    def matched_version(self, database: Database, request: AdmissionRequest) -> Resource | None:
        """The version of the resource in which the webhook wants the request; None if it does not apply."""
        version = self._version(database, request)
        if version is None or not self._namespace_matches(database, request):
            return None
        return version if self._object_matches(request) else None

    def _version(self, database: Database, request: AdmissionRequest) -> Resource | None:
        """The requested version if a rule has it, or else another one, unless only exact matches are wanted."""
        requested = request.resource
        if any(_rule_matches(rule, request, requested) for rule in self.rules):
            return requested
        if self.match_policy != "Equivalent":
            return None
        others = (version for version in database.kinds.versions(requested) if version != requested)
        return next((each for each in others if any(_rule_matches(rule, request, each) for rule in self.rules)), None)

    def _namespace_matches(self, database: Database, request: AdmissionRequest) -> bool:
        """Whether the selector matches the namespace of the object; a Namespace is matched by its own labels."""
        selector = self.namespace_selector
        if not selector:
            return True
        if request.resource.group_resource == "namespaces":
            return labels_match(selector, _labels(request))
        if not request.resource.namespaced:
            return True
        namespace = database.find(database.kinds.by_name("namespaces"), ("", request.namespace))
        return labels_match(selector, namespace.labels if namespace else {})

    def _object_matches(self, request: AdmissionRequest) -> bool:
        """Whether the selector matches the object or, on an update, the stored one."""
        selector = self.object_selector
        if not selector:
            return True
        before = request.old is not None and labels_match(selector, request.old.labels)
        return before or (request.object is not None and labels_match(selector, _labels(request)))


class _Configuration(ApiType, frozen=True):
    webhooks: tuple[Webhook, ...] = ()


class Webhooks:
    """All configured webhooks of one type, in the order in which they are called: by configuration, then as listed."""

    def __init__(self, database: Database, group_resource: str) -> None:
        self._collection = database.collection(database.kinds.by_name(group_resource))
        self._collection.listeners.add(self._read)
        self.all: tuple[Webhook, ...] = ()
        self._read()

    def _read(self, _: Change | None = None) -> None:
        self.all = tuple(
            webhook
            for stored in self._collection.page()
            for webhook in msgspec.json.decode(stored.data, type=_Configuration).webhooks
        )


class CallFailedError(LinkwiseError):
    """A webhook could not be called, or did not answer with 200."""


class WebhookCalls:
    """Calls webhooks; keeps connections between calls."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pools: dict[tuple[str, int, str, str], Http] = {}

    async def call(self, webhook: Webhook, review: bytes) -> bytes:
        """Send an AdmissionReview; CallFailedError with the reason if there is no response in time."""
        url, http = self._destination(webhook)
        seconds = webhook.timeout_seconds
        parts = urlsplit(url)
        query = f"{parts.query}&" if parts.query else ""
        path = f"{parts.path or '/'}?{query}timeout={seconds}s"
        sent = f'failed to call webhook: Post "{parts.scheme}://{parts.netloc}{path}"'
        try:
            answer = await http.call("POST", path, _HEADERS, review, seconds, repeatable=True)
        except SlowError as error:
            raise CallFailedError(f"{sent}: context deadline exceeded") from error
        except NotSentError as error:
            raise CallFailedError(f"{sent}: {_connect_failure(http.origin, error)}") from error
        except ClusterError as error:
            raise CallFailedError(f"{sent}: EOF") from error
        if answer.status != 200:
            text = answer.body.decode("utf-8", "replace").strip()
            raise CallFailedError(f"failed to call webhook: {_refusal(answer.status, text)}")
        return answer.body

    async def close(self) -> None:
        """Close all connections."""
        pools, self._pools = self._pools, {}
        for http in pools.values():
            await http.close()

    def _destination(self, webhook: Webhook) -> tuple[str, Http]:
        config = webhook.client_config
        if config.service is None:
            parts = urlsplit(config.url)
            host, name = parts.hostname or "", ""
            port = parts.port or 443
            url = config.url
        else:
            service = config.service
            name = f"{service.name}.{service.namespace}.svc"
            try:
                host, port = service_address(self._database, service.namespace, service.name, str(service.port))
            except NoAddressError as error:
                raise CallFailedError(f"failed to call webhook: {error}") from error
            url = f"https://{name}:{service.port}/{service.path.removeprefix('/')}"
        key = host, port, name, config.ca_bundle
        if key not in self._pools:
            self._pools[key] = Http(Origin(host, port, tls=_trust(config.ca_bundle), tls_name=name))
        return url, self._pools[key]


class InvalidReviewError(LinkwiseError):
    """A webhook sent something that is not the response to its AdmissionReview."""


class ReviewResponse(ApiType, frozen=True):
    """The response of a webhook."""

    uid: str
    allowed: bool
    status: dict[str, Any] | None = None
    patch: str | None = None
    patch_type: str | None = None
    warnings: tuple[str, ...] = ()

    def operations(self) -> Any:  # noqa: ANN401 - JSON
        """The operations of the JSON patch; InvalidReviewError if they can't be decoded."""
        try:
            return msgspec.json.decode(base64.b64decode(self.patch or "", validate=True)) if self.patch else []
        except (binascii.Error, msgspec.DecodeError) as error:
            raise InvalidReviewError(f"invalid JSON patch: {error}") from error


class _Review(ApiType, frozen=True):
    api_version: str = ""
    kind: str = ""
    response: ReviewResponse | None = None


def review_of(request: AdmissionRequest, version: Resource, requester: Requester) -> Raw:
    """The AdmissionReview of a write, with its objects in the version that the webhook wants."""
    resource, subresource = request.resource, request.subresource
    options: Raw = {"kind": _OPTIONS[request.operation], "apiVersion": "meta.k8s.io/v1"}
    if request.options is not None:
        fields = without_nulls(msgspec.to_builtins(request.options))
        options |= {key: value for key, value in fields.items() if value not in ({}, [])}
    part = {"subResource": subresource, "requestSubResource": subresource} if subresource else {}
    old = request.old.read() | _head(version) if request.old is not None else None
    return {
        "kind": "AdmissionReview",
        "apiVersion": API_VERSION,
        "request": {
            "uid": str(uuid.uuid4()),
            "kind": _kind(request, version),
            "resource": {"group": version.group, "version": version.version, "resource": version.plural},
            "requestKind": _kind(request, resource),
            "requestResource": {"group": resource.group, "version": resource.version, "resource": resource.plural},
            **part,
            "name": request.name,
            "namespace": request.name if resource.group_resource == "namespaces" else request.namespace,
            "operation": request.operation,
            "userInfo": user_info(requester),
            "object": request.object if request.kind or request.object is None else request.object | _head(version),
            "oldObject": old,
            "dryRun": request.dry_run,
            "options": options,
        },
    }


def user_info(requester: Requester) -> Raw:
    """UserInfo of a user."""
    return {"username": requester.user, "groups": list(requester.groups)}


def decode_review(body: bytes, uid: str, *, mutating: bool) -> ReviewResponse:
    """The response of a webhook; InvalidReviewError if it is malformed or answers something else."""
    try:
        review = msgspec.json.decode(body, type=_Review)
    except msgspec.DecodeError as error:
        raise InvalidReviewError(f"received invalid webhook response: {error}") from error
    if (review.api_version, review.kind) != (API_VERSION, "AdmissionReview"):
        expected, got = f"{API_VERSION}, Kind=AdmissionReview", f"{review.api_version}, Kind={review.kind}"
        raise InvalidReviewError(
            f"received invalid webhook response: expected webhook response of {expected}, got {got}"
        )
    response = review.response
    if response is None:
        raise InvalidReviewError("webhook response was absent")
    if response.uid != uid:
        raise InvalidReviewError(f'expected response.uid="{uid}", got "{response.uid}"')
    if (response.patch or response.patch_type) and not mutating:
        field = "patch" if response.patch else "patchType"
        raise InvalidReviewError(f"validating webhook may not return response.{field}")
    if response.patch and response.patch_type is None:
        raise InvalidReviewError("webhook returned response.patch but not response.patchType")
    if response.patch and response.patch_type != "JSONPatch":
        raise InvalidReviewError(f'unsupported patch type "{response.patch_type}"')
    return response


class Admission:
    """Completes writes with the admission webhooks of the cluster."""

    def __init__(self, store: Store) -> None:
        self._database = store.database
        self._mutating = Webhooks(store.database, MUTATING)
        self._validating = Webhooks(store.database, VALIDATING)
        self._calls = WebhookCalls(store.database)

    async def complete(
        self, begin: Callable[[], Write[T]], requester: Requester, warnings: list[str] | None = None
    ) -> T:
        """Complete a write as this user; warnings of webhooks are appended to `warnings`.

        Raises:
            ApiError: the write is invalid, or a webhook denied it or could not be called.
        """
        if not self._mutating.all and not self._validating.all:
            return without_admission(begin())
        collected = warnings if warnings is not None else []
        for _ in range(_MAX_ATTEMPTS):
            try:
                return await self._attempt(begin(), requester, collected)
            except ChangedMeanwhileError as error:
                changed = error
        raise conflict(changed.resource, changed.name) from changed

    async def close(self) -> None:
        """Close the connections to webhooks."""
        await self._calls.close()

    async def _attempt(self, write: Write[T], requester: Requester, warnings: list[str]) -> T:
        try:
            request = next(write)
            while True:
                if request.resource.group == GROUP:  # configurations of admission are never subject to it
                    admitted = request.object
                elif request.mutating:
                    admitted = await self._mutate(request, requester, warnings)
                else:
                    admitted = await self._validate(request, requester, warnings)
                request = write.send(admitted)
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            write.close()

    async def _mutate(self, request: AdmissionRequest, requester: Requester, warnings: list[str]) -> Raw | None:
        """The object as the webhooks changed it."""
        unchanged_since: dict[int, Raw | None] = {}
        for again in (False, True):
            for number, webhook in enumerate(self._mutating.all):
                if again and (webhook.reinvocation_policy != "IfNeeded" or number not in unchanged_since):
                    continue
                if again and unchanged_since[number] == request.object:
                    continue
                version = webhook.matched_version(self._database, request)
                if version is not None:
                    outcome = await self._call(webhook, request, version, requester)
                    request = _patched(request, webhook, _judge(webhook, outcome, warnings))
                    unchanged_since[number] = request.object
        return request.object

    async def _validate(self, request: AdmissionRequest, requester: Requester, warnings: list[str]) -> Raw | None:
        # A review does not name the webhook, so those at the same address share a call, with the time of the most patient.
        # Linkwise's own has several with different matchConditions, which all count as met here.
        calls: dict[tuple[ClientConfig, str], tuple[Resource, list[Webhook]]] = {}
        for webhook in self._validating.all:
            version = webhook.matched_version(self._database, request)
            if version is not None:
                calls.setdefault((webhook.client_config, version.version), (version, []))[1].append(webhook)
        if not calls:
            return request.object
        asked = [
            self._call(max(webhooks, key=lambda webhook: webhook.timeout_seconds), request, version, requester)
            for version, webhooks in calls.values()
        ]
        outcomes = [await asked[0]] if len(asked) == 1 else await asyncio.gather(*asked)
        for (_, webhooks), outcome in zip(calls.values(), outcomes, strict=True):
            for webhook in webhooks:
                _judge(webhook, outcome, warnings)
        return request.object

    async def _call(
        self, webhook: Webhook, request: AdmissionRequest, version: Resource, requester: Requester
    ) -> ReviewResponse | CallFailedError | InvalidReviewError:
        """The response of a webhook, or why there is none."""
        review = review_of(request, version, requester)
        try:
            body = await self._calls.call(webhook, encode(review))
            return decode_review(body, review["request"]["uid"], mutating=request.mutating)
        except (CallFailedError, InvalidReviewError) as error:
            return error


def _rule_matches(rule: Rule, request: AdmissionRequest, resource: Resource) -> bool:
    """Whether a rule applies to a request for this version of the resource."""
    return (
        (resource.group in rule.api_groups or "*" in rule.api_groups)
        and (request.operation in rule.operations or "*" in rule.operations)
        and ("*" in rule.api_versions or resource.version in rule.api_versions)
        and any(_resource_matches(name, resource.plural, request.subresource) for name in rule.resources)
        and rule.scope in {"*", "Namespaced" if resource.namespaced else "Cluster"}
    )


def _resource_matches(pattern: str, plural: str, subresource: str) -> bool:
    """`pods` is the resource alone, `pods/*` with all subresources, `*/*` everything."""
    resource, _, part = pattern.partition("/")
    return resource in {"*", plural} and part in {"*", subresource}


def _labels(request: AdmissionRequest) -> dict[str, str]:
    meta: Raw = (request.object or {}).get("metadata") or {}
    return meta.get("labels") or ({} if request.object or request.old is None else dict(request.old.labels))


def _connect_failure(origin: Origin, error: NotSentError) -> str:
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"tls: failed to verify certificate: x509: {cause.verify_message}"
    if isinstance(cause, ConnectionRefusedError):
        return f"dial tcp {origin.authority}: connect: connection refused"
    if isinstance(cause, TimeoutError):
        return f"dial tcp {origin.authority}: i/o timeout"
    return f"dial tcp {origin.authority}: {cause or error}"


def _refusal(status: int, text: str) -> str:
    if status == 404:
        return "the server could not find the requested resource"
    return f"an error on the server ({text!r}) has prevented the request from succeeding" if status >= 500 else text


def _trust(ca_bundle: str) -> ssl.SSLContext:
    """Trust in the authorities of a caBundle; in those of this system if it is empty."""
    try:
        context = ssl.create_default_context(cadata=base64.b64decode(ca_bundle).decode("ascii") if ca_bundle else None)
    except (binascii.Error, UnicodeDecodeError, ssl.SSLError) as error:
        raise CallFailedError(f"unable to load root certificates: {error}") from error
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Go does not ask for key identifiers
    return context


def _head(version: Resource) -> Raw:
    return {"apiVersion": version.api_version, "kind": version.kind}


def _kind(request: AdmissionRequest, version: Resource) -> Raw:
    group, name, kind = request.kind or (version.group, version.version, version.kind)
    return {"group": group, "version": name, "kind": kind}


def _patched(request: AdmissionRequest, webhook: Webhook, response: ReviewResponse | None) -> AdmissionRequest:
    """The request with the patch of a webhook applied to its object."""
    if response is None or not response.patch:
        return request
    try:
        operations = response.operations()
        if not operations:
            return request
        if request.object is None:
            message = "attempted to modify the object, which is not supported for this operation"
            raise _internal_error(f'admission webhook "{webhook.name}" {message}')
        patched = _apply(request.object, operations)
    except InvalidReviewError as error:
        raise _internal_error(str(error)) from error
    if not isinstance(patched, dict):
        raise _internal_error(f'the patch of admission webhook "{webhook.name}" does not result in an object')
    return replace(request, object=patched)


def _internal_error(message: str) -> ApiError:
    text = f"Internal error occurred: {message}"
    return ApiError(500, "InternalError", text, {"causes": [{"message": message}]})


def _apply(document: Raw, operations: object) -> object:
    try:
        return json_patch(document, operations)
    except ApiError as error:
        raise _internal_error(error.message) from error


def _judge(
    webhook: Webhook, outcome: ReviewResponse | CallFailedError | InvalidReviewError, warnings: list[str]
) -> ReviewResponse | None:
    """The response if it allows the request, None if the call failed and that is ignored; ApiError otherwise."""
    if isinstance(outcome, LinkwiseError):
        failure = f'failed calling webhook "{webhook.name}": {outcome}'
        if webhook.failure_policy == "Ignore":
            log.warning("%s; ignored", failure)
            return None
        raise _internal_error(failure) from outcome
    warnings += [warning for warning in outcome.warnings if warning not in warnings]
    if not outcome.allowed:
        raise _denied(webhook.name, outcome.status or {})
    return outcome


def _denied(name: str, status: dict[str, Any]) -> ApiError:
    """The error of a denied request, with the code and the reason that the webhook chose."""
    by = f'admission webhook "{name}" denied the request'
    explanation = status.get("message") or status.get("reason")
    code = status.get("code")
    message = f"{by}: {explanation}" if explanation else f"{by} without explanation"
    details = status.get("details")
    return ApiError(
        code if isinstance(code, int) and code >= 400 else 400,
        str(status.get("reason") or ""),
        message,
        details if isinstance(details, dict) else {},
    )
