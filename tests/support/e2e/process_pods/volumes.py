"""Volumes of a pod as folders: ConfigMaps, Secrets, service account tokens, downward API, empty and host folders.

Files are replaced as kubelet replaces them, by a link to a new folder; changes arrive within a second, where kubelet takes
up to a minute.
"""

from __future__ import annotations

import base64
import os
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from support.e2e.api_client import ApiError
from support.e2e.processes import BedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from support.e2e.api_client import Api, Raw

__all__ = ["MissingError", "Volumes", "field"]

Files = dict[str, tuple[bytes, int]]
"""by path, contents and mode"""
DEFAULT_MODE: Final = 0o644
TOKEN_SECONDS: Final = 3600


class MissingError(Exception):
    """An object that a pod refers to does not exist: kubelet waits for it."""


class Volumes:
    """The volumes of one pod, below a folder."""

    def __init__(self, api: Api, pod: Raw, folder: Path, host: Path) -> None:
        self._api, self._pod, self._folder, self._host = api, pod, folder, host
        self._specs: Mapping[str, Raw] = {volume["name"]: volume for volume in pod["spec"].get("volumes", [])}
        self._numbers = count()
        self._tokens: dict[str, bytes] = {}
        self._seen: dict[str, Files] = {}

    def write(self) -> None:
        """Make all volumes, and bring those up to date that are; MissingError if an object is missing."""
        for name, volume in self._specs.items():
            path = self.path(name)
            if "hostPath" in volume:
                path.mkdir(parents=True, exist_ok=True)
            elif "emptyDir" in volume:
                path.mkdir(parents=True, exist_ok=True)
                path.chmod(0o777)
            else:
                self._publish(name, dict(self._files(volume)))

    def path(self, name: str) -> Path:
        """The folder of a volume; that of a host folder is below the folder that stands for the node's root."""
        volume = self._specs[name]
        if "hostPath" in volume:
            return self._host / str(volume["hostPath"]["path"]).lstrip("/")
        return self._folder / name

    def _publish(self, name: str, files: Files) -> None:
        """Write files into a new folder and switch the link, if anything has changed."""
        if self._seen.get(name) == files:
            return
        path = self.path(name)
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o755)
        version = path / f"..{next(self._numbers)}"
        for inner, (content, mode) in files.items():
            file = version / inner
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
            file.chmod(mode)
            self._give(file)
        version.mkdir(exist_ok=True)
        (link := path / "..data_tmp").symlink_to(version.name)
        link.replace(path / "..data")
        for top in {inner.split("/")[0] for inner in files}:
            if not (path / top).is_symlink():
                (path / top).symlink_to(f"..data/{top}")
        self._seen[name] = files

    def _give(self, file: Path) -> None:
        """The group of the pod can read its files, as kubelet sees to it for fsGroup."""
        group = self._pod["spec"].get("securityContext", {}).get("fsGroup")
        if group is not None:
            os.chown(file, -1, group)
            file.chmod(file.stat().st_mode | 0o440)

    def _files(self, volume: Raw) -> Iterator[tuple[str, tuple[bytes, int]]]:
        if "projected" in volume:
            mode = volume["projected"].get("defaultMode", DEFAULT_MODE)
            for source in volume["projected"]["sources"]:
                yield from self._source(source, mode)
            return
        for kind in ("configMap", "secret", "downwardAPI"):
            if kind in volume:
                named = {**volume[kind], "name": volume[kind].get("secretName", volume[kind].get("name", ""))}
                yield from self._source({kind: named}, volume[kind].get("defaultMode", DEFAULT_MODE))
                return
        raise BedError(f"volume {volume} is of a kind that the tests do not know")

    def _source(self, source: Raw, mode: int) -> Iterator[tuple[str, tuple[bytes, int]]]:
        if "configMap" in source or "secret" in source:
            kind = "configMap" if "configMap" in source else "secret"
            yield from self._object(kind, source[kind], mode)
        elif "serviceAccountToken" in source:
            wanted = source["serviceAccountToken"]
            # kubelet restricts the token to the container's user; a process of any user may read it here.
            yield wanted["path"], (self._token(wanted), mode)
        elif "downwardAPI" in source:
            for item in source["downwardAPI"].get("items", []):
                value = field(self._pod, item["fieldRef"]["fieldPath"])
                yield item["path"], (value.encode(), item.get("mode", mode))
        else:
            raise BedError(f"volume source {source} is of a kind that the tests do not know")

    def _object(self, kind: str, wanted: Raw, mode: int) -> Iterator[tuple[str, tuple[bytes, int]]]:
        contents = read_object(self._api, self._pod["metadata"]["namespace"], kind, wanted["name"])
        if contents is None:
            if wanted.get("optional"):
                return
            raise MissingError(f"{kind} {wanted['name']} not found")
        items = wanted.get("items") or [{"key": key, "path": key} for key in contents]
        for item in items:
            if item["key"] in contents:
                yield item["path"], (contents[item["key"]], item.get("mode", mode))
            elif not wanted.get("optional"):
                raise MissingError(f"{kind} {wanted['name']} has no key {item['key']}")

    def _token(self, wanted: Raw) -> bytes:
        audience = wanted.get("audience", "")
        if audience not in self._tokens:
            about, account = self._pod["metadata"], self._pod["spec"]["serviceAccountName"]
            bound = {"apiVersion": "v1", "kind": "Pod", "name": about["name"], "uid": about["uid"]}
            spec = {
                "audiences": [audience] if audience else [],
                "expirationSeconds": wanted.get("expirationSeconds", TOKEN_SECONDS),
                "boundObjectRef": bound,
            }
            request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
            path = f"/api/v1/namespaces/{about['namespace']}/serviceaccounts/{account}/token"
            self._tokens[audience] = str(self._api.call("POST", path, request)["status"]["token"]).encode()
        return self._tokens[audience]


def read_object(api: Api, namespace: str, kind: str, name: str) -> dict[str, bytes] | None:
    """The entries of a ConfigMap or Secret; None if there is none."""
    try:
        found = api.get(f"/api/v1/namespaces/{namespace}/{kind.lower()}s/{name}")
    except ApiError as error:
        if error.status == 404:
            return None
        raise
    encoded = found.get("binaryData") if kind == "configMap" else found.get("data")
    plain = found.get("data") if kind == "configMap" else {}
    return {key: str(value).encode() for key, value in (plain or {}).items()} | {
        key: base64.b64decode(value) for key, value in (encoded or {}).items()
    }


def field(pod: Raw, path: str) -> str:
    """What the downward API says under a path."""
    about, spec, status = pod["metadata"], pod["spec"], pod.get("status", {})
    single: dict[str, Any] = {
        "metadata.name": about["name"],
        "metadata.namespace": about["namespace"],
        "metadata.uid": about["uid"],
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
        "status.podIP": status.get("podIP", ""),
        "status.podIPs": status.get("podIP", ""),
        "status.hostIP": status.get("hostIP", ""),
    }
    if path in single:
        return str(single[path])
    for kind in ("labels", "annotations"):
        if path.startswith(f"metadata.{kind}['"):
            return str((about.get(kind) or {}).get(path.split("'")[1], ""))
    raise BedError(f"the downward API of the tests does not know {path}")
