"""Container access: CDI names, device nodes and driver files by which containers use the devices of this node."""

from __future__ import annotations

import json
import logging
import os
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from linkwise.net.timing import Backoff, Timing
from linkwise.node.container import HostOptions, cdi_file, cdi_spec
from linkwise.vendors.container_needs import Mount, needs_rules
from linkwise.vendors.registry import VENDORS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from linkwise.config.settings import AgentSettings
    from linkwise.model.inventory import Discovery
    from linkwise.model.views import NodeView
    from linkwise.vendors.vendor import DriverFiles

__all__ = ["ContainerAccess", "Host", "runtime_has_cdi", "write_cdi_spec"]

log = logging.getLogger(__name__)

ISOLATION_LABEL: Final = "cgpu.disable.isolation"
LOOK: Final = 2.0  # seconds between looks at the CDI specification
LONGEST_RETRY: Final = 30.0  # seconds
_PROGRAM_FOLDERS: Final = ("usr/bin", "usr/local/bin", "bin")
_LIBRARY_FOLDERS: Final = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib", "lib64")
_VERSION: Final = re.compile(r"(?P<name>[a-z-]+)://v?(?P<major>\d+)\.(?P<minor>\d+)")
_CDI_SINCE: Final[Mapping[str, tuple[int, int]]] = {"containerd": (2, 0), "cri-o": (1, 28)}
"""versions in which CDI is on by default"""


class ContainerAccess:
    """The host's side of an allocation; `update` it with every discovery and every change of the Node.

    Args:
        settings: of the agent.
        timing: clock and sleep.
        changed: called when `run` finds that the CDI specification can be written again, or no more.
    """

    def __init__(
        self, settings: AgentSettings, timing: Timing | None = None, changed: Callable[[], None] = lambda: None
    ) -> None:
        self.host: Final = Host(Path(settings.host_root), settings.driver_root)
        self.options = HostOptions("", self.host.exists)
        self.problem = ""
        """why the CDI specification could not be written; containers get device nodes then"""
        self._settings = settings
        self._timing = timing or Timing()
        self._changed = changed
        self._spec: tuple[str, dict[str, Any]] | None = None
        """name and content of the CDI specification; None while containers need none"""

    async def run(self) -> None:
        """Keep the CDI specification written, also if it is removed or could not be written before, until cancelled."""
        backoff = Backoff(self._timing, first=LOOK, most=LONGEST_RETRY)
        while True:
            await self._timing.sleep(backoff.next() if self.problem else LOOK)
            before = self.problem
            self._write()
            if not self.problem:
                backoff.reset()
            if self.problem != before:
                self._changed()

    def update(self, found: Discovery, view: NodeView | None) -> HostOptions:
        """Write the CDI specification, before any name in it is answered, and return what the node has for containers."""
        runtime, files = self._uses_runtime(found.vendor), self._driver_files(found.vendor)
        wanted = self._wants_cdi(view) and bool(found.devices) and not runtime
        spec = cdi_spec(found.vendor, found.devices, self.host.host_path, self.host.exists, files) if wanted else None
        self._spec = (cdi_file(found.vendor), spec) if spec else None
        isolated = view is None or view.labels.get(ISOLATION_LABEL) != "true"
        self.options = HostOptions(found.vendor, self.host.exists, mounts=files, runtime=runtime, isolated=isolated)
        self._write()
        return self.options

    def _write(self) -> None:
        """Write the CDI specification, unless it is there as it should be."""
        problem = write_cdi_spec(Path(self._settings.cdi_folder), *self._spec) if self._spec else ""
        if problem and problem != self.problem:
            log.warning("cdi: %s; containers get device nodes instead", problem)
        self.problem = problem
        self.options = replace(self.options, cdi=self._spec is not None and not problem)

    def _uses_runtime(self, vendor: str) -> bool:
        """Whether the vendor's container runtime gives containers their devices: that of Ascend."""
        rule = needs_rules().get(vendor)
        if rule is None or not rule.runtime:
            return False
        wanted = self._settings.ascend.runtime
        return self.host.has_any(rule.runtime) if wanted == "auto" else wanted == "always"

    def _wants_cdi(self, view: NodeView | None) -> bool:
        if self._settings.cdi == "auto":
            return runtime_has_cdi(view.runtime if view else "")
        return self._settings.cdi == "always"

    def _driver_files(self, vendor: str) -> tuple[Mount, ...]:
        files = VENDORS[vendor].driver_files if vendor in VENDORS else None
        wanted = self._settings.driver_files
        if files is None or wanted == "never" or (wanted == "auto" and self.host.has_toolkit(files)):
            return ()
        return self.host.driver_files(files)


