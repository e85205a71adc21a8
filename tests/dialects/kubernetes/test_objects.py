from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from linkwise.dialects.kubernetes.objects import topology_alignment
from linkwise.model.node import NumaAlignment


def topology(policy: str | None = "single-numa-node", scope: str = "pod", **zones: tuple[str, str]) -> dict[str, Any]:
    """An object as Node Feature Discovery writes it; zones have allocatable and available CPUs."""
    attributes = [{"name": "topologyManagerPolicy", "value": policy}, {"name": "topologyManagerScope", "value": scope}]
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "a"},
        "attributes": attributes if policy else [],
        "zones": [
            {
                "name": name.replace("_", "-"),
                "type": "Node",
                "costs": [{"name": "node-0", "value": 10}],
                "resources": [
                    {"name": "cpu", "capacity": "64", "allocatable": allocatable, "available": available},
                    {"name": "nvidia.com/gpu", "capacity": "4", "allocatable": "4", "available": "4"},
                ],
            }
            for name, (allocatable, available) in zones.items()
        ],
    }


@pytest.mark.rule("002.affinity")
def test_policy_scope_and_cpus_are_read() -> None:
    document = topology(node_0=("31", "7500m"), node_1=("32", "32"))
    expected = NumaAlignment("single-numa-node", "pod", ((0, 7), (1, 32)), ((0, 31), (1, 32)))
    assert topology_alignment(document, "a") == (expected, ())


@pytest.mark.parametrize(
    ("name", "policy", "scope"),
    [
        ("SingleNUMANodeContainerLevel", "single-numa-node", "container"),
        ("RestrictedPodLevel", "restricted", "pod"),
        ("BestEffort", "best-effort", "container"),
        ("None", "none", "container"),
    ],
)
def test_the_names_of_v1alpha1_are_read_too(name: str, policy: str, scope: str) -> None:
    document = topology(None) | {"topologyPolicies": [name]}
    alignment, _ = topology_alignment(document, "a")
    assert alignment is not None
    assert (alignment.policy, alignment.scope) == (policy, scope)


def test_an_object_without_a_policy_says_nothing() -> None:
    assert topology_alignment(topology(None, node_0=("4", "4")), "a") == (None, ())


def test_invalid_values_are_problems() -> None:
    alignment, problems = topology_alignment(topology("strict", node_0=("many", "4")), "a")
    assert alignment is None
    text = "\n".join(map(str, problems))
    assert "topologyManagerPolicy is 'strict'" in text
    assert "allocatable is 'many'" in text


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["attributes", "zones", "name", "value", "type", "resources", "available", "allocatable"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_garbage_is_read_without_an_exception(raw: object) -> None:
    topology_alignment(raw, "a")
    topology_alignment({"zones": raw, "attributes": raw, "topologyPolicies": raw}, "a")
