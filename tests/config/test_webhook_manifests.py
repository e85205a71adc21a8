"""The configurations of the webhook select what Linkwise manages, and never what it must not stop."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import yaml

from linkwise.config.webhook_manifests import WebhookFile, managed_condition, webhook_yaml
from linkwise.dialects.registry import managed_resources, record_keys

KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def printed(**options: Any) -> dict[str, dict[str, Any]]:  # noqa: ANN401 - as WebhookFile has them
    documents = yaml.safe_load_all(webhook_yaml(WebhookFile(**options)))
    return {document["kind"]: document for document in documents}


def hooks(**options: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - same
    made = printed(**options)
    return [hook for kind in KINDS for hook in made[kind]["webhooks"]]


def test_every_webhook_says_what_happens_if_it_fails_and_when() -> None:
    for hook in hooks(hide_devices=True):
        assert hook["failurePolicy"] in {"Fail", "Ignore"}
        assert hook["timeoutSeconds"] == (5 if hook["failurePolicy"] == "Fail" else 1)
        assert (hook["sideEffects"], hook["matchPolicy"], hook["admissionReviewVersions"]) == (
            "None",
            "Equivalent",
            ["v1"],
        )
        assert hook["matchConditions"]


def test_only_what_is_not_managed_may_pass_unseen() -> None:
    ignoring = {hook["name"] for hook in hooks(hide_devices=True) if hook["failurePolicy"] == "Ignore"}
    warning = {"names.webhook.linkwise.dev", "operator-jobs.webhook.linkwise.dev"}
    assert ignoring == {*warning, "all-pods.webhook.linkwise.dev"}
    assert {hook["name"] for hook in hooks() if hook["failurePolicy"] == "Ignore"} == warning


def test_kube_system_and_our_own_namespace_never_wait() -> None:
    for hook in hooks(namespace="accelerators", hide_devices=True):
        by_name, by_label = hook["namespaceSelector"]["matchExpressions"]
        assert by_name == {
            "key": "kubernetes.io/metadata.name",
            "operator": "NotIn",
            "values": ["kube-system", "accelerators"],
        }
        assert by_label == {"key": "linkwise.dev/webhook", "operator": "NotIn", "values": ["ignore"]}


def test_on_request_pods_can_opt_out_and_workloads_can_not() -> None:
    for hook in hooks(pod_opt_out=True):
        (rule, *_) = hook["rules"]
        assert ("objectSelector" in hook) == (rule["resources"] == ["pods"])


@pytest.mark.rule("002.access")
def test_only_namespaces_can_opt_out() -> None:
    for hook in hooks(hide_devices=True):
        assert "objectSelector" not in hook
        assert hook["namespaceSelector"]["matchExpressions"][1]["values"] == ["ignore"]


def test_opting_in_takes_a_label_on_the_namespace() -> None:
    for hook in hooks(opt_in=True):
        label = hook["namespaceSelector"]["matchExpressions"][1]
        assert label == {"key": "linkwise.dev/webhook", "operator": "In", "values": ["enabled"]}


def test_conditions_name_every_managed_resource_and_every_record() -> None:
    condition = managed_condition()
    names = [name for names in managed_resources().values() for name in names]
    records = [key for key in record_keys() if not key.startswith("linkwise.dev/")]
    assert all(f"'{name}'" in condition for name in (*names, *records))
    assert "k.startsWith('linkwise.dev/')" in condition


def test_a_service_is_called_unless_there_is_a_url() -> None:
    made = printed()
    assert made["Service"]["spec"]["publishNotReadyAddresses"] is True
    assert hooks()[0]["clientConfig"] == {
        "service": {"name": "linkwise-webhook", "namespace": "linkwise-system", "path": "/mutate", "port": 443}
    }
    assert "Service" not in printed(url="https://10.0.0.7:9443/")
    assert hooks(url="https://10.0.0.7:9443/")[0]["clientConfig"] == {"url": "https://10.0.0.7:9443/mutate"}


def test_the_roles_have_exactly_the_verbs_that_are_used() -> None:
    made = printed()
    assert made["Role"]["rules"] == [
        {
            "apiGroups": [""],
            "resources": ["secrets"],
            "resourceNames": ["linkwise-webhook"],
            "verbs": ["get", "create", "patch", "update"],
        },
    ]
    assert made["ClusterRole"]["rules"] == [
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
            "resourceNames": ["linkwise"],
            "verbs": ["get", "patch"],
        }
    ]


@pytest.mark.parametrize("options", [{"authority": "-----BEGIN CERTIFICATE-----\n"}, {"cert_manager": True}])
def test_a_certificate_from_elsewhere_needs_no_roles(options: dict[str, Any]) -> None:
    assert not {"Role", "ClusterRole"} & printed(**options).keys()


def test_an_authority_is_written_into_every_webhook() -> None:
    for hook in hooks(authority="PEM"):
        assert hook["clientConfig"]["caBundle"] == base64.b64encode(b"PEM").decode()


def test_cert_manager_makes_the_certificate_and_injects_its_authority() -> None:
    made = printed(cert_manager=True)
    assert made["Certificate"]["spec"]["dnsNames"][0] == "linkwise-webhook.linkwise-system.svc"
    for kind in KINDS:
        annotations = made[kind]["metadata"]["annotations"]
        assert annotations == {"cert-manager.io/inject-ca-from": "linkwise-system/linkwise-webhook"}
