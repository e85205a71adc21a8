"""Which cluster is meant and who we are there, found as kubectl finds it.

A file that is named, else those of $KUBECONFIG, else ~/.kube/config, else the service account of the pod we run in.
Several files are joined as kubectl joins them: the first that says something is right, and a relative path starts at
the file that it stands in.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import yaml
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import Cluster, User
from lightkube.core.exceptions import ConfigError

from linkwise.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["SERVICE_ACCOUNT", "Found", "find"]

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_FILES: Final = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_EXEC_VERSIONS: Final = "client.authentication.k8s.io/"
_PASSED_ON: Final = "client.authentication.k8s.io/v1beta1"
_LISTS: Final = (("clusters", "cluster"), ("users", "user"), ("contexts", "context"))

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Found:
    """A cluster, and who we are there."""

    config: SingleConfig
    place: str
    """what was read, for sentences"""
    tls_name: str = ""
    proxy: str = ""


def find(
    kubeconfig: Path | None,
    context: str | None,
    environ: Mapping[str, str] | None = None,
    account: Path = SERVICE_ACCOUNT,
) -> Found:
    """The cluster that is meant; ClusterError says what was looked at and what is wrong with it."""
    env = os.environ if environ is None else environ
    if kubeconfig is not None:
        if kubeconfig.expanduser().is_dir():
            raise ClusterError(f"{kubeconfig}: it is a folder; name the kubeconfig that kubectl uses")
        if not kubeconfig.expanduser().is_file():
            raise ClusterError(f"{kubeconfig}: there is no such file; name the kubeconfig that kubectl uses")
        return _of_files([kubeconfig.expanduser()], context)
    if named := [Path(name) for name in env.get("KUBECONFIG", "").split(os.pathsep) if name]:
        files = [file for file in named if file.is_file()]
        if not files:
            raise ClusterError(f"$KUBECONFIG names {_shown(named)}, which is not there; mend it, or name a file")
        return _of_files(files, context)
    usual = Path(env.get("HOME", "~")).expanduser() / ".kube" / "config"
    if usual.is_file():
        return _of_files([usual], context)
    if "KUBERNETES_SERVICE_HOST" in env:
        return _of_account(env, account, context)
    raise ClusterError(f"no cluster is named: $KUBECONFIG is not set, {usual} is not there, and this is no pod")


def _of_account(env: Mapping[str, str], account: Path, context: str | None) -> Found:
    if context is not None:
        raise ClusterError(f"context {context!r} can't be chosen: there is no kubeconfig, only the service account")
    token, host = account / "token", env["KUBERNETES_SERVICE_HOST"]
    if not token.is_file():
        raise ClusterError(f"{token}: there is no such file; the pod needs automountServiceAccountToken: true")
    namespace = account / "namespace"
    config = KubeConfig.from_one(
        cluster=Cluster(
            server=f"https://{f'[{host}]' if ':' in host else host}:{env.get('KUBERNETES_SERVICE_PORT', '443')}",
            certificate_auth=str(account / "ca.crt"),
        ),
        user=User(token_file=str(token)),
        namespace=namespace.read_text().strip() if namespace.is_file() else None,
    ).get()
    if config is None:
        raise ClusterError(f"{account}: the service account tells of no cluster")
    return Found(config, f"service account in {account}")


def _of_files(files: Sequence[Path], context: str | None) -> Found:
    place = _shown(files)
    joined: Document = {name: [] for name, _ in _LISTS}
    for file in files:
        _join(joined, file)
    wanted = context or joined.get("current-context")
    if not wanted:
        known = ", ".join(sorted(entry["name"] for entry in joined["contexts"])) or "none"
        raise ClusterError(f"{place}: no context is current; name one of its contexts: {known}")
    try:
        config = KubeConfig.from_dict(joined, fname=files[0]).get(wanted)
    except KeyError as error:
        raise ClusterError(f"{place}: context {wanted!r} names {error}, which is not there") from error
    except (ConfigError, msgspec.ValidationError, TypeError) as error:
        known = ", ".join(sorted(entry["name"] for entry in joined["contexts"])) or "none"
        raise ClusterError(f"{place}: {error}; its contexts are {known}") from error
    if config is None:
        raise ClusterError(f"{place}: context {wanted!r} tells of no cluster")
    raw = next(entry["cluster"] for entry in joined["clusters"] if entry["name"] == config.context.cluster)
    return Found(
        config, f"{place}, context {wanted}", str(raw.get("tls-server-name", "")), str(raw.get("proxy-url", ""))
    )


def _join(joined: Document, file: Path) -> None:
    """Add what the file says and the files before it did not."""
    try:
        document = yaml.safe_load(file.read_text())
    except yaml.MarkedYAMLError as error:
        # Its own text shows the lines around, and tokens stand there.
        mark = error.problem_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise ClusterError(f"{file}{place} can't be read: {error.problem or error.context}") from None
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        told = "it is nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())
        raise ClusterError(f"{file} can't be read: {told}") from error
    if document is None:
        return
    if not isinstance(document, dict) or not all(isinstance(document.get(name) or [], list) for name, _ in _LISTS):
        raise ClusterError(f"{file} is no kubeconfig: clusters, users and contexts are expected in it")
    if document.get("current-context"):
        joined.setdefault("current-context", document["current-context"])
    for name, inner in _LISTS:
        known = {entry["name"] for entry in joined[name]}
        for number, entry in enumerate(document.get(name) or ()):
            if not isinstance(entry, dict) or not isinstance(entry.get(inner) or {}, dict) or "name" not in entry:
                raise ClusterError(f"{file}: {name}[{number}] is no {inner} with a name")
            if entry["name"] not in known:
                joined[name].append({"name": entry["name"], inner: _placed(entry.get(inner) or {}, file.parent)})


def _placed(found: Document, folder: Path) -> Document:
    """The same with paths that no longer depend on where they stand."""
    placed = dict(found)
    for key in _FILES:
        if placed.get(key):
            placed[key] = str(folder.absolute() / str(placed[key]))
    if isinstance(placed.get("exec"), dict):
        placed["exec"] = _plugin(dict(placed["exec"]), folder)
    return placed


def _plugin(found: Document, folder: Path) -> Document:
    """A credential plugin: it is told which version it was asked in, since the library tells it nothing."""
    command, version = str(found.get("command", "")), str(found.get("apiVersion", ""))
    if "/" in command:
        found["command"] = str(folder.absolute() / command)
    asked = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    given = [entry for entry in found.get("env") or () if isinstance(entry, dict)]
    found["env"] = [*given, {"name": "KUBERNETES_EXEC_INFO", "value": json.dumps(asked)}]
    if version.startswith(_EXEC_VERSIONS):
        found["apiVersion"] = _PASSED_ON  # the answers of v1 have the same shape, which the library does not know
    return found


def _shown(files: Sequence[Path]) -> str:
    return ", ".join(str(file) for file in files)
