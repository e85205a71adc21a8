"""Kubeconfig: finds cluster and user as kubectl does, and renews credentials that the API server rejects.

In this order: the file passed as an argument, the files of $KUBECONFIG, ~/.kube/config, the pod's service account. Several
files are merged as kubectl merges them: the first to set a value wins, and relative paths start at their own file.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx2
import msgspec
import yaml
from lightkube.config.client_adapter import user_auth
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import Cluster, User
from lightkube.core.exceptions import ConfigError

from linkwise.errors import ClusterError
from linkwise.net.http.client import NotSentError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["SERVICE_ACCOUNT", "ClusterConfig", "Credentials", "find", "own_namespace"]

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DEFAULT_NAMESPACE: Final = "linkwise-system"
"""of the manifests that `linkwise manifests` prints"""
_FILES: Final = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_EXEC_VERSIONS: Final = "client.authentication.k8s.io/"
_SUPPORTED_EXEC: Final = "client.authentication.k8s.io/v1beta1"
_LISTS: Final = (("clusters", "cluster"), ("users", "user"), ("contexts", "context"))

Document = dict[str, Any]
PLUGIN_SECONDS: Final = 20.0
"""time limit of a credential plugin; all calls wait for it"""


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """A cluster and the user to connect as."""

    config: SingleConfig
    place: str
    """where it was read from, for error messages"""
    tls_name: str = ""
    proxy: str = ""


def find(
    kubeconfig: Path | None,
    context: str | None,
    environ: Mapping[str, str] | None = None,
    account: Path = SERVICE_ACCOUNT,
) -> ClusterConfig:
    """Find the cluster; ClusterError says where it was looked for and what is wrong."""
    env = os.environ if environ is None else environ
    if kubeconfig is not None:
        if kubeconfig.expanduser().is_dir():
            raise ClusterError(f"{kubeconfig}: is a directory; pass the kubeconfig file that kubectl uses")
        if not kubeconfig.expanduser().is_file():
            raise ClusterError(f"{kubeconfig}: no such file; pass the kubeconfig file that kubectl uses")
        return _from_files([kubeconfig.expanduser()], context)
    if paths := [Path(name) for name in env.get("KUBECONFIG", "").split(os.pathsep) if name]:
        files = [file for file in paths if file.is_file()]
        if not files:
            raise ClusterError(f"$KUBECONFIG: no such file: {_join_paths(paths)}; fix it, or pass --kubeconfig")
        return _from_files(files, context)
    default = Path(env.get("HOME", "~")).expanduser() / ".kube" / "config"
    if default.is_file():
        return _from_files([default], context)
    if "KUBERNETES_SERVICE_HOST" in env:
        return _from_service_account(env, account, context)
    raise ClusterError(
        f"no cluster is configured: $KUBECONFIG is not set, {default} does not exist, and this is not a pod"
    )


def own_namespace(environ: Mapping[str, str] | None = None, account: Path = SERVICE_ACCOUNT) -> str:
    """The namespace of the service: that of the pod that this process runs in, or the one of the manifests outside a cluster.

    It is not the namespace of the kubeconfig's context, which users switch with their work.
    """
    env = os.environ if environ is None else environ
    if name := env.get("POD_NAMESPACE", ""):
        return name
    file = account / "namespace"
    in_pod = "KUBERNETES_SERVICE_HOST" in env and file.is_file()
    return file.read_text().strip() if in_pod else DEFAULT_NAMESPACE


class Credentials:
    """The Authorization header line; empty with a client certificate or without any credentials."""

    def __init__(self, user: User | None, place: str, timeout: float = PLUGIN_SECONDS) -> None:
        self._place = place
        self._timeout = timeout
        try:
            self._auth = user_auth(user)
        except ConfigError as error:
            raise ClusterError(f"{place}: {error}") from error
        self._line: bytes | None = None if self._auth else b""
        self._lock = asyncio.Lock()
        self._fetching: asyncio.Task[bytes] | None = None

    async def line(self) -> bytes:
        """The header; a plugin runs once for it."""
        if self._line is None:
            async with self._lock:
                if self._line is None:
                    self._line = await self._fetch(rejected=b"")
        return self._line

    async def renew(self, rejected: bytes) -> bool:
        """Fetch a header other than the rejected one; False if there is none."""
        if self._auth is None:
            return False
        async with self._lock:
            if self._line == rejected:
                self._line = await self._fetch(rejected=rejected)
            return self._line != rejected

    async def _fetch(self, rejected: bytes) -> bytes:
        """Fetch within the time limit; a plugin that exceeds it goes on, and later calls wait for the same one."""
        fetching = self._fetching = self._fetching or asyncio.create_task(self._run_auth_flow(rejected))
        try:
            async with asyncio.timeout(self._timeout):
                return await asyncio.shield(fetching)
        except TimeoutError as error:
            raise NotSentError(f"{self._place}: no credentials within {self._timeout:g} s") from error
        finally:
            if fetching.done():
                self._fetching = None

    async def _run_auth_flow(self, rejected: bytes) -> bytes:
        """Drive lightkube's auth flow: its first header, or the next one after a simulated 401 if that was rejected."""
        if self._auth is None:
            return b""
        request = httpx2.Request("GET", "http://localhost")
        flow = self._auth.async_auth_flow(request)
        try:
            line = _line(await anext(flow))
            if rejected and line == rejected:
                line = _line(await flow.asend(httpx2.Response(401, request=request)))
        except StopAsyncIteration:
            return rejected
        except (ConfigError, OSError, ValueError, KeyError, TypeError, subprocess.SubprocessError) as error:
            raise NotSentError(f"{self._place}: can't get credentials: {error}") from error
        finally:
            await flow.aclose()
        return line


