"""Devices of pods that another scheduler has bound, written to a scripted API server."""

from __future__ import annotations

from linkwise.broker.effects import Record
from support.fakes.performed_effects import FINE, Performed, tell
from support.fakes.scripted_api import Reply

PATH = "PATCH /api/v1/namespaces/team/pods/a"
GONE = Reply(404, {"message": 'pods "a" not found'})
OTHER = Reply(422, {"message": 'Pod "a" is invalid: metadata.uid: Invalid value: "u-a": field is immutable'})
CONFLICT = Reply(409, {"message": 'Operation cannot be fulfilled on pods "a": the object has been modified'})
FORBIDDEN = Reply(403, {"message": "pods is forbidden"})
CHIPS = {"huawei.com/Ascend910": "Ascend910-0,Ascend910-1"}


def written(*replies: Reply) -> Performed:
    return tell([Record("team", "a", "u-a", CHIPS)], scripts={PATH: replies})


def test_a_record_is_one_merge_patch_of_annotations_with_the_uid() -> None:
    performed = written(FINE)
    (request,) = performed.api.requests
    assert request.headers["content-type"] == "application/merge-patch+json"
    assert request.document == {"metadata": {"uid": "u-a", "annotations": CHIPS}}
    assert performed.performer.stats["record"] == {"written": 1}


def test_a_pod_that_is_gone_or_another_of_its_name_is_not_a_problem() -> None:
    for reply in (GONE, OTHER):
        performed = written(reply)
        assert performed.performer.stats["record"] == {"gone": 1}
        assert performed.performer.problems == ()


def test_a_conflict_is_tried_again() -> None:
    assert written(CONFLICT, FINE).performer.stats["record"] == {"written": 1}


def test_a_missing_permission_is_named() -> None:
    performed = written(FORBIDDEN)
    assert performed.performer.stats["record"] == {"failed": 1}
    assert "grant patch on pods (`linkwise manifests rbac` prints the role)" in performed.performer.problems[0]
