"""A survey reads what it may: what is missing, refused or too long is an answer, an unreachable cluster an error."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from linkwise.embedded.apiserver.faults import Fault
from linkwise.kube.client.api import connect
from linkwise.kube.client.survey import Survey, SurveyKind
from linkwise.kube.errors import UnauthorizedError
from linkwise.model.access_policy import Requester
from linkwise.net.http.client import NotSentError
from support.embedded.thread import EmbeddedThread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

MAPS = SurveyKind("", "v1", "configmaps", "default")


class Surveyed:
    """A cluster and a way to survey it."""

    def __init__(self, thread: EmbeddedThread, folder: Path) -> None:
        self.thread, self._file = thread, folder / "kubeconfig"

    def survey(self, work: Callable[[Survey], Awaitable[Any]], user: str = "", token: str = "") -> Any:  # noqa: ANN401 - what the work gives
        server = self.thread.server
        if user:
            token = self.thread.do(lambda _: server.tokens.add(Requester(user, ("system:authenticated",))))
        self._file.write_text(server.kubeconfig(token=token or server.token), "utf-8")

        async def done() -> Any:  # noqa: ANN401 - same
            connection = connect(self._file, environ={})
            try:
                return await work(Survey(connection))
            finally:
                await connection.close()

        return asyncio.run(done())


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Surveyed]:
    with EmbeddedThread() as thread:
        yield Surveyed(thread, tmp_path)


def test_a_list_longer_than_its_bound_is_cut_and_says_so(cluster: Surveyed) -> None:
    def fill(server: Any) -> None:  # noqa: ANN401 - the server
        for number in range(501):
            server.store.create("configmaps", {"metadata": {"name": f"c{number}"}}, "default")

    cluster.thread.do(fill)
    cut = cluster.survey(lambda survey: survey.list(MAPS, pages=1))
    whole = cluster.survey(lambda survey: survey.list(MAPS))
    assert (len(cut.items), cut.cut) == (500, True)
    assert (len(whole.items), whole.cut) == (501, False)


def test_a_missing_right_names_the_verb(cluster: Surveyed) -> None:
    listed = cluster.survey(lambda survey: survey.list(MAPS), user="jane")
    one = cluster.survey(lambda survey: survey.get(SurveyKind("", "v1", "nodes"), "n"), user="jane")
    assert listed.error == "may not list configmaps in namespace default: grant the verb list on configmaps"
    assert one.error == "may not get nodes: grant the verb get on nodes"


def test_kinds_and_objects_that_are_not_there_are_empty_answers(cluster: Surveyed) -> None:
    absent = cluster.survey(lambda survey: survey.list(SurveyKind("nowhere.example.com", "v1", "things")))
    missing = cluster.survey(lambda survey: survey.get(MAPS, "missing"))
    assert (absent.items, absent.error, missing.items, missing.error) == ((), "", (), "")


def test_a_failing_server_is_a_reason(cluster: Surveyed) -> None:
    cluster.thread.do(lambda server: server.faults.add(Fault("answer", "GET", "configmaps", code=500)))
    found = cluster.survey(lambda survey: survey.list(MAPS))
    assert found.error.startswith("configmaps in namespace default can't be read: 500")


def test_rights_of_others_are_asked_for(cluster: Surveyed) -> None:
    attributes = {"verb": "list", "resource": "pods", "namespace": ""}
    denied = cluster.survey(lambda survey: survey.may("system:serviceaccount:a:b", attributes))
    refused = cluster.survey(lambda survey: survey.may("someone", attributes), user="jane")
    assert denied is False
    assert refused == "may not create subjectaccessreviews.authorization.k8s.io: grant the verb create on it"


def test_a_path_that_may_not_be_read_names_what_to_grant(cluster: Surveyed) -> None:
    path = "/api/v1/namespaces/default/services/x:1/proxy/readyz"
    status, _, error = cluster.survey(lambda survey: survey.text(path, "/readyz", "get on services/proxy"), user="jane")
    assert (status, error) == (403, "may not read /readyz: grant get on services/proxy")
    status, _, error = cluster.survey(lambda survey: survey.text(path, "/readyz", "get on services/proxy"))
    assert (status, error) == (404, '/readyz does not answer: services "x" not found')


def test_credentials_that_are_not_accepted_are_an_error(cluster: Surveyed) -> None:
    with pytest.raises(UnauthorizedError, match="log in again"):
        cluster.survey(lambda survey: survey.list(MAPS), token=MAPS.resource)


def test_a_cluster_that_can_not_be_reached_is_an_error(tmp_path: Path) -> None:
    with EmbeddedThread() as thread:
        made = Surveyed(thread, tmp_path)
        made.survey(lambda survey: survey.list(MAPS))
    with pytest.raises(NotSentError):
        made.survey(lambda survey: survey.list(MAPS))
