"""Builder of the Kubernetes programs of the end-to-end tests, from Go modules; prints their folder.

    python scripts/kubernetes.py build            the programs of the tests (about ten minutes the first time)
    python scripts/kubernetes.py build kubelet    kubelet too

Programs are cached outside the checkout, by version and go.sum. Concurrent builds wait for each other.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MODULE: Final = Path(__file__).resolve().parents[1] / "tests/e2e/go/kubernetes"
PROGRAMS: Final = ("kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubectl")
ON_REQUEST: Final = ("kubelet",)
OLDEST_GO: Final = (1, 21)
"""the first version that downloads the toolchain of go.mod"""
STAMPED: Final = "k8s.io/component-base/version"
PATIENCE: Final = 30  # seconds between signs of life


class BuildError(Exception):
    """What is missing, and what to do about it."""


def main(words: Sequence[str]) -> int:
    """Do what the words say; 0 if it is done, 1 if it can't be, 2 if invalid arguments."""
    known = (*PROGRAMS, *ON_REQUEST)
    if list(words[:1]) != ["build"] or not set(words[1:]) <= set(known):
        say(f"usage: kubernetes.py build [{' | '.join(known)}]...")
        return 2
    try:
        print(build(tuple(dict.fromkeys((*PROGRAMS, *words[1:])))))
    except BuildError as error:
        say(str(error))
        return 1
    return 0


def build(programs: Sequence[str]) -> Path:
    """The folder with all of these programs in it; etcd is on the PATH then."""
    if shutil.which("etcd") is None:
        with locked(cache()):
            install_etcd()
    folder = home() / "bin"
    if not missing(folder, programs):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with locked(cache()):
        lacking = missing(folder, programs)  # another build may have made them meanwhile
        go = find_go() if lacking else ""
        for program in lacking:
            compile_program(go, program, folder)
    return folder


def cache() -> Path:
    """Where programs of all versions are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "linkwise/kubernetes"


def home() -> Path:
    """The folder of the version that go.mod and go.sum describe."""
    sums = hashlib.sha256((MODULE / "go.sum").read_bytes()).hexdigest()
    return cache() / f"{version()}-{sums[:12]}"


def version() -> str:
    """The version of Kubernetes that go.mod names, as in v1.36.4."""
    found = re.search(r"k8s\.io/kubernetes (v\d+\.\d+\.\d+)", (MODULE / "go.mod").read_text())
    if found is None:
        raise BuildError(f"{MODULE / 'go.mod'} names no version of k8s.io/kubernetes")
    return found[1]


def missing(folder: Path, programs: Sequence[str]) -> list[str]:
    """Those that are not built yet; they appear whole or not at all."""
    return [program for program in programs if not (folder / program).is_file()]


def compile_program(go: str, program: str, folder: Path) -> None:
    """Build beside the place and move there, so that nobody ever sees half a program."""
    say(f"building {program} {version()}")
    unfinished = folder / f".{program}.{os.getpid()}"
    start = time.monotonic()
    try:
        run_slowly(
            [go, "build", "-mod=readonly", "-trimpath", "-ldflags", stamp(), "-o", str(unfinished), package(program)],
            what=program,
        )
        unfinished.replace(folder / program)
    finally:
        unfinished.unlink(missing_ok=True)
    say(f"built {program} in {time.monotonic() - start:.0f} s")


def package(program: str) -> str:
    """The Go package of a program."""
    return f"k8s.io/kubernetes/cmd/{program}"


def stamp() -> str:
    """The version, which the linker writes: clients can't read that of a server built without."""
    major, minor, _ = version().removeprefix("v").split(".")
    names = {"gitVersion": version(), "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s -w", *(f"-X {STAMPED}.{name}={value}" for name, value in names.items())])


def run_slowly(command: Sequence[str], what: str) -> None:
    """Run to the end, with a line now and then to show that it still goes on."""
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "auto", "GOWORK": "off"}
    start = time.monotonic()
    with subprocess.Popen(command, cwd=MODULE, env=environment) as running:  # noqa: S603 - our own words
        while True:
            try:
                code = running.wait(PATIENCE)
                break
            except subprocess.TimeoutExpired:
                say(f"building {what}: {time.monotonic() - start:.0f} s so far")
            except BaseException:
                running.terminate()
                raise
    if code:
        raise BuildError(f"{' '.join(command)} ended with {code}; what it says is above")


def find_go() -> str:
    """A Go that is new enough: the one on the PATH, else the distribution's."""
    go = shutil.which("go")
    if go is None:
        say("there is no go on the PATH: asking the distribution")
        install("golang-go", "go")
        go = shutil.which("go") or ""
    told = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout  # noqa: S603 - our own words
    found = re.match(r"go(\d+)\.(\d+)", told)
    if found is None or (int(found[1]), int(found[2])) < OLDEST_GO:
        oldest = ".".join(map(str, OLDEST_GO))
        raise BuildError(f"{go} is {told.strip() or 'of no known version'}: Go {oldest} or later is needed (go.dev/dl)")
    return go


def install_etcd() -> None:
    """The distribution's etcd."""
    if shutil.which("etcd") is None:
        say("there is no etcd on the PATH: asking the distribution")
        install("etcd-server", "etcd")


def install(name: str, program: str) -> None:
    """A package of Debian or its kin, as root."""
    apt = shutil.which("apt-get")
    before = [] if os.geteuid() == 0 else [shutil.which("sudo") or ""]
    if apt is None or before == [""]:
        why = "there is no apt-get here" if apt is None else "you are not root and there is no sudo"
        raise BuildError(f"{program} is missing and can't be installed, since {why}: put {program} on the PATH")
    for words in (["update", "-q"], ["install", "-q", "-y", "--no-install-recommends", name]):
        command = [*before, "env", "DEBIAN_FRONTEND=noninteractive", apt, *words]
        done = subprocess.run(command, stdout=sys.stderr, check=False)  # noqa: S603 - our own words
        if done.returncode:
            raise BuildError(f"{' '.join(command)} ended with {done.returncode}; what it says is above")
    if shutil.which(program) is None:
        raise BuildError(f"{name} is installed, and {program} still is not on the PATH")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Nobody else builds or installs meanwhile."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another build")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def say(sentence: str) -> None:
    """To whoever waits; the folder alone goes to standard output."""
    print(f"kubernetes: {sentence}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
