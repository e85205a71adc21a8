from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from linkwise.cli.examples import example
from linkwise.cli.inputs.fleet import DEFAULT
from linkwise.embedded.nodes.machines import node_names
from support.embedded.up_process import TriedCluster
from support.environment import reserve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from subprocess import CompletedProcess

    Linkwise = Callable[..., CompletedProcess[str]]


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TriedCluster]:
    with TriedCluster(tmp_path_factory.mktemp("up")) as cluster:
        yield cluster


def is_open(port: int) -> bool:
    with socket.socket() as door:
        return door.connect_ex(("127.0.0.1", port)) == 0


def until(condition: Callable[[], object], seconds: float = 100.0) -> bool:
    end = time.monotonic() + seconds
    while not (held := bool(condition())) and time.monotonic() < end:
        time.sleep(0.01)
    return held


def test_the_start_message_is_plain_text_within_eighty_columns(up: TriedCluster) -> None:
    assert up.printed.startswith("A cluster of 10 nodes is up")
    assert max(map(len, up.printed.replace(str(up.kubeconfig), "").splitlines())) <= 80
    assert "\x1b" not in up.printed
    assert len(up.ports) == 2
    assert all(map(is_open, up.ports))


def test_the_suggested_commands_work_as_printed(up: TriedCluster) -> None:
    typed = up.printed.partition("In another terminal:")[2].partition("kubectl works too")[0]
    said = up.shell(f"set -e\n{typed}")
    assert "dgx1-v100-0 " in said
    assert "pod/link-pair created" in said
    assert "2 devices (nvidia.com/gpu)" in said


def test_the_api_behind_the_kubeconfig_has_nodes_for_all_five_systems(up: TriedCluster) -> None:
    with contextlib.closing(up.api()) as api:
        names = {node["metadata"]["name"] for node in api.list("/api/v1/nodes")}
    assert names == {name for machine, count in DEFAULT.items() for name in node_names(machine, count)}


def test_pods_of_all_examples_are_scheduled(up: TriedCluster) -> None:
    names = ("group", "ascend-pair", "gpu-mem", "whole-device")
    (up.temporary.parent / "all.yaml").write_text("---\n".join(map(example, names)), "utf-8")
    up.shell("linkwise apply -f all.yaml")

    def nodes() -> set[str]:
        pods = json.loads(up.shell("linkwise get pods -o json"))["items"]
        return {f"{pod['pod'].partition('-')[0]} on {pod['node'].rpartition('-')[0]}" for pod in pods}

    placed = {"group on dgx1-v100-percent", "ascend on atlas-800", "gpu on p40-share"}
    single = {"whole on v100-pcie", "whole on dgx1-v100"}  # the second once another test has left devices in use there
    assert until(lambda: placed <= nodes() and single & nodes()), nodes()


def test_the_kubeconfig_is_readable_only_by_its_owner(up: TriedCluster) -> None:
    assert up.kubeconfig.stat().st_mode & 0o777 == 0o600
    assert up.temporary in up.kubeconfig.parents


def test_nothing_is_printed_to_standard_error(up: TriedCluster) -> None:
    assert up.errors == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_the_cluster_and_leaves_no_files(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "service.yaml").write_text("http: {drain: 3600}\n", "utf-8")  # there are no connections to drain
    with TriedCluster(tmp_path, "--kubeconfig", "trial", "--config", "service.yaml") as cluster:
        assert cluster.shell("tail -n +2 trial | cmp - temporary/*/kubeconfig") == ""
        assert cluster.end(number) == 0
        assert cluster.errors == ""
        assert not any(map(is_open, cluster.ports))
    # Created by the test:
    assert sorted(file.name for file in tmp_path.rglob("*")) == ["errors", "service.yaml", "temporary"]


def test_a_second_signal_stops_the_cluster_immediately_and_leaves_no_files(tmp_path: Path) -> None:
    with TriedCluster(tmp_path, "--kubeconfig", "trial") as cluster:
        assert cluster.end(signal.SIGINT, signal.SIGTERM) == 130
    assert sorted(file.name for file in tmp_path.rglob("*")) == ["errors", "temporary"]


SENT_WHILE_IMPORTING = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # not the handler inherited from the parent process
class Sender:
    def find_spec(self, name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), {number:d})
