"""Device taints as faults: the device is out of use, and everybody sees why and since when."""

from __future__ import annotations

import json
from typing import Any

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Event
from linkwise.broker.watch_events import ClusterObject
from linkwise.explain.inspect import inspect_nodes
from linkwise.explain.pod import explain_pod
from linkwise.explain.text.pod import explanation_lines
from linkwise.testing.cluster import FakeNode, device_pod, place, woken
from support.builders.dra_objects import claim, device, device_class, resource_slice, taint_rule

NOW = 100.0
BARE = FakeNode("n", registered=False, inventory=False)
SINCE = "2026-11-19T08:00:00Z"
FAULT = (
    f"Xid 79 (the GPU has fallen off the bus; restart the node), taint gpu.nvidia.com/xid=79:NoSchedule since {SINCE}"
)


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> dict[str, str]:
    return {"key": f"gpu.nvidia.com/{key}", "value": value, "effect": effect, "timeAdded": SINCE}


def seen(document: dict[str, Any], *, gone: bool = False) -> ClusterObject:
    about = document["metadata"]
    name = f"{about['namespace']}/{about['name']}" if "namespace" in about else about["name"]
    return ClusterObject(f"{document['kind']}.resource.k8s.io", name, None if gone else json.dumps(document).encode())


def gpus(*taints: dict[str, str], of: str = "gpu-1") -> dict[str, Any]:
    """Four devices, one of them with taints."""
    names = [f"gpu-{number}" for number in range(4)]
    return resource_slice("n", [device(name, taints=list(taints) if name == of else []) for name in names])


def broker_with(*documents: dict[str, Any]) -> Broker:
    broker = Broker()
    broker.observe([*BARE.events(), *map(seen, (device_class(), *documents))], NOW)
    return broker


def faults(broker: Broker) -> dict[str, str]:
    (found,) = inspect_nodes(broker, "n", NOW)
    return {each.id: each.fault for each in found.devices if not each.healthy}


def events(effects: object) -> list[str]:
    return [f"{each.reason} {each.name or each.node}: {each.sentence}" for each in effects if isinstance(each, Event)]  # type: ignore[attr-defined]


def test_the_fault_of_a_device_says_what_the_taint_means_and_since_when() -> None:
    assert faults(broker_with(gpus(taint("xid", "79")))) == {"GPU-gpu-1": FAULT}
    lost = f"the driver lost the GPU, taint gpu.nvidia.com/gpu-lost:NoSchedule since {SINCE}"
    assert faults(broker_with(gpus(taint("gpu-lost")))) == {"GPU-gpu-1": lost}


def test_several_taints_are_all_named() -> None:
    other = {"key": "example.com/repair", "effect": "NoExecute"}
    assert faults(broker_with(gpus(taint("xid", "79"), other))) == {
        "GPU-gpu-1": f"{FAULT}; taint example.com/repair:NoExecute"
    }


def test_a_taint_without_an_effect_leaves_the_device_in_use_with_a_warning_if_a_vendor_gives_it_a_meaning() -> None:
    unmonitored, odd = taint("unmonitored", effect="None"), {"key": "example.com/note", "effect": "None"}
    broker = broker_with(gpus(unmonitored, odd))
    assert faults(broker) == {}
    (problem,) = broker.inventories["n"].problems
    assert str(problem) == (
        "node n: gpu.nvidia.com/unmonitored: device gpu-1: the driver can't watch the health of the GPU; still in use"
    )
    harmless = broker_with(gpus(taint("xid", "31", "None"))).inventories["n"].problems[0]
    assert harmless.sentence == "device gpu-1: Xid 31 (page fault of a program; restart the program); still in use"


def test_the_node_and_the_pods_that_use_the_device_have_an_event_with_the_fault() -> None:
    broker, pod = broker_with(gpus()), device_pod("a", 2)
    place(broker, pod, "n", NOW)
    broker.observe([seen(claim("a-x", "n", ["gpu-0", "gpu-1"], pod=pod.uid))], NOW)
    assert events(broker.observe([seen(gpus(taint("xid", "79")))], NOW)) == [
        f"DeviceFailed n: device 1 (GPU-gpu-1) became unhealthy: {FAULT}; 3 of 4 devices are usable",
        f"DeviceFailed a: device 1 (GPU-gpu-1) on node n, which this pod uses, became unhealthy: {FAULT}",
    ]
    assert events(broker.observe([seen(gpus())], NOW)) == [
        "DeviceRecovered n: device 1 (GPU-gpu-1) is healthy again; 4 of 4 devices are usable"
    ]


def test_a_rule_takes_devices_out_of_use_until_it_is_gone() -> None:
    broker, pod = broker_with(gpus()), device_pod("a", 4)
    rule = taint_rule("repair", {"pool": "n", "device": "gpu-2"}, {"key": "example.com/repair", "effect": "NoSchedule"})
    broker.observe([pod, seen(rule)], NOW)
    assert faults(broker) == {"GPU-gpu-2": "taint example.com/repair:NoSchedule of DeviceTaintRule repair"}
    assert broker.filter(pod, ["n"], NOW).nodes == []
    assert Broker.restore(broker.snapshot(NOW)).snapshot(NOW) == broker.snapshot(NOW)
    assert woken(broker.observe([seen(rule, gone=True)], NOW)) == ["a"]
    assert faults(broker) == {}


def test_a_rule_of_other_devices_changes_nothing() -> None:
    broker = broker_with(gpus())
    broker.observe([seen(taint_rule("r", {"pool": "m"}, {"key": "k", "effect": "NoSchedule"}))], NOW)
    assert faults(broker) == {}


def test_an_explanation_says_which_device_is_unhealthy_and_why() -> None:
    broker, pod = broker_with(gpus(taint("xid", "79"))), device_pod("a", 4)
    broker.observe([pod], NOW)
    broker.filter(pod, ["n"], NOW)
    report = explain_pod(broker, pod.uid, NOW)
    assert report
    sentence = f"node n: 4 devices requested, but 1 of 4 is unhealthy or cordoned: 1; device 1: {FAULT}"
    assert sentence in explanation_lines(report)
