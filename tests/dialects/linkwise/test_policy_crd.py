"""The definition of AcceleratorPolicy: its fields are read and documented, and the examples of the pages are valid."""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner

from linkwise.cli.program import main
from linkwise.dialects.linkwise.accelerator_policy import policy_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGES = ("docs/reference/accelerator-policy.md", "docs/how-to/control-access.md")


@pytest.fixture(scope="module")
def schema(root: Path) -> Any:  # noqa: ANN401 - YAML
    document = yaml.safe_load((root / "deploy/crds/acceleratorpolicies.linkwise.dev.yaml").read_text())
    return document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]


def examples(root: Path) -> Iterator[dict[str, Any]]:
    for page in PAGES:
        for block in re.findall(r"```yaml\n(.*?)```", (root / page).read_text(), re.DOTALL):
            yield from filter(None, yaml.safe_load_all(block))


def fields(schema: Any, path: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - YAML
    for name, found in schema.get("properties", {}).items():
        yield f"{path}.{name}", found
        inner = found.get("items", found)
        yield from fields(inner, f"{path}.{name}{'[]' if inner is not found else ''}")


def test_the_examples_of_the_pages_are_valid(root: Path) -> None:
    found = list(examples(root))
    assert len(found) > 5
    for example in found:
        policy, problems = policy_of(example["metadata"]["name"], example)
        assert (policy.invalid, problems) == ("", ())


def test_every_field_has_a_description_and_a_row_in_the_reference(root: Path, schema: Any) -> None:  # noqa: ANN401 - YAML
    text = (root / PAGES[0]).read_text()
    known = chain(fields(schema["spec"], "spec"), fields(schema["status"], "status"))
    for path, field in known:
        if "matchExpressions[]" in path or path.startswith("spec.except.") or "conditions[]" in path:
            continue  # of Kubernetes, or like those of subjects
        assert field.get("description"), path
        assert f"`{path}`" in text or f"`{path.rpartition('.')[0]}`" in text, path


def test_both_definitions_are_printed() -> None:
    printed = CliRunner().invoke(main, ["manifests", "crd"]).stdout
    names = [document["metadata"]["name"] for document in yaml.safe_load_all(printed)]
    assert names == ["acceleratorpolicies.linkwise.dev", "deviceinventories.linkwise.dev"]
