"""Manifests are valid for the real API server: kubeconform, strict, with the schemas that the server itself publishes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml
from click.testing import CliRunner

from linkwise.cli.commands.manifests import command as manifests
from linkwise.cli.examples import example, examples
from support.e2e.helm import Helm
from support.e2e.json_schemas import KubeConform, write_schemas

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from support.e2e.cluster import Cluster

PRINTED: Final = (
    ("crd",),
    ("rbac",),
    ("rbac", "--rank-tables", "--tls"),
    ("rbac", "--agent", "--koordinator", "--device-info"),
    ("rbac", "--agent", "--dra"),
    ("device-classes", "--extended-resource", "nvidia.com/gpu"),
    ("webhook",),
    ("protection",),
)
OTHERS: Final = (
    "volcano",
    "koordinator",
    "kueue",
    "x-k8s.io",
    "run.ai",
    "kai.scheduler",
    "cert-manager",
    "kubescheduler",
    "kubeflow",
)
"""parts of the API groups of other systems, whose schemas the API server does not have"""
MONITORING: Final = ("servicemonitors", "podmonitors", "prometheusrules")
VALUES: Final[Mapping[str, Mapping[str, Any]]] = {
    "default": {},
    "one node": {"service": {"replicas": 1}, "scheduler": {"replicas": 1}},
    "everything": {
        "features": {"evict": True, "rankTables": True},
        "agent": {"koordinatorDevice": True, "deviceInfo": True},
        "volcano": {"enabled": True},
        "priorityQuota": {"enabled": True},
        "monitoring": {
            name: {"enabled": True} for name in ("serviceMonitor", "podMonitor", "prometheusRule", "dashboard")
        },
    },
    "nothing": {
        **{
            name: {"enabled": False}
            for name in ("scheduler", "agent", "webhook", "protection", "networkPolicy", "tests")
        },
        "crds": {"enabled": False},
        "tls": {"enabled": False},
    },
    "plain": {"tls": {"enabled": False}},
    "one replica without a lease": {"leaderElection": {"enabled": False}, "service": {"replicas": 1}},
    "labelled nodes": {"agent": {"nodes": "labelled"}},
    "no roles": {"rbac": {"create": False}},
    "audited": {"protection": {"audit": True}, "webhook": {"optIn": True, "hideDevices": True}},
    "named otherwise": {"fullnameOverride": "placer", "commonLabels": {"team": "research"}},
    "given addresses": {"networkPolicy": {"apiServerCIDRs": ["10.0.0.1/32"]}},
}


@pytest.fixture(scope="module")
def conform(
    kubernetes: Cluster,
    kubeconform_programs: Path,
    prometheus_definitions: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> KubeConform:
    """kubeconform with the schemas of the API server, our own kinds and those of the Prometheus Operator."""
    files = [prometheus_definitions / f"monitoring.coreos.com_{kind}.yaml" for kind in MONITORING]
    for file in files:
        kubernetes.install(file)
    folder = write_schemas(kubernetes.api, tmp_path_factory.mktemp("schemas"))
    for file in files:
        kubernetes.kubectl("delete", "--filename", str(file))
    return KubeConform(kubeconform_programs / "kubeconform", folder)


@pytest.mark.parametrize("words", PRINTED, ids=" ".join)
def test_what_the_command_line_prints_is_valid(conform: KubeConform, words: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(manifests, words)
    assert shown.exit_code == 0, shown.output
    assert conform.problems(shown.stdout) == []


def test_every_kind_of_printed_manifest_is_validated() -> None:
    assert set(manifests.commands) - {words[0] for words in PRINTED} <= {"all"}


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_the_chart_is_valid_with_any_values(
    conform: KubeConform, helm_programs: Path, root: Path, tmp_path: Path, values: Mapping[str, Any]
) -> None:
    rendered = Helm(helm_programs / "helm", tmp_path).template(root / "deploy/chart", values, "--kube-version=1.36.4")
    assert conform.problems(rendered) == []


@pytest.mark.parametrize("name", examples())
def test_examples_are_valid(conform: KubeConform, name: str) -> None:
    assert conform.problems(known(example(name))) == []


def test_objects_in_the_documentation_are_valid(conform: KubeConform, root: Path) -> None:
    texts = {page: page.read_text() for page in root.glob("docs/**/*.md")}
    blocks = {
        (page, number): block
        for page, text in texts.items()
        for number, block in enumerate(re.findall(r"```yaml\n(.*?)```", text, re.DOTALL))
        if "apiVersion:" in block and "kind:" in block
    }
    found = {
        f"{page.relative_to(root)}, block {number}": problems
        for (page, number), block in blocks.items()
        if (problems := conform.problems(known(block)))
    }
    assert found == {}


def test_a_misspelt_field_and_an_unknown_kind_are_found(conform: KubeConform) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "lables": {}}, "spec": {"containers": []}}
    other = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "b"}}
    found = sorted(conform.problems(yaml.safe_dump_all([pod, other])))
    assert "'lables' not allowed" in found[0]
    assert "could not find schema for Thing" in found[1]


def known(manifest: str) -> str:
    """The objects of a manifest without those of other systems."""
    things = [thing for thing in yaml.safe_load_all(manifest) if thing]
    return yaml.safe_dump_all([one for one in things if not any(word in one["apiVersion"] for word in OTHERS)])
