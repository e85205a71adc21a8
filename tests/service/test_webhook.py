"""The webhook over real TLS: reviews are answered, bad input is not, and certificates never lapse."""

from __future__ import annotations

import asyncio
import json
import ssl
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from linkwise.broker.broker import Broker
from linkwise.config.settings import WebhookSettings
from linkwise.dialects.linkwise.dialect import ACCELERATOR
from linkwise.dialects.linkwise.require import REQUIRE
from linkwise.errors import ClusterError
from linkwise.net.certificates import new_chain
from linkwise.net.http.client import Http, Origin
from linkwise.net.http.messages import Request, Response
from linkwise.serve.metrics import Counting
from linkwise.serve.webhook import Webhook
from linkwise.testing.cluster import AMD, FakeNode, broker_of
from support.builders.admission import GPU, applied, change_of, container, job, pod, pytorch_job, review
from support.fakes.webhook_service import RunningWebhook, running_webhook
from support.profile import examples

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

ASCEND = "huawei.com/Ascend910"
DAY = 86_400.0


def run_story(
    story: Callable[[RunningWebhook], Awaitable[None]],
    wanted: WebhookSettings | None = None,
    broker: Broker | None = None,
) -> None:
    async def run() -> None:
        async with running_webhook(wanted, broker) as webhook:
            await story(webhook)

    asyncio.run(run())


def test_a_managed_pod_is_changed_and_another_is_not() -> None:
    async def story(webhook: RunningWebhook) -> None:
        document = pod(container({GPU: 1}))
        found = await webhook.response("/mutate?timeout=5s", review(document))
        assert (found["uid"], found["allowed"]) == (review(document)["request"]["uid"], True)
        assert applied(document, change_of(found))["spec"]["schedulerName"] == "linkwise-scheduler"
        plain = await webhook.response("/mutate", review(pod()))
        assert plain == {"uid": found["uid"], "allowed": True}

    run_story(story)


def test_a_refusal_has_its_sentence_and_is_counted() -> None:
    async def story(webhook: RunningWebhook) -> None:
        found = await webhook.response("/validate?timeout=5s", review(job(pod(container({ASCEND: 4})), 2)))
        assert found["allowed"] is False
        assert found["status"]["message"] == "8 devices requested by 2 pods; a job of up to 8 devices must be one pod"
        counted = webhook.counting.registry.get_sample_value(
            "linkwise_admissions_total", {"call": "validate", "verdict": "refused"}
        )
        assert counted == 1

    run_story(story)


def test_it_answers_before_the_cluster_is_known() -> None:
    async def story(webhook: RunningWebhook) -> None:
        assert not webhook.broker.nodes
        assert (await webhook.response("/validate", review(pod(container({GPU: 8})))))["allowed"]
        assert not (await webhook.response("/validate", review(pod(container({ASCEND: 3})))))["allowed"]

    run_story(story)


def test_what_the_cluster_knows_adds_a_warning() -> None:
    async def story(webhook: RunningWebhook) -> None:
        found = await webhook.response("/validate", review(pod(container({"aliyun.com/gpu-mem": 24}))))
        assert found["allowed"]
        assert "the largest device has 16" in found["warnings"][0]

    run_story(story, broker=broker_of(FakeNode("share", family="share")))


@pytest.mark.rule("002.versions")
@pytest.mark.parametrize(
    ("annotations", "env", "sentence"),
    [
        ({REQUIRE: "cuda>=12.2;"}, "", "column 11: unexpected character ';'"),
        ({REQUIRE: "cuda>=twelve"}, "", "column 7: 'twelve' is not a version"),
        ({}, "cuda>=12.2 cuda", "container main: column 12: 'cuda' is not a comparison"),
    ],
)
def test_a_pod_whose_requirement_is_invalid_is_refused_with_the_column(
    annotations: dict[str, str], env: str, sentence: str
) -> None:
    async def story(webhook: RunningWebhook) -> None:
        variables = [{"name": "NVIDIA_REQUIRE_CUDA", "value": env}] if env else []
        asked = pod(container({GPU: 1}, env=variables), annotations=annotations)
        for document in (asked, job(asked)):
            found = await webhook.response("/validate?timeout=5s", review(document))
            assert (found["allowed"], sentence in found["status"]["message"]) == (False, True), found
            assert (REQUIRE if annotations else "NVIDIA_REQUIRE_CUDA") in found["status"]["message"]

    run_story(story)


