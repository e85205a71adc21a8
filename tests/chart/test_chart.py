"""Files of the Helm chart agree with the package."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import linkwise
from linkwise.config.installation import FILE, PARTS, Installation, installation_yaml
from linkwise.config.rbac import AGENT_FEATURES, FEATURES
from support.chart_manifests import chart_digest, recorded_digest
from support.version_files import GENERATED as VERSION_FILES, with_version

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/chart"
PACKAGED = ROOT / "src/linkwise/config" / FILE
METRIC = re.compile(r"\blinkwise_[a-z_]+\b")
SERIES = re.compile(r"_(?:bucket|sum|count)$")
"""parts of a histogram"""


def documented() -> set[str]:
    return set(METRIC.findall((ROOT / "docs/reference/metrics.md").read_text("utf-8")))


def read(expressions: list[str]) -> set[str]:
    """The metrics that PromQL expressions read, by the names of their documentation."""
    return {SERIES.sub("", name) for expression in expressions for name in METRIC.findall(expression)}


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load((CHART / "files/alerts.yaml").read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((CHART / "files/dashboard.json").read_text("utf-8"))["panels"]
    return found


def packaged() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(installation_yaml(Installation())))


def test_versions_are_those_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert (chart["version"], chart["appVersion"]) == (linkwise.__version__, linkwise.__version__)


@pytest.mark.parametrize("file", VERSION_FILES)
def test_a_file_that_names_the_version_is_current(file: str) -> None:
    assert (ROOT / file).read_text("utf-8") == VERSION_FILES[file](), "run `make docs`"


@pytest.mark.parametrize("file", VERSION_FILES)
def test_another_version_reaches_every_place_of_a_file(file: str) -> None:
    text = with_version((ROOT / file).read_text("utf-8"), "9.8.7")
    assert "9.8.7" in text
    assert linkwise.__version__ not in text


def test_every_feature_of_the_roles_has_a_switch() -> None:
    helper = (CHART / "templates/_rbac.tpl").read_text("utf-8")
    properties = json.loads((CHART / "values.schema.json").read_text("utf-8"))["properties"]
    switches = {
        re.sub(r"([A-Z])", lambda found: f"-{found[1].lower()}", name) for name in properties["features"]["properties"]
    }
    missing = [name for name in (*FEATURES, *AGENT_FEATURES) if name not in switches and f'"{name}"' not in helper]
    assert missing == []


def test_alerts_read_metrics_that_exist() -> None:
    assert read([rule["expr"] for rule in alerts()]) - documented() == set()


def test_panels_read_metrics_that_exist() -> None:
    assert read([target["expr"] for panel in panels() for target in panel.get("targets", [])]) - documented() == set()


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_an_alert_says_what_happened_and_what_to_do(rule: dict[str, Any]) -> None:
    assert set(rule["annotations"]) == {"summary", "description", "runbook"}
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert rule["for"]


def test_panels_do_not_overlap() -> None:
    taken = [
        (x, y)
        for panel in panels()
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(taken) == len(set(taken))


def test_the_manifests_without_helm_are_those_of_this_chart() -> None:
    assert recorded_digest(PACKAGED.read_text("utf-8")) == chart_digest(), "run `make manifests`"


def test_the_manifests_begin_with_their_namespace_and_have_nothing_of_helm() -> None:
    text = installation_yaml(Installation())
    assert yaml.safe_load(text.split("---\n")[0])["kind"] == "Namespace"
    assert "helm" not in text.casefold()


def test_the_namespace_is_replaced_everywhere() -> None:
    text = installation_yaml(Installation(namespace="accelerators"))
    assert "linkwise-system" not in text
    assert "system:serviceaccount:accelerators:linkwise-agent" in text


def test_images_are_replaced() -> None:
    text = installation_yaml(Installation(image="example.com/a:1", scheduler_image="example.com/b:2"))
    assert sorted(re.findall(r"image: (\S+)", text)) == ["example.com/a:1", "example.com/a:1", "example.com/b:2"]


def test_one_replica_has_no_budget_that_would_block_a_drain() -> None:
    documents = list(yaml.safe_load_all(installation_yaml(Installation(replicas=1))))
    assert "PodDisruptionBudget" in {document["kind"] for document in packaged()}
    assert "PodDisruptionBudget" not in {document["kind"] for document in documents}
    assert {document["spec"]["replicas"] for document in documents if document["kind"] == "Deployment"} == {1}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_is_left_out_takes_all_its_objects_with_it(part: str) -> None:
    kept = list(yaml.safe_load_all(installation_yaml(Installation(without=(part,)))))
    gone = [document for document in packaged() if document not in kept]
    assert gone
    assert {document["metadata"]["labels"].get("app.kubernetes.io/component") for document in gone} & {part} or {
        document["kind"] for document in gone
    } <= {"CustomResourceDefinition", "NetworkPolicy"}
