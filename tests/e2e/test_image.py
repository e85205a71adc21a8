"""Container image: what is in it and what is not, built as `make image` builds it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import linkwise

ROOT = Path(__file__).resolve().parents[2]
PYTHON = "/opt/linkwise/bin/python"
CHROOT = shutil.which("chroot") or "chroot"
LARGEST = 120_000_000
"""bytes, compressed"""
INSTALLERS = ("apt", "apt-get", "dpkg", "perl", "pip", "pip3", "cc", "gcc", "ld", "make", "tar", "curl", "wget")
UNCHECKED = b"\1\0\0\0"
"""flags of byte code that is used whatever the time of its source"""


class Image(NamedTuple):
    archive: Path
    root: Path
    config: dict[str, Any]

    def run(self, *command: str) -> str:
        """Output of a program of the image, in its file system alone, with its environment and user."""
        environ = dict(variable.split("=", 1) for variable in self.config["Env"])
        words = [CHROOT, f"--userspec={self.config['User']}", str(self.root), *command]
        return subprocess.run(words, env=environ, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.fixture(scope="module")
def image(image_archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Image:
    folder = tmp_path_factory.mktemp("image")
    with tarfile.open(image_archive) as file:
        file.extractall(folder, filter="data")
    manifest = read(folder, read_json(folder / "index.json")["manifests"][0])
    for layer in manifest["layers"]:
        with tarfile.open(blob(folder, layer)) as file:
            file.extractall(folder / "root", filter="tar")
    return Image(image_archive, folder / "root", read(folder, manifest["config"])["config"])


def blob(folder: Path, descriptor: dict[str, Any]) -> Path:
    return folder / "blobs" / str(descriptor["digest"]).replace(":", "/")


def read(folder: Path, descriptor: dict[str, Any]) -> dict[str, Any]:
    return read_json(blob(folder, descriptor))


def read_json(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text("utf-8")))


@pytest.mark.parametrize("program", ["linkwise", "kubectl-linkwise"])
def test_a_program_of_the_image_runs(image: Image, program: str) -> None:
    assert image.run(program, "--version").endswith(f"version {linkwise.__version__}\n")


def test_the_agent_of_the_image_has_what_it_needs(image: Image) -> None:
    image.run(PYTHON, "-c", "import linkwise.assembly.agent, grpc, pynvml")


def test_the_image_prints_the_manifests_of_an_installation(image: Image) -> None:
    assert "kind: DaemonSet" in image.run("linkwise", "manifests", "all")


def test_the_image_can_install_and_compile_nothing(image: Image) -> None:
    programs = {
        path.name for folder in ("usr/bin", "usr/sbin", "usr/local/bin") for path in (image.root / folder).iterdir()
    }
    assert programs & set(INSTALLERS) == set()
    assert not list(image.root.rglob("ensurepip"))
    assert not list((image.root / "opt/linkwise/bin").glob("pip*"))


def test_no_program_of_the_image_gives_rights_to_its_user(image: Image) -> None:
    assert [path for path in image.root.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o6000] == []


def test_the_image_is_not_root_and_has_one_small_layer(image: Image) -> None:
    assert image.config["User"] == "65532:65532"
    assert image.archive.stat().st_size < LARGEST


def test_all_code_of_the_image_is_compiled(image: Image) -> None:
    packages = next((image.root / "opt/linkwise/lib").glob("python3*/site-packages"))
    sources = [path for path in packages.rglob("*.py") if "linkwise" in path.parts[len(packages.parts)]]
    compiled = [next(path.parent.glob(f"__pycache__/{path.stem}.cpython-3??.pyc")) for path in sources]
    assert len(compiled) > 300
    assert {path.read_bytes()[4:8] for path in compiled} == {UNCHECKED}


def test_the_image_names_its_packages_for_scanners(image: Image) -> None:
    found = re.findall(r"^Package: (\S+)$", (image.root / "var/lib/dpkg/status").read_text("utf-8"), re.MULTILINE)
    assert {"libc6", "libssl3"} <= set(found)
    assert not {"apt", "dpkg", "perl-base"} & set(found)


def test_the_sbom_lists_every_package_of_the_environment(image: Image) -> None:
    names = "import importlib.metadata as m; print(*{d.metadata['Name'] + '==' + d.version for d in m.distributions()})"
    inside = set(image.run(PYTHON, "-c", names).split())
    listed = {f"{part['name']}=={part['version']}" for part in components(image)}
    assert inside == listed


def test_packages_have_the_locked_versions(image: Image) -> None:
    locked = set(re.findall(r"^(\S+==\S+)", (ROOT / "deploy/image/requirements.lock").read_text("utf-8"), re.MULTILINE))
    listed = {f"{part['name'].lower().replace('_', '-')}=={part['version']}" for part in components(image)}
    assert listed - locked == {f"linkwise=={linkwise.__version__}"}


def components(image: Image) -> list[dict[str, Any]]:
    return list(read_json(image.root / "usr/share/linkwise/sbom.cdx.json")["components"])