@pytest.mark.parametrize(
    ("limits", "annotations", "warning"),
    [
        ({GPU: 16}, {}, "nvidia.com/gpu: 16 requested, but the largest node has 8"),
        ({"nvidia.com/gpus": 1}, {}, "nvidia.com/gpus: unknown resource; did you mean nvidia.com/gpu?"),
        ({GPU: 1}, {"gang.scheduling.koordinator.sh/nam": "g"}, "did you mean gang.scheduling.koordinator.sh/name?"),
        ({ASCEND: 3}, {}, "its pods will be refused: 3 devices can't be allocated on ascend-910; request 1, 2, 4 or 8"),
    ],
)
def test_the_creator_of_a_job_of_an_operator_is_warned_of_what_its_pods_would_meet(
    limits: dict[str, int], annotations: dict[str, str], warning: str
) -> None:
    async def story(webhook: RunningWebhook) -> None:
        wanted = pytorch_job(pod(container(limits), annotations=annotations))
        found = await webhook.response("/validate", review(wanted))
        assert found["allowed"]
        assert [warning in one for one in found["warnings"]] == [True]

    run_story(story, broker=broker_of(FakeNode("a", count=8)))


@pytest.mark.parametrize("limits", [{}, {GPU: 8}, {ACCELERATOR: 1}])
def test_a_job_of_an_operator_that_can_run_is_created_without_a_warning(limits: dict[str, int]) -> None:
    async def story(webhook: RunningWebhook) -> None:
        wanted = review(pytorch_job(pod(container(limits))))
        assert await webhook.response("/validate", wanted) == {"uid": wanted["request"]["uid"], "allowed": True}

    run_story(story, broker=broker_of(FakeNode("a", count=8)))


def test_a_job_that_only_its_operator_can_read_is_left_to_it() -> None:
    async def story(webhook: RunningWebhook) -> None:
        wanted = review({**pytorch_job(pod()), "spec": {"pytorchReplicaSpecs": 7}})
        assert await webhook.response("/validate", wanted) == {"uid": wanted["request"]["uid"], "allowed": True}

    run_story(story)


@pytest.mark.rule("002.agnostic")
def test_a_request_for_any_vendor_is_patched_to_a_resource_that_a_node_provides() -> None:
    async def story(webhook: RunningWebhook) -> None:
        document = pod(container({ACCELERATOR: 2}))
        found = await webhook.response("/mutate?timeout=5s", review(document))
        changed = applied(document, change_of(found))
        assert changed["spec"]["containers"][0]["resources"]["limits"] == {AMD: 2}
        assert changed["spec"]["schedulerName"] == "linkwise-scheduler"
        assert found["warnings"] == [f"{ACCELERATOR}: replaced by {AMD}; its devices can serve the request"]
        assert (await webhook.response("/validate", review(changed)))["allowed"]

    run_story(story, broker=broker_of(FakeNode("red", "amd", count=8)))


@pytest.mark.rule("002.agnostic")
@pytest.mark.parametrize(
    ("nodes", "annotations", "sentence"),
    [
        ((), {}, "no node provides devices of any vendor"),
        ((FakeNode("red", "amd", count=1),), {}, f"{AMD}: 1 node(s) had fewer devices than requested"),
        (
            (FakeNode("red", "amd", count=8),),
            {REQUIRE: "vendor=nvidia"},
            f"{AMD}: 1 node(s) had a vendor other than nvidia",
        ),
    ],
)
def test_a_request_for_any_vendor_that_no_node_can_serve_is_refused_with_the_reason(
    nodes: tuple[FakeNode, ...], annotations: dict[str, str], sentence: str
) -> None:
    async def story(webhook: RunningWebhook) -> None:
        asked = review(pod(container({ACCELERATOR: 2}), annotations=annotations))
        found = await webhook.response("/mutate?timeout=5s", asked)
        assert (found["allowed"], "patch" in found) == (False, False)
        assert found["status"]["message"].startswith(f"{ACCELERATOR}: no ")
        assert sentence in found["status"]["message"]

    run_story(story, broker=broker_of(*nodes))


def test_an_update_is_compared_with_the_object_before() -> None:
    async def story(webhook: RunningWebhook) -> None:
        old = job(pod(container({ASCEND: 3})))
        same = await webhook.response("/validate", review(job(pod(container({ASCEND: 3})), 2), old=old))
        assert same["allowed"]
        changed = await webhook.response("/validate", review(job(pod(container({ASCEND: 5}))), old=old))
        assert not changed["allowed"]

    run_story(story)


