"""Plug-ins of other distributions are found by their entry points, checked at start, and seen by every command."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from linkwise.cli.program import COMMANDS, WITHOUT_PLUGINS
from support.environment import surroundings

if TYPE_CHECKING:
    from pathlib import Path

VENDOR = """\
from linkwise.vendors.vendor import LinkCode, Vendor
OK = Vendor("acme", links=(LinkCode("ACL", "AcmeLink"),))
NVIDIA = Vendor("nvidia")
CODE = Vendor("acme", links=(LinkCode("HCCS", "AcmeLink"),))
PCIE = Vendor("acme", links=(LinkCode("PIX", "AcmeLink"),))
NUMBER = Vendor("acme", links=(LinkCode("NV4", "AcmeLink"),))
LOWER = Vendor("acme", links=(LinkCode("acl", "AcmeLink"),))
NAME = Vendor("Acme Inc")
MACHINES = Vendor("acme", machines=lambda: 1 / 0)
"""
DIALECT = """\
from linkwise.dialects.counted_devices import ByCount
from linkwise.dialects.dialect import DefaultPolicies
class Ok(ByCount):
    name, vendor, resource = "acme", "acme", "acme.com/gpu"
class Recording(Ok):
    records, record_pattern = ("acme.com/allocated",), r"acme\\.com/slot-[0-9]+"
class Keys(Ok):
    records = "acme.com/allocated"
class Pattern(Ok):
    record_pattern = "acme("
class Taken(ByCount):
    name, vendor, resource = "acme", "acme", "nvidia.com/gpu"
class Named(ByCount):
    name, vendor, resource = "amd", "acme", "acme.com/gpu"
class Policy(ByCount):
    name, vendor, resource = "acme", "acme", "acme.com/gpu"
    policies = DefaultPolicies("luck")
class Raises(Ok):
    def ask(self, pod):
        raise KeyError("boom")
class Silent(Ok):
    def ask(self, pod):
        return None
"""
POLICY = """\
from linkwise.policies.whole_device import WholeDevice
class Ok(WholeDevice):
    name = "acme-first"
class Named(WholeDevice):
    pass
class Short(WholeDevice):
    name, terms = "acme-first", ("a", "b")
