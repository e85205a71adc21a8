"""Record of a decision: the field `why` of a grant, written at the bind and read when the pod is explained.

It is for people only. Nothing is allocated by it, so an invalid one is as good as none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.dialects.dialect import where_pod
from linkwise.dialects.json_fields import Fields, Report, json_value
from linkwise.errors import InputError
from linkwise.model.verdict import Decision

if TYPE_CHECKING:
    from linkwise.model.views import PodView

__all__ = ["WRITTEN", "decision_document", "recorded_decision"]

_NUMBER: Final = r"-?(?:0|[1-9][0-9]{0,17})"
_NUMBERS: Final = rf"\[(?:{_NUMBER}(?:,{_NUMBER})*)?\]"
_ROWS: Final = rf"\[{_NUMBERS}(?:,{_NUMBERS})*\]"
_WORDS: Final = r'\[(?:"[a-z0-9 -]*"(?:,"[a-z0-9 -]*")*)?\]'
_NODE: Final = r'"[ !#-\[\]-~]*"'
WRITTEN: Final = (
    rf'\{{"considered":{_NUMBER},"free":(?:{_NUMBERS}|{_ROWS})(?:,"nominated":true)?'
    rf'(?:,"runner_up":\{{"node":{_NODE},"score":{_NUMBERS}\}})?,"score":{_NUMBERS},"terms":{_WORDS}\}}'
)
"""pattern of the field exactly as we write it"""
LARGEST: Final = 2**62
MOST: Final = 1024
"""entries of a list that are read; no node has so many devices"""


def decision_document(decision: Decision) -> dict[str, object]:
    """The field as JSON values, fields by name; of the other nodes only the first."""
    document: dict[str, object] = {"considered": decision.considered, "free": decision.rooms or decision.free}
    if decision.nominated:
        document["nominated"] = True
    if decision.others:
        node, score = decision.others[0]
        document["runner_up"] = {"node": node, "score": score}
    return {**document, "score": decision.score, "terms": decision.terms}


def recorded_decision(pod: PodView, key: str) -> Decision | None:
    """The decision in the record at this key of the pod; None if there is none that can be read."""
    text, report = pod.annotations.get(key), Report(where_pod(pod), key)
    try:
        record = json_value(text) if text else None
    except InputError:
        return None
    fields = Fields.of(record.get("why"), "why", report) if isinstance(record, dict) else None
    decision = _read(fields) if fields else None
    return None if report.broken else decision


def _read(fields: Fields) -> Decision | None:
    considered, terms, score = fields.number("considered"), fields.texts("terms"), _integers(fields.raw.get("score"))
    if considered is None or terms is None or score is None or len(score) != len(terms):
        return None
    free, rows = _integers(fields.raw.get("free")), _rooms(fields.raw.get("free"))
    if free is None and rows is None:
        return None
    return Decision(
        considered,
        terms,
        score,
        _others(fields, len(terms)),
        free or (),
        rows or (),
        fields.raw.get("nominated") is True,
    )


def _others(fields: Fields, terms: int) -> tuple[tuple[str, tuple[int, ...]], ...]:
    if "runner_up" not in fields.raw:
        return ()
    other = Fields.of(fields.raw["runner_up"], "why.runner_up", fields.report)
    node, score = (other.text("node"), _integers(other.raw.get("score"))) if other else (None, None)
    return ((node, score),) if node and score is not None and len(score) == terms else ()


def _rooms(value: object) -> tuple[tuple[int, int, int], ...] | None:
    if not isinstance(value, list) or len(value) > MOST:
        return None
    rows = [row for each in value if (row := _integers(each)) and len(row) == 3]
    return tuple((row[0], row[1], row[2]) for row in rows) if len(rows) == len(value) else None


def _integers(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list) or len(value) > MOST:
        return None
    fits = all(isinstance(each, int) and not isinstance(each, bool) and abs(each) < LARGEST for each in value)
    return tuple(value) if fits else None
