"""ResourceClaims, ResourceClaimTemplates, ResourceSlices and DeviceClasses: defaults, validation and immutability."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.embedded.conformance import MERGE, pod

if TYPE_CHECKING:
    from support.embedded.conformance import Space

DRA = "resource.k8s.io/v1"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
DRIVER = "gpu.example.com"
PIN = f'device.attributes["{DRIVER}"].uuid in ["GPU-a", "GPU-b"]'
MINE = {"linkwise.dev/e2e": "true"}


def exactly(**fields: object) -> dict[str, Any]:
    return {"name": "main", "exactly": {"deviceClassName": DRIVER, **fields}}


def claim(*requests: dict[str, Any], name: str = "a", **devices: object) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": list(requests or [exactly()]), **devices}}}


def device(name: str, **fields: object) -> dict[str, Any]:
    return {"name": name, "attributes": {"uuid": {"string": name}}, **fields}


def resource_slice(space: Space, *devices: dict[str, Any], **spec: object) -> dict[str, Any]:
    pool = {"name": space.name, "generation": 1, "resourceSliceCount": 1}
    fields = {"driver": DRIVER, "pool": pool, "nodeName": "n", "devices": list(devices), **spec}
    return {
        "metadata": {"name": space.name, "labels": MINE},
        "spec": {key: value for key, value in fields.items() if value is not None},
    }


def test_a_claim_gets_defaults(space: Space) -> None:
    made = space.make("resourceclaims", claim(), DRA)
    request = made["spec"]["devices"]["requests"][0]["exactly"]
    assert (request["allocationMode"], request["count"]) == ("ExactCount", 1)
    assert "generation" not in made["metadata"]


def test_a_pinned_claim_is_accepted(space: Space) -> None:
    made = space.make("resourceclaims", claim(exactly(count=2, selectors=[{"cel": {"expression": PIN}}])), DRA)
    assert made["spec"]["devices"]["requests"][0]["exactly"]["count"] == 2


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (claim({"name": "main"}), "exactly one of `exactly` or `firstAvailable` is required"),
        (claim(exactly(), exactly()), 'spec.devices.requests[1]: Duplicate value: "main"'),
        (claim({"name": "Main", "exactly": {"deviceClassName": DRIVER}}), "spec.devices.requests[0].name"),
        (claim(exactly(deviceClassName="")), "spec.devices.requests[0].exactly.deviceClassName: Required value"),
        (claim(exactly(count=-1)), "spec.devices.requests[0].exactly.count: Invalid value: -1"),
        (claim(exactly(allocationMode="Some")), 'Unsupported value: "Some"'),
        (claim(exactly(selectors=[{}])), "exactly.selectors[0].cel: Required value"),
        (claim(exactly(selectors=[{"cel": {"expression": "device.attributes["}}])), "compilation failed"),
        (claim(*({**exactly(), "name": f"r{n}"} for n in range(33))), "spec.devices.requests: Too many: 33"),
        (claim(constraints=[{"requests": ["other"], "matchAttribute": f"{DRIVER}/x"}]), "constraints[0].requests[0]"),
        (claim(exactly(tolerations=[{"operator": "Like"}])), "exactly.tolerations[0]"),
    ],
)
def test_an_invalid_claim_is_rejected(space: Space, document: dict[str, Any], sentence: str) -> None:
    error = space.refused("POST", space.path("resourceclaims", group=DRA), document)
    assert (error.status, error.reason) == (422, "Invalid")
    assert sentence in error.message


def test_of_ranked_alternatives_at_most_eight_are_accepted(space: Space) -> None:
    ranked = [{"name": f"rank-{number}", "deviceClassName": DRIVER} for number in range(9)]
    made = space.make("resourceclaims", claim({"name": "main", "firstAvailable": ranked[:8]}), DRA)
    assert {each["count"] for each in made["spec"]["devices"]["requests"][0]["firstAvailable"]} == {1}
    error = space.refused(
        "POST",
        space.path("resourceclaims", group=DRA),
        claim({"name": "main", "firstAvailable": ranked}, name="b"),
    )
    assert "spec.devices.requests[0].firstAvailable: Too many: 9" in error.message


def test_the_spec_of_a_claim_is_immutable(space: Space) -> None:
    space.make("resourceclaims", claim(), DRA)
    path = space.path("resourceclaims", "a", group=DRA)
    error = space.refused("PATCH", path, {"spec": claim(exactly(count=2))["spec"]}, MERGE)
    assert error.status == 422
    assert "field is immutable" in error.message
    labelled = space.call("PATCH", path, {"metadata": {"labels": {"linkwise.dev/group": "g"}}}, MERGE)
    assert labelled["metadata"]["labels"] == {"linkwise.dev/group": "g"}


def allocation(space: Space, request: str = "main") -> dict[str, Any]:
    result = {"request": request, "driver": DRIVER, "pool": space.name, "device": "gpu-0"}
    return {"devices": {"results": [result]}}


def test_an_allocation_is_never_changed_only_removed(space: Space) -> None:
    space.make("resourceclaims", claim(), DRA)
    path = space.path("resourceclaims", "a", "status", DRA)
    found = space.call("PATCH", path, {"status": {"allocation": allocation(space)}}, MERGE)
    assert found["status"]["allocation"]["devices"]["results"][0]["device"] == "gpu-0"
    other = {"devices": {"results": [{**allocation(space)["devices"]["results"][0], "device": "gpu-1"}]}}
    assert "immutable" in space.refused("PATCH", path, {"status": {"allocation": other}}, MERGE).message
    assert not space.call("PATCH", path, {"status": {"allocation": None}}, MERGE).get("status")


def test_an_allocation_names_a_request_of_the_claim(space: Space) -> None:
    space.make("resourceclaims", claim(), DRA)
    path = space.path("resourceclaims", "a", "status", DRA)
    error = space.refused("PATCH", path, {"status": {"allocation": allocation(space, "other")}}, MERGE)
    assert "status.allocation.devices.results[0].request" in error.message


def test_a_claim_without_an_allocation_can_not_be_reserved(space: Space) -> None:
    space.make("resourceclaims", claim(), DRA)
    path = space.path("resourceclaims", "a", "status", DRA)
    consumer = {"resource": "pods", "name": "p", "uid": "1"}
    error = space.refused("PATCH", path, {"status": {"reservedFor": [consumer]}}, MERGE)
    assert "status.reservedFor: Forbidden" in error.message


def test_the_status_of_a_claim_is_a_subresource(space: Space) -> None:
    made = space.make("resourceclaims", {**claim(), "status": {"allocation": allocation(space)}}, DRA)
    assert not made.get("status")


def test_a_template_is_immutable_and_gets_the_defaults_of_a_claim(space: Space) -> None:
    spec = {"metadata": {"labels": {"x": "y"}}, "spec": claim()["spec"]}
    made = space.make("resourceclaimtemplates", {"metadata": {"name": "a"}, "spec": spec}, DRA)
    assert made["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1
    path = space.path("resourceclaimtemplates", "a", group=DRA)
    change = {"spec": {"spec": claim(exactly(count=2))["spec"]}}
    assert "field is immutable" in space.refused("PATCH", path, change, MERGE).message


def test_a_slice_is_accepted_and_found_by_its_node(space: Space) -> None:
    made = space.call("POST", SLICES, resource_slice(space, device("gpu-0"), nodeName=f"{space.name}-n"))
    assert made["metadata"]["generation"] == 1
    found = space.call("GET", f"{SLICES}?fieldSelector=spec.nodeName%3D{space.name}-n")["items"]
    assert [each["metadata"]["name"] for each in found] == [space.name]


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"nodeName": None}, "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection`"),
        ({"allNodes": True}, "but multiple fields are set"),
        ({"driver": None}, "spec.driver: Required value"),
        ({"pool": {"name": "p", "resourceSliceCount": 0}}, "spec.pool.resourceSliceCount: Invalid value: 0"),
        ({"devices": [device("gpu-0"), device("gpu-0")]}, 'spec.devices[1]: Duplicate value: "gpu-0"'),
        ({"devices": [device("GPU")]}, "spec.devices[0].name"),
        ({"devices": [device("gpu-0", attributes={"x": {}})]}, "exactly one value must be specified"),
        ({"devices": [device("gpu-0", attributes={"x-y": {"int": 1}})]}, "spec.devices[0].attributes"),
        ({"devices": [device(f"gpu-{number}") for number in range(129)]}, "spec.devices: Too many: 129"),
        ({"devices": [device("gpu-0", nodeName="n")]}, "can only be set if `perDeviceNodeSelection`"),
    ],
)
def test_an_invalid_slice_is_rejected(space: Space, spec: dict[str, Any], sentence: str) -> None:
    error = space.refused("POST", SLICES, resource_slice(space, **spec))
    assert (error.status, error.reason) == (422, "Invalid")
    assert sentence in error.message


def test_a_slice_keeps_its_driver_node_and_pool(space: Space) -> None:
    space.call("POST", SLICES, resource_slice(space, device("gpu-0")))
    path = f"{SLICES}/{space.name}"
    for change in ({"driver": "other.example.com"}, {"nodeName": "m"}, {"pool": {"name": "other"}}):
        assert "field is immutable" in space.refused("PATCH", path, {"spec": change}, MERGE).message
    found = space.call("PATCH", path, {"spec": {"pool": {"generation": 2}}}, MERGE)
    assert found["metadata"]["generation"] == 2


def test_a_class_serves_an_extended_resource(space: Space) -> None:
    about = {"name": space.name, "labels": MINE}
    spec = {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]}
    resource = f"{space.name}.example.com/gpu"
    made = space.call("POST", CLASSES, {"metadata": about, "spec": {**spec, "extendedResourceName": resource}})
    assert made["metadata"]["generation"] == 1
    change = {"spec": {"extendedResourceName": "cpu"}}
    error = space.refused("PATCH", f"{CLASSES}/{space.name}", change, MERGE)
    assert "spec.extendedResourceName" in error.message


@pytest.mark.parametrize(
    ("claims", "references", "sentence"),
    [
        ([{"name": "gpu"}], [], "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
        (
            [{"name": "gpu", "resourceClaimName": "a", "resourceClaimTemplateName": "b"}],
            [],
            "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
        ),
        ([{"name": "gpu", "resourceClaimName": "a"}] * 2, [], 'Duplicate value: "gpu"'),
        ([], [{"name": "gpu"}], "must be one of the names in pod.spec.resourceClaims which is empty"),
        ([{"name": "gpu", "resourceClaimName": "a"}], [{"name": "gpu"}] * 2, 'Duplicate value: "gpu"'),
    ],
)
def test_a_pod_names_its_claims_once(
    space: Space, claims: list[dict[str, Any]], references: list[dict[str, Any]], sentence: str
) -> None:
    document = pod("p", resourceClaims=claims)
    document["spec"]["containers"][0]["resources"]["claims"] = references
    error = space.refused("POST", space.path("pods"), document)
    assert error.status == 422
    assert sentence in error.message


def test_the_claims_of_a_gated_pod_are_immutable(space: Space) -> None:
    gates = [{"name": "example.com/wait"}]
    claims = [{"name": "gpu", "resourceClaimName": "a"}]
    space.make("pods", pod("p", resourceClaims=claims, schedulingGates=gates))
    change = {"spec": {"resourceClaims": [{"name": "gpu", "resourceClaimName": "b"}]}}
    assert space.refused("PATCH", space.path("pods", "p"), change, MERGE).status == 422