class Raises(WholeDevice):
    name = "acme-first"
    def choose(self, ask, node):
        raise KeyError("boom")
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p, annotations: {linkwise.dev/policy: acme-first}}
spec: {containers: [{name: c, resources: {limits: {acme.com/gpu: 2}}}]}
"""


def offered(folder: Path, **points: str) -> Path:
    """A folder with a distribution `acme` that has one entry point per group."""
    info = folder / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n", "utf-8")
    groups = [f"[linkwise.{group}]\nmine = {value}\n" for group, value in points.items()]
    (info / "entry_points.txt").write_text("\n".join(groups), "utf-8")
    for name, text in {"acme_vendor": VENDOR, "acme_dialect": DIALECT, "acme_policy": POLICY}.items():
        (folder / f"{name}.py").write_text(text, "utf-8")
    (folder / "pod.yaml").write_text(POD, "utf-8")
    return folder


def linkwise(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "linkwise", *arguments],
        cwd=folder,
        env=surroundings() | {"PYTHONPATH": str(folder), "COLUMNS": "200"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def test_a_pod_is_read_in_the_dialect_of_a_plug_in_and_may_name_its_policy(tmp_path: Path) -> None:
    offered(tmp_path, vendors="acme_vendor:OK", dialects="acme_dialect:Ok", policies="acme_policy:Ok")
    shown = linkwise(tmp_path, "read", "-f", "pod.yaml", "--json")
    assert shown.returncode == 0, shown.stderr
    assert '"policy": "acme-first"' in shown.stdout
    assert '"dialect": "acme"' in shown.stdout


def test_its_resource_is_in_the_file_for_kube_scheduler(tmp_path: Path) -> None:
    offered(tmp_path, dialects="acme_dialect:Ok")
    assert "name: acme.com/gpu" in linkwise(tmp_path, "config", "scheduler").stdout


def test_its_records_are_protected(tmp_path: Path) -> None:
    offered(tmp_path, dialects="acme_dialect:Recording")
    policies = linkwise(tmp_path, "manifests", "protection").stdout
    assert '"acme.com/allocated"' in policies
    assert r'k.startsWith("acme.com/") && k.matches("^(?:acme\\.com/slot-[0-9]+)$")' in policies


def test_pick_knows_its_link_codes_and_its_policy(tmp_path: Path) -> None:
    offered(tmp_path, vendors="acme_vendor:OK", policies="acme_policy:Ok")
    (tmp_path / "machine.yaml").write_text("links: [[X, ACL, SYS], [ACL, X, SYS], [SYS, SYS, X]]\n", "utf-8")
    shown = linkwise(tmp_path, "pick", "-t", "machine.yaml", "-s", "2", "--policy", "acme-first", "--available", "1,2")
    assert "{1,2}" in shown.stdout, shown.stderr
    assert "only their number counts; packing -2" in shown.stdout
    assert "{0,1}" in linkwise(tmp_path, "pick", "-t", "machine.yaml", "-s", "2").stdout


@pytest.mark.parametrize(
    ("group", "value", "wrong"),
    [
        ("vendors", "acme_vendor:NVIDIA", "vendor 'nvidia' is already registered"),
        ("vendors", "acme_vendor:CODE", "link code 'HCCS' is already in use"),
        ("vendors", "acme_vendor:PCIE", "link code 'PIX' is already in use"),
        ("vendors", "acme_vendor:NUMBER", "link code 'NV4' is already in use"),
        ("vendors", "acme_vendor:LOWER", "link code 'acl': use capitals"),
        ("vendors", "acme_vendor:NAME", "vendor name 'Acme Inc': use lower-case"),
        ("vendors", "acme_vendor:MACHINES", "machines: ZeroDivisionError: division by zero"),
        ("vendors", "acme_dialect:Ok", "expected a linkwise.vendors.vendor.Vendor, got Ok"),
        ("vendors", "acme_vendor:NONE", "can't load acme_vendor:NONE: AttributeError"),
        ("vendors", "acme_gone:X", "can't load acme_gone:X: ModuleNotFoundError: No module named 'acme_gone'"),
        ("dialects", "acme_dialect:Taken", "resource nvidia.com/gpu belongs to the dialect 'nvidia'"),
        ("dialects", "acme_dialect:Keys", "dialect 'acme': records must be a tuple of annotations"),
        ("dialects", "acme_dialect:Pattern", "record_pattern is not a regular expression: missing ), unterminated"),
        ("dialects", "acme_dialect:Named", "dialect 'amd' is already registered"),
        ("dialects", "acme_dialect:Raises", "dialect 'acme': KeyError: 'boom'"),
        ("dialects", "acme_dialect:Silent", "ask returns None for a pod that requests 1 acme.com/gpu"),
        ("dialects", "acme_vendor:OK", "expected a linkwise.dialects.dialect.Dialect, got a value of type Vendor"),
        ("policies", "acme_policy:Named", "two policies are called 'whole-device'"),
        ("policies", "acme_policy:Short", "2 integers are expected"),
        ("policies", "acme_policy:Raises", "policy 'acme-first': KeyError: 'boom'"),
        ("policies", "acme_vendor:OK", "expected a linkwise.policies.policy.Policy, got a value of type Vendor"),
    ],
)
def test_a_plug_in_that_can_not_be_used_stops_the_start_with_one_sentence(
    tmp_path: Path, group: str, value: str, wrong: str
) -> None:
    offered(tmp_path, **{group: value})
    shown = linkwise(tmp_path, "read", "-f", "pod.yaml")
    assert shown.returncode == 2
    assert shown.stderr.startswith(f"linkwise: plug-in acme 1.0, entry point 'mine' in linkwise.{group}: ")
    assert wrong in shown.stderr
    assert shown.stderr.count("\n") == 1


def test_an_unregistered_default_policy_stops_the_start(tmp_path: Path) -> None:
    offered(tmp_path, dialects="acme_dialect:Policy")
    shown = linkwise(tmp_path, "read", "-f", "pod.yaml")
    assert shown.returncode == 2
    assert "dialect 'acme': default policy 'luck' is not registered: link-affinity, " in shown.stderr


def test_commands_that_need_no_plug_ins_work_beside_a_broken_one(tmp_path: Path) -> None:
    offered(tmp_path, vendors="acme_gone:X")
    assert set(COMMANDS) >= WITHOUT_PLUGINS
    assert linkwise(tmp_path, "--help").returncode == 0
    assert linkwise(tmp_path, "example").returncode == 0
