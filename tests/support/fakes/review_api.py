"""API server that answers TokenReviews and SubjectAccessReviews only, on a real socket in a thread of its own."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING, Any, Self

from linkwise.kube.client.api import Connection
from linkwise.kube.client.kubeconfig import Credentials
from linkwise.kube.client.reviews import Reviews
from linkwise.net.http.client import Http, Origin
from linkwise.net.http.messages import Response
from linkwise.net.http.routes import Route, Routes
from linkwise.net.http.server import Server, listen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.net.http.messages import Request

__all__ = ["ReviewApi"]


class ReviewApi:
    """Knows users by their tokens, and what each may do: verb, namespace (empty for all) and name (empty for any).

    The namespace "nodes" stands for the nodes of the cluster.
    """

    def __init__(self, users: Mapping[str, str], rights: Mapping[str, set[tuple[str, str, str]]]) -> None:
        self.users, self.rights = dict(users), {user: set(each) for user, each in rights.items()}
        self.reviews: list[dict[str, Any]] = []
        self.refused = False
        """whether every review is forbidden"""
        routes = [
            Route("POST", "/apis/authentication.k8s.io/v1/tokenreviews", self._token),
            Route("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", self._access),
        ]
        self._server = Server(Routes(routes))
        self._door = listen("127.0.0.1", 0)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def reviewer(self) -> Reviews:
        """Asks this server, as the service does."""
        port = self._door.getsockname()[1]
        http = Http(Origin("127.0.0.1", port), max_idle=0)  # nothing is left open between reviews
        return Reviews(Connection(http, Credentials(None, "test"), f"http://127.0.0.1:{port}"))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._server.stop)
        self._thread.join(100)
        self._door.close()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._server.serve(self._door))

    def _token(self, request: Request, variables: Mapping[str, str]) -> Response:
        del variables
        spec = self._spec(request)
        user = self.users.get(spec["token"])
        status = {"authenticated": True, "user": {"username": user, "groups": ["team"]}} if user else {}
        return self._answer({"status": status})

    def _access(self, request: Request, variables: Mapping[str, str]) -> Response:
        del variables
        spec = self._spec(request)
        asked = spec["resourceAttributes"]
        assert asked["resource"] in {"pods", "nodes"}
        assert spec["groups"] == ["team"]
        place = (asked["verb"], "nodes" if asked["resource"] == "nodes" else asked["namespace"])
        allowed = {(*place, asked["name"]), (*place, "")} & self.rights.get(spec["user"], set())
        return self._answer({"status": {"allowed": bool(allowed)}})

    def _spec(self, request: Request) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(request.body)
        self.reviews.append(document)
        return dict(document["spec"])

    def _answer(self, document: object) -> Response:
        if self.refused:
            return Response(json.dumps({"kind": "Status", "message": "forbidden"}).encode(), 403)
        return Response(json.dumps(document).encode(), 201)
