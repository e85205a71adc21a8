"""Recorder of requests to the embedded API server, and replay of kubectl's requests without kubectl."""

from __future__ import annotations

import base64
import json
from contextlib import closing
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from linkwise.embedded.apiserver.server import Application
    from linkwise.net.http.messages import Request, Response
    from support.e2e.api_client import Api, Raw

__all__ = ["Recording", "replayed"]

_HEADERS: Final = ("accept", "content-type")


class Recording:
    """Stands before an application and notes requests, each with the status and the kind of its answer."""

    def __init__(self) -> None:
        self.requests: list[Raw] = []
        self._application: Application

    def before(self, application: Application) -> Recording:
        """The application, overheard."""
        self._application = application
        return self

    async def handle(self, request: Request) -> Response:
        """Note a request and answer it."""
        note: Raw = {"method": request.method, "path": request.target.decode()}
        note |= {name: value for name in _HEADERS if (value := request.header(name.encode()))}
        self.requests.append(note)
        response = await self._application.handle(request)
        note |= {"status": response.status} | _body(request.body) | _kind(response.body)
        return response

    def admit(self, request: Request) -> None:
        """Receive every body, as the application does."""
        self._application.admit(request)

    def refuse(self, request: Request, status: int, sentence: str) -> Response:
        """Answer a request that could not be read."""
        return self._application.refuse(request, status, sentence)

    def text(self) -> str:
        """All requests, one a line."""
        return "[\n" + ",\n".join(json.dumps(note) for note in self.requests) + "\n]\n"


def replayed(api: Api, note: Raw) -> tuple[int, Raw]:
    """Send a request again: its status, and the kind of its answer; of a watch only how it begins."""
    if note["status"] == 401:
        with closing(api.another("wrong")) as stranger:
            return replayed(stranger, {**note, "status": 0})
    if "watch=" in note["path"]:
        with api.watch(note["path"], note.get("accept", "")):
            return 200, {}
    body = base64.b64decode(note["base64"]) if "base64" in note else None
    body = json.dumps(note["body"]).encode() if "body" in note else body
    kind = note.get("content-type", "")
    status, answer = api.raw(note["method"], note["path"], body, kind, accept=note.get("accept", "*/*"))
    return status, _kind(answer)


def _body(body: bytes) -> Raw:
    if not body:
        return {}
    try:
        return {"body": json.loads(body)}
    except ValueError:
        return {"base64": base64.b64encode(body).decode()}


def _kind(answer: bytes) -> Raw:
    try:
        return {"kind": json.loads(answer)["kind"]}
    except (ValueError, KeyError, TypeError):
        return {}
