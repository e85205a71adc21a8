from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest
import yaml

from linkwise.views.table import age_text
from support.builders.access_objects import EVERYBODY, policy_document
from support.builders.dra_objects import claim, device_class, resource_slice
from support.e2e.node_objects import ascend, gpushare, machine, node
from support.e2e.pod_objects import pod, pod_group
from support.embedded.cli_cluster import AskedCluster, gpushare_pod

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AskedCluster]:
    """A cluster that the tests only read."""
    with AskedCluster(tmp_path_factory.mktemp("cluster")) as made:
        made.make(*machine("a", "nvlink", unhealthy=[7]), *machine("m", "measured"), *gpushare("s"), *ascend("x"))
        made.make(pod("default", "huge", {"nvidia.com/gpu": 16}), pod("default", "plain"))
        made.make(gpushare_pod("share", "s", 6, 1), pod("kube-system", "three", {"huawei.com/Ascend910": 3}))
        labels = {"scheduling.x-k8s.io/pod-group": "llm"}
        made.make(pod_group("default", "llm"))
        made.make(*(pod("default", f"w-{i}", {"nvidia.com/gpu": 4}, labels=labels) for i in range(2)))
        gang = {
            f"gang.scheduling.koordinator.sh/{key}": text for key, text in (("name", "moe"), ("min-available", "2"))
        }
        made.make(*(pod("kube-node-lease", f"m-{i}", {"nvidia.com/gpu": 8}, annotations=gang) for i in range(2)))
        yield made


def rows(cluster: AskedCluster, *words: str) -> dict[str, list[str]]:
    """Cells of a table by its first column."""
    lines = cluster.ask("get", *words).stdout.splitlines()
    table = [[cell for cell in line.split("   ") if cell.strip()] for line in lines]
    return {cells[0]: [cell.strip() for cell in cells[1:]] for cells in table if cells}


def test_policies_are_listed_with_what_is_in_use_and_their_conditions(tmp_path: Path) -> None:
    with AskedCluster(tmp_path) as cluster:
        cluster.make(*gpushare("s"), gpushare_pod("share", "s", 6, 1))
        cluster.make(policy_document("one", {"namespaces": ["default"]}, maxDevices=4, sharing={"with": "namespace"}))
        cluster.make(policy_document("two", EVERYBODY, resources=[], models=["No Such"]))
        found = rows(cluster, "policies")
        assert found["NAME"] == ["SUBJECTS", "RESOURCES", "DEVICES", "PODS", "CONDITION"]
        assert found["one"] == ["namespace default", "all", "1/4", "1", "Enforced"]
        assert found["two"] == ["all", "none", "1", "1", "UnknownModel"]
        assert rows(cluster, "policies", "-o", "wide")["two"][5:7] == ["No Such", "-"]
        document = json.loads(cluster.ask("get", "policy/two", "-o", "json").stdout)
        assert document["policy"]["models"] == ["No Such"]
        assert {each["type"]: each["status"] for each in document["conditions"]}["Effective"] == "False"
        assert "AcceleratorPolicy three not found" in cluster.ask("get", "policy", "three").stderr


def test_nodes_are_listed_with_sharing_mode_and_links(cluster: AskedCluster) -> None:
    found = rows(cluster, "nodes")
    assert found["NAME"] == ["SHARING", "IDLE", "MEMORY", "USED", "LINKS", "PROBLEMS"]
    assert found["a"] == ["whole", "7/8", "126 GiB", "-", "NVLink, PCIe", "1 unhealthy"]
    assert found["s"] == ["memory", "3/4", "88 GiB", "6 GiB", "-", "-"]
    assert found["x"][1::3] == ["8/8", "2 rings of 4"]


def test_pods_that_request_devices_are_listed_with_the_reason_they_are_pending(cluster: AskedCluster) -> None:
    found = rows(cluster, "pods")
    assert set(found) - {"NAME"} == {"huge", "share", "w-0", "w-1"}
    assert found["huge"][:3] == ["Pending", "-", "16 requested"]
    assert found["huge"][-1] == "2 nodes had fewer devices than requested; 2 nodes had no devices of the requested kind"
    assert found["share"][:3] == ["Starting", "s", "6 GiB of {1}"]
    assert rows(cluster, "pods", "-o", "wide")["w-0"][5] == "llm"


def test_members_are_listed_with_the_shortage_of_their_group(cluster: AskedCluster) -> None:
    found = rows(cluster, "pods", "-n", "kube-node-lease")
    assert found["m-0"][-1] == found["m-1"][-1] == "its group needs 2 nodes with 8 free devices; 1 has them"
    assert rows(cluster, "pods")["w-0"][-1] == "its group fits now: 2 members on 1 node"


