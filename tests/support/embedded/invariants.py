"""Invariants of an embedded cluster, checked on API objects.

Only one check reads the service too: its state must agree with the API objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from support.e2e.invariants import MEMORY, WHOLE, claims, held, records_are_whole
from support.properties.broker_invariants import must

if TYPE_CHECKING:
    from collections.abc import Collection

    from linkwise.embedded.storage.collection import Raw, Stored
    from linkwise.embedded.store import Store
    from support.e2e.invariants import Claim, Parts
    from support.embedded.cluster import ClusterUnderTest

__all__ = [
    "all_is_well",
    "every_pod_runs_or_has_a_reason",
    "is_at_rest",
    "no_pod_waits_in_vain",
    "nothing_is_sold_twice",
    "the_ledger_is_true",
]

_INVENTORIES: Final = "deviceinventories.linkwise.dev"


async def all_is_well(cluster: ClusterUnderTest) -> None:
    """No device twice, no share over its card, every record whole, and the service believes just that."""
    nothing_is_sold_twice(cluster.store)
    records_are_whole(cluster.pods(), (found.read() for found in cluster.store.list(_INVENTORIES).items))
    await the_ledger_is_true(cluster)


def nothing_is_sold_twice(store: Store, corrected: Collection[str] = ()) -> None:
    """A whole device has one pod, and the parts of a shared one are no more than it has.

    Args:
        store: of the cluster.
        corrected: pods to which a kubelet gave other devices than those on record, as namespace/name; they are left out. Where
            two swap their devices, or one has that of a pod that starts later, the records agree again when the last one is
            corrected.
    """
    pods = [found.read() for found in store.list("pods").items]
    cards, wrong = _cards(store), []
    by_device: dict[tuple[str, str], list[Claim]] = {}
    for claim in claims(pods):
        if claim.pod not in corrected:
            by_device.setdefault((claim.node, claim.device), []).append(claim)
    for (node, device), found in by_device.items():
        if node not in cards:
            continue  # the node is gone, and its pods will be
        wrong += [f"{node} has no {device}: {found}"] if device not in cards[node] else []
        if any(not (claim.share or claim.core) for claim in found):
            wrong += [f"{device} of {node} has several pods: {found}"] if len(found) > 1 else []
            continue
        room = 100 if found[0].mode == "percent" else cards[node].get(device, 0)
        total, core = sum(claim.share for claim in found), sum(claim.core for claim in found)
        wrong += [f"{device} of {node} has {room} and gave {total}, and {core} %: {found}"] * (
            total > room or core > 100
        )
    must(not wrong, "\n".join(wrong))


def is_at_rest(found: Stored) -> bool:
    """Whether nothing is about to happen to a pod by itself: it runs or has ended, or waits for something else."""
    if b'"deletionTimestamp"' in found.data:
        return False
    return not found.fields.get("spec.nodeName") or found.fields.get("status.phase") != "Pending"


def every_pod_runs_or_has_a_reason(store: Store) -> None:
    """Each pod runs, or has ended, or waits with a sentence in its status."""
    wrong = []
    for found in store.list("pods").items:
        pod = found.read()
        conditions = {one["type"]: one for one in pod["status"].get("conditions") or ()}
        message = conditions.get("PodScheduled", {}).get("message", "")
        if pod["status"]["phase"] == "Pending" and not message:
            wrong.append(f"{found.namespace}/{found.name} on {pod['spec'].get('nodeName') or 'no node'}: {conditions}")
    must(not wrong, "\n".join(wrong))


async def no_pod_waits_in_vain(cluster: ClusterUnderTest, seconds: float = 60.0) -> None:
    """No pod by itself waits though a node would take it now, as soon as all news have arrived."""

    def forgotten() -> list[str]:
        broker, now = cluster.service.broker, cluster.service.now()
        waiting = [pod for pod in broker.pods.values() if not (pod.node or pod.deleting)]
        alone = [pod for pod in waiting if not broker.request(pod).group]
        return [f"{pod.name} could go to {runs[0][0]}" for pod in alone if (runs := broker.dry_run(pod, now).ranking)]

    try:
        await cluster.until(lambda: not forgotten(), "no pod waits in vain", seconds)
    except AssertionError as error:
        raise AssertionError(f"{error}: {forgotten()}") from error


async def the_ledger_is_true(cluster: ClusterUnderTest, seconds: float = 60.0) -> None:
    """What the service holds for whom is what the API objects say, no more and no less, as soon as it has seen them."""
    await cluster.until(lambda: not _differences(cluster), "the ledger is what the objects say", seconds)


def _differences(cluster: ClusterUnderTest) -> list[str]:
    entries = {str(entry.key): entry for entry in cluster.service.broker.entries()}
    believed: dict[str, tuple[str, Parts]] = {
        uid: (
            entry.node,
            {part.container: (part.devices, part.share, part.core) for part in entry.grant.offer.parts},
        )
        for uid, entry in entries.items()
    }
    written = held(cluster.pods())
    return [
        f"pod {uid} ({entries[uid].state if uid in entries else None}): the service has {believed.get(uid)}, "
        f"the pod says {written.get(uid)}"
        for uid in believed.keys() | written.keys()
        if believed.get(uid) != written.get(uid)
    ]


def _cards(store: Store) -> dict[str, dict[str, int]]:
    """By node, the memory of its devices by id, those included that have died with pods on them."""
    found: dict[str, dict[str, int]] = {}
    for stored in store.list("nodes").items:
        amounts: Raw = stored.read()["status"]["capacity"]
        count = int(amounts.get("aliyun.com/gpu-count", 0)) or max(int(amounts.get(name, 0)) for name in WHOLE)
        each = int(amounts.get(MEMORY, 0)) // max(1, count)
        found[stored.name] = {f"#{index}": each for index in range(count)}
    for stored in store.list(_INVENTORIES).items:
        found[stored.name] = {one["uuid"]: int(one["memory"]) for one in stored.read()["spec"]["devices"]}
    for stored in store.list("devices.scheduling.koordinator.sh").items:
        found.setdefault(stored.name, {}).update({one["id"]: 100 for one in stored.read()["spec"]["devices"]})
    return found