@pytest.mark.parametrize(
    "fields",
    [
        {"operation": "DELETE", "object": None},
        {"operation": "CONNECT", "object": None},
        {"operation": "UPDATE"},
        {"subResource": "ephemeralcontainers"},
        {"resource": {"group": "", "version": "v1", "resource": "nodes"}},
    ],
)
def test_what_is_not_reviewed_is_admitted(fields: dict[str, Any]) -> None:
    async def story(webhook: RunningWebhook) -> None:
        for path in ("/mutate", "/validate"):
            found = await webhook.response(path, review(pod(container({ASCEND: 3})), **fields))
            assert found == {"uid": found["uid"], "allowed": True}

    run_story(story)


@pytest.mark.parametrize(
    "fields",
    [
        {"subResource": "status"},
        {"operation": "DELETE"},
        {"userInfo": {"username": "system:serviceaccount:kube-system:cronjob-controller", "groups": []}},
    ],
)
def test_a_template_is_reviewed_only_when_a_user_creates_or_changes_it(fields: dict[str, Any]) -> None:
    async def story(webhook: RunningWebhook) -> None:
        before, after = job(pod(container({ASCEND: 5}))), job(pod(container({ASCEND: 3})))
        assert not (await webhook.response("/validate", review(after, old=before)))["allowed"]
        assert (await webhook.response("/validate", review(after, old=before, **fields)))["allowed"]

    run_story(story)


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        (b"", 400, "the body is empty; an AdmissionReview is expected"),
        (b"{", 400, "truncated"),
        (b"\x00" * 1000, 400, "malformed"),
        (json.dumps({**review(pod()), "apiVersion": "admission.k8s.io/v1beta1"}).encode(), 400, "not supported"),
        (json.dumps({**review(pod()), "request": {"uid": "x"}}).encode(), 400, "field 'operation' is missing"),
        (b'{"x":"' + b"x" * (17 << 20) + b'"}', 413, "the limit is 16777216"),
    ],
)
def test_only_requests_that_are_not_a_review_get_a_clear_error(body: bytes, status: int, sentence: str) -> None:
    async def story(webhook: RunningWebhook) -> None:
        for path in ("/mutate", "/validate"):
            try:
                answer = await webhook.post(path, body)
            except ClusterError:  # a body that is far too long may be cut off while it is being sent
                assert status == 413
            else:
                assert (answer.status, sentence in answer.body.decode()) == (status, True), answer.body
            assert (await webhook.response(path, review(pod())))["allowed"]

    run_story(story)


def test_other_methods_paths_and_content_types_are_refused() -> None:
    async def story(webhook: RunningWebhook) -> None:
        assert (await webhook.post("/filter", review(pod()))).status == 404
        assert (await webhook.post("/mutate", review(pod()), "application/yaml")).status == 415

    run_story(story)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
PATHS = (
    *(("metadata",), ("metadata", "labels"), ("metadata", "annotations"), ("spec",), ("spec", "containers")),
    *(
        ("spec", "containers", 0),
        ("spec", "containers", 0, "resources"),
        ("spec", "containers", 0, "resources", "limits"),
    ),
    *(("spec", "containers", 0, "env"), ("spec", "containers", 0, "name"), ("spec", "initContainers")),
    *(("spec", "schedulerName"), ("spec", "schedulingGates"), ("spec", "nodeName"), ("spec", "schedulingGroup")),
)


@pytest.mark.parametrize("call", ["mutate", "validate"])
@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(PATHS), garbage=JSON, hide=st.booleans(), workload=st.booleans())
def test_garbage_in_any_field_is_admitted_or_refused_and_never_an_internal_error(
    *, call: str, path: tuple[str | int, ...], garbage: object, hide: bool, workload: bool
) -> None:
    document = pod(container({GPU: 1}, env=[{"name": "A", "value": "b"}]), annotations={"a": "b"}, labels={"c": "d"})
    place: Any = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = garbage
    meta = document["metadata"] if isinstance(document["metadata"], dict) else {}
    under = {**job(pod()), "spec": {"template": {"metadata": meta, "spec": document["spec"]}}} if workload else document
    body = review(job(pod()) if workload else pod())
    body["request"]["object"] = under
    webhook = Webhook(Broker(), Counting(), WebhookSettings(hide_devices=hide))
    handler = next(route for route in webhook.routes() if route.path == f"/{call}")
    answer = handler.handler(request_of(body), {})
    assert isinstance(answer, Response)
    assert answer.status == 200
    assert json.loads(answer.body)["response"]["uid"] == body["request"]["uid"]


