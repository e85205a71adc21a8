"""Build hooks: the evidence for rules in the wheel, which ships no tests to scan, and the description on a package index."""

import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURE = re.compile(r"!\[[^\]]*\]\((?!https?://)[^)]*\)\n*")
LINK = re.compile(r"\[([^\]]+)\]\((?!https?://)[^)]*\)")


class DescriptionHook(MetadataHookInterface):
    """README.md without pictures and links to files of the checkout, which a package index would not find."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the long description."""
        text = Path(self.root, "README.md").read_text("utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": LINK.sub(r"\1", PICTURE.sub("", text))}


class RecordHook(BuildHookInterface[Any]):
    """Scans the checkout when a wheel is built; an editable install is scanned at run time instead."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the record and include it beside the code that reads it."""
        if version == "editable":
            return
        # The build environment has hatchling alone; the rulebook needs only the standard library.
        sys.path.insert(0, str(Path(self.root, "src")))
        from linkwise.rulebook.status import FILE, encode, scanned  # noqa: PLC0415 - importable from here on

        self._folder = TemporaryDirectory(prefix="linkwise-record-")
        record_file = Path(self._folder.name, FILE)
        record_file.write_text(encode(scanned(Path(self.root))), "utf-8")
        build_data["force_include"][str(record_file)] = f"linkwise/rulebook/{FILE}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary file."""
        del build_data, artifact_path
        if version != "editable":
            self._folder.cleanup()
