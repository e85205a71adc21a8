"""How the cluster is found, and what is said when it is not."""

from __future__ import annotations

import asyncio
import json
import os
import re
import stat
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from lightkube.config.models import User, UserExec

from linkwise.errors import ClusterError
from linkwise.kube.client.api import connect
from linkwise.kube.client.kubeconfig import Credentials, find, own_namespace
from support.fakes.scripted_api import Reply, ScriptedApi
from support.virtual_clock import run_idle

if TYPE_CHECKING:
    from pathlib import Path


def config(folder: Path, name: str = "config", server: str = "http://127.0.0.1:1", **extra: Any) -> Path:  # noqa: ANN401 - YAML
    """A kubeconfig with one of everything, all named after the file."""
    word = name.removesuffix(".yaml")
    document = {
        "clusters": [{"name": word, "cluster": {"server": server} | extra.pop("cluster", {})}],
        "users": [{"name": word, "user": extra.pop("user", {})}],
        "contexts": [{"name": word, "context": {"cluster": word, "user": word} | extra.pop("context", {})}],
        "current-context": word,
    }
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(document | extra))
    return file


def test_a_file_that_is_named_is_used_before_all_others(tmp_path: Path) -> None:
    file, other = config(tmp_path, "a", "http://a:1"), config(tmp_path, "b", "http://b:1")
    assert connect(file, None, {"KUBECONFIG": str(other)}).server == "http://a:1"


def test_the_environment_is_used_before_the_usual_place(tmp_path: Path) -> None:
    config(tmp_path / ".kube", "config", "http://home:1")
    env = {"HOME": str(tmp_path), "KUBECONFIG": str(config(tmp_path, "e", "http://env:1"))}
    assert connect(None, None, env).server == "http://env:1"


def test_the_usual_place_is_used_before_the_service_account(tmp_path: Path) -> None:
    config(tmp_path / ".kube", "config", "http://home:1")
    env = {"HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert connect(None, None, env).server == "http://home:1"


def test_of_several_files_the_first_that_says_something_is_right(tmp_path: Path) -> None:
    first, second = config(tmp_path, "a", "http://a:1"), config(tmp_path, "b", "http://b:1")
    env = {"KUBECONFIG": os.pathsep.join([str(tmp_path / "missing"), str(first), str(second)])}
    assert connect(None, None, env).server == "http://a:1"
    assert connect(None, "b", env).server == "http://b:1"


def test_a_relative_path_starts_at_the_file_it_stands_in(tmp_path: Path) -> None:
    first = config(tmp_path, "a", "http://a:1")
    second = config(tmp_path / "deep", "b", "http://b:1", user={"tokenFile": "token"})
    found = find(None, "b", {"KUBECONFIG": f"{first}{os.pathsep}{second}"})
    assert found.config.user
    assert found.config.user.token_file == str(tmp_path / "deep" / "token")


def test_the_namespace_of_the_context_is_known(tmp_path: Path) -> None:
    assert connect(config(tmp_path, context={"namespace": "team"})).namespace == "team"


def test_in_a_pod_the_service_account_is_used(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    (tmp_path / "namespace").write_text("linkwise-system\n")
    found = find(None, None, {"KUBERNETES_SERVICE_HOST": "fd00::1", "HOME": str(tmp_path)}, tmp_path)
    assert (found.config.cluster.server, found.config.namespace) == ("https://[fd00::1]:443", "linkwise-system")


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"current-context": ""}, "current-context is not set; select one of its contexts: config"),
        ({"current-context": "x"}, "'x' not found; its contexts are config"),
        ({"clusters": []}, "context 'config' refers to 'config', which does not exist"),
        ({"clusters": 7}, "is not a kubeconfig: it needs lists of clusters, users and contexts"),
        ({"clusters": [7]}, r"clusters\[0\] is not a cluster with a name"),
        ({"cluster": {"server": "ftp://x"}}, "'ftp://x' is not an http or https address"),
        (
            {"cluster": {"server": "https://x", "certificate-authority": "none.crt"}},
            "a certificate or key can't be used",
        ),
        ({"cluster": {"proxy-url": "socks5://p:1"}}, "proxy socks5://p can't be used"),
        ({"user": {"auth-provider": {"name": "gcp"}}}, "auth-provider not supported"),
    ],
)
def test_an_invalid_file_is_reported_by_name(tmp_path: Path, extra: dict[str, Any], words: str) -> None:
    file = config(tmp_path, **extra)
    with pytest.raises(ClusterError, match=words) as error:
        connect(file, None, {})
    assert str(file) in str(error.value)


