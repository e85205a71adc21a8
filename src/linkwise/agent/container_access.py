"""Container access: how containers get devices on this node, by CDI names or device nodes, with files of the driver."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from linkwise.agent.host import Host, runtime_has_cdi, write_cdi_spec
from linkwise.net.timing import Backoff, Timing
from linkwise.node.cdi_spec import cdi_file, cdi_spec
from linkwise.node.container import HostOptions
from linkwise.vendors.container_needs import needs_rules
from linkwise.vendors.registry import VENDORS

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.config.settings import AgentSettings
    from linkwise.model.discovery import Discovery
    from linkwise.model.views import NodeView
    from linkwise.vendors.container_needs import Mount

__all__ = ["ContainerAccess"]

log = logging.getLogger(__name__)

ISOLATION_LABEL: Final = "cgpu.disable.isolation"
LOOK: Final = 2.0  # seconds between looks at the CDI specification
LONGEST_RETRY: Final = 30.0  # seconds


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
