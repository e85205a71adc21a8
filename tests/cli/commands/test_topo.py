from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from itertools import combinations
from typing import TYPE_CHECKING

import pytest

from linkwise.cli.render.svg import drawing
from linkwise.model.link import Link
from linkwise.model.topology import Topology, numbered
from linkwise.vendors.machines import PROFILES, profile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess

    Linkwise = Callable[..., CompletedProcess[str]]

WHOLE = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t0-7\nGPU1\tNV4\t X \t0-7\n"
CUT = WHOLE[: WHOLE.index("GPU1\tNV4")]


def test_a_complete_text_exits_with_code_zero(linkwise: Linkwise) -> None:
    shown = linkwise("topo", stdin=WHOLE)
    assert shown.returncode == 0
    assert "rings     {0,1}" in shown.stdout
    assert " 0    X  NV4" in shown.stdout


def test_an_incomplete_text_prints_json_and_exits_with_code_three(linkwise: Linkwise) -> None:
    shown = linkwise("topo", "-", "--json", stdin=CUT)
    assert shown.returncode == 3
    printed = json.loads(shown.stdout)
    assert (printed["status"], printed["problems"]) == ("incomplete", ["row GPU1 is missing"])
    assert printed["links"] == [["X", "NV4"], ["?", "X"]]


def test_an_error_message_of_the_tool_exits_with_code_two(linkwise: Linkwise) -> None:
    shown = linkwise("topo", stdin="This device does not support querying topo.\n")
    assert shown.returncode == 2
    assert "does not support querying topo" in shown.stderr


@pytest.mark.parametrize(
    ("words", "stdin", "text"),
    [
        (["none.txt"], "", "none.txt: No such file"),
        (["x", "--profile", "dgx1-v100"], "", "can't be used together"),
        ([], "", "standard input is empty"),
        ([], "hello", "neither the output of a supported tool nor a machine file"),
        (["--profile", "dgx1-v100", "--svg", "-", "--json"], "", "both write to standard output"),
        (["--profile", "dgx1-v100", "--svg", "no/such/folder.svg"], "", "no/such/folder.svg: No such file"),
    ],
)
def test_invalid_input_is_reported_without_a_traceback(
    linkwise: Linkwise, words: list[str], stdin: str, text: str
) -> None:
    shown = linkwise("topo", *words, stdin=stdin)
    assert shown.returncode == 2
    assert text in shown.stderr
    assert "Traceback" not in shown.stderr


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_fits_eighty_columns(linkwise: Linkwise, name: str) -> None:
    shown = linkwise("topo", "--profile", name)
    assert shown.returncode == 0
    assert max(map(len, shown.stdout.splitlines())) <= 80


def test_a_measured_machine_lists_suspect_pairs(linkwise: Linkwise) -> None:
    printed = json.loads(linkwise("topo", "--profile", "dgx1-v100-measured", "--json").stdout)
    assert printed["suspects"] == [[0, 4], [1, 4]]


def test_pick_accepts_the_output_of_a_tool(linkwise: Linkwise, tmp_path: Path) -> None:
    (tmp_path / "topo.txt").write_text(WHOLE)
    answer = json.loads(linkwise("pick", "-t", "topo.txt", "-s", "2", "--json").stdout)
    assert (answer["devices"], answer["score"]) == ([0, 1], 410)


def test_pick_reports_missing_parts_of_the_text(linkwise: Linkwise, tmp_path: Path) -> None:
    (tmp_path / "cut.txt").write_text(CUT)
    assert "missing   row GPU1 is missing" in linkwise("pick", "-t", "cut.txt", "-s", "2").stdout
    answer = json.loads(linkwise("pick", "-t", "cut.txt", "-s", "2", "--json").stdout)
    assert answer["problems"] == ["row GPU1 is missing"]


def test_pick_on_a_list_of_devices_says_that_it_has_no_links(linkwise: Linkwise) -> None:
    shown = linkwise("pick", "-t", "-", "-s", "1", stdin="GPU 0: Tesla T4 (UUID: GPU-1)\n")
    assert shown.returncode == 2
    assert "no data on links" in shown.stderr


def test_json_with_tabs_and_exponents_is_a_machine_file(linkwise: Linkwise) -> None:
    shown = linkwise("topo", "--json", stdin='{\n\t"bandwidth": [[0, 1e2], [1e2, 0]]\n}')
    assert json.loads(shown.stdout)["bandwidth"] == [[0.0, 100.0], [100.0, 0.0]]