sys.meta_path.insert(0, Sender())
sys.argv = ["linkwise", "up"]
from linkwise.cli.main import run
run()
"""


@pytest.mark.parametrize(
    ("module", "number", "code"),
    [
        ("click", signal.SIGINT, -signal.SIGINT),
        ("linkwise.cli.inputs.fleet", signal.SIGINT, 0),
        ("uvloop", signal.SIGTERM, 0),
        ("uvloop", signal.SIGINT, 0),
    ],
)
def test_a_signal_during_import_exits_silently(tmp_path: Path, module: str, number: signal.Signals, code: int) -> None:
    program = [sys.executable, "-c", SENT_WHILE_IMPORTING.format(module=module, number=number)]
    ended = subprocess.run(program, capture_output=True, env={**os.environ, "TMPDIR": str(tmp_path)}, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, b"", b"")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_output_that_cannot_be_written_is_reported_in_one_line(tmp_path: Path, unbuffered: str) -> None:
    program = f"TMPDIR={tmp_path} PYTHONUNBUFFERED={unbuffered} '{sys.executable}' -m linkwise up >/dev/full"
    ended = subprocess.run(["/bin/sh", "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (2, "linkwise: standard output: No space left on device\n")
    assert list(tmp_path.iterdir()) == []


def test_the_kubeconfig_of_a_running_cluster_is_not_overwritten(tmp_path: Path, linkwise: Linkwise) -> None:
    with TriedCluster(tmp_path, "--kubeconfig", "trial") as cluster:
        before = cluster.kubeconfig.read_text("utf-8")
        shown = linkwise("up", "--kubeconfig", "trial")
        assert shown.returncode == 2
        assert shown.stderr.startswith("linkwise: trial belongs to another `linkwise up` that is still running")
        assert cluster.kubeconfig.read_text("utf-8") == before


def test_a_signal_during_startup_exits_cleanly(tmp_path: Path) -> None:
    cluster = TriedCluster(tmp_path, "--nodes", "600")
    cluster.start()
    try:
        assert until(lambda: any(cluster.temporary.glob("linkwise-up-*")))  # the nodes exist, the service is starting
    finally:
        code = cluster.end()
    assert code == 0
    assert cluster.errors == ""
    assert list(cluster.temporary.iterdir()) == []


@pytest.mark.parametrize("flag", ["--port", "--api-port"])
def test_a_port_that_is_taken_is_reported_with_its_flag(linkwise: Linkwise, flag: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
        shown = linkwise("up", flag, str(port))
    assert shown.returncode == 2
    assert shown.stderr == f"linkwise: 127.0.0.1:{port}: Address already in use; choose another with {flag}\n"
    assert shown.stdout == ""


def test_ports_settings_and_logs_follow_the_options(tmp_path: Path) -> None:
    with reserve() as one, reserve() as two:
        api, port = (held.getsockname()[1] for held in (one, two))
        (tmp_path / "settings.yaml").write_text("http: {port: 1}\nlog: {format: json}\n", "utf-8")
        words = ("--api-port", str(api), "--port", str(port), "--config", "settings.yaml", "--log", "log", "-v")
        with TriedCluster(tmp_path, *words, "--fleet", "mi300=1,atlas-a2=2", "--nodes", "6") as cluster:
            assert cluster.ports == [api, port]
        assert "2  mi300" in cluster.printed
        assert "4  atlas-a2" in cluster.printed
        assert "linkwise example amd-four" in cluster.printed
    first = json.loads((tmp_path / "log").read_text("utf-8").splitlines()[0])
    assert f"listens on=http://127.0.0.1:{port}" in first["message"]
    assert cluster.errors == (tmp_path / "log").read_text("utf-8")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--fleet", "dgx1-v10=2"], "dgx1-v10: unknown machine profile; did you mean dgx1-v100?"),
        (["--nodes", "20001"], "20001 exceeds the maximum of 20000 nodes"),
        (["--port", "8080", "--api-port", "8080"], "--port and --api-port are both 8080"),
        (["--speed", "nan"], "nan is not a number"),
        (["--fleet", "/dev/zero"], "/dev/zero: the file is larger than 1 MiB"),
        (["--log", "no/such/file"], "no/such/file: No such file or directory"),
    ],
)
def test_invalid_arguments_are_reported_before_anything_starts(
    linkwise: Linkwise, words: list[str], sentence: str
) -> None:
    shown = linkwise("up", *words)
    assert shown.returncode == 2
    assert sentence in shown.stderr
    assert shown.stdout == ""
