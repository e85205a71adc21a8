from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml

from linkwise.config.protection import POLICIES
from linkwise.config.rbac import AGENT_OPTIONAL, OPTIONAL
from linkwise.config.schema import SCHEMA
from support.command_line import run_linkwise
from support.environment import surroundings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess

    Config = Callable[..., CompletedProcess[str]]

OURS = ("LINKWISE_", "PORT", "LOG_LEVEL", "KUBERNETES_SERVICE_")
TLS = ("--ca-file", "a", "--cert-file", "c", "--key-file", "k")
POLICY = """\
{
  "kind": "Policy",
  "apiVersion": "v1",
  "extenders": [
    {"urlPrefix": "http://127.0.0.1:32766/gpushare-scheduler", "filterVerb": "filter", "bindVerb": "bind"}
  ]
}
"""


@pytest.fixture
def run(tmp_path: Path) -> Config:
    """Run the command line in an empty folder, with only the given settings in the environment."""

    def ran(*words: str, stdin: str = "", **variables: str) -> CompletedProcess[str]:
        kept = {name: value for name, value in surroundings().items() if not name.startswith(OURS)}
        environment = {**kept, "COLUMNS": "100", "NO_COLOR": "1", **variables}
        return run_linkwise(*words, folder=tmp_path, environment=environment, stdin=stdin)

    return ran


def test_every_setting_is_shown_with_its_source(run: Config, tmp_path: Path) -> None:
    (tmp_path / "linkwise.yaml").write_text("http:\n  port: 8080\n")
    shown = run("config", "check", "linkwise.yaml", LINKWISE_PLACING_BREADTH="8")
    rows = {line.split()[0]: line.split()[1:] for line in shown.stdout.splitlines() if "." in line}
    assert (shown.returncode, shown.stderr) == (0, "")
    assert set(SCHEMA) <= set(rows)
    assert rows["http.port"] == ["8080", "linkwise.yaml:2"]
    assert rows["placing.breadth"] == ["8", "LINKWISE_PLACING_BREADTH"]
    assert rows["kube.page"] == ["500", "default"]


def test_a_default_inside_a_cluster_is_marked_as_such(run: Config) -> None:
    shown = run("config", "check", KUBERNETES_SERVICE_HOST="10.96.0.1").stdout
    assert "default, in a cluster" in next(line for line in shown.splitlines() if line.startswith("http.host"))


def test_large_numbers_are_printed_as_they_are_written(run: Config) -> None:
    lines = [line.split() for line in run("config", "check").stdout.splitlines()]
    assert ["webhook.certificate_lifetime", "7776000", "default"] in lines


def test_a_token_is_hidden(run: Config) -> None:
    token = {"LINKWISE_DEBUG_TOKEN": "s3cret"}
    for form in ((), ("--json",)):
        shown = run("config", "check", *form, **token).stdout
        assert "s3cret" not in shown
        assert "(hidden)" in shown


def test_problems_are_reported_one_per_line(run: Config) -> None:
    shown = run("config", "check", "-", stdin="http: {prot: 1}\nlog: {level: loud}\n")
    assert shown.returncode == 1
    assert shown.stdout.splitlines() == [
        "problem  standard input:1:8: http.prot: unknown setting; did you mean port?",
        "problem  standard input:2:14: log.level: expected debug, info, warning or error, got 'loud'",
    ]


def test_config_check_prints_settings_and_problems_as_json(run: Config) -> None:
    shown = run("config", "check", "-", "--json", stdin="http: {prot: 1, port: 80}")
    found = json.loads(shown.stdout)
    assert shown.returncode == 1
    assert found["problems"] == [
        {"place": "standard input:1:8", "name": "http.prot", "sentence": "unknown setting; did you mean port?"}
    ]
    settings = {entry["name"]: entry for entry in found["settings"]}
    assert settings["http.port"] == {"name": "http.port", "value": 80, "source": "file", "place": "standard input:1"}
    assert list(settings) == list(SCHEMA)


@pytest.mark.parametrize(("file", "said"), [("none.yaml", "No such file"), ("-", "standard input:1:5: not valid YAML")])
def test_a_file_that_can_not_be_read_is_one_sentence(run: Config, file: str, said: str) -> None:
    shown = run("config", "check", file, stdin="a: [")
    assert (shown.returncode, shown.stdout) == (2, "")
    assert said in shown.stderr
    assert "Traceback" not in shown.stderr


def test_the_scheduler_configuration_uses_the_given_options(run: Config) -> None:
    shown = run(
        "config", "scheduler", "--name", "gpu", "--url", "http://10.0.0.1:1", "--no-leader-elect", "--weight", "7"
    )
    found = yaml.safe_load(shown.stdout)
    (extender,) = found["extenders"]
    assert (shown.returncode, found["leaderElection"]) == (0, {"leaderElect": False})
    assert (found["profiles"][0]["schedulerName"], extender["urlPrefix"], extender["weight"]) == (
        *("gpu", "http://10.0.0.1:1"),
        7,
    )


