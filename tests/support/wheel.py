"""Wheel of Linkwise, and virtual environments that hold it and its runtime dependencies alone.

No network is needed: hatchling runs in the environment of the tests, and dependencies are links to the files of the
distributions that are installed there.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zipfile import Path as ZipPath, ZipFile

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.environment import surroundings

if TYPE_CHECKING:
    from collections.abc import Iterable
    from importlib.metadata import EntryPoint

__all__ = ["WheelEnvironment", "build_wheel", "dependencies"]

ROOT: Final = Path(__file__).resolve().parents[2]
SCRIPT: Final = """\
#!{python}
import sys
from {module} import {function}
sys.exit({function}())
"""


def build_wheel(folder: Path, project: Path = ROOT) -> Path:
    """Build the wheel of a hatchling project into a folder, by default that of this checkout."""
    before = set(folder.glob("*.whl"))
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    build = subprocess.run(command, cwd=project, env=surroundings(), check=False, capture_output=True, text=True)
    if build.returncode:
        raise AssertionError(f"hatchling builds no wheel of {project}: {build.stderr}")
    (wheel,) = set(folder.glob("*.whl")) - before
    return wheel


def dependencies(requirements: Iterable[Requirement]) -> list[Distribution]:
    """The installed distributions that satisfy requirements, and theirs in turn."""
    unresolved, resolved = [*requirements], dict[tuple[str, str], Distribution]()
    while unresolved:
        requirement = unresolved.pop()
        name = canonicalize_name(requirement.name)
        for extra in {"", *requirement.extras}:
            if (name, extra) not in resolved:
                resolved[name, extra] = distribution(name)
                unresolved += _required(resolved[name, extra], extra)
    return list({name: installed for (name, _), installed in resolved.items()}.values())


class WheelEnvironment:
    """A virtual environment of some wheels and what they require at run time.

    Wheels that require each other are installed together; all else comes from the environment of the tests.
    """

    def __init__(self, folder: Path, *wheels: Path) -> None:
        venv.create(folder, symlinks=True)
        self.bin = folder / "bin"
        (self.packages,) = folder.glob("lib/python*/site-packages")
        metadata = [_metadata(wheel) for wheel in wheels]
        names = {canonicalize_name(each.name) for each in metadata}
        required = [need for each in metadata for need in _required(each) if canonicalize_name(need.name) not in names]
        for installed in dependencies(required):
            self._link(installed)
        for wheel, each in zip(wheels, metadata, strict=True):
            self._install(wheel, each.entry_points.select(group="console_scripts"))

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, outside the checkout and without its sources on the path of modules."""
        command = [str(self.bin / program), *arguments]
        alone = {name: value for name, value in surroundings().items() if name != "PYTHONPATH"}
        return subprocess.run(command, cwd=self.bin.parent, env=alone, capture_output=True, text=True, check=False)

    def _link(self, installed: Distribution) -> None:
        for file in installed.files or ():
            if ".." in file.parts:  # programs
                continue
            link = self.packages / file
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(Path(str(file.locate())))

    def _install(self, wheel: Path, scripts: Iterable[EntryPoint]) -> None:
        with ZipFile(wheel) as archive:
            archive.extractall(self.packages)
        for script in scripts:
            program = self.bin / script.name
            program.write_text(
                SCRIPT.format(python=self.bin / "python", module=script.module, function=script.attr), "utf-8"
            )
            program.chmod(0o755)


def _metadata(wheel: Path) -> Distribution:
    (folder,) = (entry for entry in ZipPath(wheel).iterdir() if entry.name.endswith(".dist-info"))
    return PathDistribution(folder)


def _required(installed: Distribution, extra: str = "") -> list[Requirement]:
    """The requirements that this interpreter has."""
    every = map(Requirement, installed.requires or ())
    return [each for each in every if each.marker is None or each.marker.evaluate({"extra": extra})]
