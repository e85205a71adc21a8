"""What policies permit: all that apply must, and a pod shares a device only with pods that permit it and that it permits."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from linkwise.engine.access import AccessRules, conditions_of, conflicts, matches
from linkwise.engine.reasons.catalog import refusal, short_refusal
from linkwise.model.access_policy import (
    ALONE,
    COMMON,
    AcceleratorPolicy,
    NamespaceSelector,
    ShareLimit,
    ShareWith,
    Subject,
    Subjects,
)
from linkwise.model.ask import Ask, ContainerAsk
from linkwise.model.device import Device
from linkwise.model.node import Node, Use
from linkwise.model.views import SelectorRequirement
from linkwise.policies.memory_share import may_share
from linkwise.testing.nodes import share_ask

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.verdict import Reason

TEAM = Subjects(namespaces=("team",))
ALL = Subjects(selector=NamespaceSelector())
LABELS = {"team": {"tier": "gold"}, "other": {"tier": "tin"}}


def rules(*policies: AcceleratorPolicy) -> AccessRules:
    return AccessRules({policy.name: policy for policy in policies}, LABELS)


def gpus(count: int = 1, resource: str = "nvidia.com/gpu") -> Ask:
    return Ask(resource, (ContainerAsk("main", count),))


def refused(policy: AcceleratorPolicy, ask: Ask, subject: Subject | None = None) -> Reason | None:
    rule = rules(policy).rule(subject or Subject("team"))
    return rule.refusal(ask) if rule else None


@pytest.mark.rule("002.access")
@pytest.mark.parametrize(
    ("subjects", "subject", "who"),
    [
        (TEAM, Subject("team"), "namespace team"),
        (TEAM, Subject("other"), ""),
        (Subjects(users=("alice",)), Subject("team", "alice"), "user alice"),
        (Subjects(users=("alice",)), Subject("team"), ""),
        (Subjects(groups=("ops",)), Subject("team", "bob", ("dev", "ops")), "group ops"),
        (
            Subjects(service_accounts=(("team", "job"),)),
            Subject("team", service_account="job"),
            "service account team/job",
        ),
        (Subjects(service_accounts=(("other", "job"),)), Subject("team", service_account="job"), ""),
        (
            Subjects(service_accounts=(("ci", "robot"),)),
            Subject("team", "system:serviceaccount:ci:robot"),
            "service account ci/robot",
        ),
        (Subjects(selector=NamespaceSelector({"tier": "gold"})), Subject("team"), "namespace team"),
        (Subjects(selector=NamespaceSelector({"tier": "gold"})), Subject("other"), ""),
        (
            Subjects(selector=NamespaceSelector({}, (SelectorRequirement("tier", "NotIn", ("tin",)),))),
            Subject("new"),
            "namespace new",
        ),
        (Subjects(selector=NamespaceSelector({"kubernetes.io/metadata.name": "new"})), Subject("new"), "namespace new"),
        (ALL, Subject("anywhere"), "namespace anywhere"),
        (Subjects(), Subject("team", "alice"), ""),
    ],
)
def test_a_policy_selects_by_user_group_service_account_namespace_and_labels(
    subjects: Subjects, subject: Subject, who: str
) -> None:
    rule = rules(AcceleratorPolicy("p", subjects, max_devices=1)).rule(subject)
    assert (rule.terms[0].who if rule else "") == who


def test_a_policy_for_all_but_some_does_not_apply_to_these() -> None:
    only_alice = AcceleratorPolicy("p", ALL, Subjects(users=("alice",)), resources=())
    assert refused(only_alice, gpus(), Subject("team", "bob"))
    assert refused(only_alice, gpus(), Subject("team", "alice")) is None
    assert refused(only_alice, gpus(), Subject("team"))  # its creator is unknown


@pytest.mark.rule("002.access")
@pytest.mark.parametrize(
    ("policy", "ask", "sentence"),
    [
        (
            AcceleratorPolicy("p", TEAM, resources=("huawei.com/*",)),
            gpus(),
            "nvidia.com/gpu requested, but AcceleratorPolicy p permits namespace team only huawei.com/*",
        ),
        (
            AcceleratorPolicy("p", TEAM, resources=()),
            gpus(),
            "nvidia.com/gpu requested, but AcceleratorPolicy p permits namespace team no accelerators",
        ),
        (
            AcceleratorPolicy("p", TEAM, max_devices=4),
            gpus(8),
            "8 devices requested, but AcceleratorPolicy p permits namespace team at most 4 at one time",
        ),
        (
            AcceleratorPolicy("p", TEAM, max_share=ShareLimit(4)),
            share_ask(8),
            "8 of one device requested, but AcceleratorPolicy p permits namespace team at most 4",
        ),
        (
            AcceleratorPolicy("p", TEAM, invalid="spec.models is 7"),
            gpus(),
            (
                "AcceleratorPolicy p, which applies to namespace team, is invalid and permits nothing until it is corrected: "
                "spec.models is 7"
            ),
        ),
    ],
)
def test_a_refusal_says_who_asked_for_what_and_what_is_permitted(
    policy: AcceleratorPolicy, ask: Ask, sentence: str
) -> None:
    reason = refused(policy, ask)
    assert reason is not None
    assert refusal(reason) == sentence
    assert short_refusal(reason).startswith("node(s)")


def test_a_share_in_percent_of_a_device_is_judged_on_the_node() -> None:
    rule = rules(AcceleratorPolicy("p", TEAM, max_share=ShareLimit(50, percent=True))).rule(Subject("team"))
    assert rule is not None
    small, large = Device("a", 0, memory=16), Device("b", 1, memory=80)
    assert rule.node_refusal(share_ask(10), Node("n", (small,)))
    assert rule.node_refusal(share_ask(10), Node("n", (large,))) is None
    assert rule.node_refusal(share_ask(10), Node("n", (small, large)))  # it might get the small one
    assert rule.node_refusal(share_ask(30), Node("n", (small, large))) is None  # it can't
    percent = replace(share_ask(60), mode="percent")
    assert rule.refusal(percent)


def test_a_node_without_devices_of_a_permitted_model_is_left_out() -> None:
    rule = rules(AcceleratorPolicy("p", TEAM, models=("*a100*", "NVIDIA T4"))).rule(Subject("team"))
    assert rule is not None
    devices = {model: Device(model, 0, model=model) for model in ("NVIDIA A100-SXM4", "nvidia t4", "H100", "")}
    verdicts = {model: rule.node_refusal(gpus(), Node("n", (device,))) for model, device in devices.items()}
    assert [model for model, reason in verdicts.items() if reason] == ["H100", ""]
    mixed = Node("n", (devices["nvidia t4"], replace(devices["H100"], index=1)))
    assert rule.node_refusal(gpus(), mixed) is None  # only permitted devices are given
    assert rule.node_refusal(gpus(), replace(mixed, steered=False))
    assert verdicts["H100"] is not None
    assert refusal(verdicts["H100"]) == (
        "the node has a device of model H100, but AcceleratorPolicy p permits namespace team only *a100*, NVIDIA T4"
    )


@given(st.text("a*.[?/", max_size=6), st.text("a.[?/", max_size=6))
def test_only_the_star_is_special_in_a_pattern(pattern: str, text: str) -> None:
    plain = pattern.replace("[", "[[]").replace("?", "[?]")
    assert matches((pattern,), text) == fnmatchcase(text, plain)


# sharing

SCOPES: tuple[ShareWith, ...] = ("never", "namespace", "user", "namespace-and-user", "any")


def permits(scope: ShareWith | None, own: Subject, other: Subject) -> bool:
    """Whether a pod under this rule permits the other on its device, by the words of the rule alone."""
    same_namespace, same_user = own.namespace == other.namespace, bool(own.user) and own.user == other.user
    match scope:
        case "never":
            return False
        case "any":
            return True
        case "user":
            return same_user
        case "namespace-and-user":
            return same_namespace and same_user
    return same_namespace  # the default


SUBJECTS = [Subject(namespace, user) for namespace in ("a", "b") for user in ("", "ann", "bob")]


def domain(scope: ShareWith | None, subject: Subject) -> str:
    named = Subjects(namespaces=(subject.namespace,), users=(subject.user,) if subject.user else ())
    rule = rules(AcceleratorPolicy("p", named, share_with=scope, max_devices=9)).rule(subject)
    return (rule.domain if rule else "") or subject.namespace


@pytest.mark.rule("002.segregate")
def test_pods_that_share_permit_each_other_for_all_rules_namespaces_and_users() -> None:
    pods = list(product((None, *SCOPES), SUBJECTS))
    for (scope, own), (other_scope, other) in product(pods, pods):
        ask = replace(share_ask(1, namespace=own.namespace), sharing=domain(scope, own))
        shares = may_share(ask, Use(1, domains=frozenset({domain(other_scope, other)})))
        both = permits(scope, own, other) and permits(other_scope, other, own)
        assert both or not shares
        if (scope or "namespace") == (other_scope or "namespace"):
            assert shares == both  # equal rules share whenever both permit it
    everybody = Use(1, domains=frozenset({COMMON}))
    assert may_share(replace(share_ask(1), sharing=COMMON), everybody)
    assert not may_share(replace(share_ask(1), sharing=ALONE), Use(1, domains=frozenset({ALONE})))


@pytest.mark.rule("002.segregate")
def test_a_policy_that_says_nothing_about_sharing_leaves_the_sharing_domain_to_the_default() -> None:
    rule = rules(AcceleratorPolicy("p", TEAM, max_devices=1)).rule(Subject("team"))
    assert rule is not None
    assert rule.domain == ""  # not None: the domain is text, and empty for the default


@pytest.mark.rule("002.segregate")
@given(st.lists(st.sampled_from(SCOPES), min_size=1, max_size=3), st.sampled_from(SUBJECTS), st.sampled_from(SUBJECTS))
def test_with_several_rules_pods_share_only_if_every_rule_permits_it(
    scopes: list[ShareWith], own: Subject, other: Subject
) -> None:
    both = Subjects(namespaces=("a", "b"))
    found = rules(*(AcceleratorPolicy(f"p{n}", both, share_with=scope) for n, scope in enumerate(scopes)))
    one, two = found.rule(own), found.rule(other)
    assert one is not None
    assert two is not None
    shares = may_share(replace(share_ask(1), sharing=one.domain), Use(1, domains=frozenset({two.domain})))
    assert shares == all(permits(scope, own, other) and permits(scope, other, own) for scope in scopes)


# many policies

NAMES = st.lists(st.sampled_from(["team", "other"]), unique=True, max_size=2).map(tuple)
USERS = st.lists(st.sampled_from(["ann", "bob"]), unique=True, max_size=2).map(tuple)
POLICIES = st.builds(
    AcceleratorPolicy,
    name=st.just(""),
    subjects=st.builds(Subjects, users=USERS, namespaces=NAMES, selector=st.none() | st.just(NamespaceSelector())),
    exempt=st.builds(Subjects, users=USERS, namespaces=NAMES),
    resources=st.none() | st.lists(st.sampled_from(["nvidia.com/gpu", "huawei.com/*", "*"]), max_size=2).map(tuple),
    max_devices=st.none() | st.integers(0, 4),
)


def naive(policy: AcceleratorPolicy, subject: Subject, ask: Ask) -> bool:
    """Whether one policy permits a request, read word by word."""

    def chosen(subjects: Subjects) -> bool:
        named = subject.namespace in subjects.namespaces or (subject.user and subject.user in subjects.users)
        return bool(named or subjects.selector is not None)

    if not chosen(policy.subjects) or chosen(policy.exempt):
        return True
    asked = policy.resources is None or any(fnmatchcase(ask.resource, pattern) for pattern in policy.resources)
    return asked and (policy.max_devices is None or ask.devices <= policy.max_devices)


@pytest.mark.rule("002.access")
@given(
    st.lists(POLICIES, max_size=4),
    st.builds(Subject, st.sampled_from(["team", "other"]), st.sampled_from(["", "ann", "bob"])),
    st.builds(gpus, st.integers(1, 5), st.sampled_from(["nvidia.com/gpu", "huawei.com/Ascend910"])),
)
def test_a_request_is_permitted_if_every_policy_permits_it(
    policies: list[AcceleratorPolicy], subject: Subject, ask: Ask
) -> None:
    named = [replace(policy, name=f"p{number}") for number, policy in enumerate(policies)]
    rule = rules(*named).rule(subject)
    permitted = rule is None or rule.refusal(ask) is None
    assert permitted == all(naive(policy, subject, ask) for policy in named)


# conditions


def condition(
    kind: str, *policies: AcceleratorPolicy, models: tuple[str, ...] = (), used: Mapping[str, int] | None = None
) -> tuple[str, str, str]:
    named = {policy.name: policy for policy in policies}
    first = policies[0]
    found = conditions_of(first, conflicts(AccessRules(named, LABELS))[first.name], LABELS, models, used or {})
    (one,) = (each for each in found if each.type == kind)
    return one.status, one.reason, one.message


def test_namespaces_with_more_devices_than_the_limit_are_named() -> None:
    limited = AcceleratorPolicy("a", ALL, max_devices=2)
    status, reason, message = condition("Exceeded", limited, used={"team": 16, "other": 2})
    assert (status, reason) == ("True", "LimitExceeded")
    assert message.startswith("Namespaces with more than 2 devices: team (16). Pods that another scheduler bound,")
    assert condition("Exceeded", limited, used={"team": 2})[:2] == ("False", "WithinLimit")
    assert condition("Exceeded", AcceleratorPolicy("a", ALL), used={"team": 16})[0] == "False"


def test_two_policies_that_set_the_same_field_differently_for_a_subject_conflict() -> None:
    one, other = AcceleratorPolicy("a", TEAM, max_devices=2), AcceleratorPolicy("b", ALL, max_devices=4)
    status, reason, message = condition("Conflicting", one, other)
    assert (status, reason) == ("True", "PoliciesDisagree")
    assert (
        message == "The stricter holds. AcceleratorPolicy b also applies to namespace team, with different maxDevices."
    )
    assert condition("Conflicting", other, one)[2].endswith(
        "AcceleratorPolicy a also applies to namespace team, with different maxDevices."
    )


@pytest.mark.parametrize(
    "other",
    [
        AcceleratorPolicy("b", TEAM, max_devices=2),
        AcceleratorPolicy("b", TEAM, models=("x",)),
        AcceleratorPolicy("b", Subjects(namespaces=("other",)), max_devices=4),
        AcceleratorPolicy("b", ALL, TEAM, max_devices=4),
        AcceleratorPolicy("b", Subjects(users=("alice",)), max_devices=4),
    ],
)
def test_equal_values_other_fields_and_other_subjects_are_no_conflict(other: AcceleratorPolicy) -> None:
    assert condition("Conflicting", AcceleratorPolicy("a", TEAM, max_devices=2), other)[0] == "False"


def test_policies_of_hundreds_of_teams_are_compared_without_every_pair_and_namespace() -> None:
    """Compared by pairs, these took minutes, every five seconds."""
    teams = [NamespaceSelector({"team": f"t{number}"}) for number in range(300)]
    policies = {
        f"p{number}": AcceleratorPolicy(f"p{number}", Subjects(selector=team), max_devices=number)
        for number, team in enumerate(teams)
    }
    labels = {f"ns{number}": {"team": f"t{number % 300}"} for number in range(6000)}
    policies["all"] = AcceleratorPolicy("all", Subjects(namespaces=("ns7",)), max_devices=99)
    found = conflicts(AccessRules(policies, labels))
    assert {name for name, sentences in found.items() if sentences} == {"p7", "all"}


def test_an_exception_for_one_of_equal_namespaces_does_not_hide_a_conflict_in_another() -> None:
    red = Subjects(selector=NamespaceSelector({"team": "red"}))
    policies = {
        "a": AcceleratorPolicy("a", red, max_devices=1),
        "b": AcceleratorPolicy("b", red, Subjects(namespaces=("first",)), max_devices=2),
    }
    found = conflicts(AccessRules(policies, {"first": {"team": "red"}, "second": {"team": "red"}}))
    assert found["a"] == ["AcceleratorPolicy b also applies to namespace second, with different maxDevices."]


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        (AcceleratorPolicy("a", TEAM, max_devices=2), "Enforced"),
        (AcceleratorPolicy("a", Subjects(users=("unknown-user",)), max_devices=2), "Enforced"),
        (AcceleratorPolicy("a", Subjects(namespaces=("gone", "team")), max_devices=2), "UnknownNamespace"),
        (AcceleratorPolicy("a", Subjects(service_accounts=(("gone", "x"),)), max_devices=2), "UnknownNamespace"),
        (AcceleratorPolicy("a", Subjects(selector=NamespaceSelector({"tier": "lead"}))), "NoNamespaceSelected"),
        (AcceleratorPolicy("a", TEAM, models=("A100", "H100*")), "UnknownModel"),
    ],
)
def test_what_a_policy_names_and_is_not_there_is_said(policy: AcceleratorPolicy, reason: str) -> None:
    status, found, _ = condition("Effective", policy, models=("a100",))
    assert (found, status) == (reason, "True" if reason == "Enforced" else "False")


def test_an_invalid_policy_says_what_is_wrong() -> None:
    status, reason, message = condition("Invalid", AcceleratorPolicy("a", TEAM, invalid="spec.models is 7"))
    assert (status, reason) == ("True", "InvalidSpec")
    assert message.endswith("spec.models is 7")