@pytest.mark.parametrize("text", ["[1, 2]", "a: [", "\x00"])
def test_a_file_that_is_not_a_kubeconfig_is_reported_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(ClusterError, match="config"):
        connect(tmp_path / "config")


def test_an_invalid_file_is_reported_by_line_without_the_token_in_it(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("users:\n- user: {token: s3cret, [}\n")
    with pytest.raises(ClusterError, match=r"config:2:26 can't be read") as error:
        connect(tmp_path / "config")
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[" * 100_000, "config can't be read: it is nested too deeply"),
        ("a: 2024-99-99", "config can't be read: month must be in 1..12"),
        ("\0", "config can't be read: unacceptable character #x0000: special characters are not allowed in"),
    ],
)
def test_an_invalid_kubeconfig_is_reported_in_one_line(tmp_path: Path, text: str, sentence: str) -> None:
    (file := tmp_path / "config").write_text(text, "utf-8")
    with pytest.raises(ClusterError, match=re.escape(sentence)) as error:
        connect(file)
    assert "\n" not in str(error.value)


def test_a_folder_is_no_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="is a directory; pass the kubeconfig file that kubectl uses"):
        connect(tmp_path)


def test_a_missing_file_is_reported_by_name(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="missing: no such file"):
        connect(tmp_path / "missing")
    with pytest.raises(ClusterError, match=r"\$KUBECONFIG: no such file: .*missing"):
        connect(None, None, {"KUBECONFIG": str(tmp_path / "missing")})


def test_without_any_hint_it_is_said_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"\$KUBECONFIG is not set, .* does not exist, and this is not a pod"):
        connect(None, None, {"HOME": str(tmp_path)})


def test_a_proxy_is_used_unless_the_host_is_excepted(tmp_path: Path) -> None:
    file = config(tmp_path, server="http://api:1")
    env = {"http_proxy": "http://user:pass@proxy:3128", "no_proxy": "other"}
    proxy = connect(file, None, env).http.origin.proxy
    assert proxy
    assert (proxy.host, proxy.port, proxy.authorization) == ("proxy", 3128, "Basic dXNlcjpwYXNz")
    assert connect(file, None, env | {"no_proxy": "api"}).http.origin.proxy is None


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_a_proxy_of_the_environment_is_not_for_this_machine(tmp_path: Path, host: str) -> None:
    env = {"HTTPS_PROXY": "http://proxy:3128", "http_proxy": "http://proxy:3128"}
    assert connect(config(tmp_path, server=f"http://{host}:1"), None, env).http.origin.proxy is None


def asked(folder: Path, user: dict[str, Any], *replies: Reply) -> list[str]:
    """The credentials of each request, when the server answers so."""

    async def scenario() -> list[str]:
        api = ScriptedApi()
        server = await api.serve()
        api.script("GET /version", *replies)
        connection = connect(config(folder, server=f"http://127.0.0.1:{api.port}", user=user), None, {})
        try:
            for _ in range(2):
                await connection.call("GET", "/version")
        finally:
            await connection.close()
            await api.stop(server)
        return [request.headers.get("authorization", "") for request in api.requests]

    return asyncio.run(scenario())


def test_a_token_is_sent_with_every_request(tmp_path: Path) -> None:
    assert asked(tmp_path, {"token": "t1"}, Reply(200, {})) == ["Bearer t1", "Bearer t1"]


def test_a_token_that_is_refused_is_not_tried_for_ever(tmp_path: Path) -> None:
    assert asked(tmp_path, {"token": "t1"}, Reply(401, {})) == ["Bearer t1", "Bearer t1"]


