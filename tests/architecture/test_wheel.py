"""The wheel works in an environment that has its runtime dependencies and nothing else."""

from __future__ import annotations

import re
from email import message_from_bytes
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest

from support.wheel import WheelEnvironment, build_wheel

if TYPE_CHECKING:
    from email.message import Message
    from pathlib import Path

IMPORT_ALL = """
import importlib, pkgutil, linkwise
for module in pkgutil.walk_packages(linkwise.__path__, "linkwise."):
    print(module.name)
    if not module.name.startswith(("linkwise.agent", "linkwise.assembly.agent")):  # they need the extra
        importlib.import_module(module.name)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> WheelEnvironment:
    return WheelEnvironment(tmp_path_factory.mktemp("environment"), wheel)


def modules(wheel: Path) -> set[str]:
    """The modules of a wheel, by their dotted names."""
    with ZipFile(wheel) as archive:
        paths = [PurePosixPath(name) for name in archive.namelist() if name.endswith(".py")]
    return {".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in paths}


def metadata(wheel: Path) -> Message:
    """The metadata that a package index shows."""
    with ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_bytes(archive.read(name))


def test_the_description_on_a_package_index_has_no_links_to_files(wheel: Path) -> None:
    found = metadata(wheel)
    text = str(found.get_payload())
    assert found["Description-Content-Type"] == "text/markdown"
    assert "## Install" in text
    assert [target for target in re.findall(r"\]\(([^)]*)\)", text) if not target.startswith("https://")] == []


def test_the_extra_of_the_agent_names_its_requirements(wheel: Path) -> None:
    found = [one for one in metadata(wheel).get_all("Requires-Dist", []) if one.endswith("extra == 'agent'")]
    assert {one.partition(">")[0] for one in found} == {"grpcio", "nvidia-ml-py", "protobuf"}


@pytest.mark.parametrize("package", ["hatchling", "hypothesis", "pytest", "support"])
def test_the_environment_has_nothing_of_the_development_environment(
    environment: WheelEnvironment, package: str
) -> None:
    assert f"No module named '{package}'" in environment.run("python", "-c", f"import {package}").stderr


def test_every_module_of_the_wheel_can_be_imported(environment: WheelEnvironment, wheel: Path) -> None:
    run = environment.run("python", "-c", IMPORT_ALL)
    assert run.stderr == ""
    assert {"linkwise", *run.stdout.split()} == modules(wheel)


def test_without_the_extra_the_agent_says_how_to_install_it(environment: WheelEnvironment) -> None:
    run = environment.run("linkwise", "agent")
    assert run.returncode == 2
    assert "pip install 'linkwise[agent]'" in run.stderr


def test_the_wheel_ships_the_package_and_no_test_support(root: Path, wheel: Path) -> None:
    source = root / "src"
    paths = [path.relative_to(source).with_suffix("") for path in (source / "linkwise").rglob("*.py")]
    assert modules(wheel) == {".".join(path.parts).removesuffix(".__init__") for path in paths}


def test_the_installed_program_prints_its_version(environment: WheelEnvironment) -> None:
    run = environment.run("linkwise", "--version")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("linkwise, version ")


def test_the_installed_program_picks_devices(environment: WheelEnvironment) -> None:
    run = environment.run("linkwise", "pick", "--profile", "dgx1-v100", "--size", "2")
    assert (run.returncode, run.stderr) == (0, "")
    assert "{0,3}" in run.stdout
