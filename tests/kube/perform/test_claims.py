"""Claims on the API server: created, replaced under the same name while they are not allocated, and never taken from others."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from linkwise.broker.effects import WriteClaim
from linkwise.kube.perform.performer import Performer
from linkwise.kube.settings import PerformSettings
from support.fakes.scripted_api import FakeTime, Reply, Request, ScriptedApi, play, until

if TYPE_CHECKING:
    from linkwise.kube.client.api import Connection

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims"
PLACE = f"{CLAIMS}/lw-1"
EXISTS = Reply(409, {"message": 'resourceclaims.resource.k8s.io "lw-1" already exists'})
GONE = Reply(404, {"message": "not found"})


def document(plan: str, *, pod: str = "u-a", allocated: bool = False) -> dict[str, Any]:
    about = {
        "name": "lw-1",
        "namespace": "team",
        "uid": "c-1",
        "resourceVersion": "7",
        "annotations": {"linkwise.dev/plan": plan},
        "ownerReferences": [{"kind": "Pod", "uid": pod, "controller": True}],
    }
    return {"metadata": about, "status": {"allocation": {"devices": {}}} if allocated else {}}


WRITE = WriteClaim("team", "a", "u-a", "lw-1", json.dumps(document("new")))
DELETE = WriteClaim("team", "a", "u-a", "lw-1", "")


def written(effect: WriteClaim, **scripts: tuple[Reply, ...]) -> tuple[list[Request], Performer, list[tuple[str, str]]]:
    """What was sent for an effect; scripts are by verb."""
    refused: list[tuple[str, str]] = []

    async def scenario(api: ScriptedApi, connection: Connection) -> tuple[list[Request], Performer]:
        for verb, replies in scripts.items():
            api.script(f"{verb.upper()} {CLAIMS if verb == 'post' else PLACE}", *replies)
        performer = Performer(
            connection,
            PerformSettings(),
            FakeTime().timing,
            waits=lambda _: False,
            claim_refused=lambda uid, sentence: refused.append((uid, sentence)),
        )
        running = asyncio.create_task(performer.run())
        performer.tell([effect])
        await until(lambda: not performer.queued)
        await performer.close()
        await running
        return [request for verb in ("POST", "GET", "DELETE") for request in api.asked(verb)], performer

    return (*play(scenario), refused)


def verbs(requests: list[Request]) -> list[str]:
    return [request.verb for request in requests]


def test_a_claim_is_created_with_one_request() -> None:
    requests, performer, _ = written(WRITE, post=(Reply(201, document("new")),))
    assert [(request.verb, request.path) for request in requests] == [("POST", CLAIMS)]
    assert requests[0].document == document("new")
    assert performer.stats["claim"] == {"written": 1}


def test_a_claim_of_an_earlier_plan_is_deleted_as_it_was_read_and_created_again() -> None:
    requests, performer, _ = written(
        WRITE, post=(EXISTS, Reply(201, document("new"))), get=(Reply(200, document("old")),), delete=(Reply(200, {}),)
    )
    assert verbs(requests) == ["POST", "POST", "GET", "DELETE"]
    assert requests[3].document == {"preconditions": {"uid": "c-1", "resourceVersion": "7"}}
    assert performer.stats["claim"] == {"written": 1}


def test_a_claim_that_has_the_plan_is_left_as_it_is() -> None:
    requests, performer, _ = written(WRITE, post=(EXISTS,), get=(Reply(200, document("new")),))
    assert verbs(requests) == ["POST", "GET"]
    assert performer.stats["claim"] == {"written": 1}


def test_an_allocated_claim_is_not_replaced_and_not_deleted() -> None:
    for effect in (WRITE, DELETE):
        requests, performer, _ = written(effect, post=(EXISTS,), get=(Reply(200, document("old", allocated=True)),))
        assert "DELETE" not in verbs(requests)
        assert performer.stats["claim"] == {"kept": 1}


def test_a_claim_of_another_pod_is_not_touched() -> None:
    requests, performer, _ = written(WRITE, post=(EXISTS,), get=(Reply(200, document("old", pod="u-b")),))
    assert verbs(requests) == ["POST", "GET"]
    assert performer.stats["claim"] == {"failed": 1}


def test_a_claim_that_was_allocated_in_between_survives_the_deletion() -> None:
    requests, performer, _ = written(
        DELETE,
        get=(Reply(200, document("old")), Reply(200, document("old", allocated=True))),
        delete=(Reply(409, {"message": "the object has been modified"}),),
    )
    assert verbs(requests) == ["GET", "GET", "DELETE"]
    assert performer.stats["claim"] == {"kept": 1}


def test_deleting_a_claim_that_is_gone_is_done() -> None:
    _, performer, _ = written(DELETE, get=(GONE,))
    assert performer.stats["claim"] == {"kept": 1}


def test_a_refusal_is_reported_with_the_answer_of_the_api_server() -> None:
    _, performer, refused = written(WRITE, post=(Reply(403, {"message": "exceeded quota: gpus"}),))
    assert refused == [("u-a", "exceeded quota: gpus")]
    assert performer.stats["claim"] == {"failed": 1}
