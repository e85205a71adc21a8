"""AcceleratorPolicies are read as far as they can be, and an invalid one says what is wrong with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from linkwise.dialects.linkwise.accelerator_policy import (
    GROUPS,
    USER,
    creator_annotations,
    labels_of,
    policy_of,
    subject_of,
)
from linkwise.model.access_policy import AcceleratorPolicy, NamespaceSelector, Requester, ShareLimit, Subject, Subjects
from linkwise.model.views import SelectorRequirement
from linkwise.testing.cluster import device_pod
from support.builders.access_objects import EVERYBODY, policy_document

JOB_CONTROLLER = "system:serviceaccount:kube-system:job-controller"


def read(**spec: Any) -> AcceleratorPolicy:  # noqa: ANN401 - JSON
    return policy_of("p", policy_document("p", **spec))[0]


@pytest.mark.rule("002.access")
def test_a_policy_has_subjects_permissions_and_sharing() -> None:
    subjects = {
        "users": ["alice"],
        "groups": ["research"],
        "serviceAccounts": [{"namespace": "ml", "name": "trainer"}],
        "namespaces": ["ml"],
        "namespaceSelector": {
            "matchLabels": {"team": "a"},
            "matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold"]}],
        },
    }
    policy = read(
        subjects=subjects,
        **{"except": {"users": ["root"]}},
        resources=["nvidia.com/*"],
        models=["*A100*"],
        maxDevices=8,
        sharing={"with": "namespace", "maxShare": "50%", "defaultShare": 4},
    )
    selector = NamespaceSelector({"team": "a"}, (SelectorRequirement("tier", "In", ("gold",)),))
    assert policy == AcceleratorPolicy(
        "p",
        Subjects(("alice",), ("research",), (("ml", "trainer"),), ("ml",), selector),
        Subjects(("root",)),
        ("nvidia.com/*",),
        ("*A100*",),
        8,
        "namespace",
        ShareLimit(50, percent=True),
        ShareLimit(4),
        generation=1,
    )


@pytest.mark.parametrize(
    "sharing",
    [
        {"defaultShare": "50%"},
        {"maxShare": "50%"},
        {"defaultShare": "50%", "maxShare": "50%"},
        {"defaultShare": 60, "maxShare": "50%"},
    ],
)
def test_a_default_share_may_be_the_largest_or_not_comparable_to_it(sharing: dict[str, object]) -> None:
    policy = read(subjects=EVERYBODY, sharing=sharing)
    assert policy.invalid == ""
    assert (policy.default_share is not None, policy.max_share is not None) == (
        "defaultShare" in sharing,
        "maxShare" in sharing,
    )


def test_an_empty_list_of_resources_permits_none_and_a_missing_one_all() -> None:
    assert read(resources=[]).resources == ()
    assert read(maxDevices=1).resources is None


def test_an_empty_selector_selects_everybody() -> None:
    assert read(subjects=EVERYBODY, maxDevices=1).subjects.selects_all


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"subjects": {}}, "selects no user"),
        ({"subjects": []}, "an object is expected"),
        ({"subjects": {"users": "alice"}}, "a list of texts is expected"),
        ({"subjects": {"users": [""]}}, "printable texts are expected"),
        ({"subjects": {"namespaces": ["a"], "serviceAccounts": [{"name": "x"}]}}, "namespace is missing"),
        ({"subjects": {"namespaces": ["a"], "serviceAccounts": 3}}, "a list is expected"),
        ({"subjects": {"namespaces": ["a"], "namespaceSelector": 3}}, "an object is expected"),
        ({"subjects": {"namespaceSelector": {"matchLabels": {"a": 3}}}}, "printable text is expected"),
        (
            {"subjects": {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}},
            "use In, NotIn",
        ),
        (
            {"subjects": {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}},
            "lists no values",
        ),
        ({"except": {"groups": [7]}}, "lists 7"),
        ({"resources": "nvidia.com/gpu"}, "a list of texts is expected"),
        ({"models": [None]}, "lists null"),
        ({"maxDevices": -1}, "a whole number of 0 or more"),
        ({"maxDevices": True}, "a whole number of 0 or more"),
        ({"maxDevices": "8"}, "a whole number of 0 or more"),
        ({"sharing": "never"}, "an object is expected"),
        ({"sharing": {"with": "friends"}}, "use never, namespace, user, namespace-and-user, any"),
        ({"sharing": {"maxShare": "101%"}}, "a percentage such as 50%"),
        ({"sharing": {"maxShare": 0}}, "a percentage such as 50%"),
        ({"sharing": {"defaultShare": "60%", "maxShare": "50%"}}, "exceeds maxShare"),
    ],
)
def test_garbage_in_a_field_makes_a_policy_invalid_and_is_named(spec: dict[str, Any], words: str) -> None:
    policy, problems = policy_of("p", policy_document("p", **spec))
    assert words in policy.invalid
    assert words in " ".join(problem.sentence for problem in problems)


def test_half_a_selector_selects_no_one_because_it_would_select_too_many() -> None:
    expressions = [{"key": "team", "operator": "In", "values": ["a"]}, {"key": "x", "operator": "Near"}]
    policy = read(subjects={"namespaces": ["a"], "namespaceSelector": {"matchExpressions": expressions}})
    assert policy.subjects == Subjects(namespaces=("a",))


def test_an_unknown_field_is_reported_and_the_rest_is_used() -> None:
    policy, problems = policy_of("p", policy_document("p", maxDevices=1, maxDevice=2))
    assert (policy.invalid, policy.max_devices) == ("", 1)
    assert "spec.maxDevice is not a known field" in problems[0].sentence


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(["subjects", "except", "resources", "models", "maxDevices", "sharing", "other"])


@given(st.dictionaries(FIELDS, JSON), JSON)
def test_whatever_a_policy_holds_it_is_read_without_an_error(spec: dict[str, Any], metadata: object) -> None:
    policy, problems = policy_of("p", {"metadata": metadata, "spec": spec})
    assert policy.name == "p"
    assert not policy.invalid or problems


@given(JSON)
def test_whatever_a_namespace_holds_its_labels_are_texts(metadata: object) -> None:
    assert all(isinstance(value, str) for value in labels_of({"metadata": metadata}).values())


def test_the_creator_is_the_requester_then_the_recorded_user() -> None:
    pod = replace(device_pod("a"), annotations={USER: "bob", GROUPS: "ops"}, service_account="trainer")
    assert subject_of(pod) == Subject("default", "bob", ("ops",), "trainer")
    asked = subject_of(pod, Requester("alice", ("research",)))
    assert asked == Subject("default", "alice", ("research",), "trainer")


def test_a_controller_is_never_the_user_and_leaves_the_one_that_its_template_has() -> None:
    pod = device_pod("a")
    assert subject_of(pod, Requester(JOB_CONTROLLER, ("system:authenticated",))).user == ""
    recorded = replace(pod, annotations={USER: "bob"})
    assert subject_of(recorded, Requester(JOB_CONTROLLER)).user == "bob"
    assert subject_of(replace(pod, annotations={USER: JOB_CONTROLLER})).user == ""
    deployer = "system:serviceaccount:team:deployer"
    assert subject_of(pod, Requester(deployer)).user == deployer


@given(st.lists(st.text("ab:- /", min_size=1)))
def test_recorded_groups_are_read_as_they_were_written(groups: list[str]) -> None:
    written = creator_annotations("bob", groups, groups)
    assert set(subject_of(replace(device_pod("a"), annotations=written)).groups) == set(groups)


def test_of_a_users_groups_only_those_that_policies_name_are_recorded() -> None:
    groups = ("b", "secret", "a")
    assert creator_annotations("alice", groups, {"a", "b", "c"}) == {USER: "alice", GROUPS: "a\nb"}
    assert creator_annotations("alice", groups, ()) == {USER: "alice"}
