"""Builder of a release: everything that users download, with checksums and provenance.

    python scripts/release.py VERSION [--install] [--dirty]

Written to dist/VERSION, when all of it is built: the wheel and the source distribution, the image as an OCI archive, the chart
that names the digest of the image, the documentation as a website, the SBOM, the licences of what the image contains, notes from
the changelog, SHA256SUMS, and provenance as an in-toto statement, which is not signed. It needs what `make image` needs. VERSION
must be that of the package, and the checkout must have no changes, unless --dirty.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from licences import distributed
from oci_image import BASE_PACKAGES, PACKAGES, ROOT, build, commit_time, prepare, run, version
from packages import BuildError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

CHART: Final = ROOT / "deploy/chart"
LOCKS: Final = ("requirements.lock", "deploy/image/requirements.lock", "deploy/image/tools.lock")
BUILD_TYPE: Final = "https://linkwise.dev/release/v1"
LOCAL: Final = "https://linkwise.dev/release/local"
"""builder outside of CI"""
SBOM: Final = "usr/share/linkwise/sbom.cdx.json"


def main(arguments: Sequence[str]) -> int:
    """Build all of it; exit code 1 with a message if that is impossible."""
    parser = argparse.ArgumentParser(prog="release.py", description=str(__doc__).partition("\n")[0])
    parser.add_argument("version", help="of the package")
    parser.add_argument("--install", action="store_true", help="install missing tools with apt-get")
    parser.add_argument("--dirty", action="store_true", help="permit changes that are not committed")
    options = parser.parse_args(arguments)
    try:
        check(options.version, dirty=options.dirty)
        prepare({**PACKAGES, **BASE_PACKAGES}, permitted=options.install)
        folder = ROOT / "dist" / options.version
        release(folder, options.version)
    except BuildError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    for line in (folder / "SHA256SUMS").read_text("utf-8").splitlines():
        print(line)
    return 0


def check(wanted: str, *, dirty: bool) -> None:
    """Compare the version with that of the package, and the checkout with its last commit."""
    if wanted != version():
        file = "src/linkwise/__init__.py"
        raise BuildError(
            f"the version of the package is {version()}, not {wanted}; change it in {file}, then run make docs manifests"
        )
    if not dirty and git("status", "--porcelain"):
        raise BuildError("the checkout has changes that are not committed; commit them, or pass --dirty for a trial")


def release(folder: Path, wanted: str) -> None:
    """Write all files into a folder, which must not exist, and does not if a build fails."""
    with complete(folder) as unfinished:
        write_files(unfinished, wanted)


@contextmanager
def complete(folder: Path) -> Iterator[Path]:
    """A folder beside this one, which becomes it when the block succeeds, and is removed otherwise."""
    if folder.exists():
        raise BuildError(f"{folder} exists; a release is not overwritten")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="release-", dir=folder.parent) as scratch:
        unfinished = Path(scratch, folder.name)
        unfinished.mkdir()
        yield unfinished
        unfinished.rename(folder)


def write_files(folder: Path, wanted: str) -> None:
    """Write all files of a release into an empty folder."""
    start = datetime.now(UTC)
    build_distributions(folder)
    image = folder / f"linkwise-{wanted}.oci.tar"
    digest = build(image, wanted)
    write_chart(folder / f"linkwise-{wanted}.tgz", digest, int(commit_time()))
    build_site(folder / f"linkwise-{wanted}-site.tar.gz", int(commit_time()))
    (folder / f"linkwise-{wanted}.sbom.cdx.json").write_bytes(file_of_image(image, SBOM))
    (folder / "licences.md").write_text(distributed(), "utf-8")
    (folder / "notes.md").write_text(notes((ROOT / "CHANGELOG.md").read_text("utf-8"), wanted), "utf-8")
    digests = {file.name: sha256(file.read_bytes()) for file in sorted(folder.iterdir())}
    (folder / "SHA256SUMS").write_text("".join(f"{value}  {name}\n" for name, value in digests.items()), "utf-8")
    statement = provenance({**digests, "linkwise": digest.removeprefix("sha256:")}, wanted, start)
    (folder / "provenance.intoto.json").write_text(json.dumps(statement, indent=2) + "\n", "utf-8")


def build_distributions(folder: Path) -> None:
    """The wheel and the source distribution."""
    run([sys.executable, "-m", "hatchling", "build", "--directory", folder], commit_time())


def build_site(file: Path, time: int) -> None:
    """The documentation as `make site` builds it, as an archive."""
    with TemporaryDirectory(prefix="site-", dir=file.parent) as folder:
        pages = Path(folder, "pages")
        words = ["--quiet", "--fail-on-warning", "-b", "html", "-c", "docs", "-d", f"{folder}/doctrees"]
        run([sys.executable, "-m", "sphinx", *words, ".", pages], str(time))
        paths = sorted(path for path in pages.rglob("*") if path.is_file() and path.name != ".buildinfo")
        write_archive(file, {f"linkwise/{path.relative_to(pages)}": path.read_bytes() for path in paths}, time)


def write_chart(file: Path, digest: str, time: int) -> None:
    """The chart as Helm packages it, with the digest of the image as the default value."""
    files = {str(path.relative_to(CHART)): path.read_bytes() for path in sorted(CHART.rglob("*")) if is_packaged(path)}
    files["values.yaml"] = with_digest(files["values.yaml"].decode(), digest).encode()
    write_archive(file, {f"linkwise/{name}": text for name, text in files.items()}, time)


def is_packaged(path: Path) -> bool:
    """Whether Helm would package a file of the chart."""
    ignored = (CHART / ".helmignore").read_text("utf-8").split()
    return path.is_file() and not any(path.match(pattern) for pattern in ignored)


def write_archive(file: Path, files: Mapping[str, bytes], time: int) -> None:
    """Write files to a compressed archive whose bytes depend on nothing but them."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(text), time
            archive.addfile(entry, io.BytesIO(text))
    file.write_bytes(gzip.compress(content.getvalue(), mtime=time))


