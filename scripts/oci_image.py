"""Builder of the container image as an OCI archive, from deploy/Dockerfile, without Docker.

    python scripts/oci_image.py [--base IMAGE] [--tag TAG] [--install] [FILE]
    python scripts/oci_image.py --cached [--install]      for tests: in the cache, unless it is there for these sources

The base is an image of a registry, or by default a Debian that is assembled here from its packages. FILE is
dist/linkwise-TAG.oci.tar by default, and TAG is the version of the package. Two builds of a commit from the same packages
have one digest, which is printed. It needs root, and buildah and mmdebstrap, which --install installs.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from packages import BuildError, install, uninstalled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT: Final = Path(__file__).resolve().parents[1]
REPOSITORY: Final = "docker.io/linkwise/linkwise"
"""as the chart names it by default"""
RELEASE: Final = "bookworm"
"""of Debian; the first with Python 3.11"""
PACKAGES: Final = {"buildah": "buildah"}
BASE_PACKAGES: Final = {"mmdebstrap": "mmdebstrap"}
SOURCES: Final = (
    "LICENSE",
    "README.md",
    "deploy/Dockerfile",
    "deploy/image",
    "docs/rules.md",
    "hatch_build.py",
    "pyproject.toml",
    "scripts/image",
    "scripts/oci_image.py",
    "src",
)
"""what an image in the cache is made of; tests are in the image as evidence for rules only"""
SCRATCH: Final = "linkwise-image-"
"""prefix of folders of builds"""
CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")


def main(arguments: Sequence[str]) -> int:
    """Build, and print the file and the digest; exit code 1 with a message if that is impossible."""
    parser = argparse.ArgumentParser(prog="oci_image.py", description=str(__doc__).partition("\n")[0])
    parser.add_argument("--base", default="", metavar="IMAGE", help="Debian with Python; by default assembled here")
    parser.add_argument("--tag", default=version(), help="of the image (default: %(default)s)")
    parser.add_argument("--install", action="store_true", help="install missing tools with apt-get")
    parser.add_argument(
        "--cached", action="store_true", help="build into the cache of the tests, and print the file alone"
    )
    parser.add_argument("file", nargs="?", type=Path, help="default: dist/linkwise-TAG.oci.tar")
    options = parser.parse_args(arguments)
    file = options.file or ROOT / f"dist/linkwise-{options.tag}.oci.tar"
    try:
        if options.cached:
            print(cached(permitted=options.install))
            return 0
        prepare({**PACKAGES, **({} if options.base else BASE_PACKAGES)}, permitted=options.install)
        file.parent.mkdir(parents=True, exist_ok=True)
        digest = build(file, options.tag, options.base)
    except BuildError as error:
        print(f"image: {error}", file=sys.stderr)
        return 1
    print(f"{file} {digest} {file.stat().st_size / 1e6:.0f} MB")
    return 0


def cached(*, permitted: bool) -> Path:
    """The archive in the cache, built if there is none for these sources; those of others are removed."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "linkwise/image"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{fingerprint()}.oci.tar"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            print("image: building it for the tests, which takes about a minute", file=sys.stderr, flush=True)
            prepare({**PACKAGES, **BASE_PACKAGES}, permitted=permitted)
            for old in folder.glob("*.oci.tar"):
                old.unlink()
            for unfinished in folder.glob(f"{SCRATCH}*"):  # of builds that were killed
                shutil.rmtree(unfinished)
            build(file, version())
    return file


def fingerprint() -> str:
    """Digest of the sources."""
    found = hashlib.sha256()
    for name in SOURCES:
        paths = sorted((ROOT / name).rglob("*")) if (ROOT / name).is_dir() else [ROOT / name]
        for path in paths:
            if path.is_file() and "__pycache__" not in path.parts:
                found.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return found.hexdigest()[:16]


def version() -> str:
    """The version of the package."""
    found = re.search(r'^__version__ = "(.+)"$', (ROOT / "src/linkwise/__init__.py").read_text("utf-8"), re.MULTILINE)
    return found[1] if found else "0"


def prepare(packages: Mapping[str, str], *, permitted: bool) -> None:
    """Check what a build needs, and install missing packages if that is permitted."""
    if os.geteuid() != 0:
        raise BuildError("only root can assemble a root file system; use sudo, or docker build (see deploy/Dockerfile)")
    missing = uninstalled(packages)
    if missing and not permitted:
        names = " ".join(missing.values())
        raise BuildError(
            f"{' and '.join(missing)}: not on the PATH; run `apt-get install {names}`, or make image INSTALL=1"
        )
    install(missing)


