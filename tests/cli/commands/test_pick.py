from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess

    Linkwise = Callable[..., CompletedProcess[str]]


def test_a_choice_is_shown_with_its_score_runner_up_and_reason(linkwise: Linkwise) -> None:
    shown = linkwise("pick", "--profile", "dgx1-v100", "--size", "2")
    assert shown.returncode == 0
    for part in ("{0,3}  link score 230", "runner-up {2,3}", "total 920", "*3  NV2+PHB"):
        assert part in shown.stdout


def test_a_choice_by_bandwidth_lists_suspect_pairs(linkwise: Linkwise) -> None:
    shown = linkwise("pick", "--profile", "dgx1-v100-measured", "--size", "2", "--available", "0,3,6,7")
    assert "chosen    {0,3}" in shown.stdout
    assert "suspect   1-4: 4.64 and 16.81 GB/s in the two directions; counted as 16.81" in shown.stdout


def test_link_kinds_inferred_from_bandwidth_are_marked_with_a_warning(linkwise: Linkwise) -> None:
    shown = linkwise("pick", "--profile", "dgx1-v100-measured", "-s", "2", "--policy", "link-affinity")
    assert "chosen    {0,3}  link score 210" in shown.stdout
    assert "warning   link kinds are inferred from bandwidth" in shown.stdout


def test_the_output_fits_eighty_columns(linkwise: Linkwise) -> None:
    for name in ("dgx1-v100", "a100-bridged", "dgx2-v100", "dgx1-v100-measured"):
        shown = linkwise("pick", "--profile", name, "--size", "3")
        assert max(map(len, shown.stdout.splitlines())) <= 80
        assert "…" not in shown.stdout


@pytest.mark.parametrize(("count", "shown"), [(16, True), (40, False)])
def test_a_wide_matrix_is_rounded_or_omitted_but_never_truncated(
    linkwise: Linkwise,
    tmp_path: Path,
    count: int,
    shown: bool,  # noqa: FBT001 - a test parameter
) -> None:
    rows = [[0 if i == j else 93.21 + i + j for j in range(count)] for i in range(count)]
    rows[0][1] = 1.0
    (tmp_path / "m.json").write_text(json.dumps({"bandwidth": rows}))
    out = linkwise("pick", "-t", "m.json", "-s", "2").stdout
    assert "\u2026" not in out
    assert max(map(len, out.splitlines())) <= 80
    assert ("94?" in out) == shown
    assert ("The table of 40 devices needs" in out) != shown


def test_a_machine_is_read_from_a_file_or_standard_input(linkwise: Linkwise, tmp_path: Path) -> None:
    machine = "devices: [GPU-a, GPU-b, GPU-c]\nlinks: [[X, SYS, NV2], [SYS, X, SYS], [NV2, SYS, X]]\n"
    (tmp_path / "machine.yaml").write_text(machine)
    answer = {"devices": [0, 2], "score": 210, "total": 210, "partition": [[0, 2], [1]], "normalized": 11.3}
    ways: list[tuple[str, dict[str, str]]] = [("machine.yaml", {}), ("-", {"stdin": machine})]
    for file, given in ways:
        shown = linkwise("pick", "-t", file, "-s", "2", "--json", **given)
        assert json.loads(shown.stdout) == answer


