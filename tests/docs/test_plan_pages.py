"""The pages on plans leave nothing out."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args, get_type_hints

import pytest

from linkwise.dialects.kubernetes.pod_templates import TEMPLATES, WORKLOADS
from linkwise.engine.planning.planner import LEVELS
from linkwise.explain import reports as group_report, reports as pod_report
from linkwise.explain.reports import (
    ContainerDevices,
    GroupExplanation,
    GroupNode,
    GroupRemedy,
    GroupStage,
    Leaver,
    MemberReport,
    MemberState,
    Need,
    PlanLevel,
    RunnerUp,
)
from linkwise.explain.survey import RefusalSummary

if TYPE_CHECKING:
    from collections.abc import Collection

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = "reference/json.md"
HEADINGS: Final[dict[type[Any], str]] = {
    GroupExplanation: "### Fields of `plan`",
    MemberReport: "### Members",
    GroupNode: "### Hosts",
    PlanLevel: "### Levels",
    RunnerUp: "### Runner-up",
    Need: "### Needs",
    GroupRemedy: "### Remedies",
}


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text("utf-8")


def of_plan() -> str:
    """The section about this command."""
    return page(PAGE).partition("\n## `linkwise plan`\n")[2]


def rows(heading: str) -> list[str]:
    text = of_plan().partition(f"\n{heading}\n")[2].partition("\n### ")[0]
    return re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)


def missing(words: Collection[str]) -> list[str]:
    said = set(re.findall(r"`([\w -]+)`", of_plan()))
    return sorted(word for word in words if word not in said)


@pytest.mark.parametrize("value", HEADINGS, ids=lambda value: value.__name__)
def test_every_field_of_a_plan_is_in_the_reference_in_its_order(value: type[Any]) -> None:
    known = [field.name for field in fields(value)]
    added = ["there", "missing", "whole", "why"] if value is GroupExplanation else []
    assert rows(HEADINGS[value]) == known + added


def test_every_word_of_a_plan_is_in_the_reference() -> None:
    hints = get_type_hints(GroupRemedy, vars(group_report) | vars(pod_report))
    words = {*get_args(GroupStage), *get_args(MemberState), *get_args(hints["kind"]), *LEVELS}
    parts = {field.name for value in (ContainerDevices, Leaver, RefusalSummary) for field in fields(value)}
    assert missing(words | parts) == []


def test_every_kind_that_creates_pods_is_on_the_page() -> None:
    text = page("how-to/plan-a-group.md").partition("## 2.")[0]
    assert [kind for kind in ("Pod", *TEMPLATES, *WORKLOADS) if not re.search(rf"\b{kind}\b", text)] == []