def build(file: Path, tag: str, base: str = "") -> str:
    """Write the archive; the digest of the image."""
    name = f"{REPOSITORY}:{tag}"
    with TemporaryDirectory(prefix=SCRATCH, dir=file.parent) as folder:
        work = Builder(Path(folder))
        work.build(base or work.debian(), name, tag)
        return work.archive(name, file)


class Builder:
    """buildah with a store of its own in a folder that is removed afterwards.

    Isolation by chroot, and the driver vfs, work in containers and virtual machines alike, without a daemon.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._time = commit_time()
        store = [f"--root={folder / 'store'}", f"--runroot={folder / 'run'}", "--storage-driver=vfs"]
        self._buildah = ["buildah", *store]

    def debian(self) -> str:
        """The name of a base assembled from packages of Debian; it has no apt, which runs outside of it."""
        file = self._folder / "base.tar"
        packages = "--include=python3,python3-venv,libstdc++6,ca-certificates,usr-is-merged"
        # Merged from the beginning: the package that merges later needs all of Perl.
        merged = "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr"
        # Those of this host, which mmdebstrap copies.
        private = '--customize-hook=rm --force "$1/etc/hostname" "$1/etc/resolv.conf"'
        words = ["--quiet", "--mode=root", "--variant=essential", packages, merged, private]
        run(["mmdebstrap", *words, RELEASE, file, *sources()], self._time)
        container = self._run("from", "scratch")
        self._run("add", "--quiet", container, str(file), "/")
        self._run("commit", "--quiet", "--timestamp", self._time, container, "linkwise-base")
        self._run("rm", container)
        file.unlink()
        return "localhost/linkwise-base"

    def build(self, base: str, name: str, tag: str) -> None:
        """Run the Dockerfile; the times of all files are that of the commit."""
        words = [
            "--isolation=chroot",
            "--format=oci",
            "--timestamp",
            self._time,
            "--file",
            "deploy/Dockerfile",
            "--tag",
            name,
        ]
        words += ["--build-arg", f"BASE={base}", "--build-arg", f"VERSION={tag}", "--quiet"]
        if CERTIFICATES.exists():  # of the host, for proxies that have an authority of their own
            words += ["--volume", f"{CERTIFICATES}:{CERTIFICATES}:ro"]
        self._run("build", *words, str(ROOT))

    def archive(self, name: str, file: Path) -> str:
        """Write the image to a file whose bytes depend on nothing but the image; its digest."""
        layout = self._folder / "layout"
        self._run("push", "--quiet", name, f"oci:{layout}:{name}")
        unfinished = self._folder / file.name
        with tarfile.open(unfinished, "w") as archive:
            for path in sorted(layout.rglob("*")):
                archive.add(path, str(path.relative_to(layout)), recursive=False, filter=self._plain)
        unfinished.replace(file)
        index = json.loads((layout / "index.json").read_text("utf-8"))
        return str(index["manifests"][0]["digest"])

    def _plain(self, entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime, entry.mode = int(self._time), 0o755 if entry.isdir() else 0o644
        return entry

    def _run(self, *words: str) -> str:
        return run([*self._buildah, *words], self._time)


def commit_time() -> str:
    """SOURCE_DATE_EPOCH, by default the time of the last commit."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return given
    try:
        return run(["git", "log", "-1", "--format=%ct"], "0")
    except (BuildError, FileNotFoundError) as error:
        why = "this is not a checkout with a commit; set SOURCE_DATE_EPOCH to the time of the source in seconds"
        raise BuildError(why) from error


def sources() -> list[str]:
    """Where this host has its packages from, if it is a Debian of this release; otherwise mmdebstrap's own mirror."""
    file = Path("/etc/apt/sources.list.d/debian.sources")
    return (
        [str(file)] if file.exists() and re.search(rf"^Suites:.*\b{RELEASE}\b", file.read_text(), re.MULTILINE) else []
    )


def run(command: Sequence[str | Path], time: str) -> str:
    """Output of a command."""
    environ = {**os.environ, "SOURCE_DATE_EPOCH": time}
    done = subprocess.run(  # noqa: S603 - our own command
        command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BuildError(
            f"{' '.join(map(str, command))} failed with exit code {done.returncode}: {done.stdout}{done.stderr}"
        )
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
