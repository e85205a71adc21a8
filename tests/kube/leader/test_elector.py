"""The elector against a scripted API server: what it reads and writes, and what follows from answers that do not come."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from linkwise.errors import ClusterError, LostLeaseError
from linkwise.kube.client.api import Connection, FencedConnection
from linkwise.kube.client.kubeconfig import Credentials
from linkwise.kube.errors import ForbiddenError
from linkwise.kube.leader.election import LeaseTimes
from linkwise.kube.leader.elector import ROLE_GRACE, Elector, LeaseObject, NoNamespaceError
from linkwise.net.http.client import NotSentError
from support.fakes.scripted_api import FakeTime, Reply, ScriptedApi, play

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

ALL = "/apis/coordination.k8s.io/v1/namespaces/linkwise-system/leases"
ONE = f"{ALL}/linkwise"
GET, POST, PUT = f"GET {ONE}", f"POST {ALL}", f"PUT {ONE}"
TIMES = LeaseTimes(15.0, 10.0, 2.0)
MISSING = Reply(404, {"kind": "Status", "code": 404, "message": 'leases "linkwise" not found'})
CONFLICT = Reply(409, {"kind": "Status", "code": 409, "message": "the object has been modified"})
SILENCE, RESET = Reply(ending="silence"), Reply(ending="reset")
FORBIDDEN = Reply(403, {"kind": "Status", "code": 403, "message": "leases is forbidden: User x cannot get"})


def lease(holder: str, version: str = "7", **spec: object) -> Reply:
    fields = {
        "holderIdentity": holder,
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:10.000000Z",
        "leaseTransitions": 2,
        **spec,
    }
    meta = {"name": "linkwise", "namespace": "linkwise-system", "resourceVersion": version, "labels": {"kept": "yes"}}
    return Reply(200, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": fields})


class Replica:
    """An elector with a clock that its test moves."""

    def __init__(self, api: ScriptedApi, connection: Connection) -> None:
        self.api, self.time = api, FakeTime()
        self.elector = Elector(LeaseObject(connection, "linkwise-system", "linkwise"), "a_1", TIMES, self.time.timing)
        self.elector.fence.open = True
        self.connection = FencedConnection(connection, self.elector.guard)

    async def round(self, after: float = 0.0) -> Elector:
        self.time.seconds += after
        await self.elector.round()
        return self.elector

    def written(self) -> list[dict[str, Any]]:
        return [request.document["spec"] for request in self.api.requests if request.verb in {"POST", "PUT"}]


def against(story: Callable[[Replica], Awaitable[None]], **scripts: tuple[Reply, ...]) -> None:
    """Play a story against these answers to GET, POST and PUT."""

    async def scenario(api: ScriptedApi, connection: Connection) -> None:
        for name, replies in scripts.items():
            api.script({"get": GET, "post": POST, "put": PUT}[name], *replies)
        await story(Replica(api, connection))

    play(scenario)


def test_an_absent_lease_is_created_as_other_clients_write_it() -> None:
    async def story(replica: Replica) -> None:
        elector = await replica.round()
        assert elector.leads
        assert elector.may_write()
        (spec,) = replica.written()
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("a_1", 15, 0)
        assert spec["acquireTime"] == spec["renewTime"] == "1970-01-01T00:16:40.000000Z"

    against(story, get=(MISSING,), post=(Reply(201, lease("a_1").document),))


def test_a_renewal_needs_one_request_and_keeps_labels_and_the_time_of_acquisition() -> None:
    async def story(replica: Replica) -> None:
        await replica.round()
        await replica.round(after=2.0)
        assert [request.verb for request in replica.api.requests] == ["GET", "POST", "PUT"]
        document = replica.api.requests[-1].document
        assert document["metadata"]["labels"] == {"kept": "yes"}
        assert document["metadata"]["resourceVersion"] == "7"
        assert document["spec"]["acquireTime"] == "2026-01-01T00:00:00.000000Z"
        assert document["spec"]["renewTime"] == "1970-01-01T00:16:42.000000Z"

    against(story, get=(MISSING,), post=(Reply(201, lease("a_1").document),), put=(lease("a_1", "8"),))


def test_the_fence_counts_from_when_a_renewal_was_sent_not_from_its_answer() -> None:
    async def story(replica: Replica) -> None:
        await replica.round()
        started = replica.time.seconds
        replica.time.seconds += 9.5
        assert replica.elector.may_write()
        replica.time.seconds = started + 10.0
        assert not replica.elector.may_write()

    against(story, get=(lease(""),), put=(lease("a_1"),))


def test_a_renewal_without_an_answer_extends_nothing_until_the_lease_was_read_and_renewed_again() -> None:
    async def story(replica: Replica) -> None:
        await replica.round()
        await replica.round(after=9.0)
        replica.time.seconds += 1.0
        assert not replica.elector.may_write()
        assert "not answer PUT" in replica.elector.trouble
        await replica.round(after=1.0)
        assert replica.elector.may_write()
        assert [request.verb for request in replica.api.requests] == ["GET", "PUT", "PUT", "GET", "PUT"]

    against(story, get=(lease(""), lease("a_1", "9")), put=(lease("a_1", "8"), RESET, lease("a_1", "10")))


def test_a_leader_that_was_away_resumes_without_a_wait_if_the_lease_is_still_its_own() -> None:
    async def story(replica: Replica) -> None:
        await replica.round()
        await replica.round(after=3600.0)
        assert replica.elector.may_write()

    against(story, get=(lease(""), lease("a_1", "8")), put=(lease("a_1", "8"), CONFLICT, lease("a_1", "9")))


@pytest.mark.parametrize("found", [lease("b_2", "99"), lease("", "99"), MISSING])
def test_a_leader_whose_lease_was_taken_in_the_meantime_ends_and_writes_nothing_more(found: Reply) -> None:
    async def story(replica: Replica) -> None:
        await replica.round()
        with pytest.raises(LostLeaseError, match="lost Lease linkwise-system/linkwise"):
            await replica.round(after=2.0)
        with pytest.raises(NotSentError):
            await replica.connection.call("POST", "/api/v1/namespaces/team/pods/p/binding", b"{}")

    against(story, get=(lease(""), found), put=(lease("a_1"), CONFLICT))


def test_a_standby_takes_the_lease_after_its_full_duration_and_counts_a_transition() -> None:
    async def story(replica: Replica) -> None:
        await replica.round()
        await replica.round(after=14.9)
        assert replica.written() == []
        await replica.round(after=0.1)
        assert replica.elector.leads
        assert replica.written()[0]["leaseTransitions"] == 3

    against(story, get=(lease("b_2"),), put=(lease("a_1", "8"),))


def test_of_two_replicas_that_take_a_lease_at_once_the_second_stays_a_standby() -> None:
    async def story(replica: Replica) -> None:
        await replica.round()
        assert not replica.elector.leads
        await replica.round(after=2.0)
        assert replica.elector.leader == "b_2"
        assert replica.elector.refusal() == "it is a standby, and b_2 is the leader by Lease linkwise-system/linkwise"

    against(story, get=(lease(""), lease("b_2", "9")), put=(CONFLICT,))


def test_a_released_lease_has_no_holder_and_the_replica_writes_nothing_any_more() -> None:
    async def story(replica: Replica) -> None:
        await replica.round()
        await replica.elector.release()
        assert replica.written()[-1]["holderIdentity"] == ""
        assert not replica.elector.may_write()

    against(story, get=(lease(""), lease("a_1", "8")), put=(lease("a_1", "8"), CONFLICT, lease("", "9")))


def test_a_standby_releases_nothing() -> None:
    async def story(replica: Replica) -> None:
        await replica.round()
        await replica.elector.release()
        assert replica.written() == []

    against(story, get=(lease("b_2"),))


def test_a_missing_namespace_is_reported_with_what_to_do() -> None:
    async def story(replica: Replica) -> None:
        with pytest.raises(NoNamespaceError, match="kubectl create namespace linkwise-system") as caught:
            await replica.round()
        assert "LINKWISE_LEADER_ENABLED=false" in str(caught.value)

    against(story, get=(MISSING,), post=(Reply(404, {"message": 'namespaces "linkwise-system" not found'}),))


def test_a_role_without_leases_is_reported_when_an_api_server_that_just_started_would_have_loaded_it() -> None:
    async def story(replica: Replica) -> None:
        running = asyncio.create_task(replica.elector.run())
        with pytest.raises(ForbiddenError, match="`linkwise manifests rbac` prints the role"):
            await running
        assert replica.time.seconds >= 1_000.0 + ROLE_GRACE

    against(story, get=(FORBIDDEN,))


def test_an_api_server_that_is_not_there_is_no_reason_to_end() -> None:
    async def story(replica: Replica) -> None:
        await replica.round()
        assert replica.elector.trouble
        assert not replica.elector.leads

    against(story, get=(RESET,))


def test_reads_pass_the_fence_and_writes_do_not_reach_the_server() -> None:
    async def story(replica: Replica) -> None:
        assert (await replica.connection.call("GET", ONE)).status == 200
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            with pytest.raises(NotSentError, match="this replica may not write now: it is a standby"):
                await replica.connection.call(method, ONE, b"{}")
        assert [request.verb for request in replica.api.requests] == ["GET"]

    against(story, get=(lease("b_2"),))


def test_the_fence_is_checked_when_a_request_is_sent_not_when_it_is_asked_for() -> None:
    """Credentials and connections take time: a lease may end meanwhile."""

    class Slow(Credentials):
        async def line(self) -> bytes:
            replica_time.seconds += 60.0
            return b""

    replica_time = FakeTime()

    async def story(replica: Replica) -> None:
        nonlocal replica_time
        replica_time = replica.time
        await replica.round()
        slow = Connection(replica.connection.http, Slow(None, "test"), "http://test")
        with pytest.raises(NotSentError, match="was not renewed for 10 s"):
            await FencedConnection(slow, replica.elector.guard).call("POST", ONE, b"{}")
        assert len(replica.api.asked("POST")) == 0

    against(story, get=(lease(""),), put=(lease("a_1"),))


def test_an_answer_that_is_not_a_lease_is_trouble_and_nothing_else() -> None:
    async def story(replica: Replica) -> None:
        await replica.round()
        assert "can't be read" in replica.elector.trouble

    against(story, get=(Reply(200, {"metadata": {}}),))
    assert issubclass(LostLeaseError, ClusterError)
