"""Kinds of features that are turned off are not watched, and so not missed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from linkwise.config.loading import load
from linkwise.config.rbac import FEATURES, OPTIONAL
from linkwise.errors import InputError
from linkwise.kube.watch.kinds import SOURCES, sources_without

if TYPE_CHECKING:
    from pathlib import Path

# The Lease is watched by the election alone, so it is not among the sources.
READING = [
    name for name in OPTIONAL if name != "leader" and any("watch" in rule.verbs for rule in FEATURES[name].rules)
]


def test_without_a_choice_everything_is_watched() -> None:
    assert sources_without(()) == SOURCES


@pytest.mark.parametrize("feature", READING)
def test_a_feature_that_is_off_takes_its_kinds_with_it(feature: str) -> None:
    left_out = {kind.name for kind in SOURCES} - {kind.name for kind in sources_without([feature])}
    assert left_out
    assert {name.partition(".")[0] for name in left_out} <= {
        resource for rule in FEATURES[feature].rules for resource in rule.resources
    }


def test_what_every_decision_needs_is_always_watched() -> None:
    required = {kind for kind in SOURCES if kind.required}
    assert required <= set(sources_without(OPTIONAL))


def test_a_misspelt_feature_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "linkwise.yaml"
    file.write_text("kube: {without: [group]}")
    with pytest.raises(InputError, match="unknown feature 'group'; did you mean groups"):
        load(file, {})
