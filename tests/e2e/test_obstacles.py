"""Temporary obstacles to the service: no pod waits forever because of one that was removed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from support.e2e.invariants import all_is_well, the_ledger_is_true
from support.e2e.node_objects import device_ids, machine
from support.e2e.own_cluster import OwnCluster
from support.e2e.processes import wait_for
from support.e2e.service import running_service

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.e2e.api_client import Api, Raw
    from support.e2e.cluster import Cluster
    from support.e2e.scheduler import Serve
    from support.e2e.service import Placing

GPU: Final = "nvidia.com/gpu"
ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
POLICIES: Final = f"{ADMISSION}/validatingadmissionpolicies"
BINDINGS: Final = f"{ADMISSION}/validatingadmissionpolicybindings"
INVENTORIES: Final = "/apis/linkwise.dev/v1alpha1/deviceinventories"
DEFINITION: Final = Path(__file__).parents[2] / "deploy/crds/deviceinventories.linkwise.dev.yaml"
NAME: Final = "no-wakes"


@pytest.fixture(scope="module")
def answering(kubernetes: Cluster) -> Iterator[Serve]:
    if not isinstance(kubernetes, OwnCluster):
        pytest.skip("this needs a cluster of our own: leave out KUBECONFIG")
    with running_service(kubernetes, "obstacles") as serve:
        yield serve


@pytest.fixture
def api(placing: Placing) -> Iterator[Api]:
    """The API server, without the policy in the end."""
    yield placing.cluster.api
    for path in (BINDINGS, POLICIES):
        placing.cluster.api.delete(f"{path}/{NAME}")


def forbid_wakes(api: Api, pod: str) -> None:
    """Forbid writes of the annotation that wakes pods; a pod to try it on shows when that holds."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "!('linkwise.dev/woken' in object.metadata.?annotations.orValue({}))"}],
    }
    about = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": NAME}}
    api.call("POST", POLICIES, {**about, "kind": "ValidatingAdmissionPolicy", "spec": spec})
    bound = {"policyName": NAME, "validationActions": ["Deny"]}
    api.call("POST", BINDINGS, {**about, "kind": "ValidatingAdmissionPolicyBinding", "spec": bound})
    woken = b'{"metadata": {"annotations": {"linkwise.dev/woken": "x"}}}'
    wait_for(lambda: api.raw("PATCH", pod, woken, "application/merge-patch+json")[0] == 422, 20, "the policy holds")


def test_who_a_policy_did_not_let_wake_is_woken_when_the_policy_is_gone(placing: Placing, api: Api) -> None:
    node, inventory = machine("a", "nvlink", unhealthy=range(7))
    amounts = {**node["status"], "allocatable": node["status"]["capacity"]}  # kubelet has not noticed
    placing.nodes({**node, "status": amounts}, inventory)
    namespace = placing.namespace()
    placing.create(namespace, "train", {GPU: 2})
    placing.refused(namespace, "train", "node(s) had too few usable devices")
    placing.place(namespace, "probe")
    forbid_wakes(api, f"/api/v1/namespaces/{namespace}/pods/probe")
    api.patch(f"{INVENTORIES}/a", {"spec": machine("a", "nvlink")[1]["spec"]})
    wait_for(lambda: "denied request" in placing.text("/readyz"), 10, "the service says what stands in its way")
    api.delete(f"{BINDINGS}/{NAME}")
    assert len(placing.placed(namespace, "train").devices) == 2
    wait_for(lambda: placing.text("/readyz") == "ok\n", 10, "nothing stands in its way")  # others may have had it tried
    all_is_well(placing)


def test_inventories_are_read_soon_after_their_kind_was_recreated(placing: Placing) -> None:
    things = machine("a", "nvlink")
    placing.nodes(*things)
    remove_inventories(placing)
    restore_inventories(placing, things)
    granted = placing.place(placing.namespace(), "train", {GPU: 2})
    assert all(device.startswith("GPU-") for device in granted.devices)


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
def test_no_device_is_recorded_twice_while_the_kind_of_inventories_is_gone(placing: Placing, *, restart: bool) -> None:
    things, ids = machine("a", "nvlink"), device_ids("a", "dgx1-v100")
    placing.nodes(*things)
    namespace = placing.namespace()
    first = placing.place(namespace, "w", {GPU: 3}).positions(ids)
    remove_inventories(placing)
    assert "DeviceInventory: missing since 20" in placing.text("/debug/explain/node/a")
    if restart:
        placing.serve.restart()
    second = placing.place(namespace, "w2", {GPU: 5}).devices
    assert all(device.startswith("#" if restart else "GPU-") for device in second)
    restore_inventories(placing, things, restart=restart)
    numbers = [int(device[1:]) if device.startswith("#") else ids.index(device) for device in second]
    assert sorted((*first, *numbers)) == list(range(8))
    report = placing.text("/debug/explain/node/a")
    assert "missing" not in report
    assert "claimed by" not in report
    the_ledger_is_true(placing)


def remove_inventories(placing: Placing) -> None:
    """Delete the kind with all its objects, and wait until the service has seen that."""
    placing.cluster.kubectl("delete", "crd", "deviceinventories.linkwise.dev")
    wait_for(lambda: placing.snapshot()["state"].get("missing"), 15, "the service has seen that the kind is gone")


def restore_inventories(placing: Placing, things: list[Raw], *, restart: bool = False) -> None:
    """Make the kind and the inventories again, and wait until the service has seen them.

    A service that started without the kind looks for it every few minutes only, unless it starts again.
    """
    placing.cluster.install(DEFINITION)
    wait_for(lambda: placing.cluster.api.answers(INVENTORIES), 15, "the kind is served")
    placing.cluster.create(things[1:])
    if restart:
        placing.serve.restart()
    placing.seen(things)
    wait_for(lambda: not placing.snapshot()["state"].get("missing"), 15, "nothing is missing any more")
