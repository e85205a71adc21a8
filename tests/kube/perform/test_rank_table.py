"""Rank tables, written into ConfigMaps of a scripted API server: only where the user has made one."""

from __future__ import annotations

import json

import pytest

from linkwise.broker.effects import RankTable
from support.fakes.performed_effects import FINE, Performed, tell
from support.fakes.scripted_api import Reply

PATH = "/api/v1/namespaces/team/configmaps/rings-config-llm"
TABLE = RankTable("team", "rings-config-llm", '{"status":"completed","server_list":[]}', ("u-a",))
WAITING = RankTable("team", "rings-config-llm", '{"status":"initializing"}', ("u-a",))


def stored(text: str | None) -> Reply:
    data = {} if text is None else {"hccl.json": text}
    return Reply(200, {"metadata": {"resourceVersion": "7"}, "data": data})


def written(effect: RankTable, *found: Reply) -> Performed:
    return tell([effect], scripts={f"GET {PATH}": found, f"PATCH {PATH}": (FINE,)})


def test_a_table_replaces_the_state_that_the_user_made_and_nothing_newer() -> None:
    read, change = written(TABLE, stored('{ "status": "initializing" }')).api.requests
    assert (read.verb, change.verb) == ("GET", "PATCH")
    assert change.document == {"metadata": {"resourceVersion": "7"}, "data": {"hccl.json": TABLE.text}}


@pytest.mark.parametrize(
    ("effect", "found"),
    [
        (TABLE, stored(json.dumps(json.loads(TABLE.text), indent=1))),
        (WAITING, stored('{ "status": "initializing" }')),
        (TABLE, stored(None)),
        (TABLE, stored("a file of the user")),
        (TABLE, Reply(404, {"message": "not found"})),
    ],
    ids=["the same table", "still initializing", "no table", "another file", "no ConfigMap"],
)
def test_nothing_is_written_where_nothing_is_to_be_changed(effect: RankTable, found: Reply) -> None:
    performed = written(effect, found)
    assert [request.verb for request in performed.api.requests] == ["GET"]
    assert performed.performer.stats["rank_table"] == {"kept": 1}


def test_a_table_that_is_written_is_not_read_again_until_the_job_has_other_pods() -> None:
    again = RankTable(TABLE.namespace, TABLE.name, TABLE.text, ("u-b",))
    performed = written(TABLE, stored('{"status":"initializing"}'))
    writer = performed.performer.rank_tables
    writer.tell(TABLE)
    assert writer.queued == 0
    writer.tell(again)
    assert writer.queued == 1


def test_a_missing_permission_is_named() -> None:
    performed = written(TABLE, Reply(403, {"message": "configmaps is forbidden"}))
    assert (
        "grant get and patch on configmaps (`linkwise manifests rbac --rank-tables` prints"
        in performed.performer.problems[0]
    )
