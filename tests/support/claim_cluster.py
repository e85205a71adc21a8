"""API objects of a small cluster whose devices ResourceClaims allocate, and a scheduler that allocates as kube-scheduler does."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from linkwise.broker.effects import WriteClaim
from linkwise.broker.watch_events import ClusterObject
from linkwise.dialects.kubernetes.claims.objects import slice_of
from linkwise.dialects.kubernetes.claims.requests import (
    CLAIM_REQUEST,
    POD_CLAIM,
    ClaimRequest,
    claim_name,
    request_text,
)
from linkwise.dialects.kubernetes.claims.selectors import selects
from linkwise.dialects.linkwise.group_plan import GATE
from linkwise.model.views import ContainerView, PodView
from linkwise.testing.cluster import FakeNode
from support.builders.dra_objects import DRIVER, GPU, device_class, resource_slice
from support.gated_cluster import GatedCluster

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkwise.broker.effects import Effect
    from linkwise.broker.watch_events import WatchEvent
    from linkwise.model.settings import PlacingSettings

__all__ = ["ClaimCluster", "claim_node", "claim_pod", "seen"]

Raw = dict[str, Any]


def claim_node(name: str, count: int = 4) -> FakeNode:
    """A node without a device plugin whose agent publishes links of the devices that `resource_slice` lists."""
    return FakeNode(name, registered=False, count=count, ids=tuple(f"GPU-gpu-{index}" for index in range(count)))


def claim_pod(name: str, count: int = 1, **containers: int) -> PodView:
    """A pod as the webhook leaves it: gated, with a claim in place of its resource."""
    devices = containers or {"main": count}
    request = ClaimRequest(claim_name(name), DRIVER, GPU, devices)
    return PodView(
        "default",
        name,
        f"uid-{name}",
        tuple(ContainerView(each) for each in devices),
        annotations={CLAIM_REQUEST: request_text(request)},
        claims=(POD_CLAIM,),
        gates=(GATE,),
        scheduler="linkwise-scheduler",
        version=1,
    )


def seen(document: Raw, *, gone: bool = False) -> ClusterObject:
    """The watch event of an object of resource.k8s.io."""
    about = document["metadata"]
    name = f"{about['namespace']}/{about['name']}" if "namespace" in about else about["name"]
    return ClusterObject(f"{document['kind']}.resource.k8s.io", name, None if gone else json.dumps(document).encode())


def _plan(document: Raw) -> object:
    return document.get("metadata", {}).get("annotations", {}).get("linkwise.dev/plan")


class ClaimCluster(GatedCluster):
    """Nodes with slices; claims as the API server has them, and pods bound when their claims can be allocated."""

    def __init__(self, *nodes: FakeNode, settings: PlacingSettings | None = None, **objects: Iterable[Raw]) -> None:
        slices = [resource_slice(node.name, node.count) for node in nodes]
        self.objects: Final[list[Raw]] = [device_class(), *objects.get("objects", slices)]
        self.claims: dict[str, Raw] = {}
        """by namespace and name"""
        self.to_write: dict[str, WriteClaim] = {}
        """by pod: claims to be written, in order"""
        self.foreign: Final[set[str]] = set()
        super().__init__(*nodes, settings=settings)

    def start(self) -> None:
        """Start a broker; claims that were not written are lost with the earlier one."""
        self.to_write = {}
        super().start()

    def shared_objects(self) -> Iterable[WatchEvent]:
        """Slices, classes and claims."""
        return [seen(document) for document in (*self.objects, *self.claims.values())]

    def take(self, effects: Iterable[Effect]) -> None:
        """Effects go out; of two about one pod the later counts."""
        effects = tuple(effects)
        for effect in effects:
            if isinstance(effect, WriteClaim):
                self.to_write.pop(effect.name, None)
                self.to_write[effect.name] = effect
        super().take(effects)

    def write_claims(self, count: int | None = None) -> list[str]:
        """Write the next claims, and observe them; returns the names of their pods."""
        names = list(self.to_write)[:count]
        for name in names:
            effect = self.to_write.pop(name)
            key = f"{effect.namespace}/{effect.claim}"
            known = self.claims.get(key)
            if known and (
                known.get("status", {}).get("allocation") or _plan(known) == _plan(json.loads(effect.text or "{}"))
            ):
                continue
            if known:
                self.see(seen(self.claims.pop(key), gone=True))
            if effect.text:
                self.put_claim(json.loads(effect.text))
        return names

    def put_claim(self, document: Raw) -> None:
        """Create or change a claim, and observe it."""
        about = document["metadata"]
        self.claims[f"{about['namespace']}/{about['name']}"] = document
        self.see(seen(document))

    def delete_claim(self, key: str) -> None:
        """Delete a claim."""
        self.see(seen(self.claims.pop(key), gone=True))

    def used(self) -> dict[tuple[str, str], str]:
        """The claim of each allocated device, by node and device."""
        used: dict[tuple[str, str], str] = {}
        for key, document in self.claims.items():
            for each in document.get("status", {}).get("allocation", {}).get("devices", {}).get("results", []):
                place = (each["pool"], each["device"])
                if place in used:
                    raise AssertionError(f"{place} is allocated to {used[place]} and {key}")
                used[place] = key
        return used

    def allocate(self, name: str) -> str:
        """Allocate the claim of an ungated pod on the first node where that is possible; returns the node, or nothing."""
        pod = self.pods[name]
        document = self.claims.get(f"default/{json.loads(pod.annotations[CLAIM_REQUEST])['claim']}")
        if pod.gates or pod.node or document is None:
            return ""
        if results := document.get("status", {}).get("allocation", {}).get("devices", {}).get("results"):
            return str(results[0]["pool"])
        for node in self.nodes:
            if self._allows(pod, node) and (results := self._results(document, node)):
                self.put_claim({**document, "status": {"allocation": {"devices": {"results": results}}}})
                return node
        return ""

    def schedule(self, *names: str) -> list[str]:
        """Allocate and bind ungated pods, as kube-scheduler does; returns the bound ones."""
        bound = []
        for name in names or list(self.pods):
            if node := self.allocate(name):
                self.pods[name] = replace(self.pods[name], node=node, version=self.pods[name].version + 1)
                self.see(self.pods[name])
                bound.append(name)
        return bound

    def settle(self, rounds: int = 20) -> None:
        """Write and schedule until nothing changes."""
        for _ in range(rounds):
            self.step()
            if not (self.write_claims() or self.write() or self.schedule()):
                return
        raise AssertionError("the cluster does not come to rest")

    def remove(self, name: str) -> None:
        """Delete a pod; its claim goes with it, as the garbage collector does."""
        pod = self.pods[name]
        self.delete(name)
        key = f"default/{json.loads(pod.annotations[CLAIM_REQUEST])['claim']}"
        if key in self.claims:
            self.delete_claim(key)

    def devices_of(self, name: str) -> list[str]:
        """The devices that are allocated to a pod."""
        key = f"default/{json.loads(self.pods[name].annotations[CLAIM_REQUEST])['claim']}"
        return sorted(device for (_, device), claim in self.used().items() if claim == key)

    @staticmethod
    def _allows(pod: PodView, node: str) -> bool:
        if pod.affinity is None:
            return True
        return any(all(node in each.values for each in term.fields) for term in pod.affinity)

    def _results(self, document: Raw, node: str) -> list[Mapping[str, str]]:
        """First fit, request by request; nothing if one of them does not fit."""
        taken = {device for pool, device in self.used() if pool == node}
        results: list[Mapping[str, str]] = []
        slices = (slice_of(each["metadata"]["name"], each) for each in self.objects if each["kind"] == "ResourceSlice")
        devices = [device for each in slices if each and each.node == node for device in each.devices]
        for request in document["spec"]["devices"]["requests"]:
            wanted = request["exactly"]
            texts = [each["cel"]["expression"] for each in wanted.get("selectors", [])]
            fitting = [
                device
                for device in devices
                if device.name not in taken
                and not device.tainted
                and all(selects(text, DRIVER, device) for text in texts)
            ][: wanted["count"]]
            if len(fitting) < wanted["count"]:
                return []
            taken |= {device.name for device in fitting}
            results += [
                {"request": request["name"], "driver": DRIVER, "pool": node, "device": device.name}
                for device in fitting
            ]
        return results
