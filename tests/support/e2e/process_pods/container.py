"""Container as a process: an overlay of the host's file system as root, the pod's volumes at their mount paths."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from support.e2e.process_pods.volumes import MissingError, field as pod_field, read_object
from support.e2e.processes import BedError, Process

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from support.e2e.api_client import Api, Raw
    from support.e2e.process_pods.volumes import Volumes

__all__ = ["Image", "container_process", "image_of"]

REFERENCE: Final = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)|\$\$")
ALL: Final = "ALL"


@dataclass(frozen=True)
class Image:
    """What stands in for a container image: programs, and what the image itself would set."""

    path: tuple[Path, ...]
    """folders that come first on the PATH"""
    entrypoint: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    user: int = 0


def image_of(images: Mapping[str, Image], name: str) -> Image:
    """By repository and tag, else by the last part of the repository."""
    plain = name.split("@", maxsplit=1)[0]
    repository = plain.rpartition(":")[0] if ":" in plain.rpartition("/")[2] else plain
    last = repository.rpartition("/")[2]
    for key in (plain, f"{last}:{plain.rpartition(':')[2]}", last):
        if key in images:
            return images[key]
    raise BedError(f"no image of the tests is called {name}; there are {sorted(images)}")


def container_process(  # noqa: PLR0913 - all that a container depends on
    spec: Raw, pod: Raw, image: Image, volumes: Volumes, folder: Path, *, enter: Sequence[str], about: Environment
) -> Process:
    """A process for a container, to be started; MissingError if its environment refers to something missing."""
    variables = about.variables(spec, pod, image)
    command = [*spec.get("command", image.entrypoint), *spec.get("args", [])]
    words = [_expanded(word, variables) for word in command]
    inside = folder / f"root-{spec['name']}"
    inside.mkdir(parents=True, exist_ok=True)
    script = "\n".join([*_mounts(spec, volumes, inside, about.hosts, about.shared), _start(spec, pod, image, inside)])
    path = ":".join([*map(str, image.path), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"])
    environment = [f"{key}={value}" for key, value in {"PATH": path, "HOME": "/", **variables}.items()]
    directory = spec.get("workingDir", "/")
    inner = ["env", "-i", f"--chdir={directory}", *environment, *words]
    return Process(
        f"{pod['metadata']['name']}.{spec['name']}",
        [*enter, "unshare", "--mount", "sh", "-c", script, "sh", *inner],
        folder.parent,
    )


@dataclass(frozen=True)
class Environment:
    """What every container of a cluster sees beside its own."""

    api: Api
    hosts: Path
    shared: tuple[Path, ...]
    """folders of programs, which may be on other file systems than the root"""
    services: Mapping[str, str]
    """variables that kubelet sets for the API server"""
    links: Mapping[str, Mapping[str, str]]
    """variables that kubelet sets for the Services of a namespace, unless the pod says otherwise"""

    def variables(self, spec: Raw, pod: Raw, image: Image) -> dict[str, str]:
        """The environment of a container."""
        namespace = pod["metadata"]["namespace"]
        found = {"HOSTNAME": pod["metadata"]["name"], **image.environment, **self.services}
        if pod["spec"].get("enableServiceLinks", True):
            found |= self.links.get(namespace, {})
        for source in spec.get("envFrom", []):
            for kind in ("configMap", "secret"):
                if reference := source.get(f"{kind}Ref"):
                    found |= {key: text.decode() for key, text in self._read(namespace, kind, reference).items()}
        for variable in spec.get("env", []):
            value = self._value(variable, pod)
            if value is not None:
                found[variable["name"]] = _expanded(value, found)
        return found

    def _value(self, variable: Raw, pod: Raw) -> str | None:
        source = variable.get("valueFrom")
        if not source:
            return str(variable.get("value", ""))
        if "fieldRef" in source:
            return pod_field(pod, source["fieldRef"]["fieldPath"])
        for kind in ("configMap", "secret"):
            if reference := source.get(f"{kind}KeyRef"):
                entries = self._read(pod["metadata"]["namespace"], kind, reference)
                if reference["key"] in entries:
                    return entries[reference["key"]].decode()
                if reference.get("optional"):
                    return None
                raise MissingError(f"{kind} {reference['name']} has no key {reference['key']}")
        raise BedError(f"variable {variable} has a source that the tests do not know")

    def _read(self, namespace: str, kind: str, reference: Raw) -> dict[str, bytes]:
        found = read_object(self.api, namespace, kind, reference["name"])
        if found is None and not reference.get("optional"):
            raise MissingError(f"{kind} {reference['name']} not found")
        return found or {}


def _mounts(spec: Raw, volumes: Volumes, inside: Path, hosts: Path, shared: Sequence[Path]) -> list[str]:
    """Commands that build the root: nothing of it is left when the process ends."""
    base, root = shlex.quote(str(inside)), shlex.quote(str(inside / "root"))
    lines = [
        "set -e",
        "mount --make-rprivate /",
        f"mount -t tmpfs -o mode=755 container {base}",
        f"mkdir {base}/upper {base}/work {base}/root",
        f"mount -t overlay -o lowerdir=/,upperdir={base}/upper,workdir={base}/work container {root}",
        *(f"mount --rbind /{name} {root}/{name}" for name in ("proc", "sys", "dev")),
    ]
    targets = {folder: f"{root}{shlex.quote(str(folder))}" for folder in shared}
    # Another user has to reach them, also below root's home and a cache of mode 700. Only the overlay is changed.
    above = sorted({parent for folder in shared for parent in folder.parents if parent != Path("/")})
    lines += [f"mkdir -p {target}" for target in targets.values()]
    lines += [f"chmod a+x {root}{shlex.quote(str(parent))}" for parent in above]
    lines += [f"mount --bind {shlex.quote(str(folder))} {target}" for folder, target in targets.items()]
    lines += [f"touch {root}/etc/hosts", f"mount --bind {shlex.quote(str(hosts))} {root}/etc/hosts"]
    # A folder has to be there before what is mounted below it.
    for mount in sorted(spec.get("volumeMounts", []), key=lambda one: str(one["mountPath"])):
        if mount.get("subPath") or mount.get("subPathExpr"):
            raise BedError(f"{mount}: the tests know no subPath")
        # Links of the host, such as /var/run, must not lead out of the root.
        target = f"{root}{shlex.quote(str(Path(mount['mountPath']).resolve()))}"
        source = shlex.quote(str(volumes.path(mount["name"])))
        lines += [f"mkdir -p {target}", f"mount --bind {source} {target}"]
        lines += [f"mount -o remount,bind,ro {target}"] if mount.get("readOnly") else []
    if spec.get("securityContext", {}).get("readOnlyRootFilesystem"):
        lines.append(f"mount -o remount,ro {root}")
    return lines


def _start(spec: Raw, pod: Raw, image: Image, inside: Path) -> str:
    """The command that becomes the program, under the user and with the capabilities of the security context."""
    security = {**pod["spec"].get("securityContext", {}), **spec.get("securityContext", {})}
    user = int(security.get("runAsUser", image.user))
    group = int(security.get("runAsGroup", user))
    if security.get("runAsNonRoot") and not user:
        raise BedError(f"container {spec['name']} must not run as root, and neither it nor its image names a user")
    groups = ",".join(
        str(one) for one in {group, security.get("fsGroup", group), *security.get("supplementalGroups", ())}
    )
    words = ["setpriv", f"--reuid={user}", f"--regid={group}", f"--groups={groups}"]
    if ALL in security.get("capabilities", {}).get("drop", []) and not security.get("privileged"):
        kept = [f"+{name.lower()}" for name in security.get("capabilities", {}).get("add", [])]
        words += ["--inh-caps=-all", f"--bounding-set={','.join(['-all', *kept])}"]
    if not security.get("allowPrivilegeEscalation", True):
        words.append("--no-new-privs")
    return f'exec chroot {shlex.quote(str(inside / "root"))} {" ".join(words)} -- "$@"'


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    """References to variables, as kubelet expands them; those to unknown ones stay as they are."""
    return REFERENCE.sub(lambda found: "$" if found[0] == "$$" else variables.get(found[1] or "", found[0]), text)


def shared_folders(*folders: Path) -> tuple[Path, ...]:
    """Those of programs and of the interpreter, each once."""
    own = (Path(sys.prefix), Path(sys.base_prefix))
    return tuple(dict.fromkeys(folder.resolve() for folder in (*own, *folders)))
