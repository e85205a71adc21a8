"""Requirements: which devices meet them, and what is said of those that do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from linkwise.dialects.linkwise.require import read_require
from linkwise.dialects.nvidia import read_required
from linkwise.engine.reasons.catalog import code_of, refusal, refusal_of, short_refusal
from linkwise.engine.requirements import RULE, names_model, restricted, suitable, unmet_by
from linkwise.model.device import Device
from linkwise.model.node import Node
from linkwise.model.requirement import Requirement
from linkwise.model.verdict import Reason

pytestmark = pytest.mark.rule("002.versions")

GIB = 2**30
A100 = Device("a", 0, model="NVIDIA A100-SXM4-40GB", memory=40960, bytes=40960 * 2**20, facts=(("compute", "8.0"),))
H100 = Device("h", 1, model="NVIDIA H100 80GB HBM3", memory=81559, bytes=81559 * 2**20, facts=(("compute", "9.0"),))
NODE = Node("n", (A100, H100), unit="MiB", facts={"cuda": "12.2", "driver": "535.104.05", "vendor": "nvidia"})
ALIKE = replace(NODE, devices=(A100, replace(A100, id="b", index=1)))


def require(text: str) -> Requirement:
    return Requirement(read_require(text))


def met(text: str, node: Node = NODE) -> str:
    """The ids of the devices that meet a requirement; the short reason if none does."""
    found = suitable(node, require(text), 1)
    return short_refusal(found) if isinstance(found, Reason) else "".join(device.id for device in found.devices)


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ("cuda>=12.2", "ah"),
        ("cuda>12.1, cuda<13, cuda!=12.1, cuda<=12.2, cuda=12.2.0", "ah"),
        ("driver>=535.104", "ah"),
        ("vendor in (amd, NVIDIA)", "ah"),
        ("model=A100", "a"),
        ("model in (A100, H100)", "ah"),
        ("model not in (A100)", "h"),
        ('model="NVIDIA H100 80GB HBM3"', "h"),
        ("model=nvidia-h100-80gb-hbm3", "h"),
        ("memory>=40Gi", "ah"),
        ("memory>=79Gi", "h"),
        ("compute>=8.9", "h"),
        ("compute in (8.0, 8.6)", "a"),
        ("cuda>=12.3", "node(s) had CUDA below 12.3"),
        ("cuda>12.2", "node(s) had CUDA not above 12.2"),
        ("cuda<12.2", "node(s) had CUDA not below 12.2"),
        ("driver<=534", "node(s) had a driver above 534"),
        ("cuda=13", "node(s) had CUDA other than 13"),
        ("vendor!=nvidia", "node(s) had a vendor that is nvidia"),
        ("model in (V100, P100)", "node(s) had a device model other than V100 or P100"),
        ("memory>=80Gi", "node(s) had device memory below 80Gi"),
        ("rocm>=6", "node(s) had an unknown ROCm version"),
        ("rocm!=6", "node(s) had an unknown ROCm version"),
    ],
)
def test_a_requirement_leaves_the_devices_that_meet_it(text: str, devices: str) -> None:
    assert met(text) == devices


@pytest.mark.parametrize(
    ("pattern", "model", "named"),
    [
        ("A100", "NVIDIA A100-SXM4-40GB", True),
        ("A100", "A100-SXM4-40GB", True),
        ("A10", "NVIDIA A100-SXM4-40GB", False),
        ("A100", "NVIDIA RTX A1000", False),
        ("A100*", "NVIDIA RTX A1000", True),
        ("sxm4 40gb", "NVIDIA-A100-SXM4-40GB", True),
        ("*910B*", "Ascend910B3", True),
        ("910B", "Ascend910B3", False),
        ("Tesla*32GB", "Tesla V100-SXM2-32GB", True),
        ("(A", "NVIDIA A100", False),
    ],
)
def test_a_model_is_named_by_complete_words_of_it(pattern: str, model: str, *, named: bool) -> None:
    assert names_model(pattern, model) is named


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("cuda>=12.3", "cuda>=12.3 is required by linkwise.dev/require, but the node has CUDA version 12.2"),
        (
            "memory>=80Gi",
            "memory>=80Gi is required by linkwise.dev/require, but the node has device memory 40 GiB, 79.64 GiB",
        ),
        (
            "cann>=8",
            (
                "cann>=8 is required by linkwise.dev/require, but the CANN version of the node is unknown; run the Linkwise "
                "agent or the vendor's labeller on it"
            ),
        ),
    ],
)
def test_the_long_reason_has_what_is_required_and_what_was_found(text: str, sentence: str) -> None:
    reason = suitable(NODE, require(text), 1)
    assert isinstance(reason, Reason)
    assert refusal(reason) == sentence
    assert code_of(reason) == "NoTopology"


def test_a_fact_that_cant_be_read_as_a_version_is_unknown() -> None:
    assert met("cuda>=12", replace(NODE, facts={"cuda": "N/A"})) == "node(s) had an unknown CUDA version"


def test_memory_is_unknown_where_devices_are_only_counted_in_percent() -> None:
    counted = replace(NODE, devices=(Device("a", 0, memory=100),), unit="%")
    assert met("memory>=1Gi", counted) == "node(s) had an unknown device memory"


def test_one_alternative_of_an_image_is_enough_and_none_is_reported_as_the_first() -> None:
    requirement = Requirement(
        read_required("NVIDIA_REQUIRE_CUDA", "cuda>=12.4 brand=tesla,driver>=535,driver<536 driver>=550")
    )
    tesla = replace(NODE, facts={**NODE.facts, "brand": "tesla"})
    assert suitable(tesla, requirement, 2) is tesla
    reason = suitable(NODE, requirement, 1)
    assert isinstance(reason, Reason)
    assert short_refusal(reason) == "node(s) had CUDA below 12.4"
    assert refusal(reason) == (
        "cuda>=12.4 is required by NVIDIA_REQUIRE_CUDA, but the node has CUDA version 12.2, and none of its 2 alternatives holds"
    )


def test_a_node_with_too_few_such_devices_says_how_many_there_are() -> None:
    reason = suitable(NODE, require("model=H100"), 2)
    assert isinstance(reason, Reason)
    assert refusal(reason) == (
        "2 devices requested, but only 1 of 2 device meets the pod's requirements; the others fail model=H100"
    )


def test_a_node_whose_devices_are_chosen_elsewhere_needs_all_devices_to_meet_it() -> None:
    elsewhere = replace(NODE, steered=False)
    assert met("model=H100", elsewhere).startswith("node(s) had devices that don't meet the pod's requirements")
    assert met("model in (A100, H100)", elsewhere) == "ah"


def test_members_of_a_group_share_the_devices_that_meet_all_of_their_requirements() -> None:
    required = (require("model in (A100, H100)"), require("model=H100"), None)
    node = restricted(NODE, required)
    assert node is not None
    assert [device.id for device in node.free()] == ["h"]
    assert restricted(NODE, [require("model=V100")]) is None
    assert restricted(NODE, [require("model=V100"), None]) is NODE
    assert restricted(NODE, [require("model=A100"), require("model=H100")]) is None


def test_devices_are_judged_by_themselves_where_the_kubelet_chose_them() -> None:
    requirement = require("model=H100")
    assert unmet_by(requirement, NODE, [H100]) is None
    reason = unmet_by(requirement, NODE, [A100])
    assert reason
    assert reason.rule == RULE


def test_a_short_reason_leads_back_to_its_rule() -> None:
    assert refusal_of("node(s) had CUDA below 12.3") == (RULE, "unmet")
    assert refusal_of("node(s) had an unknown CUDA version") == (RULE, "unknown")
    assert refusal_of("node(s) had too few free devices") != (RULE, "unmet")
    assert refusal_of("linkwise.dev/require: column 1: unknown fact") is None
