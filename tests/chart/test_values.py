"""Values of the Helm chart: a strict schema, from which the defaults and the README are made."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from support.chart_pages import default_values, described

if TYPE_CHECKING:
    from jsonschema import Draft7Validator

CHART = Path(__file__).resolve().parents[2] / "deploy/chart"
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text("utf-8"))
PROPERTIES = dict(described(SCHEMA["properties"]))
FREE = {"type": "object"}


@cache
def validator() -> Draft7Validator:
    # The import makes the parsers of all formats: a CPU-second, which the collection of tests would pay in every worker.
    from jsonschema import Draft7Validator  # noqa: PLC0415

    return Draft7Validator(SCHEMA)


def problems(**values: object) -> list[str]:
    """What the schema says about values on top of the defaults of their sections."""
    return [error.message for error in validator().iter_errors(values)]


def test_the_schema_is_a_schema() -> None:
    validator().check_schema(SCHEMA)


def test_the_default_values_are_valid() -> None:
    written = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    assert written == default_values()
    assert problems(**written) == []


@pytest.mark.parametrize("path", PROPERTIES)
def test_every_value_is_described(path: str) -> None:
    entry = PROPERTIES[path]
    assert entry["description"].endswith(".")
    assert "properties" in entry or "default" in entry or path == "global"


@pytest.mark.parametrize("path", [path for path, entry in PROPERTIES.items() if "properties" in entry])
def test_a_section_accepts_known_values_only(path: str) -> None:
    assert PROPERTIES[path]["additionalProperties"] is False


@pytest.mark.parametrize(
    "wrong",
    [
        {"replicas": 2},
        {"service": {"replica": 2}},
        {"service": {"replicas": 0}},
        {"service": {"port": 70000}},
        {"webhook": {"failurePolicy": "fail"}},
        {"agent": {"nodes": "some"}},
        {"agent": {"updateStrategy": {"maxUnavailable": "0%"}}},
        {"agent": {"kubeletPath": "var/lib/kubelet"}},
        {"image": {"digest": "abc"}},
        {"protection": {"identities": ['a"b']}},
        {"networkPolicy": {"apiServerCIDRs": ["10.0.0.1"]}},
    ],
)
def test_a_wrong_value_is_refused(wrong: dict[str, object]) -> None:
    assert len(problems(**wrong)) == 1


def test_values_of_a_parent_chart_are_accepted() -> None:
    assert problems(**{"global": {"imageRegistry": "example.com"}}) == []
