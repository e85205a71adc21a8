"""Small client of the API server: JSON over persistent connections, one client per user."""

from __future__ import annotations

import json
import ssl
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from linkwise.errors import ClusterError
from linkwise.net.http.client import Origin
from linkwise.wire.kubernetes.watch_stream import Lines
from support.blocking_http import BlockingHttp
from support.e2e.processes import BedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from linkwise.net.http.client import Answer

__all__ = ["LABEL", "Api", "ApiError", "Raw", "collection_of", "in_parallel", "marked", "path_of"]

Raw = dict[str, Any]
"""an object as JSON"""

LABEL: Final = "linkwise.dev/e2e"
"""on whatever the tests make, so that in a cluster that is not ours nothing else is removed"""

MERGE: Final = "application/merge-patch+json"
WITH_STATUS: Final = frozenset({"DeviceInventory", "Device", "ResourceClaim"})
"""kinds whose status is written by a call of its own"""
CONNECTIONS: Final = 4


class ApiError(Exception):
    """The API server refused."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status, self.reason, self.message = status, reason, message


class Api:
    """One user's connection."""

    def __init__(
        self,
        server: str,
        token: str = "",
        certificate: Path | None = None,
        impersonate: Mapping[str, str] | None = None,
    ) -> None:
        self.server, self._token, self._certificate = server, token, certificate
        self._impersonate = dict(impersonate or {})
        self._http = BlockingHttp(_origin(server, certificate))

    def get(self, path: str) -> Any:  # noqa: ANN401 - JSON
        """What lies under a path."""
        return self.call("GET", path)

    def list(self, path: str) -> list[Raw]:
        """The objects of a collection."""
        return list(self.get(path)["items"])

    def create(self, thing: Mapping[str, Any]) -> Raw:
        """Make an object, its status too; as the server has it then."""
        made: Raw = self.call("POST", collection_of(thing), thing)
        if thing["kind"] in WITH_STATUS and any((thing.get("status") or {}).values()):
            made = self.call("PUT", f"{path_of(thing)}/status", {**made, "status": thing["status"]})
        return made

    def patch(self, path: str, change: Mapping[str, Any]) -> Raw:
        """Merge a change into an object."""
        return dict(self.call("PATCH", path, change, MERGE))

    def delete(self, path: str, *, missing_ok: bool = True) -> None:
        """Remove an object or a collection, without a grace period."""
        joint = "&" if "?" in path else "?"
        try:
            self.call("DELETE", f"{path}{joint}gracePeriodSeconds=0&propagationPolicy=Background")
        except ApiError as error:
            if error.status != 404 or not missing_ok:
                raise

    def call(self, method: str, path: str, body: object = None, kind: str = "application/json") -> Any:  # noqa: ANN401 - JSON
        """Any request; ApiError if it is refused."""
        status, content = self.raw(method, path, None if body is None else json.dumps(body).encode(), kind)
        answer = json.loads(content) if content[:1] in {b"{", b"["} else {"message": content.decode(errors="replace")}
        if status >= 400:
            raise ApiError(status, str(answer.get("reason", "")), str(answer.get("message", "")))
        return answer

    def raw(
        self, method: str, path: str, body: bytes | None = None, kind: str = "", *, accept: str = "application/json"
    ) -> tuple[int, bytes]:
        """The status and the bytes of an answer."""
        answer = self.answer(method, path, body, kind, accept=accept)
        return answer.status, answer.body

    def answer(
        self, method: str, path: str, body: bytes | None = None, kind: str = "", *, accept: str = "application/json"
    ) -> Answer:
        """An answer with its headers."""
        headers = self._headers(accept) | ({"Content-Type": kind} if body is not None else {})
        try:
            return self._http.call(method, path, headers, body or b"")
        except ClusterError as error:
            raise BedError(f"{method} {self.server}{path}: {error!r}") from error

    @contextmanager
    def watch(self, path: str, accept: str = "application/json") -> Iterator[Iterator[Raw]]:
        """The lines of a watch as they come, on a connection of its own; CutError if it is cut."""
        with self._http.stream(path, self._headers(accept)) as (status, pieces):
            if status >= 400:
                raise ApiError(status, "", b"".join(pieces).decode(errors="replace"))
            lines = Lines()
            yield (json.loads(line) for piece in pieces for line in lines.feed(piece))

    def close(self) -> None:
        """Close the connections; the next call opens another."""
        self._http.close()

    def another(self, token: str = "") -> Api:
        """The same user, or the one with this token, on a connection of its own."""
        return Api(self.server, token or self._token, self._certificate)

    def acting_as(self, user: str, group: str = "") -> Api:
        """The administrator, who acts as another user."""
        headers = {"Impersonate-User": user} | ({"Impersonate-Group": group} if group else {})
        return Api(self.server, self._token, self._certificate, headers)

    def answers(self, path: str = "/readyz") -> bool:
        """Whether a path is served with 200."""
        try:
            return self.raw("GET", path)[0] == 200
        except BedError:
            return False

    def _headers(self, accept: str) -> dict[str, str]:
        return {"Accept": accept, **self._impersonate} | (
            {"Authorization": f"Bearer {self._token}"} if self._token else {}
        )


def _origin(server: str, certificate: Path | None) -> Origin:
    address = urlsplit(server)
    host, port = address.hostname or "", address.port or (443 if address.scheme == "https" else 80)
    if address.scheme == "http":
        return Origin(host, port)
    trust = ssl.create_default_context(cafile=certificate)
    if certificate is None:  # a component's own, which changes with every start
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    # Kubernetes' own certificate lacks the key identifier of its authority.
    trust.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return Origin(host, port, tls=trust)


def in_parallel(api: Api, calls: Iterable[Callable[[Api], object]]) -> None:
    """Do all of them over a few connections; the first refusal is raised when all are done."""
    waiting = list(calls)
    shares = [waiting[start::CONNECTIONS] for start in range(min(CONNECTIONS, len(waiting)))]

    def work(share: list[Callable[[Api], object]]) -> None:
        own = api.another()
        try:
            for call in share:
                call(own)
        finally:
            own.close()

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        for _ in pool.map(work, shares):
            pass


def marked(thing: Mapping[str, Any]) -> Raw:
    """The object with the label by which it is found again."""
    about = thing["metadata"]
    return {**thing, "metadata": {**about, "labels": {**(about.get("labels") or {}), LABEL: "true"}}}


def collection_of(thing: Mapping[str, Any]) -> str:
    """The path of the collection that an object belongs in; it names its namespace if it has one."""
    version, namespace = thing["apiVersion"], thing["metadata"].get("namespace")
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return (
        f"{root}/namespaces/{namespace}/{_plural(thing['kind'])}" if namespace else f"{root}/{_plural(thing['kind'])}"
    )


def path_of(thing: Mapping[str, Any]) -> str:
    """The path of an object."""
    return f"{collection_of(thing)}/{thing['metadata']['name']}"


def _plural(kind: str) -> str:
    word = kind.lower()
    if word.endswith("y"):
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "ch")) else f"{word}s"
