"""Nodes of real machines come back from a real API server unchanged, and our readers understand them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from linkwise.broker.cluster.inventory import merge_inventory
from linkwise.vendors.machines import PROFILES
from linkwise.wire.kubernetes.objects import node_view
from support.e2e.api_client import ApiError, path_of
from support.e2e.node_objects import KINDS, ascend, device_ids, gpushare, koordinator, machine
from support.e2e.pod_objects import device_definition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.model.inventory import NodeInventory
    from support.e2e.api_client import Raw
    from support.e2e.cluster import Cluster
    from support.e2e.node_objects import ChipSource


def stocked(cluster: Cluster, things: list[Raw]) -> NodeInventory:
    """What our readers make of the objects as the server has them."""
    cluster.create(things)
    node, *others = (cluster.api.get(path_of(thing)) for thing in things)
    return merge_inventory(node_view(node), {kind_of(found): found for found in others})


def kind_of(found: Raw) -> str:
    name = found["metadata"]["name"]
    return f"ConfigMap/{name}" if found["kind"] == "ConfigMap" else str(found["kind"])


@pytest.fixture
def devices_known(own_cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[None]:
    """Koordinator's definition of Device is there for one test; with a parameter, as its releases have it."""
    definition = device_definition(prunes=bool(getattr(request, "param", False)))
    own_cluster.define(definition)
    yield
    own_cluster.undefine(definition)


@pytest.mark.parametrize("name", PROFILES)
def test_an_inventory_is_read_back_as_the_same_machine(cluster: Cluster, name: str) -> None:
    stock, machine_profile = stocked(cluster, machine("n1", name)), PROFILES[name]
    assert stock.problems == ()
    assert tuple(device.id for device in stock.devices) == device_ids("n1", name)
    assert stock.topology is not None
    assert (stock.topology.links, stock.topology.bandwidth) == (
        machine_profile.topology.links,
        machine_profile.topology.bandwidth,
    )


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"measured"}))
def test_an_annotation_reports_the_same_links(cluster: Cluster, kind: str) -> None:
    stock = stocked(cluster, machine("n1", kind, source="annotation"))
    assert stock.topology is not None
    assert stock.topology.links == PROFILES[KINDS[kind]].topology.links


def test_what_an_agent_saw_in_use_is_kept_in_the_status(cluster: Cluster) -> None:
    held = device_ids("n1", "dgx1-v100")[:2]
    assert stocked(cluster, machine("n1", "nvlink", allocations={"uid-1": held})).allocations == {"uid-1": held}


def test_a_definition_refuses_an_inventory_that_makes_no_sense(cluster: Cluster) -> None:
    _, inventory = machine("n1", "nvlink")
    inventory["spec"]["mode"] = "half"
    with pytest.raises(ApiError, match=r"spec\.mode: Unsupported value"):
        cluster.api.create(inventory)


def test_an_unhealthy_device_of_every_system_is_recognised(cluster: Cluster) -> None:
    nodes = {
        "n1": machine("n1", "pcie", unhealthy=[1]),
        "n2": gpushare("n2", unhealthy=[1]),
        "n3": ascend("n3", unhealthy=[1]),
    }
    for things in nodes.values():
        stock = stocked(cluster, things)
        assert [device.index for device in stock.devices if not device.healthy] == [1], stock.name


@pytest.mark.parametrize("source", ["config map", "annotation"])
def test_ascend_chips_are_reported_in_both_ways(cluster: Cluster, source: ChipSource) -> None:
    stock = stocked(cluster, ascend("n1", source=source, used=[0]))
    assert (stock.profile, len(stock.devices), stock.problems) == ("module", 8, ())
    assert stock.labels["free"] == "#1,#2,#3,#4,#5,#6,#7"


@pytest.mark.usefixtures("devices_known")
def test_a_device_object_reports_measured_links(cluster: Cluster) -> None:
    stock = stocked(cluster, koordinator("n1"))
    assert stock.topology is not None
    assert stock.topology.bandwidth == PROFILES["dgx1-v100-measured"].topology.bandwidth


@pytest.mark.parametrize("devices_known", [True], indirect=True)
@pytest.mark.usefixtures("devices_known")
def test_a_device_object_of_koordinators_releases_loses_its_links(cluster: Cluster) -> None:
    stock = stocked(cluster, koordinator("n1"))
    assert (len(stock.devices), stock.topology) == (8, None)
