"""What a release consists of: notes, the chart with the digest of the image, provenance, licences."""

from __future__ import annotations

import json
import re
import tarfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

import linkwise
from support.script_modules import scripts_importable

with scripts_importable():
    import licences
    import packages
    import release

ROOT = Path(__file__).resolve().parents[2]
DIGEST = f"sha256:{'0' * 64}"
CHANGELOG = "# Changelog\n\n## [Unreleased]\n\nnew\n\n## [0.2.0] - 2026-11-19\n\n- one\n\n## [0.1.0]\n\n- older\n"


def test_notes_are_the_section_of_the_version() -> None:
    assert release.notes(CHANGELOG, "0.2.0") == "# Linkwise 0.2.0\n\n- one\n"


def test_notes_of_a_version_without_a_section_are_what_is_unreleased() -> None:
    assert release.notes(CHANGELOG, "0.3.0") == "# Linkwise 0.3.0\n\nnew\n"


def test_another_version_than_that_of_the_package_is_refused() -> None:
    with pytest.raises(packages.BuildError, match=f"the version of the package is {linkwise.__version__}, not 9"):
        release.check("9", dirty=True)


def test_the_chart_names_the_digest_of_linkwise_and_not_of_kube_scheduler() -> None:
    values = release.with_digest((ROOT / "deploy/chart/values.yaml").read_text("utf-8"), DIGEST)
    image, scheduler = re.findall(r"^ +digest: (.*)$", values, re.MULTILINE)
    assert (image, scheduler) == (DIGEST, "''")


@pytest.mark.parametrize("page", ["README.md", "docs/how-to/install-with-helm.md", "docs/guides/administrator.md"])
def test_pages_install_the_image_of_this_version_as_the_test_on_a_real_node_does(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    versions = re.findall(r"linkwise(?::|-)(\d+\.\d+\.\d+)", text)
    assert set(versions) == {linkwise.__version__}
    commands = ("make image", "ctr --namespace k8s.io images import", "helm install linkwise deploy/chart")
    assert [command for command in commands if command not in text] == []


@pytest.mark.parametrize("workflow", sorted((ROOT / ".github/workflows").glob("*.yaml")), ids=lambda path: path.name)
def test_a_workflow_has_few_permissions_and_actions_of_a_fixed_version(workflow: Path) -> None:
    found = yaml.safe_load(workflow.read_text("utf-8"))
    assert found["permissions"] == {"contents": "read"}
    steps = [step for job in found["jobs"].values() for step in job["steps"]]
    assert all(("uses" in step) != ("run" in step) for step in steps)
    assert [step["uses"] for step in steps if not re.search(r"@(v\d+|[0-9a-f]{40})$", step.get("uses", "@v1"))] == []


def test_two_packages_of_the_chart_are_equal(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.tgz", "b.tgz")]
    for file in files:
        release.write_chart(file, DIGEST, 1)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_provenance_names_every_file_and_what_it_was_made_of() -> None:
    found = release.provenance({"a.whl": "1f"}, "0.1.0", datetime(2026, 11, 19, tzinfo=UTC))
    assert found["subject"] == [{"name": "a.whl", "digest": {"sha256": "1f"}}]
    assert "deploy/image/requirements.lock" in str(found["predicate"])


def test_licences_of_the_page_are_those_of_its_packages_and_fonts() -> None:
    found = {name: text for name, _, text in licences.licences_of_page()}
    dependencies = json.loads((ROOT / "page/package.json").read_text("utf-8"))["dependencies"]
    assert {*dependencies, "@fontsource-variable/inter"} <= found.keys()
    assert "vite" not in found
    assert set(found.values()) == {"MIT", "OFL-1.1"}


def test_licences_of_development_leave_out_what_users_get() -> None:
    text = licences.development()
    assert "| pytest |" in text
    assert "| vite |" in text
    assert "| click |" not in text
    assert "| preact |" not in text


def test_the_chart_has_no_template_of_its_own_page(tmp_path: Path) -> None:
    release.write_chart(tmp_path / "a.tgz", DIGEST, 1)
    with tarfile.open(tmp_path / "a.tgz") as archive:
        names = set(archive.getnames())
    assert {
        "linkwise/Chart.yaml",
        "linkwise/README.md",
        "linkwise/files/crds/deviceinventories.linkwise.dev.yaml",
    } <= names
    assert "linkwise/README.template.md" not in names


def test_a_release_whose_build_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), release.complete(tmp_path / "dist/1") as folder:
        (folder / "half").rename(folder / "no-such-folder/half")
    assert list((tmp_path / "dist").iterdir()) == []


def test_a_release_appears_as_a_whole_and_is_not_overwritten(tmp_path: Path) -> None:
    with release.complete(tmp_path / "dist/1") as folder:
        (folder / "all").touch()
        assert not (tmp_path / "dist/1").exists()
    assert [path.name for path in tmp_path.rglob("all")] == ["all"]
    with pytest.raises(packages.BuildError, match="is not overwritten"), release.complete(tmp_path / "dist/1"):
        pass


def test_no_licence_of_the_image_is_unknown_or_demands_more_than_notices() -> None:
    found = {name: text for name, _, text in licences.licences()}
    assert {"click", "grpcio", "uvloop"} <= found.keys()
    assert [(name, text) for name, text in found.items() if text == "unknown" or "GPL" in text] == []
