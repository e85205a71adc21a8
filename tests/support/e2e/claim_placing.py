"""A cluster whose devices ResourceClaims allocate, with the webhook: what pods were planned, and what they got."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from support.e2e.claim_nodes import CLAIMS, GPU, SLICES, device_class
from support.e2e.processes import wait_for
from support.e2e.safety_plugin import UnsafeError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from support.e2e.api_client import Raw
    from support.e2e.service import Placing

__all__ = ["GATE", "GROUP", "ClaimPlacing"]

GATE: Final = "linkwise.dev/gang"
PLAN: Final = "linkwise.dev/plan"
POD_CLAIM: Final = "linkwise-gpu"
GROUP: Final = "gang.scheduling.koordinator.sh"


class ClaimPlacing:
    """Pods that request GPUs of DRA nodes; what they have is read from API objects alone."""

    def __init__(self, placing: Placing) -> None:
        self.placing, self.cluster, self.api = placing, placing.cluster, placing.cluster.api
        wait_for(lambda: not self._left(), 30, "the service has seen the end of the test before")
        self.cluster.create([device_class()])

    def nodes(self, *things: Raw) -> None:
        """Make nodes and slices, and wait until the service and kube-scheduler know them."""
        slices = [thing for thing in things if thing["kind"] == "ResourceSlice"]
        self.cluster.create(slices)
        wanted = {thing["metadata"]["name"] for thing in slices}
        self.placing.nodes(*(thing for thing in things if thing["kind"] != "ResourceSlice"))
        self.wait_known("ResourceSlice", wanted)
        self.wait_known("DeviceClass", {"gpu.nvidia.com"})

    def wait_known(self, kind: str, names: set[str]) -> None:
        """Wait until the service knows objects of a kind of resource.k8s.io."""
        known = f"{kind}.resource.k8s.io"
        wait_for(lambda: names <= self.placing.snapshot()["shared"].get(known, {}).keys(), 15, f"{kind}s are known")

    def gang(self, namespace: str, name: str, members: int, devices: int, **more: Any) -> list[str]:  # noqa: ANN401 - as `pod` has them
        """Create a gang; the names of its pods."""
        words = {f"{GROUP}/name": name, f"{GROUP}/min-available": str(members), **more.pop("annotations", {})}
        names = [f"{name}-{number}" for number in range(members)]
        for each in names:
            self.placing.create(namespace, each, {GPU: devices}, annotations=words, **more)
        return names

    def pods(self, namespace: str) -> list[Raw]:
        """The pods of a namespace."""
        return self.api.list(f"/api/v1/namespaces/{namespace}/pods")

    def wait_all_bound(self, namespace: str, count: int, seconds: float = 30.0) -> list[Raw]:
        """The pods of a namespace as soon as this number of them has a node."""

        def bound() -> list[Raw] | None:
            found = self.pods(namespace)
            waiting = [pod["metadata"]["name"] for pod in found if not pod["spec"].get("nodeName")]
            if len(found) - len(waiting) < count:
                raise AssertionError([(name, self.cluster.events(namespace, name)[-2:]) for name in waiting[:3]])
            return found

        return wait_for(bound, seconds, f"{count} pods are bound")

    def wait_ungated(self, namespace: str, *names: str) -> None:
        """Wait until the gates of pods are gone."""
        wait_for(lambda: not self.gated(namespace) & set(names), 20, f"{', '.join(names)} are ungated")

    def gated(self, namespace: str) -> set[str]:
        """The names of pods with our gate."""
        return {
            pod["metadata"]["name"]
            for pod in self.pods(namespace)
            if any(gate["name"] == GATE for gate in pod["spec"].get("schedulingGates", []))
        }

    def claim_name(self, pod: Raw) -> str:
        """The claim that the webhook named in a pod; empty if it has none."""
        named = [each for each in pod["spec"].get("resourceClaims", []) if each["name"] == POD_CLAIM]
        return str(named[0]["resourceClaimName"]) if named else ""

    def claim(self, namespace: str, name: str) -> Raw:
        """The claim of a pod, by the pod's name."""
        name = self.claim_name(self.cluster.pod(namespace, name))
        return dict(self.api.get(f"{self._claims(namespace)}/{name}"))

    def claims(self, namespace: str) -> list[Raw]:
        """All claims of a namespace."""
        return self.api.list(self._claims(namespace))

    def planned(self, claim: Raw) -> set[str]:
        """The ids of the devices that a claim names."""
        plan = json.loads(claim["metadata"]["annotations"][PLAN])
        return {device for devices in plan["devices"].values() for device in devices}

    def devices(self, pod: Raw) -> set[str]:
        """The UUIDs of the devices that a pod's claim has, as its status says."""
        claim = self.api.get(f"{self._claims(pod['metadata']['namespace'])}/{self.claim_name(pod)}")
        return {self._uuids()[place] for place in _allocated(claim)}

    def all_is_well(self, namespaces: Iterable[str]) -> None:
        """No device has two claims; each bound pod has the planned devices, on the node of the plan, and one claim alone."""
        uuids, wrong = self._uuids(), []
        claims = self.api.list(CLAIMS)
        taken = Counter(place for claim in claims for place in _allocated(claim))
        wrong += [f"{place} is in {count} claims" for place, count in taken.items() if count > 1]
        by_name = {(claim["metadata"]["namespace"], claim["metadata"]["name"]): claim for claim in claims}
        for pod in (pod for namespace in namespaces for pod in self.pods(namespace)):
            node, about = pod["spec"].get("nodeName"), pod["metadata"]
            if not node or not self.claim_name(pod):
                continue
            claim = by_name.get((about["namespace"], self.claim_name(pod)))
            if claim is None:
                wrong.append(f"{about['name']} is bound and has no claim")
                continue
            places = _allocated(claim)
            if {uuids[place] for place in places} != self.planned(claim) or {place[0] for place in places} != {node}:
                wrong.append(f"{about['name']} on {node} has {places}, planned was {claim['metadata']['annotations']}")
            if pod["status"].get("extendedResourceClaimStatus"):
                wrong.append(f"{about['name']} is served twice: {pod['status']['extendedResourceClaimStatus']}")
        if wrong:
            raise UnsafeError("\n".join(wrong))

    def _left(self) -> set[str]:
        return {kind for kind in self.placing.snapshot()["shared"] if kind.endswith(".resource.k8s.io")}

    def _claims(self, namespace: str) -> str:
        return CLAIMS.replace("/resourceclaims", f"/namespaces/{namespace}/resourceclaims")

    def _uuids(self) -> dict[tuple[str, str], str]:
        """UUIDs by node and device."""
        return {
            (each["spec"]["pool"]["name"], device["name"]): device["attributes"]["uuid"]["string"]
            for each in self.api.list(SLICES)
            for device in each["spec"]["devices"]
        }


def _allocated(claim: Raw) -> list[tuple[str, str]]:
    results = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
    return [(result["pool"], result["device"]) for result in results]
