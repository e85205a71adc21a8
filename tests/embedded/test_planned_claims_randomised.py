"""Pods with planned claims under random faults: nothing is allocated twice, nothing is left over, and no pod is forgotten."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Final

import pytest

from linkwise.embedded.apiserver.faults import Fault
from support.embedded.chaos import FAULTS, Chaos
from support.embedded.claims import CLAIMS, GPU, allocated, no_device_is_allocated_twice, swapped
from support.embedded.cluster import ClusterUnderTest, embedded

FLEET: Final = {"dgx1-v100/dra": 3, "hgx-h100/dra": 1, "atlas-800": 1}
DEVICES: Final = 8
"""of a node with a driver"""
CLAIM_FAULTS: Final = (
    Fault("reset", on="POST", path="/resourceclaims$", landed=True),
    Fault("answer", on="POST", path="/resourceclaims$", code=403, times=2),
    Fault("delay", on="POST", path="/resourceclaims$", seconds=0.5, times=3),
    Fault("delay", on="PATCH", path="/pods/", seconds=0.5, times=3),
    Fault("drop", on="WATCH", path="/resourceclaims", times=5),
    Fault("drop", on="WATCH", path="/resourceslices", times=2),
)


class ClaimChaos(Chaos):
    """Chaos in which the webhook has changed all pods with GPUs, except those of Jobs."""

    async def run(self, pods: int) -> None:
        """Let things happen until so many pods were made, then let all go well and look at what is left."""
        while self.made < pods:
            await self.step()
            no_device_is_allocated_twice(self.cluster.store)
        await self.calm_down()
        await self.cluster.until(lambda: not self.wrong(), "all is well in the end", 300.0)

    def wrong(self) -> list[str]:
        """Claims without pods, pods that do not start, and single pods that wait though a node has devices for them."""
        store, used = self.cluster.store, Counter[str]()
        for node, devices in allocated(store).values():
            used[node] += len(devices)
        most = max(DEVICES - used[node.name] for node in store.list("nodes").items if "-dra-" in node.name)
        uids = {pod.uid for pod in store.list("pods").items}
        owners = {claim.name: claim.read()["metadata"]["ownerReferences"] for claim in store.list(CLAIMS).items}
        found = [f"{name} has no pod" for name, (owner,) in owners.items() if owner["uid"] not in uids]
        for stored in store.list("pods").items:
            pod = stored.read()
            text = pod["metadata"]["annotations"].get("linkwise.dev/claim-request")
            if text and pod["spec"].get("nodeName"):
                found += [f"{stored.name} does not start"] if pod["status"]["phase"] == "Pending" else []
            elif text and stored.name.startswith("p") and json.loads(text)["containers"]["main"] <= most:
                found.append(f"{stored.name} waits")
        return found

    def _make(self, name: str, limits: dict[str, int | str], **more: Any) -> None:  # noqa: ANN401 - as `pod` has them
        if GPU in limits:
            words = swapped(self.made, int(limits[GPU]))
            annotations = {**more.pop("annotations", {}), **words.pop("annotations")}
            super()._make(name, {}, annotations=annotations, **words, **more)
        else:
            super()._make(name, limits, **more)


@pytest.mark.parametrize("seed", [1, 2])
@embedded(FLEET)
async def test_planned_claims_survive_faults_kills_and_dead_devices(cluster: ClusterUnderTest, seed: int) -> None:
    chaos = ClaimChaos(cluster, seed, faults=(*FAULTS, *CLAIM_FAULTS))
    await chaos.run(150)
    assert chaos.made >= 150