def with_digest(values: str, digest: str) -> str:
    """values.yaml with the digest of Linkwise's own image, the first one in the file."""
    changed, count = re.subn(r"^  digest: ''$", f"  digest: {digest}", values, count=1, flags=re.MULTILINE)
    if not count or "image:" not in values.partition("  digest: ''")[0]:
        raise BuildError("values.yaml of the chart has no empty digest of the image")
    return changed


def file_of_image(image: Path, name: str) -> bytes:
    """A file of an image with one layer."""
    with tarfile.open(image) as archive:

        def blob(descriptor: Mapping[str, Any]) -> bytes:
            return member(archive, f"blobs/{str(descriptor['digest']).replace(':', '/')}")

        manifest = json.loads(blob(json.loads(member(archive, "index.json"))["manifests"][0]))
        with tarfile.open(fileobj=io.BytesIO(blob(manifest["layers"][0]))) as layer:
            return member(layer, name)


def member(archive: tarfile.TarFile, name: str) -> bytes:
    """A file of an archive."""
    found = archive.extractfile(name)
    if found is None:
        raise BuildError(f"{name} is not a file")
    return found.read()


def notes(changelog: str, wanted: str) -> str:
    """The section of a version; what is unreleased if there is none."""
    for title in (wanted, "Unreleased"):
        found = re.search(rf"^## \[{re.escape(title)}\].*?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
        if found and found[1].strip():
            return f"# Linkwise {wanted}\n\n{found[1].strip()}\n"
    raise BuildError(f"CHANGELOG.md says nothing about {wanted}")


def provenance(digests: Mapping[str, str], wanted: str, start: datetime) -> dict[str, object]:
    """How the files were made: SLSA provenance in an in-toto statement."""
    commit, origin = git("rev-parse", "HEAD"), git("config", "--get", "remote.origin.url", missing="")
    sources = [{"uri": f"git+{origin or 'file:///'}", "digest": {"gitCommit": commit}}]
    sources += [{"uri": name, "digest": {"sha256": sha256((ROOT / name).read_bytes())}} for name in LOCKS]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": value}} for name, value in digests.items()],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"version": wanted},
                "internalParameters": {"sourceDateEpoch": commit_time()},
                "resolvedDependencies": sources,
            },
            "runDetails": {
                "builder": {"id": os.environ.get("BUILDER_ID", LOCAL)},
                "metadata": {"startedOn": moment(start), "finishedOn": moment(datetime.now(UTC))},
            },
        },
    }


def moment(time: datetime) -> str:
    """RFC 3339."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def sha256(content: bytes) -> str:
    """Digest in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def git(*words: str, missing: str | None = None) -> str:
    """Output of git; `missing` instead of an error."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603, S607 - our own
    if done.returncode and missing is None:
        raise BuildError(f"git {' '.join(words)} failed: {done.stderr}")
    return done.stdout.strip() if not done.returncode else str(missing)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
