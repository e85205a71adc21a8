"""Cluster whose Volcano calls a running service: submits Volcano Jobs, reads the devices of their pods.

kube-scheduler runs beside it and calls the same service.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from linkwise.config.webhook_manifests import IGNORE, OPT_OUT
from support.e2e.api_client import ApiError
from support.e2e.invariants import all_is_well
from support.e2e.pod_objects import pod
from support.e2e.processes import wait_for
from support.e2e.service import SECONDS, Placing, grant, printed, running_service
from support.e2e.volcano import installed_volcano
from support.e2e.volcano_objects import pod_names
from support.e2e.webhook import running_webhook
from support.volcano_seed import SEED_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from linkwise.config.volcano import Mode
    from support.e2e.api_client import Raw
    from support.e2e.cluster import Cluster
    from support.e2e.own_cluster import OwnCluster
    from support.e2e.scheduler import Serve
    from support.e2e.service import Granted
    from support.e2e.volcano import Volcano

__all__ = ["VolcanoPlacing", "chips", "running_volcano", "seed_conf"]

NPU: Final = "huawei.com/Ascend910"
GRANT: Final = "linkwise.dev/grant"


def seed_conf(
    cluster: Cluster,
    url: str,
    actions: str = "enqueue, allocate, backfill",
    mode: Mode = "extender",
    plugins: Sequence[str] = (),
) -> str:
    """Seed 003's file with these actions and further plugins, converted for a service by `linkwise config volcano`."""
    file = cluster.folder / "topology910.conf"
    further = "".join(f"  - name: {name}\n" for name in plugins)
    file.write_text(SEED_FILE.replace("enqueue, allocate, backfill", actions) + further)
    return printed("config", "volcano", "--from", str(file), "--mode", mode, "--url", url)