def test_devices_can_be_selected_by_id(linkwise: Linkwise, tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text('{"devices":["GPU-a","GPU-b","GPU-c"],"bandwidth":[[0,9,9],[9,0,9],[9,9,0]]}')
    shown = linkwise("pick", "-t", "m.json", "-s", "1", "--available", "GPU-b, 2", "--required", "GPU-c")
    assert "{2} (GPU-c)" in shown.stdout


def test_ranges_of_positions_are_accepted_and_devices_in_use_are_marked(linkwise: Linkwise) -> None:
    shown = linkwise("pick", "--profile", "dgx1-v100", "-s", "2", "--available", "0-2,6")
    assert "chosen    {0,1}" in shown.stdout
    assert "\n-3  " in shown.stdout


def test_a_refused_request_is_explained_and_exits_with_code_one(linkwise: Linkwise) -> None:
    shown = linkwise("pick", "--profile", "dgx1-v100", "--size", "9")
    assert (shown.returncode, shown.stdout.strip()) == (
        1,
        "refused   9 devices requested, but only 8 are available",
    )
    shown = linkwise("pick", "--profile", "dgx1-v100", "--size", "9", "--json")
    assert json.loads(shown.stdout) == {"reject": "9 devices requested, but only 8 are available"}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--size", "2"], "machine required: --topology FILE, or --profile NAME"),
        (["--profile", "dgx1-v100"], "number of devices required: --size N"),
        (
            ["--profile", "dgx", "-s", "1"],
            "'dgx' is not a known profile; did you mean dgx1-v100? Profiles: dgx1-v100, ",
        ),
        (["-t", "none.yaml", "-s", "1"], "none.yaml: No such file or directory"),
        (["-t", ".", "-s", "1"], ".: Is a directory"),
        (
            ["--profile", "dgx1-v100", "-s", "1", "--available", "GPU-x"],
            "--available: 'GPU-x' is not a device of this",
        ),
        (["--profile", "dgx1-v100", "-s", "1", "--required", "8"], "required names device 8"),
        (["--profile", "dgx1-v100", "-s", "2", "--generation", "nvlink"], "expected nvlink=4,pcie=5"),
        (
            ["--profile", "dgx1-v100", "-s", "2", "--generation", "nvlink=77"],
            "NVLink generation 77 is unknown",
        ),
        (["--profile", "dgx1-v100", "-t", "m.yaml", "-s", "1"], "can't be used together"),
        (["--profile", "dgx1-v100-measured", "-s", "1", "--objective", "best-set"], "require --policy link-affinity"),
        (["--batch", "-", "-s", "1"], "--size can't be used with --batch"),
        (
            ["--profile", "ascend-910", "-s", "2", "--available", "8"],
            "--available names device 8: the machine has devices 0 to 7",
        ),
        (
            ["--profile", "ascend-910", "-s", "2", "--objective", "best-set"],
            "--objective can't be used with ring-affinity",
        ),
        (["--room", "0=1"], "memory-share requires the free memory of each device"),
        (["--room", "0:1", "--share", "1"], "expected a list such as 0=12207,1=8138"),
        (["--room", "0=-1", "--share", "1"], "room of device 0 is -1"),
        (["--room", "0=5,0=7", "--share", "1"], "names a device twice"),
        (["--room", "", "--share", "1"], "room: no devices"),
        (["--profile", "dgx1-v100", "-s", "1", "--available", "5-2"], "'5-2' is reversed; write 2-5"),
        (["--profile", "dgx1-v100", "-s", "1", "--generation", "nvlink=4,nvlink=5"], "expected nvlink=4,pcie=5"),
        (["--batch", "none.jsonl"], "none.jsonl: No such file or directory"),
    ],
)
def test_invalid_input_is_reported_without_a_traceback_and_exits_with_code_two(
    linkwise: Linkwise, words: list[str], text: str
) -> None:
    shown = linkwise("pick", *words)
    assert shown.returncode == 2
    assert text in shown.stderr
    assert "Traceback" not in shown.stderr


def test_rings_mark_chosen_used_and_faulty_devices(linkwise: Linkwise) -> None:
    shown = linkwise("pick", "--profile", "ascend-910", "-s", "2", "--available", "0,1,4-6", "--faulty", "7")
    assert shown.returncode == 0
    assert shown.stdout.splitlines()[:2] == ["ring 0 *0 *1 -2 -3", "ring 1  4  5  6 ?7"]
    assert "chosen    {0,1}  group A, score 227" in shown.stdout


def test_a_refusal_by_rings_states_the_idle_and_the_requested_number(linkwise: Linkwise) -> None:
    shown = linkwise("pick", "--profile", "ascend-910", "-s", "2", "--available", "0,4")
    assert shown.returncode == 1
    assert "refused   ring 0 has 1 idle, ring 1 has 1 idle; 2 are needed in one ring" in shown.stdout


def test_whole_devices_are_chosen_by_count_only(linkwise: Linkwise) -> None:
    shown = linkwise("pick", "--policy", "whole-device", "-s", "2", "--available", "6,1-2", "--required", "6")
    assert "chosen    {1,6}" in shown.stdout
    assert linkwise("pick", "--policy", "whole-device", "-s", "2", "--available", "1").returncode == 1


def test_free_memory_is_shown_for_each_device(linkwise: Linkwise) -> None:
    shown = linkwise("pick", "--room", "0=12207,1=8138,2=4069,3=16276", "--share", "8138")
    assert "*1  8138 ####################" in shown.stdout
    assert "chosen    {1}  8138 free, 0 left after allocation" in shown.stdout
    none = linkwise("pick", "--room", "0=4069,1=4069", "--share", "8138", "--json")
    assert json.loads(none.stdout)["reject"].endswith("8138 is needed on one device")


@pytest.mark.parametrize("text", ["links: [[X", "\t{", "{links: *none}", "\x00", "42", "- a"])
def test_an_invalid_machine_file_is_reported_by_name(linkwise: Linkwise, tmp_path: Path, text: str) -> None:
    (tmp_path / "machine.yaml").write_text(text)
    shown = linkwise("pick", "-t", "machine.yaml", "-s", "1")
    assert shown.returncode == 2
    assert shown.stderr.startswith("linkwise: machine.yaml: ")
    assert "Traceback" not in shown.stderr


@pytest.mark.rule("000.generation")
def test_links_are_weighted_by_generation_only_on_request(linkwise: Linkwise) -> None:
    asked = ["pick", "--profile", "dgx1-v100", "-s", "2", "--json"]
    assert json.loads(linkwise(*asked).stdout)["score"] == 230
    assert json.loads(linkwise(*asked, "--generation", "nvlink=2,pcie=3").stdout)["score"] == 116
