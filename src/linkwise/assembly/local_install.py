"""Installation of the service in a local cluster: the objects that its manifests print, and where it listens.

As on a real cluster, the service has a ServiceAccount with the printed roles, and the API server calls its webhook through a
Service. Nothing creates Endpoints there, so they are written here, with the ports that were free.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import yaml

from linkwise.config.rbac import (
    SERVICE_PORT,
    TENANTS_PORT,
    TENANTS_PORT_NUMBER,
    rbac_yaml,
    webhook_rbac_yaml,
)
from linkwise.config.webhook_manifests import WebhookFile, webhook_configurations
from linkwise.embedded.kinds.crds import CRD_RESOURCE
from linkwise.embedded.users import service_account

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.config.settings import ServeSettings
    from linkwise.embedded.apiserver.server import EmbeddedApi
    from linkwise.embedded.store import Store

__all__ = ["NAME", "NAMESPACE", "expose", "install", "service_kubeconfig", "with_webhook"]

NAMESPACE: Final = "linkwise-system"
NAME: Final = "linkwise"
"""of the ServiceAccount, and of the Service for HTTP"""


def with_webhook(settings: ServeSettings) -> ServeSettings:
    """The settings with the webhook on, at a free port unless it was on before; one replica, whose scheduler is local."""
    webhook = settings.webhook
    port = webhook.port if webhook.enabled else 0
    return replace(
        settings,
        webhook=replace(webhook, enabled=True, port=port, namespace=NAMESPACE),
        leader=replace(settings.leader, enabled=False),
        tls=replace(settings.tls, enabled=False),
    )


def install(store: Store, settings: ServeSettings) -> None:
    """Create namespace, ServiceAccount, roles, Services and webhook configurations, and the schema of AcceleratorPolicies."""
    webhook = settings.webhook
    _add_policy_schema(store)
    store.create("namespaces", {"metadata": {"name": NAMESPACE}})
    wanted = WebhookFile(
        name=webhook.configuration,
        namespace=NAMESPACE,
        scheduler=webhook.scheduler,
        hide_devices=webhook.hide_devices,
    )
    roles = webhook_rbac_yaml(
        namespace=NAMESPACE, account=NAME, secret=webhook.secret, configuration=webhook.configuration
    )
    for text in (rbac_yaml(name=NAME, namespace=NAMESPACE), roles):
        for document in yaml.load_all(text, yaml.CSafeLoader):
            _create(store, document)
    for document in webhook_configurations(wanted):  # not as text: they are long, and writing YAML is slow
        _create(store, document)
    ports = {
        NAME: {"http": SERVICE_PORT, TENANTS_PORT: TENANTS_PORT_NUMBER},
        webhook.service: {"webhook": 443},
    }
    for name, numbers in ports.items():
        spec = {"ports": [{"name": each, "port": number} for each, number in numbers.items()]}
        store.create("services", {"metadata": {"name": name}, "spec": spec}, NAMESPACE)


def service_kubeconfig(api: EmbeddedApi) -> str:
    """A kubeconfig with a token of the ServiceAccount."""
    token = api.tokens.add(service_account(NAMESPACE, NAME))
    return api.kubeconfig(NAMESPACE, token=token, user=NAME)


def expose(store: Store, service: str, ports: Mapping[str, int]) -> None:
    """Write the Endpoints of a Service, by the names of its ports."""
    listed = [{"name": name, "port": port} for name, port in ports.items()]
    subset = {"addresses": [{"ip": "127.0.0.1"}], "ports": listed}
    store.create("endpoints", {"metadata": {"name": service}, "subsets": [subset]}, NAMESPACE)


def _add_policy_schema(store: Store) -> None:
    """Add the schema that a real cluster has: of the kinds of Linkwise, people write this one."""
    text = (files("linkwise.config") / "crds" / "acceleratorpolicies.linkwise.dev.yaml").read_text("utf-8")
    crd = yaml.load(text, yaml.CSafeLoader)
    store.patch(CRD_RESOURCE, crd["metadata"]["name"], {"spec": crd["spec"]})


def _create(store: Store, document: dict[str, Any]) -> None:
    kind = store.database.kinds.for_object(document["apiVersion"], document["kind"])
    if kind is None:
        raise AssertionError(f"kind {document['kind']} is not served")
    store.create(kind, document)
