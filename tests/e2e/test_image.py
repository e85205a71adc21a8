"""What the container image contains, built by the same script without an image: programs that run, and an SBOM of all of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import linkwise

ROOT = Path(__file__).resolve().parents[2]


class Built(NamedTuple):
    environment: Path
    sbom: Path

    def run(self, *command: str) -> str:
        """Output of a program of the image, with nothing else on the PATH, as the image has it."""
        environ = {"PATH": f"{self.environment}/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True, cwd="/", timeout=60)
        return done.stdout


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("image")
    built = Built(folder / "opt/linkwise", folder / "sbom.cdx.json")
    environ = {**os.environ, "TOOLS": sys.executable, "PYTHON": sys.executable}
    command = [ROOT / "scripts/image/build.sh", built.environment, built.sbom]
    subprocess.run(command, env=environ, check=True, timeout=280, capture_output=True)
    return built


@pytest.mark.parametrize("program", ["linkwise", "kubectl-linkwise"])
def test_a_program_of_the_image_runs(image: Built, program: str) -> None:
    assert image.run(str(image.environment / "bin" / program), "--version").endswith(
        f"version {linkwise.__version__}\n"
    )


def test_the_agent_of_the_image_has_what_it_needs(image: Built) -> None:
    image.run(str(image.environment / "bin/python"), "-c", "import linkwise.assembly.agent, grpc, pynvml")


def test_the_image_prints_the_manifests_of_an_installation(image: Built) -> None:
    assert "kind: DaemonSet" in image.run(str(image.environment / "bin/linkwise"), "manifests", "all")


def test_the_image_can_install_nothing(image: Built) -> None:
    assert not list((image.environment / "bin").glob("pip*"))


def test_the_sbom_lists_every_package_of_the_environment(image: Built) -> None:
    names = "import importlib.metadata as m; print(*{d.metadata['Name'] + '==' + d.version for d in m.distributions()})"
    inside = set(image.run(str(image.environment / "bin/python"), "-c", names).split())
    sbom = json.loads(image.sbom.read_text("utf-8"))
    listed = {f"{part['name']}=={part['version']}" for part in sbom["components"]}
    assert inside == listed


def test_packages_have_the_locked_versions(image: Built) -> None:
    locked = set(re.findall(r"^(\S+==\S+)", (ROOT / "deploy/image/requirements.lock").read_text("utf-8"), re.MULTILINE))
    sbom = json.loads(image.sbom.read_text("utf-8"))
    listed = {f"{part['name'].lower().replace('_', '-')}=={part['version']}" for part in sbom["components"]}
    assert listed - locked == {f"linkwise=={linkwise.__version__}"}
