"""Large clusters for benchmarks: nodes with noise on every link, half of their devices allocated."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Bind
from linkwise.dialects.linkwise.dialect import GRANT, grant_text
from linkwise.model.topology import Topology, numbered
from linkwise.model.verdict import Grant, Offer, Part
from linkwise.model.views import ContainerView, PodView
from linkwise.sim.sample_nodes import fleet_node
from linkwise.topology.canonical import canonical
from linkwise.vendors.machine import machine_devices
from linkwise.vendors.machines import MachineProfile, profile
from linkwise.wire.kubernetes.pod import PodObject  # noqa: TC001 - read when the struct is made

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from linkwise.broker.watch_events import WatchEvent
    from linkwise.model.settings import PlacingSettings

MACHINES = ("dgx1-v100", "v100-pcie", "a100-bridged", "dgx-a100")


def node_names(count: int, length: int) -> list[str]:
    """Names of the given length, all different."""
    return [f"n{number:06d}".ljust(length, "x") for number in range(count)]


def noisy(machine: MachineProfile, chance: random.Random) -> MachineProfile:
    """The machine as bandwidth tests would measure it: no two samples are equal."""
    values = canonical(machine.topology)
    rows = tuple(tuple(round(value * chance.uniform(0.98, 1.02), 2) for value in row) for row in values)
    return replace(machine, topology=Topology(numbered(len(rows)), bandwidth=rows))


def whole_cluster(names: list[str], chance: random.Random, machines: Iterable[str] = MACHINES) -> list[WatchEvent]:
    """Nodes of whole devices, with pods on about half of them."""
    kinds = [profile(name) for name in machines]
    sights: list[WatchEvent] = []
    for name in names:
        machine = noisy(chance.choice(kinds), chance)
        sights += fleet_node(machine, name)
        devices = [device.id for device in machine_devices(machine, name)]
        taken = chance.sample(devices, chance.randint(0, len(devices)))
        while taken:
            size = chance.choice((1, 1, 2, 4))
            own, taken = taken[:size], taken[size:]
            sights.append(_bound(name, len(sights), {"nvidia.com/gpu": str(len(own))}, own))
    return sights


def shared_cluster(names: list[str], chance: random.Random, unit: str) -> list[WatchEvent]:
    """Nodes that share memory; free amounts in GiB take few values, in MiB many."""
    machine = profile("p40-share")
    memory = 22 if unit == "GiB" else 22919
    sights: list[WatchEvent] = []
    for name in names:
        sights += _shared_node(machine, name, memory)
        for device in machine_devices(machine, name):
            left = memory
            while left > 1 and chance.random() < 0.6:
                share = chance.randint(1, max(1, left // 2))
                left -= share
                sights.append(_bound(name, len(sights), {"aliyun.com/gpu-mem": str(share)}, [device.id], share))
    return sights


def observed(sights: list[WatchEvent], settings: PlacingSettings | None = None) -> Broker:
    """A broker that has observed all events."""
    broker = Broker(settings)
    broker.observe(sights, 0.0)
    return broker


def place(broker: Broker, pod: PodView, names: list[str], now: float) -> Grant | None:
    """Filter and bind a pod at once and observe the result; None if no node fits."""
    nodes = broker.filter(pod, names, now).nodes
    for effect in broker.bind(pod.uid, nodes[0], now).effects if nodes else ():
        if isinstance(effect, Bind):
            broker.outcome(effect, "written", now)
            bound = replace(pod, node=effect.node, annotations=effect.annotations, version=pod.version + 1)
            broker.observe([bound], now)
            return effect.grant
    return None


def pod_json(number: int, asks: dict[str, str], annotations: dict[str, str] | None = None) -> dict[str, object]:
    """A pod as kube-scheduler sends it, with the fields that every pod has."""
    return {
        "metadata": {
            "name": f"train-{number}",
            "namespace": "default",
            "uid": f"00000000-0000-4000-8000-{number:012d}",
            "resourceVersion": str(1000 + number),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "train", "team": "a"},
            "annotations": annotations or {},
        },
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/train:1",
                    "resources": {"limits": {**asks, "cpu": "4", "memory": "16Gi"}},
                    "terminationMessagePath": "/dev/termination-log",
                    "imagePullPolicy": "IfNotPresent",
                }
            ],
            "schedulerName": "linkwise",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }


def request(pod: dict[str, object], names: list[str]) -> bytes:
    """A filter request; the names are shuffled, as those of kube-scheduler are."""
    shuffled = random.Random(len(names)).sample(names, len(names))
    return msgspec.json.encode({"Pod": pod, "Nodes": None, "NodeNames": shuffled})


class _Args(msgspec.Struct, rename="pascal"):
    pod: PodObject
    node_names: list[str]


_DECODER = msgspec.json.Decoder(_Args)


def decode_all(body: bytes) -> None:
    """Decode a filter request with all its names, which is the floor of a service that decodes its requests."""
    _DECODER.decode(body)


def _bound(node: str, number: int, asks: dict[str, str], devices: list[str], share: int = 0) -> PodView:
    uid = f"10000000-0000-4000-8000-{number:012d}"
    offer = Offer(node, (Part("main", tuple(devices), share),))
    grant = Grant(uid, "memory-share" if share else "bandwidth", offer, mode="share" if share else "whole")
    return PodView(
        "default",
        f"old-{number}",
        uid,
        (ContainerView("main", limits=asks),),
        annotations={GRANT: grant_text(grant)},
        node=node,
        phase="Running",
        version=1,
    )


def _shared_node(machine: MachineProfile, name: str, memory: int) -> Iterator[WatchEvent]:
    """A node whose memory is counted in a unit other than GiB."""
    yield from fleet_node(replace(machine, memory=memory * 1024), name)
