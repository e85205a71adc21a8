"""The reason beside a grant: what is written is read, and an invalid one costs nothing but the reason."""

from __future__ import annotations

import json

import pytest

from linkwise.dialects.linkwise.dialect import GRANT, Linkwise, grant_text, recorded_decision
from linkwise.model.verdict import Decision, Grant, Offer, Part
from linkwise.model.views import PodView

WHOLE = Decision(5000, ("known", "sets of 2", "packing"), (1, -2, -6), (("gpu-2", (1, 0, -7)),), (0, 3, 7))
SHARE = Decision(2, ("tightness", "packing"), (-6, -1), (), (), ((0, 14, 100), (1, 22, 60)), nominated=True)
OF_A_PLAN = Decision(free=(0, 1))
GRANT_OF = Grant("uid-1", "link-affinity", Offer("gpu-1", (Part("main", ("GPU-0",)),)))


def pod(text: str) -> PodView:
    return PodView("team", "p", "uid-1", (), node="gpu-1", annotations={GRANT: text})


@pytest.mark.parametrize("decision", [WHOLE, SHARE, OF_A_PLAN], ids=["whole devices", "share", "plan"])
def test_what_is_written_is_read(decision: Decision) -> None:
    written = pod(grant_text(GRANT_OF, decision))
    assert recorded_decision(written, GRANT) == decision
    assert Linkwise().held(written) == Linkwise().held(pod(grant_text(GRANT_OF)))


def test_a_record_is_small() -> None:
    assert len(grant_text(GRANT_OF, WHOLE)) - len(grant_text(GRANT_OF)) < 160


@pytest.mark.parametrize(
    "why",
    [
        None,
        7,
        [],
        {},
        {"considered": -1, "free": [], "score": [], "terms": []},
        {"considered": 1, "free": "0", "score": [], "terms": []},
        {"considered": 1, "free": [[0, 1]], "score": [], "terms": []},
        {"considered": 1, "free": 7, "score": [], "terms": []},
        {"considered": 1, "free": [0], "score": [1, 2], "terms": ["links"]},
        {"considered": 1, "free": [0], "score": [10**30], "terms": ["links"]},
        {"considered": 1, "free": [True], "score": [1], "terms": ["links"]},
        {"considered": 1, "free": list(range(5000)), "score": [1], "terms": ["links"]},
        {"considered": 1, "free": [0], "score": [1], "terms": ["\n"]},
        {"considered": 1, "free": [0], "score": [1], "terms": ["links"], "runner_up": "gpu-2"},
    ],
)
def test_an_invalid_reason_leaves_the_grant_as_it_is(why: object) -> None:
    record = json.dumps({**json.loads(grant_text(GRANT_OF)), "why": why})
    assert recorded_decision(pod(record), GRANT) is None
    assert Linkwise().held(pod(record)).grant == GRANT_OF


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, '{"why": NaN}'])
def test_a_record_that_is_not_json_has_no_reason(text: str) -> None:
    assert recorded_decision(pod(text), GRANT) is None
