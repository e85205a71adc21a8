"""Policies that protect records: what they match, whom they let through, and that they cover what dialects declare."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from linkwise.config.protection import protection_yaml
from linkwise.dialects.linkwise.accelerator_policy import GROUPS, USER
from linkwise.dialects.linkwise.group_plan import GATE
from linkwise.dialects.registry import record_keys, record_patterns
from linkwise.errors import InputError
from linkwise.model.access_policy import OPERATORS

Policies = dict[str, dict[str, Any]]


def documents(**wishes: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - any wish
    return list(yaml.safe_load_all(protection_yaml(**wishes)))


def policies(**wishes: Any) -> Policies:  # noqa: ANN401 - any wish
    found = [each for each in documents(**wishes) if each["kind"] == "ValidatingAdmissionPolicy"]
    return {each["metadata"]["name"]: each["spec"] for each in found}


def conditions(policy: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["expression"] for each in policy["matchConditions"]}


def variables(policy: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["expression"] for each in policy["variables"]}


def matched(policy: dict[str, Any]) -> set[tuple[str, str]]:
    return {
        (operation, resource)
        for rule in policy["matchConstraints"]["resourceRules"]
        for operation in rule["operations"]
        for resource in rule["resources"]
    }


def test_every_policy_has_a_binding_that_denies_in_every_namespace() -> None:
    names = list(policies())
    bindings = [each for each in documents() if each["kind"] == "ValidatingAdmissionPolicyBinding"]
    assert [each["spec"]["policyName"] for each in bindings] == names
    assert all(
        each["spec"] == {"policyName": name, "validationActions": ["Deny"]}
        for each, name in zip(bindings, names, strict=True)
    )


def test_a_policy_that_can_not_be_evaluated_refuses() -> None:
    assert {policy["failurePolicy"] for policy in policies().values()} == {"Fail"}


def test_an_audit_refuses_nothing() -> None:
    bindings = [each for each in documents(audit=True) if each["kind"].endswith("Binding")]
    assert {tuple(each["spec"]["validationActions"]) for each in bindings} == {("Warn", "Audit")}


def test_all_ways_to_write_annotations_of_a_pod_are_matched() -> None:
    assert matched(policies()["linkwise-records"]) == {
        *(("CREATE", resource) for resource in ("pods", "pods/binding", "bindings")),
        *(("UPDATE", f"pods{way}") for way in ("", "/status", "/ephemeralcontainers", "/resize")),
    }


@pytest.mark.parametrize(
    ("policy", "names"), [("linkwise-records", ["records"]), ("linkwise-templates", ["changed", "others"])]
)
def test_all_records_of_the_dialects_are_protected(policy: str, names: list[str]) -> None:
    spec = policies()[policy]
    for expression in (conditions(spec)["has-records"], " ".join(variables(spec)[name] for name in names)):
        assert [key for key in (*record_keys(), USER, GROUPS) if f'"{key}"' not in expression] == []
        assert all(pattern.replace("\\", "\\\\") in expression for pattern in record_patterns())


@pytest.mark.parametrize("pattern", record_patterns())
def test_a_domain_is_compared_before_a_pattern(pattern: str) -> None:
    """Without it, regular expressions for the keys of a pod with thousands of annotations cost more than CEL allows."""
    domain = re.search(
        r'k\.startsWith\("([^"]+)"\) && k\.matches\("\^\(\?:' + re.escape(pattern.replace("\\", "\\\\")),
        protection_yaml(),
    )
    assert domain
    assert pattern.replace("\\.", ".").startswith(domain[1])


def test_only_the_service_and_the_agent_write_records_of_linkwise() -> None:
    spec = policies(name="lw", agent="lwa", namespace="ai", identities=["plugin"])["linkwise-records"]
    own = '["system:serviceaccount:ai:lw", "system:serviceaccount:ai:lwa"]'
    assert conditions(spec)["not-linkwise"] == f"!(request.userInfo.username in {own})"
    first, second, *_ = spec["validations"]
    assert "plugin" not in first["expression"] + first["messageExpression"]
    assert 'request.userInfo.username in ["plugin"]' in second["expression"]


def test_bindings_of_a_named_scheduler_may_repeat_records_and_nothing_else_of_it_may_write_them() -> None:
    spec = policies(binders=["volcano"])["linkwise-records"]
    expected = '!(request.kind.kind == "Binding" && request.userInfo.username in ["volcano"])'
    assert conditions(spec)["not-repeated"] == expected
    assert [each for each in spec["validations"] if '"volcano"' in str(each)] == []
    assert "not-repeated" not in conditions(policies()["linkwise-records"])


def test_a_service_outside_the_cluster_is_a_user() -> None:
    spec = policies(user="me@example.com")
    assert '"me@example.com"' in conditions(spec["linkwise-records"])["not-linkwise"]
    assert conditions(spec["linkwise-gates"])["not-linkwise"] == 'request.userInfo.username != "me@example.com"'


def test_a_group_may_write_records_of_other_systems() -> None:
    _, second, *_ = policies(groups=["system:nodes"])["linkwise-records"]["validations"]
    assert 'request.userInfo.groups.exists(g, g in ["system:nodes"])' in second["expression"]
    assert "members of system:nodes" in second["messageExpression"]


def test_controllers_of_other_systems_keep_the_user_of_a_template() -> None:
    for wishes, named in (({}, OPERATORS), ({"controllers": ["jobs"]}, ("jobs",))):
        spec = policies(**wishes)
        users = ", ".join(f'"{name}"' for name in ("system:kube-controller-manager", *named))
        assert f"in [{users}]" in conditions(spec["linkwise-templates"])["not-a-controller"]
        assert f"in [{users}]" in spec["linkwise-records"]["validations"][2]["expression"]


@pytest.mark.parametrize("wishes", [{"identities": [""]}, {"groups": ["a", "b\n"]}, {"user": ""}, {"user": "\0"}])
def test_an_unknown_name_is_an_error(wishes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="is not a name; use one that `kubectl auth whoami` prints"):
        protection_yaml(**wishes)


def test_a_name_with_quotes_stays_one_string() -> None:
    tricky = 'a"] || true || x in ["b'
    text = conditions(policies(user=tricky)["linkwise-records"])["not-linkwise"]
    assert text.startswith('!(request.userInfo.username in ["a\\"] || true || x in [\\"b", ')


def test_every_refusal_is_forbidden_and_says_what_to_do() -> None:
    for name, spec in policies().items():
        for validation in spec["validations"]:
            assert validation["reason"] == "Forbidden"
            assert re.search(
                r"leave|remove|delete|run the agent|check the|use another|name another", validation["messageExpression"]
            ), name


def test_the_gate_is_the_one_of_gang_members() -> None:
    assert f'g.name == "{GATE}"' in conditions(policies()["linkwise-gates"])["was-gated"]


def test_only_the_service_creates_claims_that_name_planned_devices() -> None:
    claims = policies()["linkwise-claims"]
    account = "system:serviceaccount:linkwise-system:linkwise"
    assert conditions(claims) == {"not-linkwise": f'request.userInfo.username != "{account}"'}
    created, changed, named = (each["expression"] for each in claims["validations"])
    assert 'object.metadata.name.startsWith("lw-")' in created
    assert '"linkwise.dev/plan" in oldObject.metadata.annotations' in changed
    assert 'c.resourceClaimName.startsWith("lw-")' in named


def test_the_request_of_a_claim_is_set_on_new_pods_only() -> None:
    expressions = [each["expression"] for each in policies()["linkwise-records"]["validations"]]
    (rule,) = [text for text in expressions if "variables.request" in text]
    assert 'request.operation == "CREATE"' in rule
    assert 'c.name == "linkwise-gpu"' in rule
