"""Planned devices on DRA nodes under a real Volcano, whose predicates allocate claims if that is enabled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from support.e2e.claim_nodes import GPU, claim_node
from support.e2e.claim_placing import ClaimPlacing
from support.e2e.volcano_objects import volcano_job

if TYPE_CHECKING:
    from linkwise.config.volcano import Mode
    from support.e2e.volcano_placing import VolcanoPlacing

ALLOCATES = {"predicate.DynamicResourceAllocationEnable": True}


@pytest.fixture(scope="module")
def volcano_mode() -> Mode:
    return "gated"


@pytest.fixture
def claims(volcano: VolcanoPlacing) -> ClaimPlacing:
    """An empty cluster whose Volcano allocates claims.

    Its action enqueue would compare what a Job requests with what is allocatable, where devices of claims do not count.
    """
    configuration = yaml.safe_load(volcano.volcano.configuration.read_text())
    configuration["actions"] = "allocate, backfill"
    for plugin in (plugin for tier in configuration["tiers"] for plugin in tier["plugins"]):
        if plugin["name"] == "predicates":
            plugin["arguments"] = {**plugin.get("arguments", {}), **ALLOCATES}
    volcano.volcano.run(yaml.safe_dump(configuration))
    return ClaimPlacing(volcano)


def test_the_pods_of_a_volcano_job_get_exactly_their_planned_devices(claims: ClaimPlacing) -> None:
    claims.nodes(*claim_node("a"), *claim_node("b"))
    namespace = claims.cluster.namespace()
    claims.cluster.create([volcano_job(namespace, "train", {GPU: 4}, 4)])
    found = claims.wait_all_bound(namespace, 4, 60)
    assert {len(claims.devices(one)) for one in found} == {4}
    claims.all_is_well([namespace])
