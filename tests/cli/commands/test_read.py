from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess

    Linkwise = Callable[..., CompletedProcess[str]]

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: trainer
spec:
  containers:
  - name: main
    resources:
      limits:
        nvidia.com/gpu: 2
"""
BOMB = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 10))
VCJOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: mnist, namespace: team-a}
spec:
  minAvailable: 2
  tasks:
  - name: worker
    replicas: 2
    template:
      spec:
        nodeSelector: {accelerator-type: module}
        containers:
        - name: npu
          resources: {limits: {huawei.com/Ascend910: 8}}
  - name: ps
    template: {spec: {containers: [{name: ps}]}}
"""


def read(linkwise: Linkwise, text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(linkwise("read", "-f", "-", "--json", stdin=text).stdout)
    return found


def test_a_pod_is_listed_with_dialect_policy_and_containers(linkwise: Linkwise) -> None:
    shown = linkwise("read", "-f", "-", stdin=POD)
    assert shown.returncode == 0
    assert shown.stdout.splitlines() == [
        "Pod trainer (line 1)",
        "  requests main: 2 devices (nvidia.com/gpu)",
        "  api      nvidia",
        "  policy   link-affinity",
    ]


def test_each_task_of_a_volcano_job_is_read(linkwise: Linkwise) -> None:
    worker, ps = read(linkwise, VCJOB)
    assert (worker["name"], worker["pods"], worker["policy"], worker["namespace"]) == (
        *("mnist-worker", 2, "ring-affinity"),
        "team-a",
    )
    assert ps["asks"] == {}
    assert worker["group"]["minimum"] == 2


def test_a_request_that_no_node_can_serve_is_a_problem(linkwise: Linkwise) -> None:
    shown = linkwise("read", "-f", "-", stdin=VCJOB.replace("Ascend910: 8", "Ascend910: 3"))
    assert shown.returncode == 1
    assert "problem  14:32 huawei.com/Ascend910: 3 devices can't be allocated on" in shown.stdout
    unknown = linkwise("read", "-f", "-", stdin=VCJOB.replace("type: module", "type: modul"))
    assert "accelerator-type: hardware profile 'modul' is unknown" in unknown.stdout


def test_a_problem_in_the_second_task_has_the_line_of_that_task(linkwise: Linkwise) -> None:
    second = VCJOB.replace("[{name: ps}]", "[{name: ps, resources: {limits: {huawei.com/Ascend910: x}}}]")
    problem = read(linkwise, second)[1]["problems"][0]
    assert problem["line"] == 16


def test_a_field_of_the_wrong_type_is_reported_with_its_position(linkwise: Linkwise) -> None:
    text = POD.replace("name: trainer", "name: trainer\n  labels: {a: 1}")
    shown = linkwise("read", "-f", "-", stdin=text)
    assert (
        "problem  5:3 metadata.labels[...]: expected text, got a whole number" in shown.stdout or "5:" in shown.stdout
    )
    assert shown.returncode == 1


def test_an_invalid_allocation_record_is_a_problem(linkwise: Linkwise) -> None:
    text = POD.replace("name: trainer", "name: trainer\n  annotations: {linkwise.dev/grant: '{'}")
    assert "linkwise.dev/grant: " in linkwise("read", "-f", "-", stdin=text).stdout


def test_mig_requests_are_left_to_the_vendors_device_plugin(linkwise: Linkwise) -> None:
    mig = linkwise("read", "-f", "-", stdin=POD.replace("nvidia.com/gpu", "nvidia.com/mig-1g.5gb"))
    assert "requests allocated by the vendor's device plugin" in mig.stdout


def test_a_request_for_devices_of_any_vendor_is_valid_and_its_requirement_is_checked(linkwise: Linkwise) -> None:
    anyone = POD.replace("nvidia.com/gpu: 2", "linkwise.dev/accelerator: 3").replace(
        "name: trainer", "name: trainer\n  annotations:\n    linkwise.dev/require: memory>=40Gi"
    )
    shown = linkwise("read", "-f", "-", stdin=anyone)
    assert (shown.returncode, shown.stdout.splitlines()[1:]) == (
        0,
        [
            "  requests main: 3 devices (linkwise.dev/accelerator)",
            "  requires memory>=40Gi (linkwise.dev/require)",
            "  api      linkwise",
            "  policy   that of the vendor which the admission webhook chooses",
        ],
    )
    misspelt = linkwise("read", "-f", "-", stdin=anyone.replace("memory>=", "memroy>="))
    assert (misspelt.returncode, "unknown fact 'memroy'" in misspelt.stdout) == (1, True)
    half = linkwise("read", "-f", "-", stdin=anyone.replace("accelerator: 3", "accelerator: 0.5"))
    assert (half.returncode, "linkwise.dev/accelerator: " in half.stdout) == (1, True)


def test_an_unsupported_kind_is_skipped_with_a_note(linkwise: Linkwise) -> None:
    shown = linkwise("read", "-f", "-", stdin="kind: Podd\nmetadata: {name: x}\n")
    assert "note: standard input:1: Podd x is skipped: unsupported kind" in shown.stderr


@pytest.mark.parametrize(
    ("kind", "wrap"),
    [
        ("Deployment", {"replicas": 3}),
        ("StatefulSet", {"replicas": 3}),
        ("Job", {"parallelism": 3}),
    ],
)
def test_workloads_are_read_by_their_pod_template(linkwise: Linkwise, kind: str, wrap: dict[str, int]) -> None:
    template = {"spec": {"containers": [{"name": "c", "resources": {"limits": {"aliyun.com/gpu-mem": 3}}}]}}
    text = json.dumps({"kind": kind, "metadata": {"name": "d"}, "spec": {**wrap, "template": template}})
    (found,) = read(linkwise, text)
    assert (found["pods"], found["policy"], found["dialect"]) == (3, "memory-share", "aliyun")


def test_a_problem_is_reported_with_line_and_column(linkwise: Linkwise) -> None:
    shown = linkwise("read", "-f", "-", stdin=POD.replace("gpu: 2", "gpu: two"))
    assert shown.returncode == 1
    assert "problem  10:9 nvidia.com/gpu: " in shown.stdout


def test_a_file_without_pods_or_devices_is_reported_as_such(linkwise: Linkwise) -> None:
    shown = linkwise("read", "-f", "-", stdin="kind: Service\nmetadata: {name: s}\n")
    assert (shown.returncode, shown.stdout) == (0, "no pods or device descriptions found\n")


def test_a_node_is_reported_by_every_dialect_that_knows_it(linkwise: Linkwise) -> None:
    node = {"kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": {"nvidia.com/gpu": "8"}}}
    (entry,) = read(linkwise, json.dumps(node))
    assert [facts["source"] for facts in entry["facts"]] == ["nvidia"]


