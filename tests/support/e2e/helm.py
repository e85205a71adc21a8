"""Helm, as an administrator runs it against the cluster of a test."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from support.e2e.api_client import Raw

__all__ = ["NAMESPACE", "RELEASE", "Helm", "HelmError"]

RELEASE: Final = "linkwise"
NAMESPACE: Final = "linkwise-system"
SECONDS: Final = 90


class HelmError(AssertionError):
    """Helm failed, with what it said."""


class Helm:
    """The program with a kubeconfig and a folder for its own files."""

    def __init__(self, program: Path, folder: Path, kubeconfig: Path | None = None) -> None:
        self._program, self._folder, self._kubeconfig = program, folder, kubeconfig
        self.environment = {
            **os.environ,
            **{f"HELM_{name}_HOME": str(folder / f"helm-{name.lower()}") for name in ("CACHE", "CONFIG", "DATA")},
        }

    def command(self, *words: str) -> list[str]:
        """The words of a command in the namespace of the release."""
        way = [f"--kubeconfig={self._kubeconfig}"] if self._kubeconfig else []
        return [str(self._program), *words, "--namespace", NAMESPACE, *way]

    def run(self, *words: str, values: Mapping[str, Any] | None = None) -> str:
        """What a command prints; HelmError if it fails."""
        more = ["--values", "-"] if values is not None else []
        done = subprocess.run(
            [*self.command(*words), *more],
            input=json.dumps(values) if values is not None else None,
            capture_output=True,
            text=True,
            check=False,
            env=self.environment,
            timeout=2 * SECONDS,
        )
        if done.returncode:
            raise HelmError(f"helm {' '.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def template(self, chart: Path, values: Mapping[str, Any] | None = None, *words: str) -> str:
        """The rendered manifests, those of hooks too."""
        return self.run("template", RELEASE, str(chart), *words, values=values or {})

    def install(self, chart: Path, values: Mapping[str, Any] | None = None, *words: str) -> str:
        """The one command by which everything is installed; returns when all of it is ready."""
        waiting = ("--create-namespace", "--wait", f"--timeout={SECONDS}s")
        return self.run("upgrade", "--install", RELEASE, str(chart), *waiting, *words, values=values or {})

    def rollback(self, revision: int) -> str:
        """Go back to a revision and wait until that is ready."""
        return self.run("rollback", RELEASE, str(revision), "--wait", f"--timeout={SECONDS}s")

    def uninstall(self) -> str:
        """Remove the release and wait until its objects are gone."""
        return self.run("uninstall", RELEASE, "--wait", f"--timeout={SECONDS}s")

    def history(self) -> list[Raw]:
        """Revisions of the release, the oldest first."""
        return list(json.loads(self.run("history", RELEASE, "--output", "json")))