def test_pods_of_all_namespaces_are_distinguished(cluster: AskedCluster) -> None:
    found = rows(cluster, "pods", "-A")
    assert found["kube-system"][:2] == ["three", "Invalid"]
    shown = cluster.ask("get", "pods", "-n", "kube-public")
    assert (shown.returncode, shown.stdout) == (0, "")
    assert shown.stderr == "no pods that request devices found in namespace kube-public; use -A for all namespaces\n"


def test_devices_are_listed_with_their_pods(cluster: AskedCluster) -> None:
    lines = cluster.ask("get", "devices", "s").stdout.splitlines()
    assert [line.split() for line in lines[1:3]] == [
        ["s", "0", "-", "Healthy", "idle", "-", "-"],
        ["s", "1", "-", "Healthy", "6/22", "GiB", "default/share", "6", "GiB", "-"],
    ]
    wide = cluster.ask("get", "devices", "a", "-o", "wide").stdout
    assert "GPU-" in wide
    assert " Unhealthy " in wide


def test_groups_report_how_many_are_bound(cluster: AskedCluster) -> None:
    assert rows(cluster, "groups")["llm"] == ["0/2", "-", "schedulable", "-", "fits now: 2 members on 1 node"]


def test_the_same_data_is_printed_as_json_and_yaml(cluster: AskedCluster) -> None:
    nodes = json.loads(cluster.ask("get", "nodes", "-o", "json").stdout)["items"]
    assert [node["name"] for node in nodes] == ["a", "m", "s", "x"]
    assert nodes[3]["rings"] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    one = yaml.safe_load(cluster.ask("get", "pod", "huge", "-o", "yaml").stdout)
    assert (one["name"], one["state"], one["asked"]["devices"]) == ("default/huge", "unschedulable", 16)


def test_an_empty_list_is_printed_as_a_list_without_items(cluster: AskedCluster) -> None:
    for words in (("get", "pods", "-n", "empty"), ("get", "groups", "-n", "empty"), ("top", "pods", "-n", "empty")):
        shown = cluster.ask(*words, "-o", "json")
        assert (shown.returncode, json.loads(shown.stdout)["items"]) == (0, [])


def test_the_json_flag_and_the_output_option_are_equivalent(cluster: AskedCluster) -> None:
    same = [
        cluster.ask("get", "nodes", *words).stdout for words in (["-o", "json"], ["--json"], ["--json", "-o", "json"])
    ]
    assert len({*same}) == 1
    clash = cluster.ask("get", "nodes", "--json", "-o", "yaml")
    assert (clash.returncode, clash.stderr.partition(":")[2]) == (
        2,
        " --json and -o yaml can't be used together\n",
    )


def without_ages(text: str) -> list[list[str]]:
    """The words of each line; ages differ from call to call."""
    return [["AGE" if re.fullmatch(r"\d+[smh]", word) else word for word in line.split()] for line in text.splitlines()]


def test_no_list_wraps_or_is_cut_in_a_pipe(cluster: AskedCluster) -> None:
    for kind in ("nodes", "pods", "devices", "groups", "policies", "usage", "capacity"):
        shown = cluster.ask("get", kind, columns=20)
        objects = json.loads(cluster.ask("get", kind, "-o", "json").stdout)["items"]
        wide = cluster.ask("get", kind, columns=300)
        assert without_ages(shown.stdout) == without_ages(wide.stdout)
        assert len(shown.stdout.splitlines()) == (len(objects) + 1 if objects else 0)
        assert "\x1b" not in shown.stdout


def test_names_are_printed_for_scripts(cluster: AskedCluster) -> None:
    assert cluster.ask("get", "nodes", "-o", "name").stdout == "node/a\nnode/m\nnode/s\nnode/x\n"
    assert "pod/huge\n" in cluster.ask("get", "pods", "-o", "name").stdout
    assert cluster.ask("get", "devices", "s", "-o", "name").stdout.splitlines()[0] == "device/s/0"


def test_several_names_and_kinds_are_listed_as_kubectl_does(cluster: AskedCluster) -> None:
    assert cluster.ask("get", "pods", "huge", "share", "-o", "name").stdout == "pod/huge\npod/share\n"
    both = cluster.ask("get", "po/huge", "no/a", "node/m")
    assert [line.split()[0] for line in both.stdout.splitlines() if line] == [
        "NAME",
        "pod/huge",
        "NAME",
        "node/a",
        "node/m",
    ]
    mixed = json.loads(cluster.ask("get", "pods,nodes", "-o", "json").stdout)
    assert (mixed["kind"], {item["kind"] for item in mixed["items"]}) == ("List", {"Pod", "Node"})
    wrong = cluster.ask("get", "pods", "node/a")
    assert (wrong.returncode, "KIND/NAME required" in wrong.stderr) == (2, True)


