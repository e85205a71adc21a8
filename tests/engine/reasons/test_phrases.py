"""Stable codes of reasons."""

from __future__ import annotations

from typing import get_args

import pytest

from linkwise.engine.reasons.catalog import REFUSALS, code_of
from linkwise.engine.reasons.phrases import CODES, PENDING_CODES, ReasonCode, decisive
from linkwise.model.verdict import Reason


@pytest.mark.parametrize(("rule", "kind"), REFUSALS)
def test_every_refusal_has_a_code(rule: str, kind: str) -> None:
    text = REFUSALS[rule, kind]
    assert text.code in PENDING_CODES or rule in {"002.access", "002.segregate"}
    assert code_of(Reason(rule, kind=kind)) in PENDING_CODES


def test_every_code_is_described_and_used() -> None:
    assert tuple(CODES) == get_args(ReasonCode)
    used = {code_of(Reason(rule, kind=kind)) for rule, kind in REFUSALS}
    assert set(PENDING_CODES) - used == {"OtherScheduler"}  # of pods that no scheduler asked about


def test_what_a_policy_of_the_administrator_refuses_is_not_permitted() -> None:
    assert code_of(Reason("002.access", kind="any kind")) == "NotPermitted"
    assert code_of(Reason("002.segregate")) == "NotPermitted"


def test_of_several_nodes_the_one_counts_that_lacks_least() -> None:
    assert decisive(["NoTopology", "NoRoom", "Excluded"]) == "NoRoom"
    assert decisive(["NoRoom", "Reserved"]) == "Reserved"
    assert decisive([]) is None
