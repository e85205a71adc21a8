"""`linkwise doctor` on the embedded cluster: nothing is wrong with it, and what is broken in it is named."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from linkwise.assembly.local_cluster import LocalCluster
from linkwise.config.settings import HttpSettings, ServeSettings
from support.e2e.api_client import Api
from support.e2e.pod_objects import pod
from support.loop_thread import LoopThread
from support.patient import BREAKAGES, SCHEDULER, Patient, created, policy_file

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

TROUBLES = ("kubelet-cpu-manager", "model-unsupported", "gpushare-allocation")


class LocalThread(LoopThread):
    """A local cluster, as `linkwise up` starts it."""

    local: LocalCluster

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        settings = ServeSettings(http=HttpSettings(port=0))
        async with LocalCluster({"dgx1-v100": 1, "p40-share": 1}, settings) as self.local:
            yield


@pytest.fixture(scope="module")
def bare() -> Iterator[Patient]:
    """The cluster as it is."""
    with LocalThread() as thread:
        api = thread.local.cluster.api
        connection = Api(api.url, api.token)
        yield Patient(connection, thread.local.kubeconfig, thread.local.url, "dgx1-v100-0", "p40-share-0")
        connection.close()


@pytest.fixture(scope="module")
def patient(bare: Patient) -> Patient:
    """The cluster with the objects of an installation."""
    assert bare.problems() == {}
    bare.install()
    assert bare.problems() == {}
    return bare


@pytest.mark.parametrize("check", BREAKAGES)
def test_what_is_broken_is_named_alone_and_gone_when_it_is_mended(patient: Patient, check: str) -> None:
    with BREAKAGES[check](patient):
        assert set(patient.problems()) == {check}
        assert patient.ask("--strict").exit_code == 1
    assert patient.problems() == {}


@pytest.mark.rule("004.trouble")
@pytest.mark.parametrize("check", TROUBLES)
def test_troubles_of_gpu_share_are_named_with_what_to_do(patient: Patient, check: str) -> None:
    with BREAKAGES[check](patient):
        found = patient.problems()[check]
        shown = patient.ask("--check", check).stdout
    assert f"{check}: " in shown
    assert f"-> {found['remedy']}" in shown


@pytest.mark.rule("004.trouble")
def test_port_32766_is_named_while_it_is_closed_on_the_loopback(patient: Patient, tmp_path: Path) -> None:
    file = policy_file(tmp_path)
    found = patient.problems("--scheduler-config", str(file))["extender-port"]
    assert "http://127.0.0.1:32766/gpushare-scheduler does not answer" in found["found"]
    assert "--from-policy FILE --url URL" in found["remedy"]


def test_an_address_that_answers_is_not_a_problem(patient: Patient, tmp_path: Path) -> None:
    file = policy_file(tmp_path, f"{patient.url}/gpushare-scheduler")
    assert "extender-port" not in patient.problems("--scheduler-config", str(file))


def test_an_open_port_that_says_nothing_is_a_problem(patient: Patient, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        file = policy_file(tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert "extender-port" in patient.problems("--scheduler-config", str(file), "--check", "extender-port")


def test_a_pod_that_no_scheduler_tries_is_named_after_a_while(patient: Patient) -> None:
    waiting = pod("default", "waits", {"nvidia.com/gpu": 1}, scheduler=SCHEDULER)
    with created(patient.api, waiting):
        assert patient.problems() == {}
        assert patient.problems_later() == {"pods-untried", "extender-called"}


def test_the_exit_code_counts_warnings_only_if_asked_to(patient: Patient) -> None:
    with BREAKAGES["scheduler-weight"](patient):
        assert patient.ask().exit_code == 0
        assert patient.ask("--strict").exit_code == 1
    with BREAKAGES["scheduler-timeout"](patient):
        assert patient.ask().exit_code == 1


def test_the_program_ends_with_the_exit_code(patient: Patient) -> None:
    words = [sys.executable, "-m", "linkwise", "doctor", "--kubeconfig", str(patient.kubeconfig)]
    with BREAKAGES["scheduler-timeout"](patient):
        assert subprocess.run(words, capture_output=True, check=False, timeout=200).returncode == 1
    assert subprocess.run(words, capture_output=True, check=False, timeout=200).returncode == 0
    assert subprocess.run([*words, "--check", "clocks"], capture_output=True, check=False, timeout=200).returncode == 2


def test_only_problems_and_a_summary_are_printed(patient: Patient) -> None:
    assert patient.ask().stdout.startswith("0 problems, 0 warnings, ")
    with BREAKAGES["scheduler-timeout"](patient):
        lines = patient.ask().stdout.splitlines()
        assert lines[0] == "Scheduler configuration"
        assert lines[1].startswith("ERROR    scheduler-timeout: configmap/linkwise-scheduler[scheduler.yaml]:")
        assert lines[2].startswith("         -> raise httpTimeout")
        assert lines[4].startswith("1 problem, 0 warnings, ")
        assert patient.ask("-o", "name").stdout == "check/scheduler-timeout\n"
        (row,) = patient.ask("-o", "wide", "--no-headers").stdout.splitlines()
        assert row.split()[:2] == ["ERROR", "scheduler-timeout"]
    assert "OK       crd-installed" in patient.ask("--all").stdout


def test_the_document_has_a_time_a_summary_and_items(patient: Patient) -> None:
    document = json.loads(patient.ask("-o", "json", "--check", "crd-installed").stdout)
    assert document["time"].endswith("Z")
    assert document["summary"] == {"error": 0, "warning": 0, "skipped": 0, "ok": 1}
    (item,) = document["items"]
    assert item["check"] == "crd-installed"
    assert item["page"] == "docs/reference/doctor.md#crd-installed"