def test_flags_add_the_default_scheduler_and_manage_every_pod(run: Config) -> None:
    found = yaml.safe_load(run("config", "scheduler", "--default-scheduler", "--every-pod", "--kubeconfig", "a").stdout)
    assert [profile["schedulerName"] for profile in found["profiles"]] == ["linkwise-scheduler", "default-scheduler"]
    assert "managedResources" not in found["extenders"][0]
    assert found["clientConnection"]["kubeconfig"] == "a"


def test_files_of_tls_change_the_default_url(run: Config) -> None:
    (extender,) = yaml.safe_load(run("config", "scheduler", *TLS).stdout)["extenders"]
    assert (extender["urlPrefix"], extender["enableHTTPS"]) == ("https://linkwise.linkwise-system.svc:39999", True)
    shown = run("config", "scheduler", *TLS, "--from-policy", "-", stdin=POLICY)
    (extender,) = yaml.safe_load(shown.stdout)["extenders"]
    assert extender["urlPrefix"] == "https://127.0.0.1:32766/gpushare-scheduler"


def test_a_policy_file_is_converted_from_standard_input(run: Config) -> None:
    shown = run("config", "scheduler", "--from-policy", "-", stdin=POLICY)
    (extender,) = yaml.safe_load(shown.stdout)["extenders"]
    assert (shown.returncode, extender["urlPrefix"]) == (0, "http://127.0.0.1:32766/gpushare-scheduler")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--url", "linkwise:1"], "--url: expected a URL with http:// or https:// and a host, got 'linkwise:1'"),
        (["--url", "http://[::1"], "--url: expected a URL with http:// or https:// and a host, got 'http://[::1'"),
        (["--from-policy", "none.json"], "none.json: No such file"),
        (["--from-policy", "-"], "standard input: the file is empty"),
        (["--url", "https://linkwise:1"], "--url: https needs --ca-file, --cert-file and --key-file"),
        (["--ca-file", "a"], "--cert-file, --key-file: required beside --ca-file"),
        (["--cert-file", "c", "--key-file", "k"], "--ca-file: required beside --cert-file, --key-file"),
        (["--server-name", "x"], "--server-name: only for TLS"),
        (["--url", "http://x:1", *TLS], "--url: http://x:1 is without TLS"),
        (["--weight", "0"], "0 is not in the range"),
        (["--name", "MyScheduler"], "--name: 'MyScheduler' is not a valid object name"),
        (["--namespace", "a.b"], "--namespace: 'a.b' is not a valid namespace"),
    ],
)
def test_invalid_options_print_no_configuration(run: Config, words: list[str], said: str) -> None:
    shown = run("config", "scheduler", *words)
    assert (shown.returncode, shown.stdout) == (2, "")
    assert said in shown.stderr


def test_a_policy_file_with_ambiguous_extenders_is_reported_by_name(run: Config, tmp_path: Path) -> None:
    strangers = [{"urlPrefix": "http://a:1/x"}, {"urlPrefix": "http://b:1/y"}]
    (tmp_path / "two.json").write_text(json.dumps({"kind": "Policy", "extenders": strangers}), "utf-8")
    shown = run("config", "scheduler", "--from-policy", "two.json")
    assert (shown.returncode, shown.stdout) == (2, "")
    assert shown.stderr.startswith("linkwise: two.json: extenders: it is ambiguous which of the 2 extenders")


def test_the_role_is_bound_to_a_user_and_omits_disabled_features(run: Config) -> None:
    shown = run(
        "manifests",
        "rbac",
        "--user",
        "me",
        "--name",
        "lw",
        "--without",
        "configmaps",
        "--without",
        "network",
        "--without",
        "leader",
        "--without",
        "tenants",
    )
    role, binding = yaml.safe_load_all(shown.stdout)
    assert (role["kind"], role["metadata"]["name"], binding["subjects"][0]["name"]) == ("ClusterRole", "lw", "me")
    assert "hypernodes" not in shown.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--name", "a b"], "--name: 'a b' is not a valid object name: use lowercase letters, digits, - and ."),
        (["--namespace", ""], "--namespace: '' is not a valid namespace"),
        (["--user", ""], "--user: the name is empty; use the user name"),
        (["--koordinator"], "--koordinator: only the agent writes Device objects; add --agent"),
        (["--dra"], "--dra: only the agent publishes ResourceSlices; add --agent"),
    ],
)
def test_invalid_names_print_no_role(run: Config, words: list[str], said: str) -> None:
    shown = run("manifests", "rbac", *words)
    assert (shown.returncode, shown.stdout) == (2, "")
    assert said in shown.stderr


@pytest.mark.parametrize(("words", "name"), [([], "linkwise-agent"), (["--name", "linkwise"], "linkwise")])
def test_the_role_of_the_agent_has_a_name_of_its_own(run: Config, words: list[str], name: str) -> None:
    _, role, _ = yaml.safe_load_all(run("manifests", "rbac", "--agent", "--koordinator", *words).stdout)
    assert role["metadata"]["name"] == name
    assert role["rules"][-1]["resources"] == ["devices"]


