"""AcceleratorPolicies on the embedded cluster: namespaces get, wait for and share what they are permitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.builders.access_objects import EVERYBODY, policy_document
from support.e2e.node_objects import gpushare, machine
from support.embedded.cluster import ClusterUnderTest, embedded

if TYPE_CHECKING:
    from linkwise.embedded.storage.collection import Raw

GPU = "nvidia.com/gpu"
MEMORY = "aliyun.com/gpu-mem"
POLICIES = "acceleratorpolicies.linkwise.dev"
NOT_PERMITTED = "an AcceleratorPolicy doesn't permit the request"
LIMIT = "an AcceleratorPolicy's limit of devices at one time is reached"


async def hold(cluster: ClusterUnderTest, name: str, subjects: Raw, **spec: Any) -> None:  # noqa: ANN401 - JSON
    """Make a policy and wait until the service knows it."""
    document = policy_document(name, subjects, **spec)
    document["metadata"] = {"name": name}
    cluster.store.create(POLICIES, document)
    await cluster.until(
        lambda: name in {found.policy.name for found in cluster.service.broker.policy_reports()}, f"{name} is known"
    )


async def lift(cluster: ClusterUnderTest, name: str) -> None:
    """Delete a policy."""
    cluster.store.delete(POLICIES, name)


@pytest.mark.rule("002.access")
@embedded()
async def test_a_namespace_gets_only_what_it_is_permitted_and_more_when_the_policy_goes(
    cluster: ClusterUnderTest,
) -> None:
    cluster.store.create("namespaces", {"metadata": {"name": "team"}})
    await cluster.nodes(*machine("gpu", "nvlink"))
    await hold(cluster, "none", {"namespaces": ["team"]}, resources=[])
    cluster.create("hers", {GPU: 1}, namespace="team")
    assert NOT_PERMITTED in await cluster.refused("hers", NOT_PERMITTED)
    assert (await cluster.place("his", {GPU: 1})).node == "gpu"
    await lift(cluster, "none")
    assert (await cluster.placed("hers", "team")).node == "gpu"


@pytest.mark.rule("002.access")
@embedded()
async def test_a_namespace_waits_for_its_limit_until_one_of_its_pods_ends(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*machine("gpu", "nvlink"))
    await hold(cluster, "two", EVERYBODY, maxDevices=2)
    await cluster.place("first", {GPU: 2})
    cluster.create("second", {GPU: 1})
    assert LIMIT in await cluster.refused("second", LIMIT)
    await cluster.gone("first")
    assert (await cluster.placed("second")).node == "gpu"
    await cluster.until(
        lambda: cluster.store.get(POLICIES, "two").read().get("status", {}).get("devices") == 1, "it is counted"
    )


@pytest.mark.rule("002.segregate")
@pytest.mark.parametrize(("within", "cards"), [("never", 3), ("namespace", 2), ("any", 1)])
def test_namespaces_share_a_card_as_the_policy_says(within: str, cards: int) -> None:
    @embedded()
    async def played(cluster: ClusterUnderTest) -> None:
        cluster.store.create("namespaces", {"metadata": {"name": "other"}})
        await cluster.nodes(*gpushare("n1"))
        await hold(cluster, "cards", EVERYBODY, sharing={"with": within})
        places = (("a", "default"), ("b", "default"), ("c", "other"))
        held = [await cluster.place(name, {MEMORY: 2}, namespace=namespace) for name, namespace in places]
        assert len({granted.annotations["ALIYUN_COM_GPU_MEM_IDX"] for granted in held}) == cards

    played()
