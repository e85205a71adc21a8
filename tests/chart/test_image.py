"""The recipe of the container image: pinned, without privileges, and with requirements of the lock file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import linkwise
from support.script_modules import scripts_importable

with scripts_importable():
    import oci_image
    import packages

ROOT = Path(__file__).resolve().parents[2]
RECIPE = (ROOT / "deploy/Dockerfile").read_text("utf-8")
PINNED = re.compile(r"^(\S+==\S+)(.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)


def pins(file: str) -> dict[str, set[str]]:
    """The hashes of each requirement in a lock file."""
    text = (ROOT / file).read_text("utf-8")
    return {found[1]: set(re.findall(r"sha256:[0-9a-f]{64}", found[2])) for found in PINNED.finditer(text)}


def test_the_recipe_has_no_findings_of_its_linter() -> None:
    linter = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([linter, ROOT / "deploy/Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_bases_have_a_version_and_may_have_a_digest() -> None:
    bases = re.findall(r"^FROM (\S+)", RECIPE, re.MULTILINE)
    assert bases == ["${BASE}", "${BASE}", "scratch"]
    assert re.search(r"^ARG BASE=python:\d+\.\d+\.\d+-slim-\w+$", RECIPE, re.MULTILINE)


def test_the_image_runs_without_privileges() -> None:
    assert re.findall(r"^USER (\S+)", RECIPE, re.MULTILINE) == ["65532:65532"]


def test_the_label_names_the_version_of_the_package() -> None:
    assert re.findall(r"^ARG VERSION=(.+)$", RECIPE, re.MULTILINE) == [linkwise.__version__]
    assert 'org.opencontainers.image.version="${VERSION}"' in RECIPE


@pytest.mark.parametrize("part", ["requirements.lock", "tools.lock"])
def test_requirements_of_the_image_are_a_part_of_the_lock_file(part: str) -> None:
    all_pins = pins("requirements.lock")
    different = [name for name, hashes in pins(f"deploy/image/{part}").items() if all_pins.get(name) != hashes]
    assert different == []


def test_the_image_has_no_tools_of_development() -> None:
    names = {name.partition("==")[0] for name in pins("deploy/image/requirements.lock")}
    assert {"grpcio", "lightkube", "nvidia-ml-py"} <= names
    assert not {"pytest", "ruff", "mypy", "hatchling"} & names


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can assemble a root file system")
def test_a_missing_tool_is_named_with_the_command_that_installs_it() -> None:
    with pytest.raises(packages.BuildError, match=r"no-such-tool: not on the PATH; run `apt-get install a-package`"):
        oci_image.prepare({"no-such-tool": "a-package"}, permitted=False)