def test_the_agent_publishes_slices_on_request(run: Config) -> None:
    shown = [run("manifests", "rbac", "--agent", *words).stdout for words in ([], ["--dra"])]
    assert ["resourceslices" in text for text in shown] == [False, True]


def test_classes_of_devices_have_an_extended_resource_on_request(run: Config) -> None:
    words: list[list[str]] = [[], ["--extended-resource", "nvidia.com/gpu"]]
    shown = [list(yaml.safe_load_all(run("manifests", "device-classes", *each).stdout)) for each in words]
    assert [[one["spec"].get("extendedResourceName", "") for one in each] for each in shown] == [
        ["", "", ""],
        ["nvidia.com/gpu", "", ""],
    ]


@pytest.mark.parametrize("name", ["gpu", "nvidia.com/", "/gpu", "a b/c", "nvidia.com/gpu/x", "nvidia.com/gpu\nspec: 1"])
def test_an_extended_resource_that_is_none_prints_no_class(run: Config, name: str) -> None:
    shown = run("manifests", "device-classes", "--extended-resource", name)
    assert (shown.returncode, shown.stdout) == (2, "")
    assert "is not a resource such as nvidia.com/gpu" in shown.stderr


def test_an_agent_that_serves_claims_needs_cdi(run: Config) -> None:
    shown = run("agent", "--mode", "dra", LINKWISE_AGENT_CDI="never")
    assert shown.returncode == 2
    assert "with agent.mode dra containers get devices by CDI names; set auto or always" in shown.stderr


def test_policies_for_other_programs_are_printed(run: Config) -> None:
    shown = run("manifests", "protection", "--identity", "plugin", "--identity-group", "system:nodes", "--audit")
    kinds = [each["kind"] for each in yaml.safe_load_all(shown.stdout)]
    assert kinds == ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"] * len(POLICIES)
    assert '["plugin"]' in shown.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--agent-name", "a b"], "--agent-name: 'a b' is not a valid object name"),
        (["--identity", ""], "--identity: '' is not a name; use one that `kubectl auth whoami` prints"),
        (["--user", ""], "--user: '' is not a name"),
    ],
)
def test_invalid_names_print_no_policies(run: Config, words: list[str], said: str) -> None:
    shown = run("manifests", "protection", *words)
    assert (shown.returncode, shown.stdout) == (2, "")
    assert said in shown.stderr


def test_the_help_lists_every_optional_feature(run: Config) -> None:
    shown = " ".join(run("manifests", "rbac", "--help").stdout.split())
    assert f"Optional features: {', '.join(OPTIONAL)}; of the agent: {', '.join(AGENT_OPTIONAL)}." in shown


def test_an_unknown_feature_is_reported(run: Config) -> None:
    shown = run("manifests", "rbac", "--without", "everything")
    assert shown.returncode == 2
    assert "unknown feature: everything; use leader, events, " in shown.stderr


def test_both_crds_are_printed(run: Config) -> None:
    printed = list(yaml.safe_load_all(run("manifests", "crd").stdout))
    assert {each["kind"] for each in printed} == {"CustomResourceDefinition"}
    assert sorted(each["spec"]["names"]["kind"] for each in printed) == ["AcceleratorPolicy", "DeviceInventory"]


def test_the_configuration_of_volcano_is_printed_with_our_extender(run: Config) -> None:
    printed = run("config", "volcano", "--url", "http://10.1.2.3:39999")
    document = yaml.safe_load(printed.stdout)
    assert (printed.returncode, printed.stderr) == (0, "")
    extender = document["tiers"][-1]["plugins"][-1]
    assert extender["arguments"]["extender.urlPrefix"] == "http://10.1.2.3:39999/volcano"


def test_a_config_map_for_volcano_is_ready_to_apply(run: Config) -> None:
    printed = run("config", "volcano", "--config-map", "--namespace", "batch")
    document = yaml.safe_load(printed.stdout)
    assert document["metadata"] == {"name": "volcano-scheduler-configmap", "namespace": "batch"}
    assert "name: extender" in document["data"]["volcano-scheduler.conf"]


def test_a_configuration_of_volcano_is_converted_from_standard_input(run: Config) -> None:
    printed = run("config", "volcano", "--from", "-", stdin="tiers:\n- plugins:\n  - name: topology910\n")
    (tier,) = yaml.safe_load(printed.stdout)["tiers"]
    assert [plugin["name"] for plugin in tier["plugins"]] == ["extender"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--volcano-version", "new"], "--volcano-version: expected a version such as 1.14, got 'new'"),
        (["--volcano-version", "1.12"], "--volcano-version: gated mode needs Volcano 1.13 or later"),
        (["--url", "linkwise:1"], "--url: expected a URL with http:// or https:// and a host"),
        (["--from", "missing.conf"], "missing.conf: No such file or directory"),
    ],
)
def test_invalid_options_for_volcano_are_refused(run: Config, words: list[str], sentence: str) -> None:
    refused = run("config", "volcano", *words)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert sentence in refused.stderr
