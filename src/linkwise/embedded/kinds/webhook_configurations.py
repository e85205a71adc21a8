"""Webhook configurations: their typed form, and validation with Kubernetes' messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

from linkwise.embedded.api_errors import Cause
from linkwise.embedded.kinds.object_types import ApiType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.embedded.storage.collection import Raw

__all__ = ["GROUP", "MUTATING", "VALIDATING", "ClientConfig", "Rule", "WebhookFields", "check_webhooks"]

GROUP: Final = "admissionregistration.k8s.io"
MUTATING: Final = f"mutatingwebhookconfigurations.{GROUP}"
VALIDATING: Final = f"validatingwebhookconfigurations.{GROUP}"
_MAX_TIMEOUT: Final = 30  # seconds
_URL_FORMAT: Final = "desired format: https://host[/path]"


class Rule(ApiType, frozen=True):
    """Operations on resources that a webhook applies to."""

    operations: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    api_versions: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    scope: str = "*"


class ServiceReference(ApiType, frozen=True):
    """The Service of a webhook."""

    namespace: str = ""
    name: str = ""
    path: str = ""
    port: int = 443


class ClientConfig(ApiType, frozen=True):
    """The address of a webhook."""

    url: str = ""
    service: ServiceReference | None = None
    ca_bundle: str = ""


class WebhookFields(ApiType, frozen=True):
    """One webhook of a configuration."""

    name: str = ""
    client_config: ClientConfig = ClientConfig()
    rules: tuple[Rule, ...] = ()
    failure_policy: str = "Fail"
    match_policy: str = "Equivalent"
    namespace_selector: dict[str, Any] = msgspec.field(default_factory=dict)
    object_selector: dict[str, Any] = msgspec.field(default_factory=dict)
    side_effects: str = ""
    timeout_seconds: int = 10
    reinvocation_policy: str = "Never"
    admission_review_versions: tuple[str, ...] = ()


class _Configuration(ApiType, frozen=True):
    webhooks: tuple[WebhookFields, ...] = ()


def check_webhooks(document: Raw) -> Iterator[Cause]:
    """Validate a webhook configuration."""
    try:
        configuration = msgspec.convert(document, _Configuration)
    except msgspec.ValidationError as error:
        yield Cause("webhooks", f"Invalid value: {error}")
        return
    names = set()
    for number, webhook in enumerate(configuration.webhooks):
        path = f"webhooks[{number}]"
        if webhook.name in names:
            yield Cause(f"{path}.name", f'Duplicate value: "{webhook.name}"')
        names.add(webhook.name)
        yield from _check_webhook(path, webhook)


def _check_webhook(path: str, webhook: WebhookFields) -> Iterator[Cause]:
    if webhook.name.count(".") < 2:
        message = "should be a domain with at least three segments separated by dots"
        yield Cause(f"{path}.name", f'Invalid value: "{webhook.name}": {message}')
    if not webhook.admission_review_versions:
        yield Cause(f"{path}.admissionReviewVersions", "Required value: must specify one of v1, v1beta1")
    if not webhook.side_effects:
        yield Cause(f"{path}.sideEffects", "Required value: must specify one of None, NoneOnDryRun")
    for key, value, supported in (
        ("sideEffects", webhook.side_effects, ("None", "NoneOnDryRun")),
        ("failurePolicy", webhook.failure_policy, ("Fail", "Ignore")),
        ("matchPolicy", webhook.match_policy, ("Equivalent", "Exact")),
        ("reinvocationPolicy", webhook.reinvocation_policy, ("IfNeeded", "Never")),
    ):
        if value and value not in supported:
            choices = ", ".join(f'"{choice}"' for choice in supported)
            yield Cause(f"{path}.{key}", f'Unsupported value: "{value}": supported values: {choices}')
    if not 1 <= webhook.timeout_seconds <= _MAX_TIMEOUT:
        message = f"the timeout value must be between 1 and {_MAX_TIMEOUT} seconds"
        yield Cause(f"{path}.timeoutSeconds", f"Invalid value: {webhook.timeout_seconds}: {message}")
    yield from _check_client_config(f"{path}.clientConfig", webhook.client_config)


def _check_client_config(path: str, config: ClientConfig) -> Iterator[Cause]:
    if bool(config.url) == (config.service is not None):
        yield Cause(path, "Required value: exactly one of url or service is required")
    elif config.url:
        parts = urlsplit(config.url)
        if parts.scheme != "https":
            message = f"'https' is the only allowed URL scheme; {_URL_FORMAT}"
            yield Cause(f"{path}.url", f'Invalid value: "{parts.scheme}": {message}')
        if not parts.netloc:
            yield Cause(f"{path}.url", f'Invalid value: "": host must be specified; {_URL_FORMAT}')
