"""Admission webhooks: which requests they see, what they change, deny and warn about, and what happens without them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from support.embedded.conformance import MERGE, gated, pod
from support.webhook_server import WebhookServer, allow, deny, patch, rule

if TYPE_CHECKING:
    from support.embedded.conformance import Space

PODS = rule("pods")
EVERY = ("CREATE", "UPDATE", "DELETE")
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"


def add(path: str, value: object) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


def note(key: str, value: str) -> dict[str, Any]:
    return add(f"/metadata/labels/{key}", value)


def test_a_mutating_webhook_changes_a_new_object(space: Space) -> None:
    with WebhookServer() as server:
        server.on("/label", patch(note("changed", "yes")))
        with server.installed(space, "Mutating", server.webhook("/label", PODS)):
            made = space.make("pods", pod("a", labels={"mine": "yes"}))
    assert made["metadata"]["labels"] == {"mine": "yes", "changed": "yes"}
    assert space.get("pods", "a")["metadata"]["labels"]["changed"] == "yes"


def test_a_changed_object_gets_defaults_and_is_validated(space: Space) -> None:
    container = {"name": "second", "image": "example.com/none:1"}
    with WebhookServer() as server:
        server.on("/add", lambda asked: patch(add("/spec/containers/-", {**container, "name": asked["name"]})))
        with server.installed(space, "Mutating", server.webhook("/add", PODS)):
            made = space.make("pods", pod("second"))
            error = space.refused("POST", space.path("pods"), pod("main"))
    assert made["spec"]["containers"][1]["terminationMessagePath"] == "/dev/termination-log"
    assert (error.status, error.reason) == (422, "Invalid")
    assert "spec.containers[1].name: Duplicate value" in error.message


def test_a_denial_has_the_code_and_the_message_of_the_webhook(space: Space) -> None:
    with WebhookServer() as server:
        server.on("/deny", deny("not today", 403))
        with server.installed(space, "Validating", server.webhook("/deny", PODS)):
            error = space.refused("POST", space.path("pods"), pod("a"))
    assert (error.status, error.message) == (403, 'admission webhook "deny.webhook.test" denied the request: not today')
    assert space.is_gone("pods", "a")


def test_a_denial_without_a_status_is_a_bad_request(space: Space) -> None:
    with WebhookServer() as server:
        server.on("/deny", {"allowed": False})
        with server.installed(space, "Mutating", server.webhook("/deny", PODS)):
            error = space.refused("POST", space.path("pods"), pod("a"))
    assert error.status == 400
    assert error.message == 'admission webhook "deny.webhook.test" denied the request without explanation'


@pytest.mark.parametrize("verdict", [allow, deny], ids=["allowed", "denied"])
def test_warnings_reach_the_client(space: Space, verdict: Any) -> None:  # noqa: ANN401 - a function
    with WebhookServer() as server:
        server.on("/warn", verdict(warnings=['use "new" instead of old', "second"]))
        with server.installed(space, "Validating", server.webhook("/warn", PODS)):
            document = json.dumps(pod("a")).encode()
            answer = space.api.answer("POST", space.path("pods"), document, "application/json")
    assert answer.warnings == (r'299 - "use \"new\" instead of old"', '299 - "second"')


def test_a_review_describes_the_request(space: Space) -> None:
    jane = space.api.acting_as("jane", "system:masters")
    with WebhookServer() as server:
        server.on("/look", allow())
        with server.installed(space, "Validating", server.webhook("/look", rule("pods", operations=EVERY))):
            jane.call("POST", space.path("pods"), pod("a"))
            jane.call("PATCH", space.path("pods", "a"), {"metadata": {"labels": {"x": "y"}}}, MERGE)
            jane.call("DELETE", f"{space.path('pods', 'a')}?gracePeriodSeconds=0")
            jane.close()
        created, updated, *_, deleted = server.requests
    assert created["userInfo"]["username"] == "jane"
    assert set(created["userInfo"]["groups"]) == {"system:masters", "system:authenticated"}
    assert created["kind"] == created["requestKind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert created["resource"] == created["requestResource"] == {"group": "", "version": "v1", "resource": "pods"}
    assert (created["name"], created["namespace"], created["dryRun"]) == ("a", space.name, False)
    operations = [asked["operation"] for asked in server.requests]
    assert list(dict.fromkeys(operations)) == ["CREATE", "UPDATE", "DELETE"]
    assert (created["object"]["kind"], created["object"]["metadata"]["name"], created["oldObject"]) == (
        "Pod",
        "a",
        None,
    )
    assert created["options"]["kind"] == "CreateOptions"
    assert updated["object"]["metadata"]["labels"] == {"x": "y"}
    assert "x" not in updated["oldObject"]["metadata"].get("labels", {})
    assert (deleted["object"], deleted["oldObject"]["metadata"]["name"]) == (None, "a")
    assert deleted["options"]["gracePeriodSeconds"] == 0


def test_a_dry_run_is_reviewed_as_one(space: Space) -> None:
    with WebhookServer() as server:
        server.on("/look", patch(note("changed", "yes")))
        with server.installed(space, "Mutating", server.webhook("/look", PODS)):
            made = space.make("pods", pod("a", labels={"x": "y"}), query="?dryRun=All")
    assert server.requests[0]["dryRun"] is True
    assert made["metadata"]["labels"]["changed"] == "yes"
    assert space.is_gone("pods", "a")


def test_mutating_webhooks_see_no_generated_name_and_validating_ones_do(space: Space) -> None:
    document = pod("a")
    document["metadata"] = {"generateName": "many-"}
    with WebhookServer() as server:
        for path in ("/first", "/second"):
            server.on(path, allow())
        with (
            server.installed(space, "Mutating", server.webhook("/first", PODS)),
            server.installed(space, "Validating", server.webhook("/second", PODS)),
        ):
            made = space.make("pods", document)
        first, second = server.requests
    assert "name" not in first["object"]["metadata"]
    assert "uid" not in first["object"]["metadata"]
    assert second["object"]["metadata"]["name"] == made["metadata"]["name"]
    assert second["object"]["metadata"]["uid"] == made["metadata"]["uid"]


def test_mutating_webhooks_see_what_those_before_them_changed(space: Space) -> None:
    with WebhookServer() as server:
        server.on("/first", patch(note("first", "yes")))
        server.on("/second", lambda asked: patch(note("second", asked["object"]["metadata"]["labels"]["first"])))
        with (
            server.installed(space, "Mutating", server.webhook("/second", PODS), name=f"z-{space.name}"),
            server.installed(space, "Mutating", server.webhook("/first", PODS), name=f"a-{space.name}"),
        ):
            made = space.make("pods", pod("a", labels={"x": "y"}))
    assert made["metadata"]["labels"] == {"x": "y", "first": "yes", "second": "yes"}


def test_a_webhook_is_asked_again_if_it_wants_to_see_later_changes(space: Space) -> None:
    with WebhookServer() as server:
        server.on("/first", allow())
        server.on("/second", patch(note("second", "yes")))
        webhooks = (
            server.webhook("/first", PODS, reinvocationPolicy="IfNeeded"),
            server.webhook("/second", PODS, reinvocationPolicy="IfNeeded"),
        )
        with server.installed(space, "Mutating", *webhooks):
            space.make("pods", pod("a", labels={"x": "y"}))
        labels = [asked["object"]["metadata"]["labels"] for asked in server.requests]
    assert labels == [{"x": "y"}, {"x": "y"}, {"x": "y", "second": "yes"}]


def test_a_denied_delete_leaves_the_object(space: Space) -> None:
    space.config("a")
    with WebhookServer() as server:
        server.on("/keep", deny("keep it"))
        with server.installed(space, "Validating", server.webhook("/keep", rule("configmaps", operations=("DELETE",)))):
            error = space.refused("DELETE", space.path("configmaps", "a"))
    assert error.message == 'admission webhook "keep.webhook.test" denied the request: keep it'
    assert space.get("configmaps", "a")["metadata"].get("deletionTimestamp") is None


def test_a_resource_is_matched_without_its_subresources(space: Space) -> None:
    space.make("pods", pod("a"))
    with WebhookServer() as server:
        server.on("/look", allow())
        with server.installed(space, "Validating", server.webhook("/look", rule("pods", operations=EVERY))):
            space.bind("a")
            space.patch("pods", "a", {"status": {"message": "hello"}}, part="status")
    assert server.requests == []


def test_a_subresource_is_matched_by_its_name(space: Space) -> None:
    space.make("pods", pod("a"))
    with WebhookServer() as server:
        server.on("/look", allow())
        rules = rule("pods/status", "pods/binding", operations=EVERY)
        with server.installed(space, "Validating", server.webhook("/look", rules)):
            space.bind("a")
            space.patch("pods", "a", {"status": {"message": "hello"}}, part="status")
        binding, status = server.requests
    assert (binding["subResource"], binding["operation"], binding["name"]) == ("binding", "CREATE", "a")
    assert binding["kind"] == {"group": "", "version": "v1", "kind": "Binding"}
    assert binding["object"]["target"]["name"] == "somewhere"
    assert (status["subResource"], status["operation"]) == ("status", "UPDATE")
    assert status["object"]["status"]["message"] == "hello"


@pytest.mark.parametrize(
    ("resources", "groups", "seen"),
    [
        (("*",), ("",), ["Pod", "ConfigMap"]),
        (("*/*",), ("*",), ["Pod", "ConfigMap", "Binding"]),
        (("pods/*",), ("*",), ["Pod", "Binding"]),
        (("deployments",), ("apps",), []),
    ],
)
def test_rules_have_wildcards(
    space: Space, resources: tuple[str, ...], groups: tuple[str, ...], seen: list[str]
) -> None:
    with WebhookServer() as server:
        server.on("/look", allow())
        with server.installed(space, "Validating", server.webhook("/look", rule(*resources, groups=groups))):
            space.make("pods", pod("a"))
            space.config("a")
            space.bind("a")
    # Controllers of the cluster create objects of their own in a new namespace.
    assert [asked["kind"]["kind"] for asked in server.requests if asked["name"] == "a"] == seen


def test_an_object_selector_matches_the_old_or_the_new_object(space: Space) -> None:
    selector = {"matchLabels": {"watched": "yes"}}
    with WebhookServer() as server:
        server.on("/look", allow())
        webhook = server.webhook("/look", rule("configmaps", operations=EVERY), objectSelector=selector)
        with server.installed(space, "Validating", webhook):
            space.config("no")
            space.config("yes", {"watched": "yes"})
            space.patch("configmaps", "no", {"data": {"a": "b"}})
            space.patch("configmaps", "yes", {"metadata": {"labels": {"watched": None}}})
    # An API server whose cache lags asks about a patch again, once it has read the object from etcd.
    seen = dict.fromkeys((asked["operation"], asked["name"]) for asked in server.requests)
    assert list(seen) == [("CREATE", "yes"), ("UPDATE", "yes")]


def test_a_namespace_selector_excludes_namespaces(space: Space) -> None:
    elsewhere = {
        "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [space.name]}]
    }
    with WebhookServer() as server:
        server.on("/look", deny("never"))
        # Rules that only concern this test's objects: in a shared cluster the webhook must not stop anything else.
        mine = {"matchLabels": {"ours": space.name}}
        webhook = server.webhook("/look", rule("configmaps"), namespaceSelector=elsewhere, objectSelector=mine)
        with server.installed(space, "Validating", webhook):
            space.config("a", {"ours": space.name})
    assert server.requests == []


def gone() -> tuple[WebhookServer, str]:
    """A webhook that has ended, and the start of the message about it."""
    with WebhookServer() as server:
        url = f"https://127.0.0.1:{server.port}/away?timeout=10s"
    dial = f"dial tcp 127.0.0.1:{server.port}: connect: connection refused"
    return server, f'failed calling webhook "away.webhook.test": failed to call webhook: Post "{url}": {dial}'


def test_nothing_passes_a_webhook_that_is_away(space: Space) -> None:
    away, failure = gone()
    with WebhookServer() as server, server.installed(space, "Validating", away.webhook("/away", PODS)):
        error = space.refused("POST", space.path("pods"), pod("a"))
        space.config("not-a-pod")
    assert (error.status, error.reason) == (500, "InternalError")
    assert error.message == f"Internal error occurred: {failure}"


def test_a_webhook_that_is_away_can_be_ignored(space: Space) -> None:
    away, _ = gone()
    with (
        WebhookServer() as server,
        server.installed(space, "Mutating", away.webhook("/away", PODS, failurePolicy="Ignore")),
    ):
        assert space.make("pods", pod("a"))["metadata"]["name"] == "a"


def test_a_webhook_has_its_time_limit(space: Space) -> None:
    with WebhookServer() as server:
        server.on("/slow", None)
        with server.installed(space, "Validating", server.webhook("/slow", PODS, timeoutSeconds=1)):
            error = space.refused("POST", space.path("pods"), pod("a"))
    assert error.status == 500
    assert error.message.startswith('Internal error occurred: failed calling webhook "slow.webhook.test": ')
    assert "context deadline exceeded" in error.message


def test_a_webhook_with_an_unknown_certificate_is_not_believed(space: Space) -> None:
    with WebhookServer() as server, WebhookServer() as other:
        other.on("/other", allow())
        webhook = other.webhook("/other", PODS)
        webhook["clientConfig"]["caBundle"] = server.ca_bundle
        with server.installed(space, "Validating", webhook):
            error = space.refused("POST", space.path("pods"), pod("a"))
    assert error.status == 500
    assert "tls: failed to verify certificate: x509: " in error.message


@pytest.mark.parametrize(
    "verdict",
    [
        b"hello",
        b"{}",
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}',
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": "x", "allowed": true}}',
        {**patch(note("x", "y")), "patchType": "MergePatch"},
        {**patch(note("x", "y")), "patchType": None},
    ],
    ids=["text", "empty", "no-response", "other-uid", "patch-type", "no-patch-type"],
)
def test_a_response_that_makes_no_sense_is_a_failed_call(space: Space, verdict: Any) -> None:  # noqa: ANN401 - JSON
    with WebhookServer() as server:
        server.on("/odd", verdict)
        with server.installed(space, "Mutating", server.webhook("/odd", PODS)):
            error = space.refused("POST", space.path("pods"), pod("a"))
    assert (error.status, error.reason) == (500, "InternalError")
    assert 'failed calling webhook "odd.webhook.test": ' in error.message


def test_a_validating_webhook_can_not_change_anything(space: Space) -> None:
    with WebhookServer() as server:
        server.on("/odd", patch(note("x", "y")))
        with server.installed(space, "Validating", server.webhook("/odd", PODS)):
            error = space.refused("POST", space.path("pods"), pod("a"))
    assert error.status == 500
    assert "validating webhook may not return response.patch" in error.message


def test_a_patch_that_does_not_apply_is_an_internal_error(space: Space) -> None:
    with WebhookServer() as server:
        server.on("/odd", patch({"op": "remove", "path": "/spec/nothing/here"}))
        with server.installed(space, "Mutating", server.webhook("/odd", PODS)):
            error = space.refused("POST", space.path("pods"), pod("a"))
    assert (error.status, error.reason) == (500, "InternalError")
    assert space.is_gone("pods", "a")


def test_a_write_during_a_review_is_not_lost(space: Space) -> None:
    other = space.api.another()
    changed: list[dict[str, Any]] = []

    def change(asked: dict[str, Any]) -> dict[str, Any]:
        if not changed and "first" in asked["object"].get("data", {}):
            changed.append(other.patch(space.path("configmaps", "a"), {"data": {"second": "yes"}}))
        return allow()

    space.config("a")
    with WebhookServer() as server:
        server.on("/look", change)
        with server.installed(space, "Validating", server.webhook("/look", rule("configmaps", operations=("UPDATE",)))):
            made = space.patch("configmaps", "a", {"data": {"first": "yes"}})
    other.close()
    assert made["data"] == {"first": "yes", "second": "yes"}


def test_an_update_of_an_older_version_conflicts_after_its_review(space: Space) -> None:
    other = space.api.another()

    def change(asked: dict[str, Any]) -> dict[str, Any]:
        if "first" in asked["object"].get("data", {}):
            other.patch(space.path("configmaps", "a"), {"data": {"second": "yes"}})
        return allow()

    document = space.config("a")
    with WebhookServer() as server:
        server.on("/look", change)
        with server.installed(space, "Validating", server.webhook("/look", rule("configmaps", operations=("UPDATE",)))):
            error = space.refused("PUT", space.path("configmaps", "a"), {**document, "data": {"first": "yes"}})
    other.close()
    assert (error.status, error.reason) == (409, "Conflict")
    assert space.get("configmaps", "a")["data"] == {"second": "yes"}


def test_a_name_taken_during_a_review_already_exists(space: Space) -> None:
    other = space.api.another()

    def take(asked: dict[str, Any]) -> dict[str, Any]:
        if "mine" in asked["object"]["metadata"]["labels"]:
            taken = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"other": "yes"}}}
            other.call("POST", space.path("configmaps"), taken)
        return allow()

    with WebhookServer() as server:
        server.on("/look", take)
        with server.installed(space, "Validating", server.webhook("/look", rule("configmaps"))):
            document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"mine": "yes"}}}
            error = space.refused("POST", space.path("configmaps"), document)
    other.close()
    assert (error.status, error.reason) == (409, "AlreadyExists")
    assert space.get("configmaps", "a")["metadata"]["labels"] == {"other": "yes"}


def test_a_webhook_can_gate_a_pod(space: Space) -> None:
    with WebhookServer() as server:
        server.on("/gate", patch(add("/spec/schedulingGates", [{"name": "example.com/wait"}])))
        with server.installed(space, "Mutating", server.webhook("/gate", PODS)):
            made = space.make("pods", pod("a"))
    assert made["spec"]["schedulingGates"] == gated("a")["spec"]["schedulingGates"]
    assert made["status"]["conditions"][0]["reason"] == "SchedulingGated"


def test_a_configuration_gets_defaults(space: Space) -> None:
    with WebhookServer() as server, server.installed(space, "Mutating", server.webhook("/look", PODS)) as name:
        stored = space.call("GET", f"{CONFIGURATIONS}/mutatingwebhookconfigurations/{name}")
    usual = {
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "timeoutSeconds": 10,
        "objectSelector": {},
        "reinvocationPolicy": "Never",
    }
    assert {key: stored["webhooks"][0][key] for key in usual} == usual
    assert stored["webhooks"][0]["rules"][0]["scope"] == "*"
    assert stored["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"name": "short"}, "webhooks[0].name: Invalid value"),
        ({"sideEffects": "Some"}, "webhooks[0].sideEffects: Unsupported value"),
        ({"sideEffects": None}, "webhooks[0].sideEffects: Required value"),
        ({"admissionReviewVersions": []}, "webhooks[0].admissionReviewVersions: Required value"),
        ({"timeoutSeconds": 31}, "webhooks[0].timeoutSeconds: Invalid value"),
        ({"failurePolicy": "Maybe"}, "webhooks[0].failurePolicy: Unsupported value"),
        ({"clientConfig": {}}, "webhooks[0].clientConfig: Required value"),
        ({"clientConfig": {"url": "http://127.0.0.1/x"}}, "'https' is the only allowed URL scheme"),
    ],
)
def test_an_invalid_configuration_is_rejected(space: Space, fields: dict[str, Any], sentence: str) -> None:
    webhook = {
        "name": "look.webhook.test",
        "clientConfig": {"url": "https://127.0.0.1:1/look"},
        "rules": [PODS],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "nowhere"}},
        **fields,
    }
    about = {"name": f"{space.name}-invalid"}
    document = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    path = f"{CONFIGURATIONS}/validatingwebhookconfigurations"
    error = space.refused("POST", path, {**document, "metadata": about, "webhooks": [webhook]})
    assert (error.status, error.reason) == (422, "Invalid")
    assert sentence in error.message
