"""Puts the record of what is done and proven into the wheel, where no tests are left to scan."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class RecordHook(BuildHookInterface[Any]):
    """Scans the checkout as the wheel is built; an editable install is scanned live and needs no record."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the record and have it included beside the code that reads it."""
        if version == "editable":
            return
        # The build environment has hatchling and nothing else: the rulebook needs only the standard library.
        sys.path.insert(0, str(Path(self.root, "src")))
        from linkwise.rulebook.evidence import FILE, encode, scanned  # noqa: PLC0415 - importable from here on

        self._folder = TemporaryDirectory(prefix="linkwise-record-")
        written = Path(self._folder.name, FILE)
        written.write_text(encode(scanned(Path(self.root))), "utf-8")
        build_data["force_include"][str(written)] = f"linkwise/rulebook/{FILE}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the file that was included."""
        del build_data, artifact_path
        if version != "editable":
            self._folder.cleanup()
