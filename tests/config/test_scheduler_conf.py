"""The configuration of Volcano's scheduler: what each version supports, and what each mode needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from linkwise.config.volcano import VolcanoFile, config_map_yaml, scheduler_conf
from linkwise.dialects.registry import managed_resources, native_resources
from linkwise.errors import InputError

if TYPE_CHECKING:
    from linkwise.config.volcano import Mode


def arguments(**wishes: Any) -> dict[str, Any]:  # noqa: ANN401 - any wish
    document = yaml.safe_load(scheduler_conf(VolcanoFile(**wishes)))
    last = document["tiers"][-1]["plugins"][-1]
    assert last["name"] == "extender"
    return {key.removeprefix("extender."): value for key, value in last["arguments"].items()}


def verbs(**wishes: Any) -> set[str]:  # noqa: ANN401 - any wish
    found = {key: value for key, value in arguments(**wishes).items() if key.endswith("Verb")}
    assert all(key == f"{verb}Verb" for key, verb in found.items())
    return set(found.values())


def test_the_extender_is_the_only_addition_to_volcanos_default() -> None:
    document = yaml.safe_load(scheduler_conf(VolcanoFile()))
    names = [[plugin["name"] for plugin in tier["plugins"]] for tier in document["tiers"]]
    assert document["actions"] == "enqueue, allocate, backfill"
    assert names == [
        ["priority", "gang", "conformance"],
        ["overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack", "extender"],
    ]


@pytest.mark.rule("003.config")
def test_managed_resources_are_a_list_of_every_resource_that_can_be_extended() -> None:
    found = arguments()["managedResources"]
    assert isinstance(found, list)
    assert sorted([*found, *native_resources()]) == sorted(
        name for known in managed_resources().values() for name in known
    )


def test_a_failed_call_never_counts_as_a_fitting_node() -> None:
    assert arguments()["ignorable"] is False
    assert arguments(mode="extender")["ignorable"] is False


def test_gated_mode_registers_what_a_pinned_pod_needs() -> None:
    assert verbs() == {"predicate", "prioritize", "jobEnqueueable", "allocateFunc", "deallocateFunc"}


def test_extender_mode_registers_preemption_too() -> None:
    assert verbs(mode="extender") - verbs() == {"preemptable", "reclaimable"}


@pytest.mark.parametrize("mode", ["gated", "extender"])
def test_the_error_cache_that_planned_pods_of_one_task_would_share_is_off(mode: Mode) -> None:
    document = yaml.safe_load(scheduler_conf(VolcanoFile(mode)))
    assert document["configurations"] == [{"name": "allocate", "arguments": {"predicateErrorCacheEnable": False}}]


def test_verbs_whose_failure_would_place_pods_without_linkwise_stay_unset() -> None:
    assert not {"onSessionOpen", "onSessionClose", "jobReady", "queueOverused"} & verbs(mode="extender")


@pytest.mark.parametrize("version", [(1, 6), (1, 7), (1, 9), (1, 12)])
def test_versions_before_1_13_get_no_allocate_verbs_and_no_managed_resources(version: tuple[int, int]) -> None:
    found = arguments(mode="extender", version=version)
    assert "managedResources" not in found
    assert not {key for key in found if "llocate" in key}


@pytest.mark.parametrize("version", [(1, 13), (1, 14), (1, 16), (2, 0)])
def test_later_versions_get_them(version: tuple[int, int]) -> None:
    assert {"managedResources", "allocateFuncVerb", "deallocateFuncVerb"} <= set(arguments(version=version))


def test_gated_mode_is_refused_for_versions_that_do_not_skip_gated_pods() -> None:
    with pytest.raises(InputError, match=r"gated mode needs Volcano 1\.13 or later.* got 1\.12; use --mode extender"):
        VolcanoFile(version=(1, 12))


def test_versions_without_a_supported_extender_are_refused() -> None:
    with pytest.raises(InputError, match=r"1\.5 has no extender plugin"):
        VolcanoFile("extender", version=(1, 5))


@pytest.mark.parametrize("url", ["http://10.1.2.3:39999", "http://10.1.2.3:39999/", "http://10.1.2.3:39999/volcano/"])
def test_the_routes_for_volcano_are_below_the_url(url: str) -> None:
    assert arguments(url=url)["urlPrefix"] == "http://10.1.2.3:39999/volcano"


def test_a_config_map_contains_the_same_text() -> None:
    wanted = VolcanoFile(name="other", namespace="batch")
    conf = scheduler_conf(wanted)
    found = yaml.safe_load(config_map_yaml(conf, wanted))
    assert found["metadata"] == {"name": "other", "namespace": "batch"}
    assert found["data"] == {"volcano-scheduler.conf": conf}
