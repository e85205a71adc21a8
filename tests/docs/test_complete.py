"""Nothing that a user can write or read is left out of the documentation."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

import msgspec
import pytest
import yaml

import linkwise
from linkwise import errors
from linkwise.cli.reports.manifests import read_file
from linkwise.cli.tour.stage import tour_nodes
from linkwise.dialects.dialect import DefaultPolicies, Dialect
from linkwise.dialects.groups.membership import CONVENTIONS, JOB_RANKS, RANKS
from linkwise.dialects.kubernetes.pod_templates import TEMPLATES, WORKLOADS
from linkwise.dialects.registry import BY_NAME, DIALECTS
from linkwise.doctor.examine import CHECKS
from linkwise.doctor.facts import SEVERITIES
from linkwise.drivers.detect import AUTO, DRIVERS
from linkwise.engine.reasons.catalog import REFUSALS
from linkwise.manifests.objects import NODE_KINDS
from linkwise.model.ask import Group, NetworkWish
from linkwise.model.device import HardwareProfile
from linkwise.model.inventory import NodeFacts, NodeInventory
from linkwise.model.link import Pcie
from linkwise.model.settings import BandwidthSettings, JobShape, ShareSettings
from linkwise.model.verdict import Problem
from linkwise.policies.policy import Policy
from linkwise.policies.registry import POLICIES
from linkwise.policies.ring_affinity import SPANS
from linkwise.policies.ring_profiles import ALSO_CALLED, RING_PROFILES
from linkwise.rulebook import table
from linkwise.vendors.container_needs import ContainerNeeds, needs_rules
from linkwise.vendors.machines import PROFILES, MachineProfile
from linkwise.vendors.reader import DeviceFacts, Reader, Reading
from linkwise.vendors.readers import all_readers
from linkwise.vendors.vendor import Vendor
from linkwise.wire.pick_batch import Answer, Line
from linkwise.wire.topology_json import TopologyView, _TopologyFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


ROOT: Final = Path(__file__).resolve().parents[2]
SUPPORT: Final = "docs/how-to/support-a-new-accelerator.md"
TARGET: Final = re.compile(r"^([a-z0-9-]+):.*?##", re.MULTILINE)
QUESTIONS: Final = get_args(Line)
LINES: Final = (*QUESTIONS, *get_args(Answer))
OUR_KEY: Final = re.compile(r'"(linkwise\.dev/(?!v[0-9])[a-z-]+)"')
SYSTEMS: Final = {
    "000": "link scoring",
    "001": "bandwidth groups",
    "002": "GPU support",
    "003": "Ascend rings",
    "004": "GPU share",
}
"""what users read instead of the numbers in rule ids"""
MANIFESTS: Final = """\
kind: Pod
metadata: {name: p, labels: {scheduling.x-k8s.io/pod-group: g}}
spec:
  nodeSelector: {accelerator-type: module}
  containers: [{name: c, resources: {limits: {huawei.com/Ascend910: 2}}}]
