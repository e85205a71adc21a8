"""`linkwise up` in its own process, and the command line beside it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from base64 import b64decode
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Final

import yaml

from support.e2e.api_client import Api
from support.environment import surroundings

if TYPE_CHECKING:
    from typing import Self

__all__ = ["TriedCluster"]

PATIENCE: Final = 200.0  # seconds until a process that hangs is killed
LAST: Final = "Ctrl-C"
"""in the last line that it prints"""


class TriedCluster:
    """Runs for as long as the `with` lasts, in an empty folder, with a folder for temporary files of its own."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.temporary, self._folder, self._words = folder / "temporary", folder, words
        self.printed = ""
        """all that it printed until it was ready"""
        self.process: subprocess.Popen[str]
        self._watchdog = Timer(0, int)

    def __enter__(self) -> Self:
        self.start()
        for line in self.process.stdout or ():
            self.printed += line
            if LAST in line:
                self._watchdog.cancel()
                return self
        self.__exit__()
        raise AssertionError(f"it ended with {self.process.returncode}: {self.errors}")

    def start(self) -> None:
        """Start it, and do not wait."""
        self.temporary.mkdir()
        previous = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # else it inherits what the caller ignores
        try:
            with (self._folder / "errors").open("w", encoding="utf-8") as errors:
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "linkwise", "up", *self._words],
                    cwd=self._folder,
                    env=self.environment,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                )
        finally:
            signal.signal(signal.SIGHUP, previous)
        self._watch()

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self, *signals: signal.Signals) -> int:
        """Send it signals, all before it can do anything about the first; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            for number in signals or (signal.SIGINT,):
                self.process.send_signal(number)
            self.process.send_signal(signal.SIGCONT)
            self._watchdog.cancel()
            self._watch()
        code = self.process.wait()
        self._watchdog.cancel()
        if self.process.stdout and not self.process.stdout.closed:
            self.printed += self.process.stdout.read()
            self.process.stdout.close()
        return code

    def _watch(self) -> None:
        self._watchdog = Timer(PATIENCE, self.process.kill)
        self._watchdog.daemon = True
        self._watchdog.start()

    @property
    def errors(self) -> str:
        """What it said on standard error."""
        return (self._folder / "errors").read_text("utf-8")

    @property
    def environment(self) -> dict[str, str]:
        """Of a user, 80 columns wide, who did what was printed so far about KUBECONFIG."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        environment = {"COLUMNS": "80", "NO_COLOR": "1", "PATH": path, "TMPDIR": str(self.temporary)}
        return (
            surroundings()
            | environment
            | ({"KUBECONFIG": str(self.kubeconfig)} if "KUBECONFIG=" in self.printed else {})
        )

    @property
    def kubeconfig(self) -> Path:
        """The file that it names."""
        return Path(re.findall(r"export KUBECONFIG=(.+)", self.printed)[0])

    @property
    def ports(self) -> list[int]:
        """On which something listens."""
        found = re.findall(r"https?://127\.0\.0\.1:(\d+)", self.printed)
        return list(map(int, dict.fromkeys(found)))  # the page is on the port of the service

    def api(self) -> Api:
        """A connection, by what the kubeconfig says."""
        config = yaml.safe_load(self.kubeconfig.read_text("utf-8"))
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        certificate = self._folder / "certificate"
        certificate.write_bytes(b64decode(cluster["certificate-authority-data"]))
        return Api(cluster["server"], user["token"], certificate)

    def shell(self, script: str) -> str:
        """What a shell prints that runs this, both streams."""
        done = subprocess.run(
            ["/bin/sh", "-c", script],
            cwd=self._folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        return done.stdout
