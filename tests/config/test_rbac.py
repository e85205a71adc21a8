"""The roles of the service and of the agent: what they use and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from linkwise.broker.cluster.objects import READ
from linkwise.config.rbac import AGENT_FEATURES, AGENT_OPTIONAL, FEATURES, OPTIONAL, agent_rbac_yaml, rbac_yaml
from linkwise.errors import InputError
from linkwise.kube.watch.kinds import SOURCES

Permission = tuple[str, str, str, str]
"""namespace or nothing, API group, resource, verb"""


def objects(name: str = "linkwise", **wishes: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - any wish
    """Of the service itself; the role of all users is not among them."""
    printed = yaml.safe_load_all(rbac_yaml(name=name, **wishes))
    return [each for each in printed if each["metadata"]["name"] == name]


def allowed(**wishes: Any) -> set[Permission]:  # noqa: ANN401 - any wish
    return permissions(objects(**wishes))


def permissions(manifests: list[dict[str, Any]]) -> set[Permission]:
    roles = [found for found in manifests if found["kind"] in {"Role", "ClusterRole"}]
    return {
        (role["metadata"].get("namespace", ""), group, resource, verb)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_what_is_watched_may_be_listed_and_only_pods_claims_and_objects_of_the_election_are_read_by_name() -> None:
    read = {found for found in allowed(without=["leader"]) if found[3] in {"get", "list", "watch"}}
    watched = {(source.namespace, source.group, source.resource) for source in SOURCES}
    written = {("", "", "pods", "get"), ("", "resource.k8s.io", "resourceclaims", "get")}
    assert read == {(*source, verb) for source in watched for verb in ("list", "watch")} | written


def test_what_is_written_are_binds_claims_evictions_events_annotations_conditions_and_the_status_of_policies() -> None:
    written = {found for found in allowed(without=["leader"]) if found[3] not in {"get", "list", "watch"}}
    assert written == {
        ("", "", "pods/binding", "create"),
        ("", "", "pods/eviction", "create"),
        ("", "", "events", "create"),
        ("", "", "events", "patch"),
        ("", "", "pods", "patch"),
        ("", "", "pods/status", "patch"),
        ("", "linkwise.dev", "acceleratorpolicies/status", "patch"),
        ("", "authentication.k8s.io", "tokenreviews", "create"),
        ("", "authorization.k8s.io", "subjectaccessreviews", "create"),
        ("", "resource.k8s.io", "resourceclaims", "create"),
        ("", "resource.k8s.io", "resourceclaims", "delete"),
    }


def test_the_election_is_a_role_of_the_services_own_namespace_for_objects_of_that_name() -> None:
    roles = [
        each for each in objects(namespace="ai") if each["kind"] == "Role" and each["metadata"]["namespace"] == "ai"
    ]
    (role,) = roles
    named = {
        (rule["resources"][0], verb): rule.get("resourceNames") for rule in role["rules"] for verb in rule["verbs"]
    }
    assert named == {
        ("leases", "create"): None,
        ("leases", "get"): ["linkwise"],
        ("leases", "watch"): ["linkwise"],
        ("leases", "update"): ["linkwise"],
        ("services", "get"): ["linkwise"],
        ("endpoints", "create"): None,
        ("endpoints", "get"): ["linkwise"],
        ("endpoints", "update"): ["linkwise"],
        ("endpointslices", "create"): None,
        ("endpointslices", "get"): ["linkwise-leader"],
        ("endpointslices", "update"): ["linkwise-leader"],
    }


def test_certificates_need_their_two_secrets_where_the_service_is_and_only_on_request() -> None:
    secrets = {("ai", "", "secrets", verb) for verb in ("create", "get", "patch", "update")}
    assert allowed(tls=True, namespace="ai") - allowed(namespace="ai") == secrets
    rules = [rule for each in objects(tls=True) for rule in each.get("rules", ()) if "secrets" in rule["resources"]]
    named = {verb: rule.get("resourceNames") for rule in rules for verb in rule["verbs"]}
    both = ["linkwise-tls", "linkwise-scheduler-tls"]
    assert named == dict.fromkeys(("create", "get", "patch", "update"), both)


def test_with_tls_tenants_reach_the_service_by_https_only() -> None:
    role = list(yaml.safe_load_all(rbac_yaml(tls=True)))[-2]
    assert role["rules"][0]["resourceNames"] == ["https:linkwise:tenants"]


def test_every_object_of_groups_and_networks_may_be_read() -> None:
    groups = {group for _, group, _, verb in allowed() if verb == "watch"}
    assert {kind.partition(".")[2] for kind in READ} <= groups


def test_nothing_is_allowed_by_a_wild_card() -> None:
    assert not [found for found in allowed() if "*" in "".join(found)]


@pytest.mark.parametrize("feature", OPTIONAL)
def test_a_feature_that_is_left_out_takes_its_rules_with_it(feature: str) -> None:
    others = {found for other in ("extender", *OPTIONAL) if other != feature for found in rules_of(other)}
    assert allowed() - allowed(without=[feature]) == rules_of(feature) - others
    assert f"# {feature}: " not in rbac_yaml(without=[feature])


def rules_of(feature: str) -> set[tuple[str, str, str, str]]:
    return {
        (FEATURES[feature].namespace, group, resource, verb)
        for rule in FEATURES[feature].rules
        for group in rule.groups
        for resource in rule.resources
        for verb in rule.verbs
    }


def test_pods_are_not_patched_where_neither_waking_nor_ungating_is_wanted() -> None:
    assert ("", "", "pods", "patch") in allowed(without=["wake"])
    assert ("", "", "pods", "patch") not in allowed(without=["wake", "gates"])


def test_every_feature_is_described_above_its_rules() -> None:
    text = rbac_yaml(rank_tables=True, tls=True).replace("\n  # ", " ")
    assert [name for name, feature in FEATURES.items() if f"{name}: {feature.why}" not in text] == []


def test_bindings_lead_from_the_account_to_its_roles() -> None:
    found = objects(name="lw", namespace="ai")
    assert [each["kind"] for each in found] == [
        *("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Role", "RoleBinding"),
    ]
    for role, binding in (found[1:3], found[3:5], found[5:7]):
        assert binding["roleRef"]["name"] == role["metadata"]["name"] == "lw"
        assert binding["roleRef"]["kind"] == role["kind"]
        assert binding["metadata"].get("namespace") == role["metadata"].get("namespace")
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "lw", "namespace": "ai"}]


def test_a_user_needs_no_account() -> None:
    found = objects(user="tester")
    assert "ServiceAccount" not in {each["kind"] for each in found}
    subjects = [each["subjects"] for each in found if "subjects" in each]
    assert subjects == [[{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "tester"}]] * 3


def test_without_config_maps_there_is_nothing_in_kube_system() -> None:
    assert "kube-system" not in rbac_yaml(without=["configmaps"])


@pytest.mark.parametrize("name", ["foo", "extender"])
def test_what_is_no_feature_can_not_be_left_out(name: str) -> None:
    with pytest.raises(InputError, match=f"unknown feature: {name}; use leader, events, wake"):
        rbac_yaml(without=[name])


def agent(**wishes: Any) -> set[Permission]:  # noqa: ANN401 - any wish
    return permissions(list(yaml.safe_load_all(agent_rbac_yaml(**wishes))))


def test_the_agent_writes_no_objects_of_koordinator_by_default() -> None:
    own = {("", "scheduling.koordinator.sh", "devices", verb) for verb in ("get", "list", "watch", "create", "patch")}
    assert agent(koordinator=True) - agent() == own


def test_the_agent_writes_no_config_maps_by_default_and_on_request_only_where_huaweis_plugin_has_them() -> None:
    own = {("kube-system", "", "configmaps", verb) for verb in ("get", "list", "watch", "create", "patch")}
    assert agent(device_info=True) - agent() == own


def test_the_agent_publishes_slices_and_reads_claims_only_as_a_driver_of_claims() -> None:
    verbs = ("get", "list", "watch", "create", "update", "delete")
    own = {("", "resource.k8s.io", "resourceslices", verb) for verb in verbs}
    assert agent(dra=True) - agent() == own | {("", "resource.k8s.io", "resourceclaims", "get")}


@pytest.mark.parametrize("feature", AGENT_OPTIONAL)
def test_the_agent_can_do_without_some_features(feature: str) -> None:
    assert agent(without=[feature]) < agent()
    assert f"# {feature}: " not in agent_rbac_yaml(without=[feature])


def test_the_agent_can_not_do_without_its_inventory() -> None:
    with pytest.raises(InputError, match="unknown feature: inventory; use node, events"):
        agent_rbac_yaml(without=["inventory"])


def test_the_agent_deletes_nothing_but_slices_and_has_no_wild_card() -> None:
    allowed = agent(koordinator=True, device_info=True, dra=True)
    assert {found[2] for found in allowed if "delete" in found[3]} == {"resourceslices"}
    assert not [found for found in allowed if "*" in "".join(found)]


def test_every_feature_of_the_agent_is_described_above_its_rules() -> None:
    text = agent_rbac_yaml(koordinator=True, device_info=True, dra=True).replace("\n  # ", " ")
    assert [name for name, feature in AGENT_FEATURES.items() if f"{name}: {feature.why}" not in text] == []


def test_the_agent_has_an_account_of_its_own() -> None:
    account, role, binding = yaml.safe_load_all(agent_rbac_yaml())
    assert account["metadata"]["name"] == role["metadata"]["name"] == binding["subjects"][0]["name"] == "linkwise-agent"


def test_conditions_need_one_right_and_can_be_left_out() -> None:
    rule = {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]}
    roles = [thing for thing in yaml.safe_load_all(rbac_yaml()) if thing["kind"] == "ClusterRole"]
    assert rule in roles[0]["rules"]
    assert "pods/status" not in rbac_yaml(without=["conditions", "gates"])


def test_tenants_bring_reviews_and_a_role_for_all_users_on_the_proxy_of_their_port_alone() -> None:
    assert not any(word in rbac_yaml(without=["tenants"]) for word in ("tokenreviews", "services/proxy"))
    things = list(yaml.safe_load_all(rbac_yaml()))
    assert {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]} in next(
        thing["rules"] for thing in things if thing["kind"] == "ClusterRole"
    )
    role, binding = things[-2:]
    assert role["metadata"] == {**role["metadata"], "name": "linkwise-tenants", "namespace": "linkwise-system"}
    assert role["rules"] == [
        {
            "apiGroups": [""],
            "resources": ["services/proxy"],
            "resourceNames": ["linkwise:tenants", "http:linkwise:tenants"],
            "verbs": ["get", "create"],
        }
    ]
    assert [subject["name"] for subject in binding["subjects"]] == ["system:authenticated"]
