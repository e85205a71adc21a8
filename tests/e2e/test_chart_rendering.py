"""The Helm chart, rendered by Helm: what it contains for which values, equal to what the command line prints for the same options."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from linkwise.config.installation import FILE
from linkwise.config.loading import load_with_sources
from linkwise.config.protection import protection_yaml
from linkwise.config.rbac import AGENT_FEATURES, FEATURES
from linkwise.config.scheduler_config import DEFAULT_TLS_URL, SchedulerFile, TlsFiles, scheduler_yaml
from linkwise.config.webhook_manifests import WebhookFile, webhook_configurations
from support.chart_files import rbac_file
from support.chart_manifests import helm_template, rendered_manifests
from support.chart_pages import default_values
from support.e2e.helm import Helm
from support.script_modules import scripts_importable

with scripts_importable():
    import release

Objects = list[dict[str, Any]]
Permission = tuple[str, str, str, str]

ROOT: Final = Path(__file__).resolve().parents[2]
NAMESPACE: Final = "linkwise-system"
RULES: Final = "rbac.authorization.k8s.io/v1"
PARTS: Final = ("scheduler", "agent", "webhook", "protection", "networkPolicy", "crds", "tests")
EVERYTHING: Final = (
    "features.evict",
    "features.rankTables",
    "agent.koordinatorDevice",
    "agent.deviceInfo",
    "agent.dra.enabled",
    "volcano.enabled",
    "priorityQuota.enabled",
    *(f"monitoring.{name}.enabled" for name in ("serviceMonitor", "podMonitor", "prometheusRule", "dashboard")),
)
COMBINATIONS: Final[dict[str, tuple[str, ...]]] = {
    "defaults": (),
    "everything": tuple(f"{name}=true" for name in EVERYTHING),
    "nothing": (*(f"{part}.enabled=false" for part in PARTS), "tls.enabled=false"),
    "one node": ("service.replicas=1", "scheduler.replicas=1"),
    "one replica without a lease": ("service.replicas=1", "leaderElection.enabled=false"),
    "cert-manager": ("certManager.enabled=true",),
    "Volcano": ("volcano.enabled=true",),
    "another name": ("fullnameOverride=placer", "scheduler.name=placer-scheduler"),
    "settings": ("config.placing.breadth=8", "config.http.drain=45", "config.log.format=json"),
}
FEATURE_VALUES: Final = {name: "".join([name.split("-")[0], *map(str.title, name.split("-")[1:])]) for name in FEATURES}
SWITCHES: Final = default_values()["features"]
ON: Final = {
    name for name, value in FEATURE_VALUES.items() if SWITCHES.get(value, value in {"extender", "leader", "tls"})
}
"""features of the default values"""


@pytest.fixture(scope="module")
def helm(helm_programs: Path) -> str:
    return str(helm_programs / "helm")


def rendered(helm: str, *values: str, namespace: str = NAMESPACE) -> Objects:
    return helm_template(helm, *(word for value in values for word in ("--set", value)), namespace=namespace)


def of_kind(objects: Objects, *kinds: str) -> Objects:
    return [found for found in objects if found["kind"] in kinds]


def named(objects: Objects, kind: str, name: str) -> dict[str, Any]:
    (found,) = [found for found in of_kind(objects, kind) if found["metadata"]["name"] == name]
    return found


def permissions(objects: Objects, component: str) -> set[Permission]:
    """What the roles of a component allow, by namespace, API group, resource and verb."""
    return {
        (role["metadata"].get("namespace", ""), group, resource, verb)
        for role in of_kind(objects, "Role", "ClusterRole")
        if role["metadata"]["labels"]["app.kubernetes.io/component"] == component
        and not role["metadata"]["name"].endswith(("-webhook", "-tenants"))
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def expected(part: str, features: set[str]) -> set[Permission]:
    """What the table of the package allows for these features, in the names of the chart."""
    table = yaml.safe_load(rbac_file())[part]
    return {
        (entry["namespace"].replace("@NAMESPACE@", NAMESPACE), group, resource, verb)
        for entry in table
        if entry["feature"] in features
        for rule in entry["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def settings(objects: Objects, name: str = "linkwise") -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(named(objects, "ConfigMap", name)["data"]["config.yaml"])
    return found


def pods(objects: Objects) -> dict[str, dict[str, Any]]:
    """The pod specs by the component of their workload."""
    workloads = of_kind(objects, "Deployment", "DaemonSet")
    return {
        found["metadata"]["labels"]["app.kubernetes.io/component"]: found["spec"]["template"]["spec"]
        for found in workloads
    }


@pytest.mark.parametrize("values", COMBINATIONS.values(), ids=COMBINATIONS)
def test_settings_of_any_values_are_valid(helm: str, tmp_path: Path, values: tuple[str, ...]) -> None:
    name = "placer" if "fullnameOverride=placer" in values else "linkwise"
    file = tmp_path / "config.yaml"
    file.write_text(named(rendered(helm, *values), "ConfigMap", name)["data"]["config.yaml"])
    assert load_with_sources(file, {}).problems == ()


@pytest.mark.parametrize("values", COMBINATIONS.values(), ids=COMBINATIONS)
def test_objects_are_labelled_and_have_a_name_of_their_own(helm: str, values: tuple[str, ...]) -> None:
    objects = rendered(helm, *values)
    names = [(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in objects]
    assert len(names) == len(set(names))
    for one in objects:
        assert {"app.kubernetes.io/name", "app.kubernetes.io/instance", "helm.sh/chart"} <= set(
            one["metadata"]["labels"]
        )


def test_selectors_are_labels_of_the_pods_that_they_select(helm: str) -> None:
    for workload in of_kind(rendered(helm), "Deployment", "DaemonSet"):
        labels = workload["spec"]["template"]["metadata"]["labels"]
        assert workload["spec"]["selector"]["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize("feature", [name for name, value in FEATURE_VALUES.items() if value in SWITCHES])
def test_a_feature_brings_exactly_its_verbs(helm: str, feature: str) -> None:
    other = ON - {feature}
    off = permissions(rendered(helm, f"features.{FEATURE_VALUES[feature]}=false"), "service")
    on = permissions(rendered(helm, f"features.{FEATURE_VALUES[feature]}=true"), "service")
    assert off == expected("service", other)
    assert on == expected("service", other | {feature})


@pytest.mark.parametrize(
    ("feature", "value"),
    [
        ("node", "agent.nodeLabels"),
        ("events", "agent.events"),
        ("koordinator", "agent.koordinatorDevice"),
        ("device-info", "agent.deviceInfo"),
        ("dra", "agent.dra.enabled"),
    ],
)
def test_a_feature_of_the_agent_brings_exactly_its_verbs(helm: str, feature: str, value: str) -> None:
    other = {name for name, about in AGENT_FEATURES.items() if not about.opt_in} - {feature}
    assert permissions(rendered(helm, f"{value}=false"), "agent") == expected("agent", other)
    assert permissions(rendered(helm, f"{value}=true"), "agent") == expected("agent", other | {feature})


@pytest.mark.parametrize("value", ["tls.enabled=false", "certManager.enabled=true"])
def test_without_certificates_of_its_own_the_service_reads_no_secret_of_tls(helm: str, value: str) -> None:
    assert permissions(rendered(helm, value), "service") == expected("service", ON - {"tls"})


def test_a_service_without_a_lease_may_not_write_any(helm: str) -> None:
    objects = rendered(helm, "leaderElection.enabled=false", "service.replicas=1")
    assert permissions(objects, "service") == expected("service", ON - {"leader"})


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("tls.enabled=true", ["https:linkwise:tenants"]),
        ("tls.enabled=false", ["linkwise:tenants", "http:linkwise:tenants"]),
    ],
)
def test_tenants_reach_their_port_of_the_service_through_the_api_server(
    helm: str, value: str, names: list[str]
) -> None:
    objects = rendered(helm, value)
    (rule,) = named(objects, "Role", "linkwise-tenants")["rules"]
    assert (rule["resources"], rule["resourceNames"], rule["verbs"]) == (["services/proxy"], names, ["get", "create"])
    ports = {port["name"]: port for port in named(objects, "Service", "linkwise")["spec"]["ports"]}
    assert ports["tenants"]["targetPort"] == settings(objects)["explain"]["port"] == 39996
    opened = [rule for rule in named(objects, "NetworkPolicy", "linkwise")["spec"]["ingress"] if "from" not in rule]
    assert [port["port"] for rule in opened for port in rule["ports"]] == ["tenants", "webhook"]


def test_only_the_namespace_of_volcano_reaches_its_port(helm: str) -> None:
    policy = named(rendered(helm, "volcano.enabled=true"), "NetworkPolicy", "linkwise")
    (rule,) = [rule for rule in policy["spec"]["ingress"] if "volcano" in {port["port"] for port in rule["ports"]}]
    there = {"matchLabels": {"kubernetes.io/metadata.name": "volcano-system"}}
    assert (len(rule["ports"]), rule["from"]) == (1, [{"namespaceSelector": there}])


def test_without_tenants_there_is_neither_their_port_nor_their_role(helm: str) -> None:
    objects = rendered(helm, "features.tenants=false")
    assert "tenants" not in {port["name"] for port in named(objects, "Service", "linkwise")["spec"]["ports"]}
    assert settings(objects)["explain"]["port"] == 0
    assert [one for one in objects if one["metadata"]["name"] == "linkwise-tenants"] == []


def test_no_role_creates_leases_or_secrets_of_other_names_than_its_own(helm: str) -> None:
    created = [
        (role["kind"], rule["resources"], rule.get("resourceNames"))
        for role in of_kind(rendered(helm), "Role", "ClusterRole")
        for rule in role["rules"]
        if {"secrets", "leases"} & set(rule["resources"]) and "create" in rule["verbs"]
    ]
    assert sorted(created) == [
        ("Role", ["secrets"], ["linkwise-tls", "linkwise-scheduler-tls"]),
        ("Role", ["secrets"], ["linkwise-webhook"]),
    ]


@pytest.mark.parametrize("part", ["scheduler", "agent", "webhook", "protection", "networkPolicy", "crds"])
def test_a_part_that_is_off_leaves_nothing_behind(helm: str, part: str) -> None:
    component = {"networkPolicy": None, "crds": "crds"}.get(part, part)
    off = rendered(helm, f"{part}.enabled=false")
    assert [one for one in off if one["metadata"]["labels"].get("app.kubernetes.io/component") == component] == []
    assert len(off) < len(rendered(helm))


@pytest.mark.parametrize(
    ("value", "path", "found"),
    [
        ("features.tenants=false", "explain.tenants", False),
        ("service.tenantsPort=8443", "explain.port", 8443),
        ("features.conditions=false", "explain.publish", False),
        ("features.evict=false", "placing.preemption.evict", False),
        ("features.evictHalfBound=true", "placing.group.evict_half_bound", True),
        ("features.rankTables=true", "placing.rank_tables", True),
        ("features.groups=false", "kube.without", ["groups"]),
        ("features.gates=false", "webhook.volcano_gates", False),
        ("leaderElection.leaseDuration=30", "leader.lease_duration", 30),
        ("tls.enabled=false", "tls.enabled", False),
        ("scheduler.everyPod=true", "placing.every_pod", True),
        ("scheduler.name=other", "webhook.scheduler", "other"),
        ("volcano.enabled=true", "volcano.port", 39997),
        ("webhook.enabled=false", "webhook.enabled", False),
        ("agent.driverRoot=/run/nvidia/driver", "agent.driver_root", "/run/nvidia/driver"),
        ("config.explain.tenants=false", "explain.tenants", False),
    ],
)
def test_a_value_becomes_a_setting(helm: str, value: str, path: str, found: object) -> None:
    section: Any = settings(rendered(helm, value))
    for key in path.split("."):
        section = section[key]
    assert section == found


@pytest.mark.parametrize(
    ("values", "options"),
    [
        ((), SchedulerFile()),
        (("scheduler.name=other", "scheduler.weight=5"), SchedulerFile(name="other", weight=5)),
        (("scheduler.everyPod=true",), SchedulerFile(every_pod=True)),
        (("scheduler.defaultScheduler=true",), SchedulerFile(default_scheduler=True)),
    ],
)
def test_kube_scheduler_is_configured_as_the_command_line_prints(
    helm: str, values: tuple[str, ...], options: SchedulerFile
) -> None:
    objects = rendered(helm, *values, "tls.enabled=false")
    shown = yaml.safe_load(named(objects, "ConfigMap", "linkwise-scheduler")["data"]["scheduler.yaml"])
    assert shown == yaml.safe_load(scheduler_yaml(options))


def test_kube_scheduler_calls_the_service_with_its_certificate(helm: str) -> None:
    shown = yaml.safe_load(named(rendered(helm), "ConfigMap", "linkwise-scheduler")["data"]["scheduler.yaml"])
    files = TlsFiles(*(f"/etc/linkwise/tls/{name}" for name in ("ca.crt", "tls.crt", "tls.key")))
    assert shown == yaml.safe_load(scheduler_yaml(SchedulerFile(url=DEFAULT_TLS_URL, tls=files)))


@pytest.mark.parametrize(
    ("version", "tag"), [("1.34.2", "v1.34.2"), ("v1.33.1-gke.100", "v1.33.1"), ("v1.32.0+k3s1", "v1.32.0")]
)
def test_kube_scheduler_has_the_version_of_the_cluster(helm: str, version: str, tag: str) -> None:
    (container,) = pods(helm_template(helm, version=version))["scheduler"]["containers"]
    assert container["image"] == f"registry.k8s.io/kube-scheduler:{tag}"


@pytest.mark.parametrize(
    ("values", "options"),
    [
        ((), {}),
        (("protection.audit=true",), {"audit": True}),
        (("protection.identities={a,b}",), {"identities": ["a", "b"]}),
        (("protection.identityGroups={system:nodes}",), {"groups": ["system:nodes"]}),
        (("protection.controllers={c,d}", "protection.binders={x}"), {"controllers": ["c", "d"], "binders": ["x"]}),
        (("service.serviceAccount.name=s", "agent.serviceAccount.name=t"), {"name": "s", "agent": "t"}),
        (
            ("volcano.enabled=true",),
            {"binders": ["system:serviceaccount:volcano-system:volcano-scheduler"]},
        ),
    ],
)
def test_policies_are_those_that_the_command_line_prints(
    helm: str, values: tuple[str, ...], options: dict[str, Any]
) -> None:
    kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    shown = {(one["kind"], one["metadata"]["name"]): one["spec"] for one in of_kind(rendered(helm, *values), *kinds)}
    printed = yaml.safe_load_all(protection_yaml(**options))
    assert shown == {(one["kind"], one["metadata"]["name"]): one["spec"] for one in printed}


@pytest.mark.parametrize(
    ("values", "options"),
    [
        ((), {}),
        (("webhook.optIn=true",), {"opt_in": True}),
        (("webhook.podOptOut=true",), {"pod_opt_out": True}),
        (("webhook.hideDevices=true",), {"hide_devices": True}),
        (("scheduler.name=other",), {"scheduler": "other"}),
    ],
)
def test_webhooks_are_those_that_the_command_line_prints(
    helm: str, values: tuple[str, ...], options: dict[str, Any]
) -> None:
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    shown = [one["webhooks"] for one in of_kind(rendered(helm, *values), *kinds)]
    assert shown == [one["webhooks"] for one in webhook_configurations(WebhookFile(**options))]


def test_the_webhook_never_sees_the_pods_of_its_own_release(helm: str) -> None:
    objects = rendered(helm, namespace="accelerators")
    for one in of_kind(objects, "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        for webhook in one["webhooks"]:
            (by_name, _) = webhook["namespaceSelector"]["matchExpressions"]
            assert by_name["values"] == ["kube-system", "accelerators"]


def test_one_replica_has_no_budget_that_would_block_a_drain(helm: str) -> None:
    assert len(of_kind(rendered(helm), "PodDisruptionBudget")) == 2
    assert of_kind(rendered(helm, "service.replicas=1", "scheduler.replicas=1"), "PodDisruptionBudget") == []


def test_two_replicas_without_a_lease_are_refused(helm: str) -> None:
    with pytest.raises(ValueError, match="would allocate devices twice"):
        rendered(helm, "leaderElection.enabled=false")


@pytest.mark.parametrize("values", [(), ("crds.enabled=false",)], ids=["with definitions", "without"])
@pytest.mark.parametrize("kind", ["DeviceInventory", "AcceleratorPolicy"])
def test_definitions_of_another_release_are_refused(helm: str, kind: str, values: tuple[str, ...]) -> None:
    served = ("--api-versions", f"linkwise.dev/v1beta1/{kind}", *(word for one in values for word in ("--set", one)))
    with pytest.raises(ValueError, match=r"serves v1beta1, and Linkwise \S+ reads v1alpha1: it is of another release"):
        helm_template(helm, *served)


def test_definitions_that_serve_a_later_version_too_are_left_alone_but_not_replaced(helm: str) -> None:
    versions = ",".join(f"linkwise.dev/{version}/DeviceInventory" for version in ("v1alpha1", "v1beta1"))
    assert helm_template(helm, "--api-versions", versions, "--set", "crds.enabled=false")
    with pytest.raises(ValueError, match="serves v1beta1"):
        helm_template(helm, "--api-versions", versions)


def test_the_chart_of_a_release_names_the_image_by_its_digest(helm: str, tmp_path: Path) -> None:
    digest = f"sha256:{'1' * 64}"
    release.write_chart(tmp_path / "linkwise.tgz", digest, 1)
    found = list(yaml.safe_load_all(Helm(Path(helm), tmp_path).template(tmp_path / "linkwise.tgz")))
    images = {component: pod["containers"][0]["image"] for component, pod in pods(list(filter(None, found))).items()}
    assert images["service"] == images["agent"] == f"linkwise/linkwise@{digest}"
    assert digest not in images["scheduler"]


def test_two_leases_of_one_name_are_refused(helm: str) -> None:
    with pytest.raises(ValueError, match="would both be linkwise"):
        rendered(helm, "scheduler.name=linkwise")


def test_a_replica_without_a_lease_is_replaced_after_it_has_stopped(helm: str) -> None:
    objects = rendered(helm, "leaderElection.enabled=false", "service.replicas=1")
    assert named(objects, "Deployment", "linkwise")["spec"]["strategy"] == {"type": "Recreate"}
    assert named(objects, "Service", "linkwise")["spec"]["selector"]


def test_the_service_that_schedulers_call_leads_to_the_leader_only(helm: str) -> None:
    assert "selector" not in named(rendered(helm), "Service", "linkwise")["spec"]


@pytest.mark.parametrize("wrong", ["service.replica=2", "webhook.failurePolicy=fail", "agent.nodes=some"])
def test_a_misspelt_value_is_refused(helm: str, wrong: str) -> None:
    with pytest.raises(ValueError, match="schema"):
        rendered(helm, wrong)


@pytest.mark.parametrize("component", ["service", "scheduler"])
def test_a_pod_that_needs_nothing_of_its_node_has_no_privileges(helm: str, component: str) -> None:
    for container in pods(rendered(helm))[component]["containers"]:
        context = container["securityContext"]
        assert context["runAsNonRoot"]
        assert context["readOnlyRootFilesystem"]
        assert not context["allowPrivilegeEscalation"]
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}


def test_the_agent_writes_to_the_folders_of_the_kubelet_and_of_devices_only(helm: str) -> None:
    (container,) = pods(rendered(helm))["agent"]["containers"]
    writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    kubelet = "/var/lib/kubelet"
    assert writable == {"/tmp", "/var/run/cdi", f"{kubelet}/device-plugins", f"{kubelet}/plugins/linkwise.dev"}  # noqa: S108 - in a container


def test_a_pod_lives_longer_than_its_binds(helm: str) -> None:
    assert pods(rendered(helm))["service"]["terminationGracePeriodSeconds"] == 40
    assert pods(rendered(helm, "config.http.drain=45.5"))["service"]["terminationGracePeriodSeconds"] == 66


def test_a_changed_setting_replaces_the_pods(helm: str) -> None:
    def checksum(*values: str) -> str:
        template = named(rendered(helm, *values), "Deployment", "linkwise")["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/config"])

    assert checksum() == checksum()
    assert checksum() != checksum("config.placing.breadth=8")


@pytest.mark.parametrize("nodes", ["all", "labelled"])
def test_a_node_can_be_kept_free_of_the_agent(helm: str, nodes: str) -> None:
    affinity = pods(rendered(helm, f"agent.nodes={nodes}"))["agent"]["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    opted_out = {"key": "linkwise.dev/agent", "operator": "NotIn", "values": ["false"]}
    assert all(opted_out in term["matchExpressions"] for term in terms)
    assert (len(terms) == 1) == (nodes == "all")


def test_definitions_outlive_the_release(helm: str) -> None:
    for definition in of_kind(rendered(helm), "CustomResourceDefinition"):
        assert definition["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
        source = yaml.safe_load((ROOT / f"deploy/crds/{definition['metadata']['name']}.yaml").read_text("utf-8"))
        assert definition["spec"] == source["spec"]


def test_the_manifests_without_helm_are_the_rendered_chart(helm: str) -> None:
    packaged = (ROOT / "src/linkwise/config" / FILE).read_text("utf-8")
    assert packaged == rendered_manifests(helm), "run `make manifests`"