def _from_files(files: Sequence[Path], context: str | None) -> ClusterConfig:
    place = _join_paths(files)
    merged: Document = {name: [] for name, _ in _LISTS}
    for file in files:
        _merge(merged, file)
    selected = context or merged.get("current-context")
    if not selected:
        raise ClusterError(f"{place}: current-context is not set; select one of its contexts: {_contexts(merged)}")
    try:
        config = KubeConfig.from_dict(merged, fname=files[0]).get(selected)
    except KeyError as error:
        raise ClusterError(f"{place}: context {selected!r} refers to {error}, which does not exist") from error
    except (ConfigError, msgspec.ValidationError, TypeError) as error:
        raise ClusterError(f"{place}: {error}; its contexts are {_contexts(merged)}") from error
    if config is None:
        raise ClusterError(f"{place}: context {selected!r} specifies no cluster")
    raw = next(entry["cluster"] for entry in merged["clusters"] if entry["name"] == config.context.cluster)
    return ClusterConfig(
        config, f"{place}, context {selected}", str(raw.get("tls-server-name", "")), str(raw.get("proxy-url", ""))
    )


def _join_paths(files: Sequence[Path]) -> str:
    return ", ".join(str(file) for file in files)


def _merge(merged: Document, file: Path) -> None:
    """Add the entries of a file that no earlier file has."""
    try:
        document = yaml.safe_load(file.read_text())
    except yaml.MarkedYAMLError as error:
        # The error's own text quotes the surrounding lines, which contain tokens.
        mark = error.problem_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise ClusterError(f"{file}{place} can't be read: {error.problem or error.context}") from None
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())
        raise ClusterError(f"{file} can't be read: {why}") from error
    if document is None:
        return
    if not isinstance(document, dict) or not all(isinstance(document.get(name) or [], list) for name, _ in _LISTS):
        raise ClusterError(f"{file} is not a kubeconfig: it needs lists of clusters, users and contexts")
    if document.get("current-context"):
        merged.setdefault("current-context", document["current-context"])
    for name, inner in _LISTS:
        known = {entry["name"] for entry in merged[name]}
        for number, entry in enumerate(document.get(name) or ()):
            if not isinstance(entry, dict) or not isinstance(entry.get(inner) or {}, dict) or "name" not in entry:
                raise ClusterError(f"{file}: {name}[{number}] is not a {inner} with a name")
            if entry["name"] not in known:
                merged[name].append({"name": entry["name"], inner: _resolve(entry.get(inner) or {}, file.parent)})


def _resolve(entry: Document, folder: Path) -> Document:
    """Make the relative paths of an entry absolute."""
    resolved = dict(entry)
    for key in _FILES:
        if resolved.get(key):
            resolved[key] = str(folder.absolute() / str(resolved[key]))
    if isinstance(resolved.get("exec"), dict):
        resolved["exec"] = _plugin(dict(resolved["exec"]), folder)
    return resolved


def _plugin(spec: Document, folder: Path) -> Document:
    """Prepare a credential plugin; sets KUBERNETES_EXEC_INFO, which lightkube does not."""
    command, version = str(spec.get("command", "")), str(spec.get("apiVersion", ""))
    if "/" in command:
        spec["command"] = str(folder.absolute() / command)
    info = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    env = [entry for entry in spec.get("env") or () if isinstance(entry, dict)]
    spec["env"] = [*env, {"name": "KUBERNETES_EXEC_INFO", "value": json.dumps(info)}]
    if version.startswith(_EXEC_VERSIONS):
        spec["apiVersion"] = _SUPPORTED_EXEC  # lightkube rejects v1, whose responses have the same format
    return spec


def _contexts(merged: Document) -> str:
    return ", ".join(sorted(entry["name"] for entry in merged["contexts"])) or "none"


def _from_service_account(env: Mapping[str, str], account: Path, context: str | None) -> ClusterConfig:
    if context is not None:
        raise ClusterError(f"context {context!r} can't be selected: there is no kubeconfig, only the service account")
    token, host = account / "token", env["KUBERNETES_SERVICE_HOST"]
    if not token.is_file():
        raise ClusterError(f"{token}: no such file; the pod needs automountServiceAccountToken: true")
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
        raise ClusterError(f"{account}: the service account specifies no cluster")
    return ClusterConfig(config, f"service account in {account}")


def _line(request: httpx2.Request) -> bytes:
    value = request.headers.get("Authorization", "")
    if "\r" in value or "\n" in value:
        raise ValueError("the token contains a line break")
    return f"Authorization: {value}\r\n".encode("latin-1") if value else b""
