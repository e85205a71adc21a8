"""Chaos test of an embedded cluster and its service: random events, reproducible by seed.

Pods of all systems come and go, alone and in groups; the API server injects every fault; devices and nodes fail and
recover; the service is killed, and its clock jumps. No device may be allocated twice at any time, and in the end every pod
runs or has the reason why it does not.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from linkwise.embedded.api_errors import ApiError
from linkwise.embedded.apiserver.faults import Fault
from support.embedded.invariants import no_pod_waits_in_vain, nothing_is_sold_twice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from support.embedded.cluster import ClusterUnderTest

__all__ = ["CROWDED", "FAULTS", "FLEET", "Chaos"]

FLEET: Final = {
    "dgx1-v100": 2,
    "hgx-h100": 1,
    "dgx1-v100-measured/percent": 1,
    "p40-share": 2,
    "atlas-800": 1,
}
CROWDED: Final = {"dgx1-v100": 1, "dgx1-v100-measured/percent": 1, "p40-share": 1, "atlas-800": 1}
"""where many have to wait"""
WEIGHTS: Final = {
    "create": 40,
    "group": 6,
    "workload": 3,
    "delete": 22,
    "sweep": 6,
    "fault": 10,
    "cut": 2,
    "device": 4,
    "node": 2,
    "restart": 1,
    "kill": 1,
    "jump": 1,
    "calm": 4,
}
ASKS: Final[tuple[tuple[str, tuple[int, ...]], ...]] = (
    ("nvidia.com/gpu", (1, 1, 2, 2, 4, 8)),
    ("koordinator.sh/gpu", (20, 50, 100, 200, 400)),
    ("aliyun.com/gpu-mem", (2, 4, 8, 16)),
    ("huawei.com/Ascend910", (1, 2, 4, 8)),
    ("cpu", (1, 4)),
)
FAULTS: Final = (
    Fault("reset", on="POST", path="/binding$", landed=True),
    Fault("reset", on="POST", path="/binding$", times=2),
    Fault("answer", on="POST", path="/binding$", code=409, times=5),
    Fault("answer", on="POST", path="/binding$", code=500, landed=True, times=2),
    Fault("answer", on="WRITE", code=503, times=5),
    Fault("answer", on="*", code=429, retry_after=1, times=3),
    Fault("delay", seconds=0.05, times=20),
    Fault("delay", on="POST", path="/binding$", seconds=0.3, times=4),
    Fault("reset", on="*", times=5),
    Fault("drop", on="WATCH", times=3),
    Fault("repeat", on="WATCH", times=10),
    Fault("cut", on="WATCH", times=2),
    Fault("expire", on="WATCH", times=2),
)
MOST: Final = 100
"""pods at one time; more are deleted before others are made"""
GROUP: Final = "gputopology.scheduling.koordinator.sh"
GANG: Final = "gang.scheduling.koordinator.sh"


class Chaos:
    """What happens to one cluster."""

    def __init__(
        self, cluster: ClusterUnderTest, seed: int, most: int = MOST, faults: Sequence[Fault] = FAULTS
    ) -> None:
        self.cluster, self.most, self.faults = cluster, most, faults
        self.made = 0
        """pods so far"""
        self.happened: Counter[str] = Counter()
        self._chance = random.Random(seed)
        self._dead: set[tuple[str, int]] = set()
        self._silent: set[str] = set()

    async def run(self, pods: int) -> None:
        """Let things happen until so many pods were made, then let all go well and look at what is left."""
        while self.made < pods:
            await self.step()
            nothing_is_sold_twice(self.cluster.store, self._corrected())
        await self.calm_down()
        await self.cluster.settled(60.0)
        await no_pod_waits_in_vain(self.cluster)
        await self.cluster.settled(60.0)
        nothing_is_sold_twice(self.cluster.store)

    async def step(self) -> None:
        """Let one thing happen."""
        word = self._chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        if len(self.cluster.store.list("pods").items) > self.most:
            word = self._chance.choice(("delete", "sweep", "calm"))
        self.happened[word] += 1
        await getattr(self, f"_{word}")()

    async def calm_down(self) -> None:
        """End all faults, and repair what failed."""
        self.cluster.embedded.api.faults.clear()
        self.cluster.service.ahead = 0.0
        for node in sorted(self._silent):
            self.cluster.embedded.nodes.resume_heartbeat(node)
        for node, index in sorted(self._dead):
            self.cluster.embedded.nodes.repair_device(node, index)
        # What a watch never delivered is found only by the next list.
        await self.cluster.embedded.api.restart(lose_history=True)

    def _corrected(self) -> set[str]:
        """Pods whose record was corrected to the devices that a kubelet gave them."""
        events = [found.read() for found in self.cluster.store.list("events").items]
        about = [event["involvedObject"] for event in events if event.get("reason") == "RecordCorrected"]
        return {f"{one.get('namespace', 'default')}/{one['name']}" for one in about}

    async def _create(self) -> None:
        resource, sizes = self._chance.choice(ASKS)
        self._make(f"p{self.made}", {resource: self._chance.choice(sizes)})
        await self._breathe()

    async def _group(self) -> None:
        members, name, gang = self._chance.randint(2, 4), f"g{self.made}", self._chance.random() < 0.5
        said: dict[str, Any] = {"labels": {f"{GROUP}/name": name, f"{GROUP}/replica": str(members)}}
        if gang:
            said["annotations"] = {f"{GANG}/name": name, f"{GANG}/min-available": str(members)}
        size = self._chance.choice((1, 2, 4))
        for number in range(members):
            self._make(f"{name}-{number}", {"nvidia.com/gpu": size}, **said)
        await self._breathe()

    async def _workload(self) -> None:
        container = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
        count, name = self._chance.randint(1, 3), f"j{self.made}"
        spec = {"containers": [container], "restartPolicy": "Never"}
        job = {"completions": count, "parallelism": count, "template": {"spec": spec}}
        self.cluster.store.create("jobs.batch", {"metadata": {"name": name}, "spec": job}, "default")
        self.made += count
        await self._breathe()

    async def _delete(self) -> None:
        found = self.cluster.store.list("pods").items
        for stored in self._chance.sample(found, min(len(found), self._chance.randint(1, 4))):
            self._remove(stored.name)
        await self._breathe()

    async def _sweep(self) -> None:
        """Remove pods and jobs that are over."""
        for stored in self.cluster.store.list("pods").items:
            if stored.fields.get("status.phase") in {"Succeeded", "Failed"}:
                self._remove(stored.name)
        for stored in self.cluster.store.list("jobs.batch").items:
            if b'"completionTime"' in stored.data:
                self.cluster.store.delete("jobs.batch", stored.name, stored.namespace)

    async def _fault(self) -> None:
        self.cluster.embedded.api.faults.add(self._chance.choice(self.faults))

    async def _cut(self) -> None:
        self.cluster.embedded.api.abort_connections()

    async def _device(self) -> None:
        """One dies, or all that died work again."""
        if len(self._dead) > 3:
            for node, index in sorted(self._dead):
                self.cluster.embedded.nodes.repair_device(node, index)
            self._dead.clear()
            return
        found = self._chance.choice(self.cluster.store.list("deviceinventories.linkwise.dev").items)
        index = self._chance.randrange(len(found.read()["spec"]["devices"]))
        self.cluster.embedded.nodes.kill_device(found.name, index)
        self._dead.add((found.name, index))

    async def _node(self) -> None:
        if self._silent:
            self.cluster.embedded.nodes.resume_heartbeat(self._silent.pop())
            return
        node = self._chance.choice(self.cluster.store.list("nodes").items).name
        self.cluster.embedded.nodes.stop_heartbeat(node)
        self._silent.add(node)

    async def _restart(self) -> None:
        await self.cluster.embedded.api.restart(lose_history=self._chance.random() < 0.5, downtime=0.02)

    async def _kill(self) -> None:
        self.cluster.embedded.api.faults.clear()
        await self.cluster.service.kill()
        await self.cluster.service.start(self.cluster.embedded.api.kubeconfig())

    async def _jump(self) -> None:
        self.cluster.service.ahead = self._chance.choice((0.0, 3600.0, -3600.0, 30.0))

    async def _calm(self) -> None:
        await self.cluster.pause(0.1)

    async def _breathe(self) -> None:
        await self.cluster.pause(self._chance.choice((0.0, 0.002, 0.01)))

    def _make(self, name: str, limits: dict[str, int | str], **more: Any) -> None:  # noqa: ANN401 - as `pod` has them
        notes = dict(more.pop("annotations", {}))
        if self._chance.random() < 0.5:
            notes["sim.linkwise.dev/seconds"] = f"{self._chance.uniform(0.01, 0.5):.2f}"
            notes["sim.linkwise.dev/exit-code"] = self._chance.choice(("0", "0", "1"))
        if self._chance.random() < 0.3:
            notes["sim.linkwise.dev/stop-seconds"] = f"{self._chance.uniform(0.0, 0.2):.2f}"
        grace = self._chance.choice((0, 1, 30))
        self.cluster.create(
            name, limits, annotations=notes, restartPolicy="Never", terminationGracePeriodSeconds=grace, **more
        )
        self.made += 1

    def _remove(self, name: str) -> None:
        try:
            self.cluster.store.delete("pods", name, "default")
        except ApiError:
            return
