"""The definition of DeviceInventory fits what is written, and refuses what makes no sense."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings, strategies as st

from linkwise.dialects.linkwise.inventory import inventory_object
from linkwise.model.device import Device
from linkwise.model.inventory import NodeFacts
from linkwise.model.link import SELF, Link
from linkwise.model.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from linkwise.model.node import Mode

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


@pytest.fixture(scope="session")
def definition(root: Path) -> Any:  # noqa: ANN401 - YAML
    return yaml.safe_load((root / "deploy/crds/deviceinventories.linkwise.dev.yaml").read_text())


@pytest.fixture(scope="session")
def schema(definition: Any) -> Any:  # noqa: ANN401 - YAML
    return definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def faults(value: Any, schema: Any, path: str = "") -> Iterator[str]:  # noqa: ANN401 - JSON
    """What the subset of OpenAPI that the definition uses has against a value; unknown fields would be pruned."""
    if not isinstance(value, TYPES[schema["type"]]) or (isinstance(value, bool) and schema["type"] != "boolean"):
        yield f"{path} is no {schema['type']}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path} is not in the enum"
    if isinstance(value, int | float) and value < schema.get("minimum", value):
        yield f"{path} is too small"
    if isinstance(value, str) and not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 10**6):
        yield f"{path} is too long or too short"
    if isinstance(value, list):
        if len(value) > schema.get("maxItems", 10**6):
            yield f"{path} has too many items"
        for number, item in enumerate(value):
            yield from faults(item, schema["items"], f"{path}[{number}]")
    if isinstance(value, dict) and path != ".metadata":
        yield from (f"{path}.{name} is missing" for name in schema.get("required", ()) if name not in value)
        for name, item in value.items():
            inner = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
            yield from faults(item, inner, f"{path}.{name}") if inner else [f"{path}.{name} is not in the schema"]


def sample(mode: Mode = "share") -> dict[str, Any]:
    link = Link("NV2")
    facts = NodeFacts(
        "linkwise",
        (Device("GPU-a", 0, 0, 0, "0000:1a:00.0", "V100", 16276), Device("GPU-b", 1, healthy=False)),
        Topology(
            ("GPU-a", "GPU-b"), ((SELF, link), (link, SELF)), ((750.5, 48), (48.4, 750)), ((0, 1),), ("cut",), ("odd",)
        ),
        "dgx1-v100",
        mode,
        "MiB",
        {"driver": "550"},
        {"uid-1": ("GPU-a",)},
    )
    written = inventory_object("n1", facts, enforced=True, pods={"uid-1": ("team", "p")}, faults={"GPU-b": "Xid 79"})
    return dict(json.loads(json.dumps(written)))


def test_every_field_that_is_written_is_in_the_schema(schema: object) -> None:
    assert list(faults(sample(), schema)) == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    mode=st.sampled_from(["any", "whole", "share", "percent"]),
    memory=st.integers(0, 2**40),
    minor=st.none() | st.just(3),
)
def test_whatever_a_node_has_fits_the_schema(schema: object, mode: Mode, memory: int, minor: int | None) -> None:
    facts = NodeFacts("linkwise", (Device("#0", 0, minor, memory=memory),), mode=mode)
    assert list(faults(inventory_object("n1", facts, enforced=False), schema)) == []


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        ("mode", "half", ".spec.mode is not in the enum"),
        ("enforced", "yes", ".spec.enforced is no boolean"),
        ("deviceCount", -1, ".spec.deviceCount is too small"),
        ("rows", [""], ".spec.rows[0] is too long or too short"),
        ("links", [[1]], ".spec.links[0][0] is no string"),
        ("bandwidth", [[-1]], ".spec.bandwidth[0][0] is too small"),
        ("devices", [{"uuid": "a", "healthy": True}], ".spec.devices[0].index is missing"),
        ("colour", 1, ".spec.colour is not in the schema"),
    ],
)
def test_what_makes_no_sense_is_refused(schema: object, path: str, value: object, fault: str) -> None:
    raw = sample()
    raw["spec"][path] = value
    assert list(faults(raw, schema)) == [fault]


def test_conditions_have_the_usual_fields(schema: object) -> None:
    raw = sample()
    condition = {"type": "Ready", "status": "True", "reason": "Reported", "message": ""}
    raw["status"]["conditions"] = [condition | {"lastTransitionTime": "2024-01-01T00:00:00Z"}]
    assert list(faults(raw, schema)) == []


def test_the_object_is_served_under_the_names_it_is_written_with(definition: Any) -> None:  # noqa: ANN401 - YAML
    spec, version = definition["spec"], definition["spec"]["versions"][0]
    raw = sample()
    assert raw["apiVersion"] == f"{spec['group']}/{version['name']}"
    assert raw["kind"] == spec["names"]["kind"]
    assert definition["metadata"]["name"] == f"{spec['names']['plural']}.{spec['group']}"
    assert (spec["scope"], spec["names"]["shortNames"], spec["names"]["categories"]) == (
        "Cluster",
        ["dinv"],
        ["linkwise"],
    )
    assert version["subresources"] == {"status": {}}


def test_the_columns_that_kubectl_prints_are_fields(definition: Any) -> None:  # noqa: ANN401 - YAML
    columns = definition["spec"]["versions"][0]["additionalPrinterColumns"]
    assert [column["name"] for column in columns if not column.get("priority")] == [
        *("Mode", "Devices", "Healthy", "Enforced", "Age"),
    ]
    parts = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    for column in columns[:-1]:
        _, part, field = column["jsonPath"].split(".")
        assert column["type"] == parts[part]["properties"][field]["type"]


def test_every_level_of_the_schema_has_a_type(schema: Any) -> None:  # noqa: ANN401 - YAML
    levels = [schema]
    while levels:
        level = levels.pop()
        assert level["type"] in TYPES
        levels += level.get("properties", {}).values()
        levels += [level[name] for name in ("items", "additionalProperties") if name in level]
