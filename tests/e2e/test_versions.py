"""Upgrade and rollback of the service: grants of an earlier version stay, whichever version runs."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from support.e2e.invariants import all_is_well, held
from support.e2e.node_objects import gpushare, machine
from support.e2e.old_version import old_serve, old_source
from support.e2e.pod_objects import pod
from support.e2e.processes import wait_for
from support.e2e.service import Placing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.e2e.api_client import Raw
    from support.e2e.scheduler import Serve

GPU: Final = "nvidia.com/gpu"
MEMORY: Final = "aliyun.com/gpu-mem"
GRANT: Final = "linkwise.dev/grant"
GROUP: Final = "gputopology.scheduling.koordinator.sh"
Held = dict[str, tuple[str, dict[str, tuple[tuple[str, ...], int, int]]]]
"""by UID, node and parts of the pods that hold something"""
NEWER: Final = ("why", "indices")
"""fields that the first version of the record did not have"""


@pytest.fixture
def old(placing: Placing, root: Path, tmp_path: Path) -> Iterator[Serve]:
    """A service of the earlier version, on the port that kube-scheduler calls; to be started."""
    made = old_serve(placing.cluster, old_source(root, tmp_path), "serve-old", placing.serve.port)
    yield made
    made.stop()
    if not placing.serve.process.alive:
        placing.serve.start()


def nodes(placing: Placing) -> None:
    placing.nodes(*machine("a", "nvlink"), *machine("b", "nvlink"), *machine("c", "pcie"), *gpushare("s"))


def work(placing: Placing, namespace: str, word: str) -> None:
    """Whole devices, shares and a group, all bound."""
    names = [f"{word}-{number}" for number in range(4)]
    for number, name in enumerate(names):
        placing.create(namespace, name, {GPU: 1} if number % 2 else {MEMORY: 3})
    labels = {f"{GROUP}/name": word, f"{GROUP}/replica": "2"}
    members = [f"{word}-ring-{number}" for number in range(2)]
    for name in members:
        placing.create(namespace, name, {GPU: 2}, labels=labels)
    for name in (*names, *members):
        placing.placed(namespace, name)


def kept(placing: Placing, before: Held) -> Held:
    """All is well, and every grant from before is as it was: all grants now."""
    now = dict(held(all_is_well(placing)))
    assert {uid: now.get(uid) for uid in before} == before
    return now


@pytest.mark.rule("004.record", level="R")
def test_an_upgrade_and_a_rollback_keep_every_grant(placing: Placing, old: Serve) -> None:
    nodes(placing)
    namespace, new = placing.namespace(), placing.serve
    new.stop()
    grants: Held = {}
    for number, serve in enumerate((old, new, old, new)):
        serve.start()
        running = Placing(placing.cluster, serve)
        grants = kept(running, grants)
        work(running, namespace, f"v{number}") if number < 3 else None
        grants = kept(running, grants)
        serve.stop()
    new.start()
    assert len(grants) == 3 * 6


@pytest.mark.rule("004.record", level="R")
def test_a_new_version_that_is_killed_among_binds_leaves_nothing_that_the_old_one_misreads(
    placing: Placing, old: Serve
) -> None:
    nodes(placing)
    namespace, chance = placing.namespace(), Random(65)
    asks = [{GPU: 1} if chance.random() < 0.5 else {MEMORY: chance.randint(1, 5)} for _ in range(16)]
    placing.cluster.create(pod(namespace, f"p{number}", limits) for number, limits in enumerate(asks))
    wait_for(lambda: len(bound(placing, namespace)) >= 3, 10, "some pods are bound")
    placing.serve.kill()
    before = dict(held(bound(placing, namespace)))
    old.start()
    running = Placing(placing.cluster, old)
    wait_for(lambda: len(bound(running, namespace)) == len(asks), 30, "the old version binds the others")
    kept(running, before)


def test_records_of_the_first_form_count_beside_those_of_today(placing: Placing) -> None:
    nodes(placing)
    namespace = placing.namespace()
    work(placing, namespace, "first")
    for found in bound(placing, namespace):
        record = without_newer(json.loads(found["metadata"]["annotations"][GRANT]))
        path = f"/api/v1/namespaces/{namespace}/pods/{found['metadata']['name']}"
        placing.cluster.api.patch(path, {"metadata": {"annotations": {GRANT: json.dumps(record)}}})
    before = dict(held(bound(placing, namespace)))
    placing.serve.restart()
    work(placing, namespace, "second")
    assert len(kept(placing, before)) == 2 * 6


def without_newer(record: Raw) -> Raw:
    """The record as the first version wrote it."""
    parts = {
        name: {key: value for key, value in part.items() if key not in NEWER}
        for name, part in record["containers"].items()
    }
    return {key: value for key, value in record.items() if key not in NEWER} | {"containers": parts}


def bound(placing: Placing, namespace: str) -> list[Raw]:
    pods = placing.cluster.api.list(f"/api/v1/namespaces/{namespace}/pods")
    return [found for found in pods if found["spec"].get("nodeName")]
