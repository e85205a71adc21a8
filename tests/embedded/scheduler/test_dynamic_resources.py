"""ResourceClaims on the embedded cluster: allocated by the scheduler first fit, and cleaned up by their controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from support.builders.dra_objects import DRIVER, device, device_class, resource_slice
from support.e2e.node_objects import node
from support.embedded.cluster import ClusterUnderTest, embedded

if TYPE_CHECKING:
    from linkwise.embedded.storage.collection import Raw

GPU: Final = "nvidia.com/gpu"
CLAIMS: Final = "resourceclaims.resource.k8s.io"
TEMPLATES: Final = "resourceclaimtemplates.resource.k8s.io"
SLICES: Final = "resourceslices.resource.k8s.io"
CLASSES: Final = "deviceclasses.resource.k8s.io"


async def published(cluster: ClusterUnderTest, *slices: Raw, serving: str = "example.com/none") -> None:
    """Make a class, and a node for each slice; with a class that serves no managed resource, the service is not called."""
    cluster.store.create(CLASSES, device_class(DRIVER, serving))
    for each in slices:
        cluster.store.create(SLICES, each)
    await cluster.nodes(*(node(each["spec"]["nodeName"]) for each in slices if "nodeName" in each["spec"]))


def exactly(count: int = 1, *expressions: str, **fields: object) -> Raw:
    selectors = [{"cel": {"expression": text}} for text in expressions]
    return {"deviceClassName": DRIVER, "count": count, "selectors": selectors, **fields}


def pinned(*names: str) -> Raw:
    listed = ", ".join(f'"GPU-{name}"' for name in names)
    return exactly(len(names), f'device.attributes["{DRIVER}"].uuid in [{listed}]')


def claim(cluster: ClusterUnderTest, name: str, *requests: Raw, **devices: object) -> None:
    """Make a claim; a request without a name is the only one."""
    named = [each if "name" in each else {"name": "main", "exactly": each} for each in requests]
    spec = {"devices": {"requests": named, **devices}}
    cluster.store.create(CLAIMS, {"metadata": {"name": name}, "spec": spec}, "default")


def uses(*claims: str) -> Raw:
    return {"resourceClaims": [{"name": f"c{index}", "resourceClaimName": name} for index, name in enumerate(claims)]}


def status(cluster: ClusterUnderTest, name: str) -> Raw:
    found: Raw = cluster.store.get(CLAIMS, name, "default").read().get("status", {})
    return found


def devices(cluster: ClusterUnderTest, name: str) -> list[str]:
    results = status(cluster, name).get("allocation", {}).get("devices", {}).get("results", [])
    return [each["device"] for each in results]


def gpus(*names: str, **fields: Any) -> list[Raw]:  # noqa: ANN401 - further fields as they are
    return [device(name, **fields) for name in names]


@embedded()
async def test_a_claim_gets_the_first_devices_that_fit_and_is_reserved_for_its_pod(cluster: ClusterUnderTest) -> None:
    await published(cluster, resource_slice("a", 4))
    claim(cluster, "two", exactly(2))
    await cluster.place("p", **uses("two"))
    assert devices(cluster, "two") == ["gpu-0", "gpu-1"]
    uid = cluster.store.get("pods", "p", "default").uid
    assert status(cluster, "two")["reservedFor"] == [{"resource": "pods", "name": "p", "uid": uid}]
    term = status(cluster, "two")["allocation"]["nodeSelector"]["nodeSelectorTerms"][0]
    assert term["matchFields"] == [{"key": "metadata.name", "operator": "In", "values": ["a"]}]
    assert "allocationTimestamp" in status(cluster, "two")["allocation"]


@embedded()
async def test_a_pin_decides_about_devices_and_node(cluster: ClusterUnderTest) -> None:
    slices = [resource_slice(name, gpus(*(f"{name}-{index}" for index in range(4)))) for name in ("a", "b")]
    await published(cluster, *slices)
    claim(cluster, "pinned", pinned("b-1", "b-3"))
    assert (await cluster.place("p", **uses("pinned"))).node == "b"
    assert devices(cluster, "pinned") == ["b-1", "b-3"]


@embedded()
async def test_a_pod_whose_claim_does_not_exist_waits_without_a_word(cluster: ClusterUnderTest) -> None:
    await published(cluster, resource_slice("a", 4))
    cluster.create("p", **uses("late"))
    cluster.create("other")
    await cluster.placed("other")
    assert not cluster.pod("p")["status"].get("conditions")
    assert not cluster.events("p")
    claim(cluster, "late", exactly(1))
    await cluster.placed("p")


@embedded()
async def test_a_taken_device_is_waited_for(cluster: ClusterUnderTest) -> None:
    await published(cluster, resource_slice("a", 2))
    claim(cluster, "first", exactly(2))
    claim(cluster, "second", pinned("gpu-1"))
    await cluster.place("p", **uses("first"))
    cluster.create("q", **uses("second"))
    assert await cluster.refused("q") == "0/1 nodes are available: 1 cannot allocate all claims."
    cluster.delete("p")
    await cluster.placed("q")
    assert devices(cluster, "second") == ["gpu-1"]
    assert status(cluster, "first") == {}


@embedded()
async def test_a_replaced_claim_frees_its_pod(cluster: ClusterUnderTest) -> None:
    await published(cluster, resource_slice("a", 2))
    claim(cluster, "other", pinned("gpu-0"))
    await cluster.place("holder", **uses("other"))
    claim(cluster, "mine", pinned("gpu-0"))
    cluster.create("p", **uses("mine"))
    await cluster.refused("p", "cannot allocate all claims")
    cluster.store.delete(CLAIMS, "mine", "default")
    claim(cluster, "mine", pinned("gpu-1"))
    await cluster.placed("p")
    assert devices(cluster, "mine") == ["gpu-1"]


@embedded()
async def test_a_pod_whose_claim_is_deleted_while_it_is_pending_is_not_started_without_it(
    cluster: ClusterUnderTest,
) -> None:
    await published(cluster, resource_slice("a", 2))
    claim(cluster, "other", pinned("gpu-0"))
    await cluster.place("holder", **uses("other"))
    claim(cluster, "mine", pinned("gpu-0"))
    cluster.create("p", **uses("mine"))
    await cluster.refused("p", "cannot allocate all claims")
    cluster.store.delete(CLAIMS, "mine", "default")
    await cluster.refused("p", 'resourceclaim "mine" not found')
    await cluster.gone("holder")
    claim(cluster, "mine", pinned("gpu-0"))
    await cluster.placed("p")
    assert devices(cluster, "mine") == ["gpu-0"]


@pytest.mark.parametrize(("taken", "rank"), [((), "rank-0"), (("gpu-2",), "rank-1")])
@embedded()
async def test_of_ranked_sets_the_first_that_is_free_is_taken(
    cluster: ClusterUnderTest, taken: tuple[str, ...], rank: str
) -> None:
    await published(cluster, resource_slice("a", 4))
    if taken:
        claim(cluster, "taken", pinned(*taken))
        await cluster.place("holder", **uses("taken"))
    ranked = [{"name": "rank-0", **pinned("gpu-2", "gpu-3")}, {"name": "rank-1", **pinned("gpu-0", "gpu-1")}]
    claim(cluster, "ranked", {"name": "main", "firstAvailable": ranked})
    await cluster.place("p", **uses("ranked"))
    results = status(cluster, "ranked")["allocation"]["devices"]["results"]
    assert {each["request"] for each in results} == {f"main/{rank}"}


@embedded()
async def test_a_tainted_device_is_allocated_only_to_claims_that_tolerate_it(cluster: ClusterUnderTest) -> None:
    taint = {"key": f"{DRIVER}/xid", "value": "48", "effect": "NoSchedule"}
    harmless = {"key": f"{DRIVER}/xid", "value": "13", "effect": "None"}
    await published(cluster, resource_slice("a", [*gpus("gpu-0", taints=[taint]), *gpus("gpu-1", taints=[harmless])]))
    claim(cluster, "any", exactly(1))
    await cluster.place("p", **uses("any"))
    assert devices(cluster, "any") == ["gpu-1"]
    tolerations = [{"key": f"{DRIVER}/xid", "operator": "Exists"}]
    claim(cluster, "tolerant", exactly(1, tolerations=tolerations))
    await cluster.place("q", **uses("tolerant"))
    assert devices(cluster, "tolerant") == ["gpu-0"]


@embedded()
async def test_sets_and_single_devices_share_counters(cluster: ClusterUnderTest) -> None:
    counters = [{"name": f"gpu-{index}", "counters": {"whole": {"value": "1"}}} for index in range(4)]

    def consumes(*indices: int) -> list[Raw]:
        return [{"counterSet": f"gpu-{index}", "counters": {"whole": {"value": "1"}}} for index in indices]

    sets = [device("pair-2-3", consumesCounters=consumes(2, 3)), device("pair-0-1", consumesCounters=consumes(0, 1))]
    singles = [device(f"gpu-{index}", consumesCounters=consumes(index)) for index in range(4)]
    await published(cluster, resource_slice("a", [*sets, *singles], total=2))
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 2}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": "a", "sharedCounters": counters}
    cluster.store.create(SLICES, {"metadata": {"name": "counters"}, "spec": spec})
    for name, expected in (("first", "pair-2-3"), ("second", "pair-0-1")):
        claim(cluster, name, exactly(1))
        await cluster.place(name, **uses(name))
        assert devices(cluster, name) == [expected]
    claim(cluster, "third", exactly(1))
    cluster.create("third", **uses("third"))
    await cluster.refused("third", "cannot allocate all claims")


@embedded()
async def test_what_does_not_fit_together_is_undone(cluster: ClusterUnderTest) -> None:
    numa = [device(f"gpu-{index}") for index in range(4)]
    for index, each in enumerate(numa):
        each["attributes"]["numaNode"] = {"int": (0, 1, 1, 1)[index]}
    await published(cluster, resource_slice("a", numa))
    claim(cluster, "same", exactly(2), constraints=[{"matchAttribute": f"{DRIVER}/numaNode"}])
    await cluster.place("p", **uses("same"))
    assert devices(cluster, "same") == ["gpu-1", "gpu-2"]
    claim(
        *(cluster, "both", {"name": "any", "exactly": exactly(1)}, {"name": "zero", "exactly": pinned("gpu-0")}),
    )
    await cluster.place("q", **uses("both"))
    assert devices(cluster, "both") == ["gpu-3", "gpu-0"]


@embedded()
async def test_an_incomplete_pool_serves_nothing(cluster: ClusterUnderTest) -> None:
    await published(cluster, resource_slice("a", 4, total=2))
    claim(cluster, "one", exactly(1))
    cluster.create("p", **uses("one"))
    await cluster.refused("p", "cannot allocate all claims")


@embedded()
async def test_a_missing_class_is_named(cluster: ClusterUnderTest) -> None:
    await published(cluster, resource_slice("a", 4))
    claim(cluster, "one", {"name": "main", "exactly": {"deviceClassName": "missing"}})
    cluster.create("p", **uses("one"))
    assert "device class missing does not exist" in await cluster.refused("p")


@embedded()
async def test_a_selector_that_can_not_be_evaluated_is_named(cluster: ClusterUnderTest) -> None:
    await published(cluster, resource_slice("a", 4))
    claim(cluster, "one", exactly(1, 'device.attributes["x"].y.matches("z")'))
    cluster.create("p", **uses("one"))
    assert "can't evaluate the selector" in await cluster.refused("p")


@embedded()
async def test_a_claim_that_is_allocated_elsewhere_is_given_up(cluster: ClusterUnderTest) -> None:
    await published(cluster, resource_slice("a", 4), resource_slice("b", 4))
    claim(cluster, "one", exactly(1))
    result = {"request": "main", "driver": DRIVER, "pool": "a", "device": "gpu-0"}
    fields = [{"key": "metadata.name", "operator": "In", "values": ["a"]}]
    selector = {"nodeSelectorTerms": [{"matchFields": fields}]}
    allocation = {"devices": {"results": [result]}, "nodeSelector": selector}
    cluster.store.patch(CLAIMS, "one", {"status": {"allocation": allocation}}, "default", "status")
    assert (await cluster.place("p", nodeSelector={"kubernetes.io/hostname": "b"}, **uses("one"))).node == "b"


@embedded()
async def test_an_extended_resource_is_served_by_a_generated_claim(cluster: ClusterUnderTest) -> None:
    await published(cluster, resource_slice("a", 4), serving=GPU)
    await cluster.until(lambda: cluster.service.broker.inventories.get("a"), "the service has read the node")
    granted = await cluster.place("p", {GPU: 2})
    assert (granted.node, granted.devices) == ("a", ())
    (stored,) = cluster.store.list(CLAIMS).items
    served = cluster.pod("p")["status"]["extendedResourceClaimStatus"]
    assert served["resourceClaimName"] == stored.name
    assert stored.name.startswith("p-extended-resources-")
    assert served["requestMappings"] == [
        {"containerName": "main", "resourceName": GPU, "requestName": "container-0-request-0"}
    ]
    assert devices(cluster, stored.name) == ["gpu-0", "gpu-1"]
    cluster.create("q", {GPU: 3})
    await cluster.refused("q")
    await cluster.gone("p")
    await cluster.placed("q")


@embedded()
async def test_a_template_makes_a_claim_that_goes_with_its_pod(cluster: ClusterUnderTest) -> None:
    await published(cluster, resource_slice("a", 2))
    spec = {"spec": {"devices": {"requests": [{"name": "main", "exactly": exactly(2)}]}}}
    cluster.store.create(TEMPLATES, {"metadata": {"name": "pair"}, "spec": spec}, "default")
    template: Raw = {"resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "pair"}]}
    await cluster.place("p", **template)
    (stored,) = cluster.store.list(CLAIMS).items
    meta = stored.read()["metadata"]
    assert stored.name.startswith("p-gpus-")
    assert meta["annotations"] == {"resource.kubernetes.io/pod-claim-name": "gpus"}
    assert meta["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    cluster.delete("p")
    await cluster.until(lambda: not cluster.store.list(CLAIMS).items, "the claim is gone")
    await cluster.place("q", **template)


@embedded()
async def test_a_claim_that_replaces_a_generated_one_is_used(cluster: ClusterUnderTest) -> None:
    await published(cluster, resource_slice("a", 2))
    spec = {"spec": {"devices": {"requests": [{"name": "main", "exactly": exactly(1)}]}}}
    cluster.store.create(TEMPLATES, {"metadata": {"name": "one"}, "spec": spec}, "default")
    template: Raw = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]}
    pod = cluster.create("p", schedulingGates=[{"name": "example.com/wait"}], **template)
    (generated,) = await cluster.until(lambda: cluster.store.list(CLAIMS).items, "the claim is generated")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"], "controller": True}
    about = {
        "name": "ours",
        "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
        "ownerReferences": [owner],
    }
    ours = {"devices": {"requests": [{"name": "main", "exactly": pinned("gpu-1")}]}}
    cluster.store.create(CLAIMS, {"metadata": about, "spec": ours}, "default")
    cluster.store.delete(CLAIMS, generated.name, "default")
    named = [{"name": "gpu", "resourceClaimName": "ours"}]
    await cluster.until(
        lambda: cluster.pod("p")["status"].get("resourceClaimStatuses") == named, "the pod has our claim"
    )
    cluster.store.patch("pods", "p", {"spec": {"schedulingGates": []}}, "default")
    await cluster.placed("p")
    assert devices(cluster, "ours") == ["gpu-1"]


@embedded()
async def test_a_claim_of_several_pods_keeps_its_devices_until_the_last_is_gone(cluster: ClusterUnderTest) -> None:
    await published(cluster, resource_slice("a", 2))
    claim(cluster, "shared", exactly(1))
    for name in ("p", "q"):
        await cluster.place(name, **uses("shared"))
    cluster.delete("p")
    await cluster.until(lambda: len(status(cluster, "shared").get("reservedFor", ())) == 1, "one pod uses the claim")
    assert devices(cluster, "shared") == ["gpu-0"]
    cluster.delete("q")
    await cluster.until(lambda: status(cluster, "shared") == {}, "the claim has no devices")


@embedded()
async def test_fifty_pods_share_forty_devices_and_none_is_allocated_twice(cluster: ClusterUnderTest) -> None:
    await published(cluster, *(resource_slice(f"n{number}", 8) for number in range(5)))
    for number in range(50):
        claim(cluster, f"c{number}", exactly(1))
        cluster.create(f"p{number}", **uses(f"c{number}"))
    await cluster.until(lambda: len(cluster.bound()) == 40, "40 pods have devices")
    results = [
        (result["pool"], result["device"])
        for stored in cluster.store.list(CLAIMS).items
        for result in stored.read().get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
    ]
    assert len(results) == len(set(results)) == 40
