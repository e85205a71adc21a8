"""All that the service ever does in a cluster, for audits of its role."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from linkwise.kube.watch.kinds import SOURCES
from support.e2e.node_objects import device_ids, gpushare, machine
from support.e2e.pod_objects import pod
from support.e2e.processes import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.e2e.api_client import Raw
    from support.e2e.cluster import Cluster
    from support.e2e.service import Placing

__all__ = ["NOT_SERVED", "ONLY_FOR_CLAIMS", "all_it_does", "define_sources"]

GPU: Final = "nvidia.com/gpu"
MEMORY: Final = "aliyun.com/gpu-mem"
NOT_SERVED: Final = {"scheduling.k8s.io"}
"""API groups of kinds that only an alpha switch of the API server brings: nothing there can be used"""
ONLY_FOR_CLAIMS: Final = {
    *(("resource.k8s.io", "resourceclaims", verb) for verb in ("create", "delete", "get")),
    *(("resource.k8s.io", "devicetaintrules", verb) for verb in ("list", "watch")),
}
"""rights that are used only where DRA drivers publish devices, and where DeviceTaintRules are served: by the tests of claims"""
DEFINED: Final = {"linkwise.dev", "policy", "resource.k8s.io", "storage.k8s.io"}
"""API groups that need no definition of the test: our own, and those of the API server"""


def define_sources(cluster: Cluster) -> None:
    """Define the kinds of other systems that the service reads."""
    for source in SOURCES:
        if source.group and source.group not in NOT_SERVED | DEFINED:
            cluster.define(definition(source.group, source.resource))


def definition(group: str, plural: str) -> Raw:
    """A kind of another system that may hold anything."""
    kind = {"podgroups": "PodGroup", "topologies": "Topology", "hypernodes": "HyperNode", "devices": "Device"}.get(
        plural, "ClusterNetworkTopology"
    )
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    approved = {"api-approved.kubernetes.io": "unapproved, for a test"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "annotations": approved},
        "spec": {
            "group": group,
            "scope": "Namespaced" if kind == "PodGroup" else "Cluster",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [{"name": "v1alpha1", "served": True, "storage": True, "schema": schema}],
        },
    }


def all_it_does(placing: Placing, call: Callable[[str, Raw], Raw]) -> None:
    """Places pods, plans a group, wakes one that waits, tells of drift twice, meets a refused bind, and evicts.

    Args:
        placing: the cluster and the service
        call: posts to the extender as kube-scheduler does, by path and body
    """
    namespace = placing.namespace()
    inventory = machine("gpu", "nvlink")[1]
    placing.nodes(*machine("gpu", "nvlink"), *gpushare("share", cards=1, unhealthy=[0]))
    placing.place(namespace, "alone", {GPU: 2})
    words = {
        f"gputopology.scheduling.koordinator.sh/{key}": value for key, value in (("name", "ring"), ("replica", "2"))
    }
    for number in range(2):
        placing.create(namespace, f"ring-{number}", {GPU: 2}, labels=words)
    members = [placing.placed(namespace, f"ring-{number}") for number in range(2)]
    assert any("linkwise.dev/group-plan" in member.annotations for member in members), "the plan is written"
    wake(placing, namespace)
    drift_twice(placing, namespace, inventory)
    report_a_policy(placing)
    meet_a_conflict(placing, namespace, call)
    evict(placing)


def wake(placing: Placing, namespace: str) -> None:
    """Room that kube-scheduler does not see come: only the service can have the pod tried again."""
    placing.create(namespace, "waits", {MEMORY: 12})
    placing.refused(namespace, "waits", "node(s) had no device with enough free memory")
    written = 'linkwise_effects_total{effect="condition",result="written"}'
    wait_for(lambda: placing.metric(written), 15, "a condition tells its owner")
    placing.cluster.api.delete("/api/v1/namespaces/kube-system/configmaps/unhealthy-gpu-share")
    placing.placed(namespace, "waits")
    wait_for(lambda: placing.metric('linkwise_effects_total{effect="wake",result="written"}'), 5, "the pod is woken")


def drift_twice(placing: Placing, namespace: str, inventory: Raw) -> None:
    """An agent says twice that a pod has other devices than its record."""
    uid = placing.cluster.pod(namespace, "alone")["metadata"]["uid"]
    path = "/apis/linkwise.dev/v1alpha1/deviceinventories/gpu/status"
    other = list(device_ids("gpu", "dgx1-v100")[6:])
    for held in (other, [], other):
        placing.cluster.api.patch(path, {"status": {"allocations": [{"podUID": uid, "devices": held}] if held else []}})
        placing.seen([inventory])
        wait_for(partial(drift_is, placing, reported=bool(held)), 5, f"drift with {held}")
        # What happens again before its event is written becomes one event, with its count.
        wait_for(lambda: "Drift" in str(placing.cluster.events("default", "gpu")), 5, "an event of it")
    wait_for(
        lambda: placing.metric('linkwise_effects_total{effect="event",result="repeated"}'), 5, "the event is repeated"
    )


def report_a_policy(placing: Placing) -> None:
    """A policy gets a status."""
    spec = {"subjects": {"users": ["somebody"]}, "maxDevices": 1}
    about = {"apiVersion": "linkwise.dev/v1alpha1", "kind": "AcceleratorPolicy", "metadata": {"name": "one"}}
    placing.cluster.api.create({**about, "spec": spec})
    path = "/apis/linkwise.dev/v1alpha1/acceleratorpolicies/one"
    wait_for(lambda: placing.cluster.api.get(path).get("status"), 15, "the policy has a status")


def drift_is(placing: Placing, *, reported: bool) -> bool:
    lines = [line for line in placing.text("/metrics").splitlines() if line.startswith("linkwise_drift{")]
    return reported == any(float(line.rsplit(" ", 1)[1]) for line in lines)


def meet_a_conflict(placing: Placing, namespace: str, ask: Callable[[str, Raw], Raw]) -> None:
    """The API server refuses to bind a pod that is held back; the service reads what the pod is then."""
    gated = pod(namespace, "gated", {GPU: 1}, schedulingGates=[{"name": "example.com/wait"}])
    created = placing.cluster.api.create(gated)
    uid = created["metadata"]["uid"]
    call = {"PodName": "gated", "PodNamespace": namespace, "PodUID": uid, "Node": "gpu"}
    wait_for(lambda: uid in placing.text("/debug/snapshot"), 5, "the service has seen the pod")
    ask("/filter", {"Pod": created, "NodeNames": ["gpu"]})
    answer = ask("/bind", call)
    assert "schedulingGates" in answer["Error"]


def evict(placing: Placing) -> None:
    """A gang of high priority needs the devices of two pods of low priority."""
    namespace, api = placing.namespace(), placing.cluster.api
    about = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    for name, value in {"cheap": 10, "high": 1000}.items():
        api.create({**about, "metadata": {"name": name}, "value": value})
    placing.nodes(*machine("a", "nvlink"), *machine("b", "nvlink"))
    there: list[dict[str, Any]] = [{"nodeSelector": {"kubernetes.io/hostname": name}} for name in ("a", "b")]
    for number, node in enumerate(there):
        placing.place(namespace, f"cheap-{number}", {GPU: 8}, priorityClassName="cheap", **node)
    words = {"gang.scheduling.koordinator.sh/name": "high", "gang.scheduling.koordinator.sh/min-available": "2"}
    for number, node in enumerate(there):
        placing.create(namespace, f"high-{number}", {GPU: 8}, priorityClassName="high", annotations=words, **node)
    for number in range(2):
        placing.placed(namespace, f"high-{number}", 60)