---
kind: Pod
metadata: {name: broken}
spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: two}}}]}
---
kind: Node
metadata: {name: n}
status: {capacity: {nvidia.com/gpu: 1}}
"""


def page(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def in_code(name: str) -> set[str]:
    """Every word that a page sets as code."""
    return codes(page(name))


def codes(text: str) -> set[str]:
    """Every word set as code: `word`, or `word(...)`."""
    return set(re.findall(r"`([\w.#-]+)(?:\([^`]*\))?`", text))


def section(name: str, heading: str) -> str:
    """What a page says under a heading, up to the next one of its level."""
    level = heading.partition(" ")[0]
    return page(name).partition(f"\n{heading}\n")[2].partition(f"\n{level} ")[0]


def make_targets() -> set[str]:
    return set(TARGET.findall(page("Makefile")))


def test_every_public_name_is_in_the_reference() -> None:
    assert set(linkwise.__all__) - in_code("docs/reference/python-api.md") == set()


def test_every_exception_is_in_the_reference() -> None:
    assert set(errors.__all__) - in_code("docs/reference/python-api.md") == set()


@pytest.mark.parametrize("name", [name for name in linkwise.__all__ if is_dataclass(getattr(linkwise, name))])
def test_every_field_of_a_public_value_is_in_the_reference(name: str) -> None:
    text = page("docs/reference/python-api.md").partition(f"### `{name}`")[2].partition("\n### ")[0]
    known = {field.name for field in fields(getattr(linkwise, name))}
    assert known - set(re.findall(r"`(\w+)`", text)) == set()


@pytest.mark.parametrize("machine", PROFILES.values(), ids=lambda machine: machine.name)
def test_every_machine_profile_has_a_row_with_what_it_is(machine: MachineProfile) -> None:
    rows = section("docs/reference/machine-file.md", "## Known machines").splitlines()
    (row,) = [row for row in rows if row.startswith(f"| `{machine.name}` | {machine.devices} |")]
    hardware = f"`{machine.hardware}`" if machine.hardware else "-"
    assert row.endswith(f" | {machine.vendor} | {machine.model} | {machine.memory} | {hardware} |")


def test_every_link_kind_is_in_the_reference() -> None:
    assert {kind.name for kind in Pcie if kind} - in_code("docs/reference/machine-file.md") == set()


def test_every_field_of_a_machine_file_is_in_the_reference() -> None:
    known = {field.name for field in msgspec.structs.fields(_TopologyFile)}
    assert known - in_code("docs/reference/machine-file.md") == set()


@pytest.mark.parametrize("reader", all_readers(), ids=lambda reader: reader.kind)
def test_every_kind_of_tool_output_has_a_section_and_a_row(reader: Reader) -> None:
    text = page("docs/reference/tool-outputs.md")
    assert f"\n### `{reader.kind}`\n" in text
    assert f"\n| [`{reader.kind}`](#" in text


def test_kinds_of_tool_output_stand_in_the_order_in_which_they_count() -> None:
    rows = re.findall(r"^\| \[`([^`]+)`\]\(#", page("docs/reference/tool-outputs.md"), re.MULTILINE)
    assert rows == [reader.kind for reader in all_readers()]


@pytest.mark.parametrize("value", [Reader, Reading, Vendor])
def test_every_field_of_a_vendor_and_its_readers_is_on_the_page_for_their_authors(
    value: type[Reader | Reading | Vendor],
) -> None:
    assert {field.name for field in fields(value)} - in_code(SUPPORT) == set()


@pytest.mark.parametrize("base", [Dialect, Policy])
def test_every_attribute_and_method_of_a_dialect_and_a_policy_is_on_the_page_for_their_authors(
    base: type[Dialect | Policy],
) -> None:
    public = {name for name in (*base.__annotations__, *vars(base)) if not name.startswith("_")}
    assert public - in_code(SUPPORT) == set()


def test_every_driver_has_a_section_and_a_row() -> None:
    text = page("docs/reference/drivers.md")
    drivers = (AUTO, *DRIVERS)
    assert [
        name for name in drivers if f"\n## `{name}`\n" not in text or f"\n| [`{name}`](#{name}) | " not in text
    ] == []


def test_every_field_of_a_shown_machine_is_in_the_reference() -> None:
    text = section("docs/reference/json.md", "### Fields of `topo`")
    known = [field.encode_name for field in msgspec.structs.fields(TopologyView)]
    assert [name for name in known if f"\n| `{name}` | " not in text] == []


def test_every_fact_of_a_device_is_in_the_reference() -> None:
    text = section("docs/reference/json.md", "### Facts about a device")
    assert {field.name for field in fields(DeviceFacts)} - set(re.findall(r"`(\w+)`", text)) == set()


@pytest.mark.parametrize("vendor", needs_rules())
def test_what_a_vendors_containers_need_is_in_the_reference(vendor: str) -> None:
    rule = needs_rules()[vendor]
    rows = page("docs/reference/container-needs.md").splitlines()
    (row,) = [row for row in rows if row.startswith(f"| `{vendor}` | `{rule.node}` |")]
    names = [*rule.control, *rule.optional, *filter(None, [rule.visible])]
    assert [name for name in names if f"`{name}`" not in row] == []
    assert f"`{rule.cdi}=" in row
    assert f"| `{vendor}` | {'refused' if rule.first is None else rule.first} |" in "\n".join(rows)


def test_every_field_of_what_a_container_needs_is_in_the_reference() -> None:
    known = {field.name for field in fields(ContainerNeeds)}
    assert known - in_code("docs/reference/container-needs.md") == set()


@pytest.mark.parametrize("line", LINES)
def test_every_field_of_a_batch_line_is_in_the_reference(line: type[msgspec.Struct]) -> None:
    known = {field.encode_name for field in msgspec.structs.fields(line)}
    assert known - in_code("docs/reference/json.md") == set()


@pytest.mark.parametrize("line", QUESTIONS)
def test_every_kind_of_question_is_in_the_reference(line: type[msgspec.Struct]) -> None:
    assert line.__struct_config__.tag in in_code("docs/reference/json.md")


@pytest.mark.parametrize("policy", POLICIES.values(), ids=lambda policy: policy.name)
def test_every_policy_has_a_section_with_all_terms_of_its_score(policy: Policy) -> None:
    text = section("docs/reference/policies.md", f"## `{policy.name}`")
    assert f"Score, class {policy.leading}:" in text
    assert [term for term in policy.terms if f"`{term}`" not in text] == []


@pytest.mark.parametrize("settings", [BandwidthSettings, ShareSettings])
def test_every_setting_is_in_the_reference(settings: type[BandwidthSettings | ShareSettings]) -> None:
    text = section("docs/reference/policies.md", "## Settings")
    assert [field.name for field in fields(settings) if f"| `{settings.__name__}` | `{field.name}` |" not in text] == []
    assert [shape for shape in get_args(JobShape) if f"`{shape}`" not in text] == []


@pytest.mark.parametrize(("rule", "kind"), REFUSALS)
def test_every_refusal_is_in_the_reference_with_its_short_text(rule: str, kind: str) -> None:
    row = f"| `{rule}` | {f'`{kind}`' if kind else '-'} | {REFUSALS[rule, kind].short} | "
    assert row in section("docs/reference/policies.md", "## Refusals")


@pytest.mark.parametrize("profile", RING_PROFILES.values(), ids=lambda profile: profile.name)
def test_every_hardware_profile_has_a_row_with_its_size_and_all_its_names(profile: HardwareProfile) -> None:
    rows = page("docs/reference/hardware-profiles.md").splitlines()
    (row,) = [row for row in rows if row.startswith(f"| `{profile.name}` | {profile.devices or 'any'} |")]
    assert f" of {profile.group} |" in row
    assert [name for name, meant in ALSO_CALLED.items() if meant == profile.name and f"`{name}`" not in row] == []


def test_every_field_and_span_of_a_hardware_profile_is_in_the_reference() -> None:
    text = page("docs/reference/hardware-profiles.md")
    known = [*(field.name for field in fields(HardwareProfile)), *SPANS]
    assert [name for name in known if f"\n| `{name}` | " not in text] == []


def rows_of(text: str) -> list[str]:
    """The names in the first cells of tables."""
    first = [row.split(" | ")[0] for row in text.splitlines() if row.startswith("| `")]
    return [name for cell in first for name in re.findall(r"`([^`]+)`", cell)]


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_every_dialect_has_a_section_and_a_row(dialect: Dialect) -> None:
    text = section("docs/reference/dialects.md", f"## `{dialect.name}`")
    missing = ["owns", "reads on pods", "reads of nodes", "writes on pods", "can't hold"]
    assert [fact for fact in missing if f"\n| {fact} | " not in text] == []
    assert "\nProblems: " in text
    assert f"\n| [`{dialect.name}`](#{dialect.name}) | " in page("docs/reference/dialects.md")


def test_dialects_stand_in_the_order_in_which_their_records_count() -> None:
    names = re.findall(r"^\| \[`([a-z]+)`\]\(#", page("docs/reference/dialects.md"), re.MULTILINE)
    assert names == [dialect.name for dialect in DIALECTS]


@pytest.mark.parametrize(
    ("value", "file", "heading"),
    [
        (Group, "groups.md", "## Fields"),
        (NodeFacts, "dialects.md", "## Node facts"),
        (NodeInventory, "dialects.md", "## What a node has"),
        (Problem, "dialects.md", "## Problems"),
    ],
)
def test_every_field_of_what_dialects_give_is_in_the_reference(value: type[Group], file: str, heading: str) -> None:
    known = [field.name for field in fields(value)]
    assert rows_of(section(f"docs/reference/{file}", heading)) == known


def test_every_field_of_a_network_wish_is_in_the_reference() -> None:
    assert {field.name for field in fields(NetworkWish)} - in_code("docs/reference/groups.md") == set()


def test_every_convention_and_rank_of_groups_is_in_the_reference_in_its_order() -> None:
    places = re.findall(r"^\| ([0-9]) \| `", section("docs/reference/groups.md", "## Conventions"), re.MULTILINE)
    assert places == [str(place) for place in range(1, len(CONVENTIONS) + 1)]
    text = section("docs/reference/groups.md", "## Ranks")
    assert re.findall(r"^[0-9]\. `([^`]+)`", text, re.MULTILINE) == list(RANKS)
    assert [key for key in JOB_RANKS if key.rpartition("/")[2] not in text] == []


@pytest.mark.parametrize("dialect", [name for name, found in BY_NAME.items() if found.resources])
def test_which_policy_a_dialects_asks_get_is_in_the_reference(dialect: str) -> None:
    text = section("docs/reference/policies.md", "## Default policies")
    assert f"| `{dialect}` | {' | '.join(f'`{policy}`' for policy in BY_NAME[dialect].policies)} |" in text
    assert f"| any other | {' | '.join(f'`{policy}`' for policy in DefaultPolicies())} |" in text


def test_every_annotation_of_ours_has_a_section_and_every_label_a_row() -> None:
    sources = [path.read_text("utf-8") for path in ROOT.glob("src/linkwise/**/*.py")]
    ours = {key for source in sources for key in OUR_KEY.findall(source)}
    assert ours
    headings = re.findall(r"^## `([^`]+)`$", page("docs/reference/annotations.md"), re.MULTILINE)
    parts = ("## Labels", "## Resource", "## Scheduling gate", "## Taint")
    labels = "".join(section("docs/reference/annotations.md", part) for part in parts)
    assert {*headings, *re.findall(r"`(linkwise\.dev/[a-z-]+)", labels)} == ours


def inventory() -> Mapping[str, Any]:
    """The one version of the definition of a DeviceInventory."""
    (version,) = yaml.safe_load(page("deploy/crds/deviceinventories.linkwise.dev.yaml"))["spec"]["versions"]
    found: Mapping[str, Any] = version
    return found


def paths(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """Every field below a schema, lists as `name[]`."""
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}.{name}"
        yield from paths(inner, f"{path}.{name}")
        yield from paths(inner.get("items", {}), f"{path}.{name}[]")


@pytest.mark.parametrize(("half", "heading"), [("spec", "## Spec"), ("status", "## Status")])
def test_every_field_of_an_inventory_is_in_the_reference(half: str, heading: str) -> None:
    schema = inventory()["schema"]["openAPIV3Schema"]["properties"][half]
    rows = rows_of(section("docs/reference/device-inventory.md", heading))
    assert sorted(rows) == sorted(paths(schema, half))


def test_every_column_of_an_inventory_is_in_the_reference_with_what_it_shows() -> None:
    lines = section("docs/reference/device-inventory.md", "## Columns").splitlines()
    for column in inventory()["additionalPrinterColumns"]:
        (row,) = [row for row in lines if row.startswith(f"| `{column['name']}` | `{column['jsonPath'][1:]}`")]
        assert (", wide |" in row) == bool(column.get("priority"))


def test_every_field_of_what_is_understood_of_a_manifest_is_in_the_reference(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(MANIFESTS, "utf-8")
    pod, broken, node = read_file(str(tmp_path / "all.yaml"))
    (facts,) = node["facts"]
    parts = [pod, pod["asks"], pod["group"], broken, broken["problems"][0], node, facts, facts["devices"][0]]
    known = {key for part in parts for key in part}
    assert known - codes(section("docs/reference/json.md", "## `linkwise read`")) == set()


def test_every_check_of_doctor_has_a_row_with_its_anchor_under_its_group() -> None:
    text = page("docs/reference/doctor.md")
    groups = dict.fromkeys(check.group for check in CHECKS)
    assert re.findall(r"^### (.+)$", section("docs/reference/doctor.md", "## Checks"), re.MULTILINE) == list(groups)
    for group in groups:
        rows = re.findall(
            r'^\| <a id="([a-z-]+)"></a>`([a-z-]+)` \|',
            section("docs/reference/doctor.md", f"### {group}"),
            re.MULTILINE,
        )
        assert rows == [(check.id, check.id) for check in CHECKS if check.group == group]
    assert {f"`{severity}`" for severity in SEVERITIES} <= set(re.findall(r"`\w+`", text))


def test_every_kind_of_object_that_is_read_is_named() -> None:
    text = section("docs/how-to/check-a-manifest.md", "## 1. Read a manifest")
    assert [
        kind for kind in ("Pod", "Node", *TEMPLATES, *WORKLOADS, *NODE_KINDS) if not re.search(rf"\b{kind}\b", text)
    ] == []


def test_every_system_is_in_the_table_of_what_works() -> None:
    assert list(SYSTEMS) == list(table.systems())
    heading, *_ = [
        row for row in section("docs/reference/dialects.md", "## What works today").splitlines() if row.startswith("|")
    ]
    assert [name for name in SYSTEMS.values() if f"| {name} " not in heading] == []


def test_the_readme_has_the_number_of_nodes_of_the_demo() -> None:
    assert f"{len(list(tour_nodes()))} simulated nodes" in page("README.md")


def test_every_make_target_is_in_contributing() -> None:
    assert {f"make {target}" for target in make_targets()} - set(
        re.findall(r"`(make [\w-]+)", page("CONTRIBUTING.md"))
    ) == set()


def test_every_make_target_that_the_documentation_names_is_there() -> None:
    hand_written = ["README.md", "CONTRIBUTING.md", *(str(found) for found in ROOT.glob("docs/**/*.md"))]
    named = {target for name in hand_written for target in re.findall(r"`make ([a-z0-9]+)", page(name))}
    assert named - make_targets() == set()
