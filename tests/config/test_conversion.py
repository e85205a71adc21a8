"""Conversion of configurations with Huawei's plugin: seed 003's own files, and files as they are found in clusters."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from linkwise.config.volcano import VolcanoFile, convert_conf, extender_plugin
from linkwise.errors import InputError
from support.volcano_seed import SEED_TIERS

if TYPE_CHECKING:
    from pathlib import Path

SEED_CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata:\x20
  name: volcano-scheduler-configmap
  namespace: volcano-system
data:\x20
  volcano-scheduler.conf: |
   actions: "enqueue, allocate, backfill"
   tiers:\x20
   - plugins:\x20
     - name: priority
     - name: gang
     - name: conformance
     - name: topology910
"""
HUAWEI = """\
# our cluster
actions: "enqueue, allocate, backfill"  # no preemption
tiers:
- plugins:
  - name: priority
  - name: gang
    enableNodeOrder: false
  # chips
  - name: volcano-npu_v6.0.0_linux-aarch64
    arguments:
      grace-over-time: 900
  - name: conformance
- plugins:
  - name: overcommit
  - name: binpack
    arguments:
      binpack.weight: 10
      binpack.resources: huawei.com/Ascend910  # pack chips
  # the end of the tiers

configurations:
- name: init-params
  arguments: {"grace-over-time": "900"}
"""


def converted(folder: Path, text: str, **wishes: Any) -> str:  # noqa: ANN401 - any wish
    (folder / "volcano.yaml").write_text(text)
    return convert_conf(folder / "volcano.yaml", VolcanoFile(**wishes))


def refused(folder: Path, text: str) -> str:
    with pytest.raises(InputError) as caught:
        converted(folder, text)
    return str(caught.value).replace(str(folder), "")


def plugins(text: str) -> list[list[str]]:
    document = yaml.safe_load(text)
    document = yaml.safe_load(document["data"]["volcano-scheduler.conf"]) if "data" in document else document
    return [[plugin["name"] for plugin in tier["plugins"]] for tier in document["tiers"]]


def without_comments(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.lstrip().startswith("#")]


@pytest.mark.rule("003.config")
def test_the_seeds_config_map_keeps_its_form_its_actions_and_its_tier(tmp_path: Path) -> None:
    found = converted(tmp_path, SEED_CONFIG_MAP)
    assert plugins(found) == [["priority", "gang", "conformance", "extender"]]
    kept = [line for line in SEED_CONFIG_MAP.splitlines() if "topology910" not in line]
    assert without_comments(found)[: len(kept)] == kept


@pytest.mark.rule("003.config")
def test_the_seeds_two_tiers_keep_their_order_and_get_the_extender_last(tmp_path: Path) -> None:
    assert plugins(converted(tmp_path, SEED_TIERS)) == [
        ["priority", "gang", "conformance"],
        ["drf", "predicates", "proportion", "nodeorder", "binpack", "extender"],
    ]


@pytest.mark.rule("003.config")
def test_tiers_without_actions_get_volcanos_defaults(tmp_path: Path) -> None:
    found = converted(tmp_path, SEED_TIERS)
    assert yaml.safe_load(found)["actions"] == "enqueue, allocate, backfill"
    assert "Added: the file had no actions" in found


def test_the_extender_has_the_arguments_of_a_new_file(tmp_path: Path) -> None:
    document = yaml.safe_load(converted(tmp_path, SEED_TIERS, mode="extender", url="http://10.1.2.3:39999"))
    wanted, _ = extender_plugin(VolcanoFile("extender", "http://10.1.2.3:39999"))
    assert document["tiers"][1]["plugins"][-1] == wanted


def test_other_plugins_arguments_sections_and_comments_stay_as_they_are(tmp_path: Path) -> None:
    found = converted(tmp_path, HUAWEI).splitlines()
    start = next(number for number, line in enumerate(found) if "name: extender" in line)
    end = found.index("  # the end of the tiers")
    rest = [*found[:start], *found[end:]]
    removed = {"  - name: volcano-npu_v6.0.0_linux-aarch64", "    arguments:", "      grace-over-time: 900"}
    gone = [line for line in HUAWEI.splitlines() if line not in rest]
    assert set(gone) <= removed
    assert plugins("\n".join(found)) == [["priority", "gang", "conformance"], ["overcommit", "binpack", "extender"]]
    assert yaml.safe_load("\n".join(found))["configurations"][0] == yaml.safe_load(HUAWEI)["configurations"][0]


def test_the_head_names_what_was_replaced(tmp_path: Path) -> None:
    assert converted(tmp_path, HUAWEI).startswith(
        "# Converted: volcano-npu_v6.0.0_linux-aarch64 is replaced by extender"
    )


def test_a_file_without_the_plugin_gets_the_extender(tmp_path: Path) -> None:
    found = converted(tmp_path, SEED_TIERS.replace("topology910", "nodegroup"))
    assert "# Converted: extender is added in the last tier" in found
    assert plugins(found)[0] == ["priority", "gang", "conformance", "nodegroup"]


def test_a_tier_of_nothing_else_stays_empty(tmp_path: Path) -> None:
    text = "actions: allocate\ntiers:\n- plugins:\n  - name: topology910\n- plugins:\n  - name: binpack\n"
    assert plugins(converted(tmp_path, text)) == [[], ["binpack", "extender"]]


def test_quoted_text_of_a_config_map_becomes_readable_lines(tmp_path: Path) -> None:
    inner = json.dumps('actions: "allocate"\ntiers: \n- plugins:\n  - name: topology910\n')
    text = f"kind: ConfigMap\ndata:\n  # ours\n  volcano-scheduler.conf: {inner}\nmetadata:\n  name: it\n"
    found = converted(tmp_path, text)
    assert plugins(found) == [["extender"]]
    assert "  # ours\n  volcano-scheduler.conf: |\n" in found
    assert yaml.safe_load(found)["metadata"] == {"name": "it"}