def request_of(body: object) -> Request:
    return Request(b"/mutate", {}, "127.0.0.1", asyncio.Event(), "POST", body=json.dumps(body).encode())


def test_a_certificate_is_renewed_while_connections_are_open() -> None:
    async def story(webhook: RunningWebhook) -> None:
        webhook.clock.now -= 61 * DAY
        webhook.api.store.delete("secrets", "linkwise-webhook", "linkwise-system")
        await webhook.clock.wake()
        first = await certificate(webhook)
        kept = Http(Origin("127.0.0.1", webhook.serving.port, tls=await webhook.trust()))
        body = json.dumps(review(pod())).encode()
        assert (await kept.call("POST", "/mutate", b"Content-Type: application/json\r\n", body)).status == 200
        webhook.clock.now += 61 * DAY
        await webhook.clock.wake()
        assert await certificate(webhook) != first
        assert (await kept.call("POST", "/mutate", b"Content-Type: application/json\r\n", body)).status == 200
        assert (await webhook.response("/mutate", review(pod())))["allowed"]
        await kept.close()

    run_story(story)


def test_a_clock_that_jumps_ahead_and_back_leaves_a_valid_certificate() -> None:
    async def story(webhook: RunningWebhook) -> None:
        start = webhook.clock.now
        for days in (20_000, -3_000, 0):
            webhook.clock.now = start + days * DAY
            await webhook.clock.wake()
        assert (await webhook.response("/mutate", review(pod())))["allowed"]

    run_story(story)


def test_a_certificate_that_expired_while_the_api_server_was_away_is_renewed_when_it_is_back() -> None:
    async def story(webhook: RunningWebhook) -> None:
        await webhook.api.restart()
        webhook.clock.now += 400 * DAY
        await webhook.clock.wake()
        start = webhook.clock.now
        webhook.clock.now = start - 400 * DAY
        await webhook.clock.wake()
        assert (await webhook.response("/mutate", review(pod())))["allowed"]

    run_story(story)


def test_notes_say_that_the_configurations_are_missing() -> None:
    async def story(webhook: RunningWebhook) -> None:
        assert webhook.serving.problems == (
            "webhook: mutatingwebhookconfigurations/linkwise does not exist; `linkwise manifests webhook` prints it",
            "webhook: validatingwebhookconfigurations/linkwise does not exist; `linkwise manifests webhook` prints it",
        )

    run_story(story)


def test_files_of_cert_manager_are_read_again_when_they_change(tmp_path: Path) -> None:
    def write(days: float) -> str:
        chain = new_chain(["localhost", "127.0.0.1"], datetime.now(UTC), days * DAY)
        (tmp_path / "tls.crt").write_text(chain.serving.text)
        (tmp_path / "tls.key").write_text(chain.serving.key)
        return chain.authorities

    files = WebhookSettings(cert_file=str(tmp_path / "tls.crt"), key_file=str(tmp_path / "tls.key"))
    authorities = write(10)

    async def story(webhook: RunningWebhook) -> None:
        await peer(webhook, authorities)
        newer = write(20)
        await webhook.clock.wake()
        await peer(webhook, newer)
        (tmp_path / "tls.key").write_text("half written")
        (tmp_path / "tls.crt").write_text("half written")
        await webhook.clock.wake()
        assert "can't be used" in webhook.serving.problems[0]
        await peer(webhook, newer)
        last = write(30)
        await webhook.clock.wake()
        await peer(webhook, last)
        assert webhook.serving.problems == ()
        expires = webhook.counting.registry.get_sample_value("linkwise_webhook_certificate_expiry_timestamp_seconds")
        assert expires == pytest.approx(datetime.now(UTC).timestamp() + 30 * DAY, abs=60)

    run_story(story, files)


async def certificate(webhook: RunningWebhook) -> bytes:
    """The certificate that a new connection gets; the clock of the test is not that of the TLS library."""
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    return await handshake(webhook.serving.port, trust)


async def peer(webhook: RunningWebhook, authorities: str) -> bytes:
    return await handshake(webhook.serving.port, ssl.create_default_context(cadata=authorities))


async def handshake(port: int, trust: ssl.SSLContext) -> bytes:
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust, server_hostname="localhost")
    secured = writer.get_extra_info("ssl_object")
    found = bytes(secured.getpeercert(binary_form=True))
    writer.close()
    await writer.wait_closed()
    return found
