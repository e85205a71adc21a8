"""Recorder of requests to the embedded API server, and replay of kubectl's requests without kubectl."""

from __future__ import annotations

import base64
import json
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from linkwise.embedded.apiserver.app import Application
    from linkwise.embedded.apiserver.request import Message, Receive, Send
    from support.e2e.api_client import Api, Raw

__all__ = ["Recording", "replayed"]

_HEADERS: Final = ("accept", "content-type")


class Recording:
    """Stands before an application and notes requests, each with the status and the kind of its answer."""

    def __init__(self) -> None:
        self.requests: list[Raw] = []

    def before(self, application: Application) -> Any:  # noqa: ANN401 - an ASGI application
        """The application, overheard."""

        async def heard(scope: Message, receive: Receive, send: Send) -> None:
            headers = {key.decode(): value.decode() for key, value in scope["headers"]}
            query = scope["query_string"].decode()
            note: Raw = {"method": scope["method"], "path": scope["path"] + (f"?{query}" if query else "")}
            note |= {name: headers[name] for name in _HEADERS if name in headers}
            bodies, answers = list[bytes](), list[bytes]()

            async def received() -> Message:
                message = await receive()
                bodies.append(message.get("body", b""))
                return message

            async def sent(message: Message) -> None:
                if message["type"] == "http.response.start":
                    note["status"] = message["status"]
                elif not answers:
                    answers.append(message.get("body", b""))
                await send(message)

            self.requests.append(note)
            await application(scope, received, sent)
            note |= _body(b"".join(bodies)) | _kind(b"".join(answers))

        return heard

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
