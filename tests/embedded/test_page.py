"""The page of a cluster as users reach it: on the machine of `linkwise up`, and by `linkwise page` through the API server."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from embedded.test_local_cluster import JANE, pod
from embedded.test_usage import two_tenants
from linkwise.assembly.page import PageProxy
from linkwise.assembly.service_client import DEFAULT_SERVICE, ServiceClient, parse_service
from linkwise.embedded.users import ADMIN
from linkwise.kube.client.api import connect
from linkwise.net.http.client import Http, Origin
from linkwise.net.http.messages import Request, Response
from linkwise.serve.page.files import FOLDER
from support.embedded.local import SECONDS, Trial, trial
from support.environment import surroundings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from linkwise.model.access_policy import Requester

GPU = "nvidia.com/gpu"


@asynccontextmanager
async def opened(tried: Trial, user: Requester, folder: Path) -> AsyncIterator[PageProxy]:
    """What `linkwise page` serves to a user."""
    api = tried.local.cluster.api
    file = folder / "kubeconfig"
    file.write_text(api.kubeconfig("default", token=api.tokens.add(user), user=user.user))
    connection = connect(file, environ={})
    try:
        yield PageProxy(ServiceClient(connection, parse_service(DEFAULT_SERVICE)))
    finally:
        await connection.close()


async def asked(
    proxy: PageProxy, path: str, host: str = "127.0.0.1:1", method: str = "GET", body: bytes = b""
) -> Response:
    headers = {b"host": host.encode(), b"content-type": b"application/yaml"}
    answer = proxy.application.handle(Request(path.encode(), headers, "127.0.0.1", asyncio.Event(), method, body=body))
    return answer if isinstance(answer, Response) else await answer


def root(proxy: PageProxy) -> str:
    return proxy.path.removesuffix("page/")


def names(document: dict[str, Any]) -> set[str]:
    return {held["pod"] for node in document["nodes"] for held in node["held"]}


@trial(dgx1_v100=1)
async def test_linkwise_up_serves_the_cluster_without_a_token(tried: Trial) -> None:
    await tried.create("pods", pod("one", {GPU: 1}))
    await tried.running()
    http = Http(Origin("127.0.0.1", int(tried.local.url.rpartition(":")[2])))
    try:
        answer = await http.call("GET", "/v1/page/cluster")
    finally:
        await http.close()
    assert names(json.loads(answer.body)) == {"default/one"}
    assert tried.local.page == f"{tried.local.url}/page/"


def test_linkwise_page_forwards_with_the_rights_of_the_user(tmp_path: Path) -> None:
    @trial(dgx1_v100=1)
    async def story(tried: Trial) -> None:
        await two_tenants(tried)
        async with opened(tried, JANE, tmp_path) as proxy:
            cluster = await asked(proxy, f"{root(proxy)}v1/page/cluster")
            hidden = await asked(proxy, f"{root(proxy)}v1/page/pods/team-b/rival")
            body = b"{apiVersion: v1, kind: Pod, metadata: {name: n, namespace: team-a}, spec: {containers: []}}"
            plan = await asked(proxy, f"{root(proxy)}v1/page/plan", method="POST", body=body)
        assert cluster.status == 200
        assert b"rival" not in cluster.body
        assert (hidden.status, plan.status) == (403, 200)

    story()


def test_changes_come_through_the_api_server_as_they_happen(tmp_path: Path) -> None:
    @trial(dgx1_v100=1)
    async def story(tried: Trial) -> None:
        async with opened(tried, ADMIN, tmp_path) as proxy:
            answer = await asked(proxy, f"{root(proxy)}v1/page/stream")
            assert answer.stream is not None
            assert (await anext(answer.stream)).startswith(b"event: cluster\n")
            await tried.create("pods", pod("one", {GPU: 1}))
            seen = b""
            async for part in answer.stream:
                seen += part
                if b"default/one" in seen:
                    break
            await answer.stream.aclose()
        assert b"event: change\n" in seen

    story()


@pytest.mark.skipif(not (FOLDER / "index.html").exists(), reason="the files of the page are not built")
def test_the_command_prints_an_address_that_works_until_ctrl_c(tmp_path: Path) -> None:
    @trial(dgx1_v100=1)
    async def story(tried: Trial) -> None:
        api = tried.local.cluster.api
        file = tmp_path / "kubeconfig"
        file.write_text(api.kubeconfig("default", token=api.tokens.add(ADMIN), user=ADMIN.user))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "linkwise", "page", "--no-browser"),
            stdout=subprocess.PIPE,
            env={**surroundings(), "KUBECONFIG": str(file), "PYTHONUNBUFFERED": "1"},
        )
        assert process.stdout is not None
        async with asyncio.timeout(SECONDS):
            url = urlsplit((await process.stdout.readline()).decode().split()[-1])
            http = Http(Origin("127.0.0.1", url.port or 0))
            answer = await http.call("GET", url.path.replace("/page/", "/v1/page/cluster"))
            await http.close()
            process.send_signal(signal.SIGINT)
            code = await process.wait()
        assert (answer.status, code) == (200, 0)

    story()


def test_other_users_of_the_machine_and_other_sites_are_refused(tmp_path: Path) -> None:
    @trial(dgx1_v100=1)
    async def story(tried: Trial) -> None:
        async with opened(tried, ADMIN, tmp_path) as proxy:
            guess = await asked(proxy, "/guess/v1/page/cluster")
            site = await asked(proxy, f"{root(proxy)}v1/page/cluster", "evil.example")
            form = await asked(proxy, f"{root(proxy)}v1/page/cluster", method="POST")
        assert (guess.status, site.status, form.status) == (404, 403, 405)

    story()
