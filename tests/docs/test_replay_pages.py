"""The pages on snapshots, replay and scenarios leave nothing out."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Final, get_args

import pytest
import yaml

import linkwise.testing
from linkwise.explain.reports import ContainerDevices
from linkwise.model.snapshot import Snapshot
from linkwise.model.verdict import Outcome, State
from linkwise.sim.replay import Decision, Way
from linkwise.testing.scenario import GIVEN, SCENARIO, load, run
from linkwise.testing.scenario.expectations import EXPECTED
from linkwise.testing.scenario.steps import ANSWERED, BESIDE, VERBS
from linkwise.testing.scenario.vocabulary import GROUP, HOLDING, NODE, POD
from linkwise.wire.snapshot import READ, VERSION

if TYPE_CHECKING:
    from collections.abc import Collection

ROOT: Final = Path(__file__).resolve().parents[2]


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text("utf-8")


def missing(words: Collection[str], name: str) -> list[str]:
    said = set(re.findall(r"`([\w-]+)`", page(name)))
    return sorted(word for word in words if word not in said)


def test_every_field_of_a_snapshot_is_in_the_reference() -> None:
    assert missing([field.name for field in fields(Snapshot)], "reference/snapshot.md") == []


def test_versions_states_and_kinds_are_in_the_reference() -> None:
    said = page("reference/snapshot.md")
    assert f"| `version` | of this format: {VERSION}." in said
    assert missing([*get_args(State), *get_args(Outcome)], "reference/snapshot.md") == []
    assert [kind for kind in READ if not re.search(rf"\b{kind}\b", said.partition("## Lists of kubectl")[2])] == []


@pytest.mark.parametrize("value", [Decision, ContainerDevices])
def test_every_field_of_a_decision_is_on_the_page(value: type[Decision | ContainerDevices]) -> None:
    assert missing([field.name for field in fields(value)], "how-to/replay-a-cluster.md") == []


def test_every_module_for_authors_of_extensions_is_on_the_page() -> None:
    text = page("how-to/write-a-scenario.md")
    modules = [f"`linkwise.testing.{module.name}`" for module in iter_modules(linkwise.testing.__path__)]
    assert [name for name in modules if name not in text] == []


def test_every_key_of_a_scenario_is_on_the_page() -> None:
    words = {*NODE, *POD, *HOLDING, *GROUP, *VERBS, *ANSWERED, *EXPECTED, *get_args(Way), *BESIDE}
    assert missing(words, "how-to/write-a-scenario.md") == []
    (example,) = re.findall(r"```yaml\n(.*?)```", page("how-to/write-a-scenario.md"), re.DOTALL)
    unseen = (SCENARIO - set(yaml.safe_load(example))) | {
        part for part in GIVEN if part.title() not in page("how-to/write-a-scenario.md")
    }
    assert unseen == {"settings", "shuffled"}
    assert missing(["settings"], "how-to/write-a-scenario.md") == []
    assert "`shuffled: 8`" in page("how-to/write-a-scenario.md")


def test_the_scenario_of_the_page_passes(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", page("how-to/write-a-scenario.md"), re.DOTALL)
    (tmp_path / "page.yaml").write_text(example, "utf-8")
    found = load(tmp_path / "page.yaml")
    run(found)
    assert found.rules == ("002.release",)
