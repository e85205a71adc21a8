"""The guides: their commands are executed, their manifests are accepted, and the tests that they name exist."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
import yaml

from support.command_line import run_linkwise
from support.doc_commands import RunBlock, run_blocks
from support.doc_examples import blocks
from support.embedded.up_process import TriedCluster
from support.environment import surroundings
from support.script_modules import scripts_importable

with scripts_importable():
    import kubernetes as programs

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[2]
GUIDES: Final = ROOT / "docs/guides"
SAMPLES: Final = GUIDES / "samples"
PAGES: Final = {page.name: page.read_text("utf-8") for page in sorted(GUIDES.glob("*.md"))}
EXECUTED: Final = [page for page, text in PAGES.items() if any(block.run == "embedded" for block in run_blocks(text))]
TEST: Final = re.compile(r"\b(tests/[\w/]+\.py)(?:::(\w+))?")
WORKLOADS: Final = frozenset({"Pod", "Deployment", "Job", "CronJob", "StatefulSet"})
MIGRATIONS: Final = ("gpushare", "koordinator", "huawei-volcano", "nvidia-device-plugin", "hami")
PENDING: Final = "hami.yaml"
"""the manifest that a guide shows because no node can serve it as it is"""


@cache
def kubectl() -> str:
    """A kubectl: the one in PATH, or the one that `make e2e` has built; the test is skipped if there is none."""
    built = sorted((programs.cache() / "kubernetes").glob("*/bin/kubectl"))
    return shutil.which("kubectl") or (str(built[-1]) if built else pytest.skip("kubectl is not installed"))


def files(page: str) -> dict[str, str]:
    """The named files of a page."""
    return {block.file: block.text for block in blocks(PAGES[page]) if block.file}


def shell(cluster: TriedCluster, folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script as a user of the cluster would, who stops at the first command that fails."""
    path = f"{Path(kubectl()).parent}{os.pathsep}{cluster.environment['PATH']}" if "kubectl" in script else None
    environment = cluster.environment | ({"PATH": path} if path else {})
    return subprocess.run(
        ["/bin/sh", "-euc", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


def prepared(folder: Path, page: str) -> Path:
    """A folder with the samples and the files of a page."""
    shutil.copytree(SAMPLES, folder / "try")
    for name, text in files(page).items():
        (folder / "try" / name).write_text(text, "utf-8")
    return folder / "try"


@pytest.mark.parametrize("page", EXECUTED)
def test_commands_of_a_guide_succeed_on_a_cluster(page: str, tmp_path: Path) -> None:
    folder = prepared(tmp_path, page)
    with TriedCluster(tmp_path) as cluster:
        for block in run_blocks(PAGES[page]):
            if block.run == "embedded":
                done = shell(cluster, folder, block.text)
                assert done.returncode == 0, f"{block.text}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_guide_is_executed_or_the_page_says_where_it_is(page: str) -> None:
    assert [block.text for block in run_blocks(PAGES[page]) if not block.run] == []


def test_a_note_counts_up_to_the_next_heading() -> None:
    page = "# A\n<!-- run: embedded -->\n```sh\na\n```\n1. b\n   ```sh\n   b\n   ```\n## B\n```sh\nc\n```\n"
    assert list(run_blocks(page)) == [RunBlock("a\n", "embedded"), RunBlock("b\n", "embedded"), RunBlock("c\n", "")]


def named_tests() -> Iterator[tuple[str, str, str]]:
    for page, text in PAGES.items():
        for file, test in TEST.findall(text):
            yield page, file, test


@pytest.mark.parametrize(("page", "file", "test"), sorted(set(named_tests())))
def test_a_test_that_a_guide_names_exists(page: str, file: str, test: str) -> None:
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert not test or test in functions, page


def sections(page: str) -> dict[str, str]:
    """Sections of the third level, by their headings."""
    parts = re.split(r"^#{2,3} (.+)$", PAGES[page], flags=re.MULTILINE)
    levels = re.findall(r"^(#{2,3}) ", PAGES[page], flags=re.MULTILINE)
    return {title: text for level, title, text in zip(levels, parts[1::2], parts[2::2], strict=True) if level == "###"}


@pytest.mark.parametrize("page", ["failures.md", "security.md"])
def test_every_failure_and_every_threat_names_a_test(page: str) -> None:
    assert len(sections(page)) >= 10
    assert [title for title, text in sections(page).items() if not TEST.search(text)] == []


ALERTS: Final = ROOT / "deploy/chart/files/alerts.yaml"


def test_every_alert_of_the_chart_is_in_the_guide_with_its_severity() -> None:
    rules = [rule for group in yaml.safe_load(ALERTS.read_text("utf-8"))["groups"] for rule in group["rules"]]
    rows = re.findall(r"^\| `(Linkwise\w+)` \| (\w+) \|", PAGES["metrics-and-alerts.md"], re.MULTILINE)
    assert sorted(rows) == sorted((rule["alert"], rule["labels"]["severity"]) for rule in rules)


def test_metrics_of_the_guides_exist() -> None:
    known = set(re.findall(r"`(linkwise_\w+)`", (ROOT / "docs/reference/metrics.md").read_text("utf-8")))
    named = {name.removesuffix("_bucket") for text in PAGES.values() for name in re.findall(r"\blinkwise_\w+", text)}
    assert named - known == set()


def manifests() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for name, text in files(page).items():
            kinds = (
                {(document or {}).get("kind") for document in yaml.safe_load_all(text)}
                if name.endswith("yaml")
                else set()
            )
            if kinds & WORKLOADS:
                yield page, name


@pytest.mark.parametrize(("page", "name"), sorted(manifests()))
def test_a_manifest_of_a_guide_is_read_without_a_problem(page: str, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(files(page)[name], "utf-8")
    shown = run_linkwise("read", name, folder=tmp_path)
    assert shown.returncode == 0, shown.stdout


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TriedCluster]:
    """A cluster for tests that leave all its devices free."""
    with TriedCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.mark.parametrize(("page", "name"), sorted(manifests()))
def test_a_manifest_of_a_guide_is_admitted(page: str, name: str, tmp_path: Path, shared_cluster: TriedCluster) -> None:
    (tmp_path / name).write_text(files(page)[name], "utf-8")
    words = ("apply", "--dry-run", "-f", name)
    done = run_linkwise(*words, folder=tmp_path, environment=shared_cluster.environment)
    assert done.returncode == 0, done.stderr


def test_a_pod_with_the_memory_of_hami_stays_pending_as_the_guide_says(
    tmp_path: Path, shared_cluster: TriedCluster
) -> None:
    (tmp_path / PENDING).write_text(files("from-hami.md")[PENDING], "utf-8")
    wait = "until linkwise explain pod/infer | grep -q 'is pending'; do sleep 0.2; done"
    events = "until kubectl get events | grep -q 'Insufficient nvidia.com/gpumem'; do sleep 0.2; done"
    delete = f"linkwise delete -f {PENDING}"
    done = shell(shared_cluster, tmp_path, f"linkwise apply -f {PENDING}\n{wait}\n{events}\n{delete}")
    assert done.returncode == 0, done.stderr


@pytest.mark.rule("002.documents")
def test_administrators_users_and_all_five_systems_have_a_guide_with_samples() -> None:
    assert {"administrator.md", "user.md", *(f"from-{system}.md" for system in MIGRATIONS)} <= set(PAGES)
    linked = set(re.findall(r"\(samples/([\w.-]+)\)", PAGES["user.md"]))
    assert linked == {sample.name for sample in SAMPLES.iterdir()}


def test_a_migration_says_what_stays_how_to_switch_and_how_to_go_back() -> None:
    for system in MIGRATIONS:
        titles = re.findall(r"^## (.+)$", PAGES[f"from-{system}.md"], re.MULTILINE)
        assert any(title.startswith(("What keeps working", "Which manifests work")) for title in titles), system
        assert {"Go back"} <= set(titles), system
        assert any(title.startswith("Switch") for title in titles), system


def test_the_script_for_containers_prints_what_a_container_has(tmp_path: Path) -> None:
    variables = {"NVIDIA_VISIBLE_DEVICES": "GPU-1,GPU-2", "ALIYUN_COM_GPU_MEM_CONTAINER": "6"}
    done = subprocess.run(
        ["/bin/sh", str(SAMPLES / "show-devices.sh")],
        cwd=tmp_path,
        env=surroundings() | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[:2] == ["NVIDIA_VISIBLE_DEVICES=GPU-1,GPU-2", "ALIYUN_COM_GPU_MEM_CONTAINER=6"]


def test_the_script_that_waits_explains_pods_that_do_not_start(tmp_path: Path, shared_cluster: TriedCluster) -> None:
    folder = prepared(tmp_path, "user.md")
    script = "linkwise example too-many > pod.yaml; kubectl label -f pod.yaml --local -o yaml app=x > labelled.yaml"
    made = shell(shared_cluster, folder, script)
    done = shell(shared_cluster, folder, "kubectl version >/dev/null; sh submit-and-wait.sh labelled.yaml app=x 3")
    assert made.returncode == 0, made.stderr
    assert done.returncode == 1
    assert "it requests 16 devices (nvidia.com/gpu)" in done.stderr