@dataclass(frozen=True, slots=True)
class Host:
    """The host's file system.

    Args:
        root: where it is mounted.
        driver_root: folder of the host in which the driver is installed.
    """

    root: Path
    driver_root: str = "/"

    def host_path(self, path: str) -> str:
        """Path of a device node or file of the driver on the host."""
        return path if self.driver_root == "/" else f"{self.driver_root.rstrip('/')}{path}"

    def exists(self, path: str) -> bool:
        """Whether the host has this device node or file of the driver."""
        return self._seen(self.host_path(path)).exists()

    def has_toolkit(self, files: DriverFiles) -> bool:
        """Whether the vendor's container toolkit is installed, which adds files of the driver to containers."""
        return self.has_any(
            f"{folder}/{name}" for folder in (*_PROGRAM_FOLDERS, *files.folders) for name in files.toolkit
        )

    def has_any(self, programs: Iterable[str]) -> bool:
        """Whether one of these files of the host exists."""
        return any((self.root / program).exists() for program in programs)

    def driver_files(self, files: DriverFiles) -> tuple[Mount, ...]:
        """Libraries and programs of the driver, and where containers find them."""
        # rule 002.libraries: without a toolkit, the files are mounted one by one.
        return tuple(
            Mount(self.host_path(f"/{path}"), f"{files.inside}/{kind}/{Path(path).name}")
            for kind, path in self._files(files)
        )

    def _files(self, files: DriverFiles) -> Iterator[tuple[str, str]]:
        seen: set[str] = set()
        for folder in _LIBRARY_FOLDERS:
            with suppress(OSError):
                for entry in sorted(self._seen(self.host_path(f"/{folder}")).iterdir()):
                    if re.fullmatch(files.libraries, entry.name) and entry.name not in seen:
                        seen.add(entry.name)
                        yield "lib64", f"{folder}/{entry.name}"
        for folder in (*_PROGRAM_FOLDERS, *files.folders):
            for name in files.programs:
                if name not in seen and self.exists(f"/{folder}/{name}"):
                    seen.add(name)
                    yield "bin", f"{folder}/{name}"

    def _seen(self, path: str) -> Path:
        return self.root / path.lstrip("/")


def runtime_has_cdi(runtime: str) -> bool:
    """Whether a container runtime, as a node reports it, reads CDI specifications without configuration."""
    found = _VERSION.match(runtime)
    since = _CDI_SINCE.get(found["name"]) if found else None
    return bool(found and since and (int(found["major"]), int(found["minor"])) >= since)


def write_cdi_spec(folder: Path, name: str, spec: Mapping[str, Any]) -> str:
    """Write a specification, whole or not at all; return why it could not be written, or an empty text."""
    text = json.dumps(spec, indent=1).encode()
    target, unfinished = folder / name, folder / f".{name}.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if target.is_file() and target.read_bytes() == text:
            return ""
        unfinished.write_bytes(text)
        unfinished.replace(target)
    except OSError as error:
        with suppress(OSError):
            unfinished.unlink()
        return f"{target} can't be written: {error.strerror or error}"
    log.info("cdi: wrote %s", target)
    return ""
