"""Conditions of pods, written to a scripted API server."""

from __future__ import annotations

from linkwise.broker.effects import Condition
from linkwise.model.views import PodCondition
from support.fakes.performed_effects import FINE, Performed, tell
from support.fakes.scripted_api import Reply

PATH = "PATCH /api/v1/namespaces/team/pods/a/status"
GONE = Reply(404, {"message": 'pods "a" not found'})
OTHER = Reply(422, {"message": 'Pod "a" is invalid: metadata.uid: Invalid value: "u-a": field is immutable'})
CONFLICT = Reply(409, {"message": 'Operation cannot be fulfilled on pods "a": the object has been modified'})
FORBIDDEN = Reply(403, {"message": "pods/status is forbidden"})


def pending(sentence: str = "no room") -> Condition:
    return Condition("team", "a", "u-a", PodCondition(status=False, reason="NoRoom", message=sentence, since=1_000.0))


def written(*replies: Reply) -> Performed:
    return tell([pending()], scripts={PATH: replies})


def test_a_condition_is_a_strategic_merge_patch_of_the_status_with_the_uid() -> None:
    (request,) = written(FINE).api.requests
    assert request.headers["content-type"] == "application/strategic-merge-patch+json"
    assert request.document == {
        "metadata": {"uid": "u-a"},
        "status": {
            "conditions": [
                {
                    "type": "linkwise.dev/Schedulable",
                    "status": "False",
                    "reason": "NoRoom",
                    "message": "no room",
                    "lastTransitionTime": "1970-01-01T00:16:40Z",
                }
            ]
        },
    }


def test_a_pod_that_is_gone_or_another_of_its_name_is_not_a_problem() -> None:
    for reply in (GONE, OTHER):
        performed = written(reply)
        assert performed.performer.stats["condition"] == {"gone": 1}
        assert performed.performer.problems == ()


def test_a_conflict_is_tried_again() -> None:
    assert written(CONFLICT, FINE).performer.stats["condition"] == {"written": 1}


def test_a_missing_permission_is_named() -> None:
    performed = written(FORBIDDEN)
    assert performed.performer.stats["condition"] == {"failed": 1}
    assert "grant patch on pods/status (`linkwise manifests rbac` prints the role)" in performed.performer.problems[0]


def test_of_several_conditions_that_wait_the_newest_is_written() -> None:
    performed = tell([pending("first"), pending("second")], scripts={PATH: (FINE,)})
    messages = [request.document["status"]["conditions"][0]["message"] for request in performed.api.requests]
    assert messages == ["second"]
