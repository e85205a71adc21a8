"""Dispatch: call the webhooks that apply to a write at each of its admission points.

Mutating webhooks are called one after another, each with the object as the one before left it; validating ones together.
Other requests are served in the meantime. If the object is written while a webhook is being asked, the write starts again
with the new object, so that it never overwrites what it has not seen.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from linkwise.embedded.admission.call import CallFailedError, WebhookCalls
from linkwise.embedded.admission.review import InvalidReviewError, decode_review, review_of
from linkwise.embedded.admission.webhooks import Webhooks
from linkwise.embedded.api_errors import ApiError, conflict
from linkwise.embedded.kinds.webhook_configurations import GROUP, MUTATING, VALIDATING
from linkwise.embedded.storage.collection import encode
from linkwise.embedded.writes.admission import ChangedMeanwhileError, without_admission
from linkwise.embedded.writes.patch import json_patch
from linkwise.errors import LinkwiseError

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.embedded.admission.review import ReviewResponse
    from linkwise.embedded.admission.webhooks import Webhook
    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.kinds.webhook_configurations import ClientConfig
    from linkwise.embedded.storage.collection import Raw
    from linkwise.embedded.store import Store
    from linkwise.embedded.writes.admission import AdmissionRequest, Write
    from linkwise.model.requester import Requester

__all__ = ["Admission"]

log = logging.getLogger(__name__)

T = TypeVar("T")
_MAX_ATTEMPTS: Final = 5
"""of a write whose object keeps changing during admission; kube-apiserver tries patches as often"""


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


def _apply(document: Raw, operations: object) -> object:
    try:
        return json_patch(document, operations)
    except ApiError as error:
        raise _internal_error(error.message) from error


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


def _internal_error(message: str) -> ApiError:
    text = f"Internal error occurred: {message}"
    return ApiError(500, "InternalError", text, {"causes": [{"message": message}]})