class VolcanoPlacing(Placing):
    """As `Placing`, with Volcano: `run(job)` submits a Volcano Job and returns what its pods were given."""

    def __init__(self, cluster: OwnCluster, serve: Serve, volcano: Volcano) -> None:
        super().__init__(cluster, serve)
        self.volcano = volcano

    def nodes(self, *things: Raw) -> None:
        """Make nodes and what tells of them, and wait until the service and Volcano have seen them all."""
        self.cluster.create(things)
        self.seen(things)
        self.volcano.pass_sessions()

    def submit(self, *jobs: Raw) -> None:
        """Make Volcano Jobs."""
        self.cluster.create(jobs)

    def run(self, job: Raw, seconds: float = SECONDS) -> list[Granted]:
        """Submit a Volcano Job: what each of its pods was given, in the order of their names."""
        self.submit(job)
        return self.ran(job, seconds)

    def ran(self, job: Raw, seconds: float = SECONDS) -> list[Granted]:
        """What each pod of a submitted Job was given, as soon as all have a node and their devices."""
        namespace = job["metadata"]["namespace"]
        return [self.placed(namespace, name, seconds) for name in pod_names(job)]

    def placed(self, namespace: str, name: str, seconds: float = SECONDS) -> Granted:
        """What a pod was given, as soon as it has a node and its devices are written on it."""

        def there() -> Raw | None:
            found = self.find(namespace, name)
            if found is None:
                raise AssertionError(self.phases(namespace))
            if not found["spec"].get("nodeName"):
                raise AssertionError(self.cluster.events(namespace, name) or "no events")
            return found if not _requests(found) or GRANT in found["metadata"].get("annotations", {}) else None

        return grant(wait_for(there, seconds, f"pod {namespace}/{name} gets a node and its devices"))

    def find(self, namespace: str, name: str) -> Raw | None:
        """A pod as it is now; None if there is none yet."""
        try:
            return self.cluster.pod(namespace, name)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def phases(self, namespace: str) -> dict[str, str]:
        """The phases of all PodGroups of a namespace, by name."""
        found = self.cluster.api.list(f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups")
        return {group["metadata"]["name"]: group.get("status", {}).get("phase", "") for group in found}

    def seen_groups(self, namespace: str, count: int) -> None:
        """Wait until Volcano's controllers have made so many PodGroups in a namespace."""
        wait_for(lambda: len(self.phases(namespace)) == count, SECONDS, f"{count} PodGroups of {namespace}")

    def wait_phase(self, namespace: str, phase: str, seconds: float = SECONDS) -> None:
        """Wait until the only PodGroup of a namespace has a phase."""

        def there() -> bool:
            found = self.phases(namespace)
            assert list(found.values()) == [phase], found
            return True

        wait_for(there, seconds, f"the PodGroup of {namespace} is {phase}")

    def end(self, job: Raw) -> None:
        """Remove a Volcano Job with its pods, and wait until the service has seen that."""
        namespace, name = job["metadata"]["namespace"], job["metadata"]["name"]
        self.cluster.api.delete(f"/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs/{name}")
        wanted = set(pod_names(job))

        def gone() -> bool:
            left = {
                pod["metadata"]["name"] for pod in self.snapshot()["pods"] if pod["metadata"]["namespace"] == namespace
            }
            return not left & wanted

        wait_for(gone, SECONDS, f"the service has seen the end of {name}")

    def idle(self, free: Mapping[str, set[int]], unhealthy: Mapping[str, set[int]] | None = None) -> str:
        """Use all chips of these nodes but the free and the faulty ones; a new namespace for Jobs."""
        holders, bad = self.namespace(), unhealthy or {}
        # The webhook would refuse pods that say themselves which chips they have.
        self.cluster.api.patch(f"/api/v1/namespaces/{holders}", {"metadata": {"labels": {OPT_OUT: IGNORE}}})
        used = [(node, chip) for node, left in free.items() for chip in set(range(8)) - left - bad.get(node, set())]
        self.cluster.create([_holder(holders, node, chip) for node, chip in used])
        self.counted(len(used))
        self.volcano.pass_sessions()
        return self.namespace()

    def settled(self) -> list[Raw]:
        """All pods, when every bound one has its record and no invariant is violated."""

        def recorded() -> bool:
            pods = [pod for pod in self.cluster.api.list("/api/v1/pods") if pod["spec"].get("nodeName")]
            left = [pod["metadata"]["name"] for pod in pods if _requests(pod) and not _devices(pod)]
            assert not left, f"without devices: {left}"
            return True

        wait_for(recorded, SECONDS, "every bound pod has its devices")
        return all_is_well(self)


def chips(granted: Granted) -> tuple[int, ...]:
    """The numbers of the chips in Huawei's annotation."""
    text = granted.annotations.get(NPU, "")
    return tuple(int(chip.removeprefix("Ascend910-")) for chip in text.split(",") if chip)


@contextmanager
def running_volcano(
    cluster: OwnCluster,
    programs: Path,
    mode: Mode = "extender",
    configuration: Mapping[str, Mapping[str, Any]] | None = None,
) -> Iterator[tuple[Serve, Volcano]]:
    """A service that kube-scheduler and Volcano's scheduler call, the latter by seed 003's own file; gated with a webhook."""
    with installed_volcano(cluster, programs) as volcano, _service(cluster, mode, configuration) as serve:
        volcano.run(seed_conf(cluster, serve.url, mode=mode))
        yield serve, volcano


@contextmanager
def _service(cluster: OwnCluster, mode: Mode, configuration: Mapping[str, Mapping[str, Any]] | None) -> Iterator[Serve]:
    if mode == "gated":
        with running_webhook(cluster, "volcano-gated", configuration=configuration) as webhook:
            yield webhook.serve
    else:
        with running_service(cluster, "volcano", configuration=configuration or None) as serve:
            yield serve


def _requests(pod: Raw) -> bool:
    amounts = [container.get("resources", {}).get("limits", {}) for container in pod["spec"]["containers"]]
    return any("/" in resource for amount in amounts for resource in amount)


def _devices(pod: Raw) -> bool:
    return bool((pod["metadata"].get("annotations") or {}).get(GRANT))


def _holder(namespace: str, node: str, chip: int) -> Raw:
    holds = {NPU: f"Ascend910-{chip}", "predicate-time": str(chip + 1)}
    return pod(namespace, f"{node}-{chip}", {NPU: 1}, nodeName=node, annotations=holds)