def test_links_without_devices_are_reported_as_links_only(linkwise: Linkwise) -> None:
    links = json.dumps([["X", "NV2"], ["NV2", "X"]])
    node = {"kind": "Node", "metadata": {"name": "n", "annotations": {"linkwise.dev/gpu-topology": links}}}
    shown = linkwise("read", "-f", "-", stdin=json.dumps(node))
    assert "  nvidia: links only; the devices come from another source" in shown.stdout.splitlines()


def test_with_several_files_every_line_names_its_file(linkwise: Linkwise, tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(POD)
    (tmp_path / "bad.yaml").write_text(POD.replace("gpu: 2", "gpu: two"))
    shown = linkwise("read", "-f", "good.yaml", "bad.yaml")
    lines = shown.stdout.splitlines()
    assert (shown.returncode, lines[0], lines[4]) == (1, "Pod trainer (good.yaml:1)", "Pod trainer (bad.yaml:1)")
    assert "problem  bad.yaml:10:9 nvidia.com/gpu: " in shown.stdout


def test_one_unreadable_file_suppresses_all_output(linkwise: Linkwise, tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(POD)
    shown = linkwise("read", "good.yaml", "none.yaml")
    assert (shown.returncode, shown.stdout) == (2, "")
    assert shown.stderr == "linkwise: none.yaml: No such file or directory\n"


@pytest.mark.parametrize("command", ["read", "apply", "plan"])
def test_a_missing_file_argument_is_reported_with_the_option(linkwise: Linkwise, command: str) -> None:
    shown = linkwise(command)
    assert (shown.returncode, "File required: -f FILE, or -f - for standard input." in shown.stderr) == (2, True)
    twice = linkwise(command, "-f", "-", "-")
    assert (twice.returncode, twice.stderr) == (2, "linkwise: only one of the files can be read from standard input\n")


def test_items_of_a_list_keep_their_line_numbers(linkwise: Linkwise) -> None:
    text = "kind: List\nitems:\n- kind: Pod\n  metadata: {name: a}\n- kind: Pod\n  metadata: {name: b}\n"
    assert [(entry["name"], entry["line"]) for entry in read(linkwise, text)] == [("a", 3), ("b", 5)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "contains no Kubernetes object"),
        ("- a\n- b\n", "standard input:1:1: expected a Kubernetes object, got a list"),
        ("a: [", "standard input:1:5: not valid YAML: expected the node content"),
        ("\x00", "standard input: not valid YAML: special characters are not allowed at byte 0\n"),
        ("[" * 100_000, "standard input: not valid YAML: it is nested too deeply\n"),
        ("9" * 5000, "standard input: not valid YAML: a number in it has too many digits\n"),
        (BOMB, "standard input:1:1: YAML aliases expand without limit\n"),
    ],
)
def test_an_unreadable_file_is_reported_without_a_traceback(linkwise: Linkwise, text: str, said: str) -> None:
    shown = linkwise("read", "-f", "-", stdin=text)
    assert shown.returncode == 2
    assert said in shown.stderr
    assert "Traceback" not in shown.stderr


def test_the_published_sample_manifests_are_read(linkwise: Linkwise, shared: Path, tmp_path: Path) -> None:
    for seed, marker in (("004", "binpack"), ("001", "kind: Device")):
        text = next((shared / "seeds").glob(f"{seed}_*")).read_text(errors="replace")
        blocks = [block for block in text.split("```")[1::2] if marker in block and "kind:" in block]
        assert blocks
        for number, block in enumerate(blocks):
            (tmp_path / f"{seed}-{number}.yaml").write_text(block.partition("\n")[2])
            shown = linkwise("read", "-f", f"{seed}-{number}.yaml", "--json")
            assert shown.returncode in {0, 1}, shown.stderr
            assert json.loads(shown.stdout)


def test_misspelt_resources_and_labels_are_problems_with_their_line(linkwise: Linkwise) -> None:
    text = POD.replace("nvidia.com/gpu:", "nvidia.com/gpus:").replace(
        "  name: trainer\n", "  name: trainer\n  labels: {gputopology.scheduling.koordinator.sh/nam: bert}\n"
    )
    result = linkwise("read", "-f", "-", stdin=text)
    assert result.returncode == 1
    assert "11:9 nvidia.com/gpus: unknown resource; did you mean nvidia.com/gpu?" in result.stdout
    assert "5:12 gputopology.scheduling.koordinator.sh/nam: unknown label; did you mean" in result.stdout
