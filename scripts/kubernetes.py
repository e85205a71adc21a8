"""Builder of the programs of the end-to-end tests, from Go modules; prints the folder of each module.

    python scripts/kubernetes.py build               all modules (about eighteen minutes the first time)
    python scripts/kubernetes.py build kubernetes    Kubernetes only
    python scripts/kubernetes.py build containerd    the container runtime only
    python scripts/kubernetes.py build volcano       Volcano's scheduler and controllers only, with its CRDs
    python scripts/kubernetes.py build helm          Helm only, which installs the chart
    python scripts/kubernetes.py build kubeconform   the validator of manifests only
    python scripts/kubernetes.py build actionlint    the linter of workflows only
    python scripts/kubernetes.py build prometheus-operator   the CRDs of the Prometheus Operator only

Programs are cached outside the checkout, by version and go.sum. Concurrent builds wait for each other. Programs that
Debian has are installed from there.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from packages import BuildError, install, uninstalled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

GO: Final = Path(__file__).resolve().parents[1] / "tests/e2e/go"
OLDEST_GO: Final = (1, 21)
"""the first version that downloads the toolchain of go.mod"""
PROGRESS: Final = 30  # seconds between progress messages


@dataclass(frozen=True, slots=True)
class Module:
    """Go module under tests/e2e/go whose programs are built, and the Debian packages that they need."""

    name: str
    path: str
    """of the Go module that go.mod requires and whose `cmd` holds the programs"""
    programs: tuple[str, ...]
    packages: Mapping[str, str]
    """Debian packages, by the program that is looked for on the PATH"""
    tags: str = ""
    """Go build tags"""
    manifests: str = ""
    """files of the Go module that are copied beside the programs, as a glob pattern"""
    stamped: str = ""
    """Go package into which the linker writes the version; clients can't parse that of an unstamped API server"""

    @property
    def folder(self) -> Path:
        """The folder of go.mod."""
        return GO / self.name

    @property
    def version(self) -> str:
        """The version in go.mod, such as v1.36.4."""
        found = re.search(rf"{re.escape(self.path)} (v\d+\.\d+\.\d+)", (self.folder / "go.mod").read_text())
        if found is None:
            raise BuildError(f"{self.folder / 'go.mod'} does not require {self.path}")
        return found[1]

    @property
    def built(self) -> Path:
        """The folder of the programs of this version and go.sum."""
        sums = hashlib.sha256((self.folder / "go.sum").read_bytes()).hexdigest()
        return cache() / self.name / f"{self.version}-{sums[:12]}" / "bin"

    @property
    def copied(self) -> Path:
        """The folder of the copied manifests, beside that of the programs."""
        return self.built.parent / "manifests"

    @property
    def linker_flags(self) -> str:
        """No symbol tables, and the version if it is stamped."""
        major, minor, _ = self.version.removeprefix("v").split(".")
        names = {"gitVersion": self.version, "gitMajor": major, "gitMinor": minor} if self.stamped else {}
        return " ".join(["-s -w", *(f"-X {self.stamped}.{name}={value}" for name, value in names.items())])


KUBERNETES: Final = Module(
    "kubernetes",
    "k8s.io/kubernetes",
    ("kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubelet", "kube-proxy", "kubectl"),
    {"etcd": "etcd-server", "nft": "nftables"},
    stamped="k8s.io/component-base/version",
)
CONTAINERD: Final = Module(
    "containerd",
    "github.com/containerd/containerd/v2",
    ("containerd", "containerd-shim-runc-v2", "ctr"),
    {"runc": "runc", "busybox": "busybox-static", "/usr/lib/cni/bridge": "containernetworking-plugins"},
    tags="no_btrfs no_devmapper no_zfs",
)
VOLCANO: Final = Module(
    "volcano",
    "volcano.sh/volcano",
    ("scheduler", "controller-manager"),
    {},
    # all of them: without those of job flows the controllers wait for ever
    manifests="config/crd/*/bases/*.yaml",
)
HELM: Final = Module("helm", "helm.sh/helm/v4", ("helm",), {})
KUBECONFORM: Final = Module("kubeconform", "github.com/yannh/kubeconform", ("kubeconform",), {})
ACTIONLINT: Final = Module("actionlint", "github.com/rhysd/actionlint", ("actionlint",), {})
PROMETHEUS: Final = Module(
    "prometheus-operator",
    "github.com/prometheus-operator/prometheus-operator",
    (),
    {},
    manifests="example/prometheus-operator-crd/*.yaml",
)
MODULES: Final = {
    module.name: module for module in (KUBERNETES, CONTAINERD, VOLCANO, HELM, KUBECONFORM, ACTIONLINT, PROMETHEUS)
}