def plugin(folder: Path) -> dict[str, Any]:
    """A credential plugin that returns another token each time, and records its input."""
    script = folder / "plugin"
    script.write_text(
        "#!/bin/sh\n"
        'printf "%s" "$KUBERNETES_EXEC_INFO" > "$OUT/info"\n'
        'echo x >> "$OUT/runs"\n'
        'printf \'{"status": {"token": "t%s"}}\' "$(wc -l < "$OUT/runs" | tr -d " ")"\n'
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    env = [{"name": "OUT", "value": str(folder)}]
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin", "env": env}}


def test_a_credential_plugin_is_run_once_and_gets_its_version(tmp_path: Path) -> None:
    assert asked(tmp_path, plugin(tmp_path), Reply(200, {})) == ["Bearer t1", "Bearer t1"]
    assert json.loads((tmp_path / "info").read_text())["apiVersion"] == "client.authentication.k8s.io/v1"


def test_a_plugin_is_run_again_when_its_token_is_refused(tmp_path: Path) -> None:
    replies = (Reply(200, {}), Reply(401, {}), Reply(200, {}))
    assert asked(tmp_path, plugin(tmp_path), *replies) == ["Bearer t1", "Bearer t1", "Bearer t2"]


def test_a_failing_credential_plugin_is_reported_with_its_command(tmp_path: Path) -> None:
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "no-such-plugin"}}
    with pytest.raises(ClusterError, match=r"context config: can't get credentials: .*no-such-plugin"):
        asked(tmp_path, user, Reply(200, {}))


def test_a_plugin_that_hangs_is_not_waited_for_without_end(tmp_path: Path) -> None:
    os.mkfifo(door := tmp_path / "door")
    user = User(exec=UserExec(apiVersion="client.authentication.k8s.io/v1beta1", command="cat", args=[str(door)]))

    async def scenario() -> list[str]:
        credentials = Credentials(user, "config", timeout=0.05)
        results = await asyncio.gather(*(credentials.line() for _ in range(2)), return_exceptions=True)
        plugin = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.to_thread(door.write_bytes, b"")  # which lets it end, without a word
        ended = await asyncio.gather(*plugin, return_exceptions=True)
        return [str(error) for error in (*results, *ended) if isinstance(error, ClusterError)]

    *slow, last = run_idle(scenario())
    assert slow == ["config: no credentials within 0.05 s"] * 2
    assert "can't get credentials" in last


def test_a_token_file_is_read_again_when_its_token_is_refused(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t1\n")

    async def scenario() -> list[str]:
        api = ScriptedApi()
        server = await api.serve()
        api.script("GET /version", Reply(200, {}), Reply(401, {}), Reply(200, {}))
        file = config(tmp_path, server=f"http://127.0.0.1:{api.port}", user={"tokenFile": "token"})
        connection = connect(file, None, {})
        await connection.call("GET", "/version")
        (tmp_path / "token").write_text("t2\n")
        answer = await connection.call("GET", "/version")
        await connection.close()
        await api.stop(server)
        assert answer.status == 200
        return [request.headers["authorization"] for request in api.requests]

    assert asyncio.run(scenario()) == ["Bearer t1", "Bearer t1", "Bearer t2"]


def rewritten(folder: Path, *, meanwhile: str, replies: tuple[Reply, ...]) -> list[str]:
    """The credentials of each request, when the kubeconfig is this text after the first."""

    async def scenario() -> list[str]:
        api = ScriptedApi()
        server = await api.serve()
        api.script("GET /version", *replies)
        file = config(folder, server=f"http://127.0.0.1:{api.port}", user={"token": "t1"})
        connection = connect(file, None, {})
        await connection.call("GET", "/version")
        file.write_text(meanwhile or file.read_text().replace("t1", "t2"))
        await asyncio.gather(*(connection.call("GET", "/version") for _ in range(2)))
        await connection.close()
        await api.stop(server)
        return [request.headers["authorization"] for request in api.requests]

    return asyncio.run(scenario())


def test_a_kubeconfig_is_read_again_when_its_token_is_refused(tmp_path: Path) -> None:
    replies = (Reply(200, {}), Reply(401, {}), Reply(401, {}), Reply(200, {}))
    sent = rewritten(tmp_path, meanwhile="", replies=replies)
    assert sorted(sent) == ["Bearer t1"] * 3 + ["Bearer t2"] * 2


def test_a_kubeconfig_that_is_just_being_written_changes_nothing(tmp_path: Path) -> None:
    sent = rewritten(tmp_path, meanwhile="users: [", replies=(Reply(200, {}), Reply(401, {})))
    assert sent == ["Bearer t1"] * 3


def test_the_namespace_of_the_service_is_that_of_its_pod_or_of_the_manifests(tmp_path: Path) -> None:
    (tmp_path / "namespace").write_text("of-account\n")
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert own_namespace({**pod, "POD_NAMESPACE": "of-pod"}, tmp_path) == "of-pod"
    assert own_namespace(pod, tmp_path) == "of-account"
    assert own_namespace({}, tmp_path) == "linkwise-system"