def test_a_deeply_nested_document_is_reported_without_a_traceback(linkwise: Linkwise) -> None:
    shown = linkwise("topo", stdin="[" * 5000)
    assert shown.returncode == 2
    assert "Traceback" not in shown.stderr


def drawn(picture: str, shape: str) -> list[ET.Element]:
    return ET.fromstring(picture).findall(f".//{{http://www.w3.org/2000/svg}}{shape}")  # noqa: S314 - our own drawing


def across(picture: str) -> list[float]:
    return [float(circle.attrib["cx"]) for circle in drawn(picture, "circle")]


def linked(size: int, code_of: Callable[[int, int], str]) -> Topology:
    """A machine with the code of each pair of devices."""
    rows = [[Link(code_of(min(a, b), max(a, b)) if a != b else "X") for b in range(size)] for a in range(size)]
    return Topology(numbered(size), tuple(map(tuple, rows)))


def test_a_drawing_has_each_device_and_the_slowest_links_of_two_groups_once(tmp_path: Path, linkwise: Linkwise) -> None:
    linkwise("topo", "--profile", "atlas-800", "--svg", "links.svg")
    picture = (tmp_path / "links.svg").read_text()
    assert len(drawn(picture, "circle")) == 8
    assert len(drawn(picture, "line")) == 12 + 1 + 2  # pairs of the rings, the line between these, and the legend
    texts = [text.text for text in drawn(picture, "text")]
    assert {"HCCS: 12 pairs", "SYS: 16 pairs", "#7"} <= set(texts)


@pytest.mark.parametrize("name", ["atlas-800", "dgx1-v100", "a100-bridged", "v100-pcie"])
def test_quads_and_the_devices_of_one_cpu_are_drawn_side_by_side(name: str) -> None:
    picture = drawing(profile(name).topology)
    assert max(across(picture)[:4]) < min(across(picture)[4:])


def test_links_between_the_quads_of_a_dgx_1_pass_no_other_device() -> None:
    picture = drawing(profile("dgx1-v100").topology)
    heights = [float(circle.attrib["cy"]) for circle in drawn(picture, "circle")]
    assert heights[:4] == heights[4:]
    radius = float(drawn(picture, "circle")[0].attrib["r"])
    assert min(abs(one - other) for one, other in combinations(heights[:4], 2)) > radius


def test_partners_of_two_quads_face_each_other_in_any_numbering() -> None:
    picture = drawing(profile("dgx1-v100-measured").topology)  # its partners are 0-6, 1-7, 2-4 and 3-5
    heights = [float(circle.attrib["cy"]) for circle in drawn(picture, "circle")]
    assert [heights[6], heights[7], heights[4], heights[5]] == heights[:4]


def test_a_ring_is_drawn_in_its_order() -> None:
    ring = {(0, 2), (1, 2), (1, 3), (0, 3)}
    picture = drawing(linked(4, lambda a, b: "XGMI" if (a, b) in ring else "SYS"))
    places = [(circle.attrib["cx"], circle.attrib["cy"]) for circle in drawn(picture, "circle")]
    assert places[0][0] != places[1][0]
    assert places[0][1] != places[1][1]  # 0 and 1 are opposite corners


def test_nvswitch_is_drawn_as_a_hub_and_a_mesh_without_a_switch_as_pairs() -> None:
    assert len(drawn(drawing(profile("hgx-h100").topology), "line")) == 8 + 1
    assert "NVSwitch" in drawing(profile("dgx2-v100").topology)
    assert len(drawn(drawing(profile("mi300").topology), "line")) == 28 + 1
    assert len(drawn(drawing(linked(4, lambda *_: "NV4")), "line")) == 6 + 1


def test_the_picture_is_no_higher_than_its_groups() -> None:
    box = ET.fromstring(drawing(profile("atlas-800").topology)).attrib["viewBox"]  # noqa: S314 - our own drawing
    assert float(box.split()[3]) < 320


def test_device_names_are_escaped_in_drawings() -> None:
    machine = profile("v100-pcie").topology
    odd = type(machine)(("<&>", *machine.devices[1:]), machine.links)
    assert "<&>" not in drawing(odd, "<title>")
    ET.fromstring(drawing(odd, "<title>"))  # noqa: S314 - our own drawing


def test_a_profile_without_links_is_refused_with_what_it_is_for(linkwise: Linkwise) -> None:
    shown = linkwise("topo", "--profile", "ascend-910")
    assert (shown.returncode, shown.stdout) == (2, "")
    assert (
        "'ascend-910' is a hardware profile without a link matrix; it can be used with `linkwise pick`." in shown.stderr
    )