def test_a_config_map_in_json_stays_json(tmp_path: Path) -> None:
    text = json.dumps({"kind": "ConfigMap", "data": {"volcano-scheduler.conf": SEED_TIERS}}, indent=2)
    found = converted(tmp_path, text)
    assert json.loads(found)["kind"] == "ConfigMap"
    assert plugins(found)[1][-1] == "extender"


def test_a_configuration_in_flow_style_is_rewritten_as_lines(tmp_path: Path) -> None:
    text = '{"actions": "allocate", "tiers": [{"plugins": [{"name": "gang"}, {"name": "topology910"}]}]}'
    found = converted(tmp_path, text)
    assert plugins(found) == [["gang", "extender"]]
    assert yaml.safe_load(found)["actions"] == "allocate"


def test_a_configuration_becomes_a_config_map_on_request(tmp_path: Path) -> None:
    (tmp_path / "volcano.conf").write_text(SEED_TIERS)
    found = convert_conf(tmp_path / "volcano.conf", VolcanoFile(), config_map=True)
    assert yaml.safe_load(found)["metadata"]["name"] == "volcano-scheduler-configmap"
    assert plugins(found)[1][-1] == "extender"


CACHE_OFF = {"name": "allocate", "arguments": {"predicateErrorCacheEnable": False}}


@pytest.mark.parametrize("text", [SEED_TIERS, HUAWEI, json.dumps(yaml.safe_load(HUAWEI))])
def test_the_error_cache_that_planned_pods_of_one_task_would_share_is_turned_off(tmp_path: Path, text: str) -> None:
    before = yaml.safe_load(text).get("configurations", [])
    assert yaml.safe_load(converted(tmp_path, text))["configurations"] == [*before, CACHE_OFF]


def test_an_error_cache_that_is_off_is_kept(tmp_path: Path) -> None:
    text = f"{SEED_TIERS}configurations:\n- name: allocate\n  arguments:\n    predicateErrorCacheEnable: false\n"
    assert yaml.safe_load(converted(tmp_path, text))["configurations"] == [CACHE_OFF]


def test_other_arguments_of_the_action_allocate_are_not_edited_but_reported(tmp_path: Path) -> None:
    text = f"{SEED_TIERS}configurations:\n- name: allocate\n  arguments:\n    predicateErrorCacheEnable: true\n"
    assert refused(tmp_path, text).startswith("/volcano.yaml:16:32: configurations.allocate: Linkwise needs")


@pytest.mark.rule("003.config")
def test_another_extender_is_refused_with_its_line_and_what_to_do(tmp_path: Path) -> None:
    other = '- name: extender\n       arguments: {extender.urlPrefix: "http://other"}'
    sentence = refused(tmp_path, SEED_CONFIG_MAP.replace("- name: gang", other))
    assert sentence.startswith("/volcano.yaml:12:8: tiers[0].plugins: there already is an extender at http://other")
    assert "Volcano supports only one; remove this plugin and run the command again" in sentence


def test_a_plugin_that_admits_jobs_in_an_earlier_tier_is_named(tmp_path: Path) -> None:
    text = "actions: enqueue\ntiers:\n- plugins:\n  - name: overcommit\n- plugins:\n  - name: topology910\n"
    assert "overcommit in an earlier tier may admit a job before Linkwise is asked" in converted(tmp_path, text)


def test_actions_without_enqueue_are_kept_with_a_note(tmp_path: Path) -> None:
    found = converted(tmp_path, f'actions: "allocate, backfill"\n{SEED_TIERS}')
    assert yaml.safe_load(found)["actions"] == "allocate, backfill"
    assert "The actions have no enqueue" in found


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "/volcano.yaml: the file is empty"),
        ("a: [", "/volcano.yaml:1:5: not valid YAML"),
        ("kind: Pod\n", "/volcano.yaml:1:1: expected a scheduler configuration with tiers, or a ConfigMap"),
        ("- a\n", "/volcano.yaml:1:1: expected a scheduler configuration with tiers, or a ConfigMap"),
        ("kind: ConfigMap\ndata: {a: b}\n", "/volcano.yaml:2:7: data: expected one scheduler configuration"),
        ("tiers: 5\n", "/volcano.yaml:1:8: tiers: expected a list of tiers"),
        ("tiers:\n- plugin: []\n", "/volcano.yaml:2:3: tiers[0].plugins: expected a list of plugins"),
        ("tiers:\n- plugins:\n  - nam: gang\n", "/volcano.yaml:3:5: tiers[0].plugins[0].name: required field"),
        ("actions: 1\nactions: 2\ntiers:\n- plugins: []\n", "/volcano.yaml:2:1: actions: duplicate key"),
        ("actions:\ntiers:\n- plugins: []\n", "/volcano.yaml:1:9: actions: expected text"),
        (
            "kind: ConfigMap\ndata:\n  volcano-scheduler.conf: |\n    tiers:\n    - plugins: 5\n",
            "/volcano.yaml:5:16: tiers[0].plugins: expected a list",
        ),
        (
            "kind: ConfigMap\ndata:\n  volcano-scheduler.conf: |\n    tiers: [\n",
            "/volcano.yaml:4:13: not valid YAML",
        ),
    ],
)
def test_invalid_files_are_refused_with_file_line_and_column(tmp_path: Path, text: str, place: str) -> None:
    assert refused(tmp_path, text).startswith(place)
