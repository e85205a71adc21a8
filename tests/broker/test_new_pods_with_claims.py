"""New pods on nodes without a device plugin: their resource becomes a claim, and they wait until their devices are planned."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import pytest

from linkwise.broker.admission import Validator, change_pod
from linkwise.broker.broker import Broker
from linkwise.broker.watch_events import ClusterObject
from linkwise.model.access_policy import Requester
from linkwise.model.settings import AdmissionSettings, ClaimSettings, GroupSettings, PlacingSettings
from linkwise.testing.cluster import FakeNode
from linkwise.wire.kubernetes.objects import pod_view
from support.builders.admission import GPU, applied, container, pod
from support.builders.dra_objects import DRIVER, device_class, resource_slice
from support.claim_cluster import claim_node, claim_pod, seen

if TYPE_CHECKING:
    from linkwise.model.views import PodView

ADA = Requester("ada", ("system:authenticated",))
SETTINGS = AdmissionSettings()
REVIEW = "705ab4f5-6393-11e8-b7cc-42010a800002"
CLAIM = "lw-705ab4f5639311e8"
PLUGIN = FakeNode("p")


def broker_with(*nodes: FakeNode, settings: PlacingSettings | None = None, classes: bool = True) -> Broker:
    broker = Broker(settings)
    found = nodes or (claim_node("n"),)
    objects = [resource_slice(node.name, node.count) for node in found if not node.registered]
    objects += [device_class()] if classes else []
    broker.observe([event for node in found for event in node.events()], 1.0)
    broker.observe(map(seen, objects), 1.0)
    return broker


def created(
    document: dict[str, Any], broker: Broker | None = None, settings: AdmissionSettings = SETTINGS
) -> tuple[dict[str, Any], tuple[str, ...]]:
    view = pod_view(document)
    broker = broker or broker_with()
    verdict = change_pod(document, view, ADA, settings, broker.additions(view, ADA, review=REVIEW))
    assert not verdict.refusal
    return applied(document, [asdict(operation) for operation in verdict.patch]), verdict.warnings


def is_swapped(document: dict[str, Any], broker: Broker | None = None, settings: AdmissionSettings = SETTINGS) -> bool:
    found, _ = created(document, broker, settings)
    return "resourceClaims" in found["spec"]


def test_the_resource_becomes_a_named_claim_and_the_pod_waits_behind_the_gate() -> None:
    found, warnings = created(pod(container({GPU: 2, "cpu": "1"})))
    assert not warnings
    spec = found["spec"]
    assert spec["resourceClaims"] == [{"name": "linkwise-gpu", "resourceClaimName": CLAIM}]
    assert spec["schedulingGates"] == [{"name": "linkwise.dev/gang"}]
    assert spec["schedulerName"] == "linkwise-scheduler"
    (main,) = spec["containers"]
    assert main["resources"] == {"limits": {"cpu": "1"}, "claims": [{"name": "linkwise-gpu", "request": main["name"]}]}
    assert json.loads(found["metadata"]["annotations"]["linkwise.dev/claim-request"]) == {
        "claim": CLAIM,
        "class": DRIVER,
        "resource": GPU,
        "containers": {main["name"]: 2},
    }


def test_the_pod_requests_the_same_devices_as_before() -> None:
    broker, document = broker_with(), pod(container({GPU: 2}))
    swapped = replace(pod_view(created(document)[0]), uid="u", version=1)
    broker.observe([swapped], 1.0)
    seen_pod = broker.pod("u")
    assert seen_pod
    request = broker.request(seen_pod)
    assert request.ask
    assert (request.ask.resource, request.ask.devices, request.claimed) == (GPU, 2, True)


def test_a_second_call_of_the_webhook_changes_nothing_more() -> None:
    once, _ = created(pod(container({GPU: 2})))
    again, _ = created(once)
    assert again == once


def test_claims_of_the_user_stay_beside_ours() -> None:
    document = pod(container({GPU: 1}), resourceClaims=[{"name": "nic", "resourceClaimName": "mine"}])
    document["spec"]["containers"][0]["resources"]["claims"] = [{"name": "nic"}]
    spec = created(document)[0]["spec"]
    assert [claim["name"] for claim in spec["resourceClaims"]] == ["nic", "linkwise-gpu"]
    assert [claim["name"] for claim in spec["containers"][0]["resources"]["claims"]] == ["nic", "linkwise-gpu"]


@pytest.mark.parametrize(
    ("nodes", "pod_says", "namespace_says", "swapped"),
    [
        ((), "", "", True),
        ((), "false", "", False),
        ((), "", "false", False),
        ((), "true", "false", True),
        ((claim_node("n"), PLUGIN), "", "", False),
        ((claim_node("n"), PLUGIN), "true", "", True),
        ((claim_node("n"), PLUGIN), "", "true", True),
        ((claim_node("n"), replace(PLUGIN, cordoned=True)), "", "", True),
    ],
)
def test_pod_and_namespace_decide_in_clusters_of_both_kinds(
    nodes: tuple[FakeNode, ...], pod_says: str, namespace_says: str, *, swapped: bool
) -> None:
    broker = broker_with(*nodes)
    annotations = {"linkwise.dev/dra": pod_says} if pod_says else {}
    for kept in ("labels", "annotations"):
        about = {"metadata": {"name": "team", kept: {"linkwise.dev/dra": namespace_says} if namespace_says else {}}}
        broker.observe([ClusterObject("Namespace", "team", json.dumps(about).encode())], 1.0)
        assert is_swapped(pod(container({GPU: 1}), annotations=annotations), broker) == swapped


@pytest.mark.parametrize(
    "document",
    [
        pod(container({"cpu": 1})),
        pod(container({GPU: 1}), nodeName="n"),
        pod(container({GPU: 1}), schedulerName="other"),
        pod(container({"aliyun.com/gpu-mem": 4})),
        pod(container({GPU: 1}), labels={"kueue.x-k8s.io/managed": "true"}),
    ],
)
def test_pods_that_are_not_ours_keep_their_resource(document: dict[str, Any]) -> None:
    assert not is_swapped(document)


def test_without_a_class_or_with_the_setting_off_the_resource_stays() -> None:
    document = pod(container({GPU: 1}))
    assert not is_swapped(document, broker_with(classes=False))
    for settings in (
        PlacingSettings(claims=ClaimSettings(plan=False)),
        PlacingSettings(group=GroupSettings(gates=False)),
    ):
        assert not is_swapped(document, broker_with(settings=settings))
    assert not is_swapped(document, settings=AdmissionSettings(gates=False))


def test_a_class_that_is_missing_is_named_if_the_pod_wants_a_claim() -> None:
    document = pod(container({GPU: 1}), annotations={"linkwise.dev/dra": "true"})
    found, warnings = created(document, broker_with(classes=False))
    assert "resourceClaims" not in found["spec"]
    assert warnings == (
        "linkwise.dev/dra: ignored, because no DeviceClass has the extendedResourceName nvidia.com/gpu",
    )


def test_more_devices_than_a_claim_can_have_are_placed_by_count() -> None:
    found, warnings = created(pod(container({GPU: 33})))
    assert "resourceClaims" not in found["spec"]
    assert "a claim has 32 devices at most" in warnings[0]


def test_an_init_container_uses_the_request_of_a_container_with_as_many_devices() -> None:
    document = pod(container({GPU: 2}))
    first = {**container({GPU: 2}), "name": "first"}
    document["spec"]["initContainers"] = [first]
    spec = created(document)[0]["spec"]
    name = spec["containers"][0]["name"]
    assert spec["initContainers"][0]["resources"]["claims"] == [{"name": "linkwise-gpu", "request": name}]
    document["spec"]["initContainers"] = [{**container({GPU: 3}), "name": "first"}]
    found, warnings = created(document)
    assert "resourceClaims" not in found["spec"]
    assert "init container first requests 3" in warnings[0]


def as_created(broker: Broker, view: PodView) -> str:
    return broker.additions(view, ADA, review=REVIEW).refusal


def test_a_pod_that_names_the_claim_of_another_one_is_refused() -> None:
    broker, other = broker_with(), claim_pod("a", 2)
    assert as_created(broker, replace(other, uid="", name="copy")) == ""
    broker.observe([other], 1.0)
    assert "belongs to another pod" in as_created(broker, replace(other, uid="", name="copy"))


def test_the_validating_webhook_reads_what_the_pod_asked_for() -> None:
    broker = broker_with()
    validator = Validator(broker, SETTINGS)
    found, _ = created(pod(container({GPU: 2})))
    verdict = validator.pod(pod_view(found), ADA)
    assert not verdict.refusal
    assert not verdict.warnings
    broken = {**found, "metadata": {**found["metadata"], "annotations": {"linkwise.dev/claim-request": "{"}}}
    assert "linkwise.dev/claim-request" in as_created(broker, pod_view(broken))