def main(arguments: Sequence[str]) -> int:
    """Build what the arguments name; exit code 0 for success, 1 for failure, 2 for invalid arguments."""
    if list(arguments[:1]) != ["build"] or not set(arguments[1:]) <= set(MODULES):
        say(f"usage: kubernetes.py build [{' | '.join(MODULES)}]...")
        return 2
    try:
        for name in arguments[1:] or MODULES:
            print(build(MODULES[name]))
    except BuildError as error:
        say(str(error))
        return 1
    return 0


def build(module: Module) -> Path:
    """The folder with the programs of a module, built and installed if they are missing."""
    if not (unbuilt(module) or uncopied(module) or uninstalled(module.packages)):
        return module.built
    with locked(cache()):  # another build may have finished meanwhile: look again
        install(uninstalled(module.packages))
        if programs := unbuilt(module):
            go = find_go()
            for program in programs:
                compile_program(go, module, program)
        if uncopied(module):
            copy_manifests(find_go(), module)
    return module.built


def cache() -> Path:
    """The folder for programs of all modules and versions."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "linkwise"


def unbuilt(module: Module) -> list[str]:
    """Programs that are not built yet; each appears complete or not at all."""
    return [program for program in module.programs if not (module.built / program).is_file()]


def uncopied(module: Module) -> bool:
    """Whether the manifests are not copied yet; the folder appears complete or not at all."""
    return bool(module.manifests) and not module.copied.is_dir()


def copy_manifests(go: str, module: Module) -> None:
    """Copy the manifests of the module's own source into a temporary folder and rename it."""
    command = [go, "mod", "download", "-json", module.path]
    done = subprocess.run(  # noqa: S603 - our own command
        command, cwd=module.folder, env=environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BuildError(f"{' '.join(command)} failed with exit code {done.returncode}: {done.stdout}{done.stderr}")
    unfinished = module.copied.with_name(f".manifests.{os.getpid()}")
    unfinished.mkdir(parents=True)
    try:
        for file in Path(json.loads(done.stdout)["Dir"]).glob(module.manifests):
            (unfinished / file.name).write_bytes(file.read_bytes())
        unfinished.rename(module.copied)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def compile_program(go: str, module: Module, program: str) -> None:
    """Build under a temporary name and rename, so that no incomplete program is run."""
    say(f"building {program} {module.version}")
    module.built.mkdir(parents=True, exist_ok=True)
    unfinished = module.built / f".{program}.{os.getpid()}"
    start = time.monotonic()
    flags = ["-mod=readonly", "-trimpath", "-tags", module.tags, "-ldflags", module.linker_flags]
    try:
        run_with_progress(
            [go, "build", *flags, "-o", str(unfinished), f"{module.path}/cmd/{program}"], module.folder, program
        )
        unfinished.replace(module.built / program)
    finally:
        unfinished.unlink(missing_ok=True)
    say(f"built {program} in {time.monotonic() - start:.0f} s")


def run_with_progress(command: Sequence[str], folder: Path, program: str) -> None:
    """Run a build to its end, with a message now and then."""
    start = time.monotonic()
    with subprocess.Popen(command, cwd=folder, env=environment()) as running:  # noqa: S603 - our own command
        while True:
            try:
                code = running.wait(PROGRESS)
                break
            except subprocess.TimeoutExpired:
                say(f"building {program}: {time.monotonic() - start:.0f} s so far")
            except BaseException:
                running.terminate()
                raise
    if code:
        raise BuildError(f"{' '.join(command)} failed with exit code {code}; see its output above")


def environment() -> dict[str, str]:
    """Environment of Go: static programs, the toolchain of go.mod, no workspace."""
    return {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "auto", "GOWORK": "off"}


def find_go() -> str:
    """A Go that is new enough: the one on the PATH, otherwise Debian's."""
    install(uninstalled({"go": "golang-go"}))
    go = shutil.which("go") or ""
    output = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout  # noqa: S603 - our own command
    found = re.match(r"go(\d+)\.(\d+)", output)
    if found is None or (int(found[1]), int(found[2])) < OLDEST_GO:
        oldest = ".".join(map(str, OLDEST_GO))
        raise BuildError(f"{go} has version {output.strip() or 'unknown'}; Go {oldest} or later is needed (go.dev/dl)")
    return go


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Exclusive lock on builds and installations."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another build")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def say(sentence: str) -> None:
    """Print a message to standard error; standard output has the folders only."""
    print(f"kubernetes: {sentence}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
