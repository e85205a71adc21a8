"""Plans on pending members: nomination first, then record and gate in one guarded patch; nothing of others is touched."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from linkwise.broker.effects import Steer
from linkwise.kube.perform.performer import Performer
from linkwise.kube.settings import PerformSettings
from support.fakes.scripted_api import FakeTime, Reply, Request, ScriptedApi, play, until

if TYPE_CHECKING:
    from linkwise.kube.client.api import Connection

GATE = "linkwise.dev/gang"
OTHER = "example.com/quota"
PATH = "/api/v1/namespaces/team/pods/a"
PLAN = {"linkwise.dev/group-plan": "{}"}
STEER = Steer("team", "a", "u-a", "n1", PLAN, GATE, since=1.0)
CONFLICT = Reply(409, {"message": "the object has been modified"})


def pod(*gates: str, version: int = 7, uid: str = "u-a", node: str = "", plan: bool = False) -> Reply:
    keys = PLAN if plan else {}
    meta = {"name": "a", "namespace": "team", "uid": uid, "resourceVersion": str(version), "annotations": keys}
    spec = {"containers": [], "schedulingGates": [{"name": gate} for gate in gates], "nodeName": node}
    return Reply(200, {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": spec})


def written(
    *effects: Steer,
    ungated: list[float] | None = None,
    settings: PerformSettings | None = None,
    **scripts: tuple[Reply, ...],
) -> tuple[list[Request], Performer]:
    """What was sent for effects about one pod; scripts are by `status`, `pod` and `get`."""

    async def scenario(api: ScriptedApi, connection: Connection) -> tuple[list[Request], Performer]:
        for name, asked in (("status", f"PATCH {PATH}/status"), ("pod", f"PATCH {PATH}"), ("get", f"GET {PATH}")):
            if name in scripts:
                api.script(asked, *scripts[name])
        time = FakeTime()
        seconds = ungated if ungated is not None else []
        performer = Performer(
            connection, settings or PerformSettings(), time.timing, waits=lambda _: True, ungated=seconds.append
        )
        running = asyncio.create_task(performer.run())
        performer.tell(effects)
        await until(lambda: not performer.queued)
        await performer.close()
        await running
        return [request for verb in ("GET", "PATCH") for request in api.asked(verb)], performer

    return play(scenario)


def documents(requests: list[Request]) -> list[Any]:
    return [request.document for request in requests]


def test_the_node_is_nominated_before_record_and_gate_are_written_in_one_patch() -> None:
    waits: list[float] = []
    requests, performer = written(STEER, ungated=waits, status=(pod(GATE),), pod=(pod(),))
    assert [request.path for request in requests] == [f"{PATH}/status", PATH]
    first, second = documents(requests)
    assert first == {"metadata": {"uid": "u-a"}, "status": {"nominatedNodeName": "n1"}}
    assert second["metadata"] == {"uid": "u-a", "resourceVersion": "7", "annotations": PLAN}
    assert second["spec"] == {"schedulingGates": None}
    assert performer.stats["steer"] == {"written": 1}
    assert len(waits) == 1


def test_a_gate_of_somebody_else_stays() -> None:
    requests, _ = written(STEER, status=(pod(OTHER, GATE),), pod=(pod(OTHER),))
    assert documents(requests)[1]["spec"] == {"schedulingGates": [{"name": OTHER}]}


def test_a_pod_that_changed_in_between_is_read_again() -> None:
    requests, performer = written(
        STEER, status=(pod(OTHER, GATE), pod(GATE, version=8)), pod=(CONFLICT, pod(version=9))
    )
    assert [document["metadata"].get("resourceVersion") for document in documents(requests)] == [None, "7", None, "8"]
    assert documents(requests)[3]["spec"] == {"schedulingGates": None}
    assert performer.stats["steer"] == {"written": 1}


@pytest.mark.parametrize("found", [pod(GATE, uid="u-b"), pod(node="n2")])
def test_a_pod_that_is_another_one_or_has_a_node_by_now_is_left_alone(found: Reply) -> None:
    requests, performer = written(STEER, status=(found,))
    assert len(requests) == 1
    assert performer.stats["steer"] == {"kept": 1}


def test_what_is_written_already_is_not_written_again() -> None:
    requests, performer = written(STEER, status=(pod(plan=True),))
    assert len(requests) == 1
    assert performer.stats["steer"] == {"written": 1}


def test_a_gate_alone_is_removed_without_a_nomination() -> None:
    requests, _ = written(Steer("team", "a", "u-a", gate=GATE), get=(pod(GATE),), pod=(pod(),))
    assert [request.verb for request in requests] == ["GET", "PATCH"]
    assert documents(requests)[1] == {
        "metadata": {"uid": "u-a", "resourceVersion": "7"},
        "spec": {"schedulingGates": None},
    }


def test_the_end_of_a_plan_removes_the_nomination_and_keeps_the_gate() -> None:
    ended = Steer("team", "a", "u-a", "", PLAN)
    requests, _ = written(ended, status=(pod(GATE),), pod=(pod(GATE),))
    first, second = documents(requests)
    assert first["status"] == {"nominatedNodeName": None}
    assert "spec" not in second


def test_an_empty_annotation_is_removed() -> None:
    requests, _ = written(
        Steer("team", "a", "u-a", "", {"linkwise.dev/group-plan": ""}), status=(pod(plan=True),), pod=(pod(),)
    )
    assert documents(requests)[1]["metadata"]["annotations"] == {"linkwise.dev/group-plan": None}


def test_a_write_that_is_refused_is_reported_with_the_permission_it_needs_and_retried(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refused = Reply(403, {"message": "denied"})
    requests, performer = written(STEER, status=(refused, pod(GATE)), pod=(pod(),))
    assert len(requests) == 3
    assert performer.stats["steer"] == {"failed": 1, "written": 1}
    assert "grant patch on pods and pods/status" in caplog.text


PIN = Steer("team", "a", "u-a", "n1", {**PLAN, "huawei.com/Ascend910": "Ascend910-0"}, GATE, pin="n1")
NAMED = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
TERMS = "requiredDuringSchedulingIgnoredDuringExecution"


def with_terms(found: Reply, *terms: dict[str, Any]) -> Reply:
    affinity = {"nodeAffinity": {TERMS: {"nodeSelectorTerms": list(terms)}}, "podAntiAffinity": {}}
    body = found.document
    assert isinstance(body, dict)
    return Reply(200, {**body, "spec": {**body["spec"], "affinity": affinity}})


@pytest.mark.rule("003.record")
def test_a_pod_of_volcano_is_pinned_recorded_and_ungated_in_one_patch() -> None:
    requests, _ = written(PIN, status=(pod(GATE),), pod=(pod(),))
    assert [request.path for request in requests] == [f"{PATH}/status", PATH]
    patch = documents(requests)[1]
    assert patch["metadata"] == {"uid": "u-a", "resourceVersion": "7", "annotations": dict(PIN.annotations)}
    affinity = {"nodeAffinity": {TERMS: {"nodeSelectorTerms": [{"matchFields": [NAMED]}]}}}
    assert patch["spec"] == {"schedulingGates": None, "affinity": affinity}


def test_the_node_is_added_to_every_term_that_is_there_and_an_empty_one_stays_empty() -> None:
    zone = {"key": "zone", "operator": "In", "values": ["x"]}
    other = {"key": "metadata.name", "operator": "NotIn", "values": ["n2"]}
    found = with_terms(pod(GATE), {"matchExpressions": [zone]}, {"matchFields": [other]}, {})
    requests, _ = written(PIN, status=(found,), pod=(pod(),))
    affinity = documents(requests)[1]["spec"]["affinity"]
    assert affinity == {
        "nodeAffinity": {
            TERMS: {
                "nodeSelectorTerms": [
                    {"matchExpressions": [zone], "matchFields": [NAMED]},
                    {"matchFields": [other, NAMED]},
                    {},
                ]
            }
        }
    }


def test_a_pod_that_an_earlier_plan_has_ungated_is_not_given_devices_of_another_node() -> None:
    requests, performer = written(PIN, status=(pod(),))
    assert len(requests) == 1
    assert performer.stats["steer"] == {"kept": 1}


def test_the_latest_plan_of_a_pod_is_the_one_that_is_written() -> None:
    later = Steer("team", "a", "u-a", "n2", PLAN, GATE)
    requests, _ = written(STEER, later, status=(pod(GATE),), pod=(pod(),))
    assert documents(requests)[0]["status"] == {"nominatedNodeName": "n2"}
    assert len(requests) == 2
