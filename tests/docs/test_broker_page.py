"""The page on the broker leaves nothing out, and its samples are what the code says."""

from __future__ import annotations

import re
from dataclasses import MISSING, Field, fields, is_dataclass
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

import pytest

from linkwise.broker import effects, watch_events
from linkwise.broker.broker import Broker, BrokerView, Counts
from linkwise.engine.usage import Drift, DriftKind, drift_text
from linkwise.explain import inspect as inspection, node as node_report, reports as pod_report
from linkwise.explain.group.group import explain_group
from linkwise.explain.inspect import inspect_nodes
from linkwise.explain.node import explain_node
from linkwise.explain.pod import explain_pod
from linkwise.model.settings import BandwidthSettings, PlacingSettings, ShareSettings

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = (ROOT / "docs/reference/broker.md").read_text("utf-8")
VERBS: Final = [name for name in vars(Broker) if not name.startswith("_")]
QUERIES: Final = [name for name in vars(BrokerView) if not name.startswith("_")]
EXPLAINING: Final = (explain_pod, explain_group, explain_node, inspect_nodes)
ANSWERS: Final = (
    *(effects.Admission, effects.BindAnswer, effects.DryRun, effects.FilterAnswer),
    *(pod_report.Explanation, inspection.NodeInspection, node_report.NodeExplanation),
)
EFFECTS: Final = get_args(effects.Effect)
SETTINGS: Final = [
    (value.__name__, field) for value in (PlacingSettings, ShareSettings, BandwidthSettings) for field in fields(value)
]
EVENT: Final = re.compile(r'Event\(\s*"(?:Normal|Warning)",\s*"(\w+)"')
A, AB = ("team/a",), ("team/a", "team/b")
DRIFTS: Final = {
    drift.kind: drift
    for drift in (
        Drift("record", "n", A, ("d0",), ("d1",)),
        Drift("changed", "n", A, ("d0",), ("d1",)),
        Drift("strange device", "n", A, ("d0",)),
        Drift("twice", "n", AB, ("d0",)),
        Drift("oversold", "n", AB, ("d0",)),
        Drift("stranger", "n", ("uid-a",), ("d0",)),
        Drift("mode", "n", A, (), ("n",)),
        Drift("elsewhere", "n", A, (), ("m",)),
    )
}


def section(heading: str) -> str:
    level = heading.partition(" ")[0]
    return PAGE.partition(f"\n{heading}\n")[2].partition(f"\n{level} ")[0]


def row(text: str, name: str) -> str:
    """The row of a table that begins with a name."""
    (found,) = [line for line in text.splitlines() if line.startswith(f"| `{name}` |")]
    return found


def missing(value: type[Any], text: str) -> list[str]:
    return [field.name for field in fields(value) if f"`{field.name}`" not in text]


def called(function: Callable[..., object]) -> str:
    """A verb with its arguments, as one would call it."""
    found = signature(function)
    kept = [part.replace(annotation=Parameter.empty) for part in found.parameters.values() if part.name != "self"]
    return f"{function.__name__}{found.replace(parameters=kept, return_annotation=Parameter.empty)}"


def default(field: Field[object]) -> str:
    found = field.default if field.default_factory is MISSING else field.default_factory()
    return "as below" if is_dataclass(found) else str(found)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_in_the_reference_with_its_arguments(verb: str) -> None:
    assert f"\n| `{called(getattr(Broker, verb))}` | " in section("## Verbs")


@pytest.mark.parametrize("query", QUERIES)
def test_every_query_is_in_the_reference_with_its_arguments(query: str) -> None:
    found = getattr(BrokerView, query)
    assert f"\n| `{query if isinstance(found, property) else called(found)}` | " in section("## Queries")


def test_every_count_is_in_the_reference() -> None:
    assert missing(Counts, section("## Queries")) == []


@pytest.mark.parametrize("function", EXPLAINING, ids=lambda function: function.__name__)
def test_every_function_that_explains_is_in_the_reference_with_its_arguments(function: Callable[..., object]) -> None:
    module = function.__module__.rpartition(".")[2]
    assert f"\n| `{called(function)}` | `{module}` | " in section("## Explaining")


@pytest.mark.parametrize("value", ANSWERS)
def test_every_field_of_an_answer_is_in_the_reference(value: type[Any]) -> None:
    assert missing(value, section("## Answers").partition(f"### `{value.__name__}`")[2].partition("\n### ")[0]) == []


@pytest.mark.parametrize("value", [inspection.InspectedDevice, inspection.Holder])
def test_every_field_of_what_is_inspected_is_in_the_reference(value: type[Any]) -> None:
    assert missing(value, PAGE.partition("### `NodeInspection`")[2].partition("\n## ")[0]) == []


def test_every_state_of_a_pod_is_in_the_reference() -> None:
    states = (*get_args(pod_report.PodState), *get_args(inspection.HolderState))
    assert [state for state in states if f"`{state}`" not in section("## Answers")] == []


@pytest.mark.parametrize("effect", EFFECTS)
def test_every_effect_is_in_the_reference_with_its_fields(effect: type[Any]) -> None:
    assert missing(effect, row(section("## Effects"), effect.__name__)) == []


@pytest.mark.parametrize("event", get_args(watch_events.WatchEvent))
def test_every_watch_event_is_in_the_reference(event: type[Any]) -> None:
    assert f"`{event.__name__}`" in section("## Watch events")


@pytest.mark.parametrize("event", [watch_events.PodDeleted, watch_events.NodeGone, watch_events.NodeObject])
def test_every_field_of_a_watch_event_of_ours_is_in_the_reference(event: type[Any]) -> None:
    assert missing(event, row(section("## Watch events"), event.__name__)) == []


def test_every_reason_of_an_event_is_in_the_reference() -> None:
    sources = [path.read_text("utf-8") for path in sorted((ROOT / "src/linkwise/broker").rglob("*.py"))]
    reasons = {reason for source in sources for reason in EVENT.findall(source)}
    assert reasons
    assert [reason for reason in reasons if not row(section("## Effects"), reason)] == []


@pytest.mark.parametrize(("value", "field"), SETTINGS, ids=lambda found: getattr(found, "name", found))
def test_every_setting_is_in_the_reference_with_its_default(value: str, field: Field[object]) -> None:
    assert f"\n| `{value}` | `{field.name}` | {default(field)} | " in section("## Settings")


@pytest.mark.parametrize("kind", get_args(DriftKind))
def test_every_kind_of_drift_is_in_the_reference_with_its_sentence(kind: DriftKind) -> None:
    assert row(section("## Drift"), kind).endswith(f" | {drift_text(DRIFTS[kind])} |")