def test_objects_are_selected_by_labels(tmp_path: Path) -> None:
    with AskedCluster(tmp_path) as cluster:
        cluster.make(*gpushare("s"))
        cluster.make(*(pod("default", name, {"nvidia.com/gpu": 1}, labels={"app": name}) for name in ("a", "b")))
        assert cluster.ask("get", "pods", "-l", "app=a", "-o", "name").stdout == "pod/a\n"
        assert cluster.ask("get", "pods", "-l", "app in (a,b)", "--no-headers").stdout.count("\n") == 2
        assert cluster.ask("get", "nodes", "-l", "no=such").stderr == "no nodes with devices found\n"
        assert cluster.ask("get", "pods", "a", "-l", "app=a").returncode == 2


def test_times_are_rfc_3339_in_documents(cluster: AskedCluster) -> None:
    one = json.loads(cluster.ask("get", "pod/huge", "-o", "json").stdout)
    assert datetime.fromisoformat(one["created"]).utcoffset() == timedelta()
    assert (one["apiVersion"], one["kind"]) == ("cli.linkwise.dev/v1", "Pod")


def test_an_unknown_format_is_refused_with_the_known_ones(cluster: AskedCluster) -> None:
    wrong = cluster.ask("get", "pods", "-o", "jsonpath")
    assert (wrong.returncode, "'json', 'yaml', 'name', 'wide'" in wrong.stderr) == (2, True)


def test_conflicting_options_and_unknown_kinds_are_reported(cluster: AskedCluster) -> None:
    both = cluster.ask("get", "pods", "-n", "x", "-A")
    assert (both.returncode, both.stderr) == (2, "linkwise: -n and -A can't be used together\n")
    assert "did you mean pod?" in cluster.ask("get", "pood").stderr


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0s"), (45, "45s"), (119, "119s"), (180, "3m"), (7200, "2h"), (200_000, "2d")]
)
def test_ages_are_formatted_like_those_of_kubectl(seconds: float, text: str) -> None:
    assert age_text(seconds) == text


def test_devices_that_resource_claims_allocated_are_shown_as_such(tmp_path: Path) -> None:
    with AskedCluster(tmp_path) as made:
        made.make(node("dra"), device_class(), resource_slice("dra", 4), claim("mine", "dra", ["gpu-0", "gpu-1"]))
        wide = made.ask("get", "nodes", "-o", "wide", columns=200)
        devices = made.ask("get", "devices", "dra", "-o", "wide", columns=200)
        text = made.ask("explain", "node/dra")
    assert "2/4" in wide.stdout
    assert "ResourceClaims: GPU-gpu-0, GPU-gpu-1" in wide.stdout
    assert devices.stdout.count("ResourceClaim default/mine") == 2
    assert "allocated by a ResourceClaim: GPU-gpu-0, GPU-gpu-1" in text.stdout


def test_usage_is_listed_by_namespace_with_totals(cluster: AskedCluster) -> None:
    found = [line.split() for line in cluster.ask("get", "usage", "--no-headers").stdout.splitlines()]
    assert ["default", "aliyun.com/gpu-mem", "-", "1", "6", "GiB", "0", "<unknown>"] in found
    assert ["default", "nvidia.com/gpu", "-", "0", "0", "24", "0"] in found
    assert ["TOTAL", "nvidia.com/gpu", "-", "0", "0", "40", "0"] in found
    one = json.loads(cluster.ask("get", "usage", "-n", "kube-system", "-o", "json").stdout)
    assert [(item["namespace"], item["pending_pods"]) for item in one["items"]] == [("kube-system", 1)]


def test_capacity_is_listed_by_resource_and_size(cluster: AskedCluster) -> None:
    items = json.loads(cluster.ask("get", "capacity", "-o", "json").stdout)["items"]
    found = {
        (item["resource"], size["size"]): (size["pods"], size["fragmentation"])
        for item in items
        for size in item["sizes"]
    }
    assert len(items) == len({item["resource"] for item in items})
    assert found["huawei.com/Ascend910", 8] == (1, 0)
    assert found["nvidia.com/gpu", 8] == (1, 47)
    assert cluster.ask("get", "capacity", "x").returncode == 2


def test_capacity_has_one_line_per_resource_and_model(cluster: AskedCluster) -> None:
    lines = cluster.ask("get", "capacity", "--no-headers").stdout.splitlines()
    items = json.loads(cluster.ask("get", "capacity", "-o", "json").stdout)["items"]
    assert len(lines) == len({(item["resource"], item["model"]) for item in items})
    assert any("47% for 8" in line for line in lines)
