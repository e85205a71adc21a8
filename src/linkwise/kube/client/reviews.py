"""Reviews by the API server: who has a token, and what that user may do with pods and nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from linkwise.errors import ClusterError, InputError
from linkwise.wire.kubernetes.reviews import access_review, allowed_by, caller_of, token_review
from linkwise.wire.kubernetes.watch_stream import status_of

if TYPE_CHECKING:
    from linkwise.kube.client.api import Connection
    from linkwise.wire.kubernetes.reviews import Caller

__all__ = ["Reviews"]

WAIT: Final = 5.0  # seconds
_TOKENS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@dataclass(frozen=True, slots=True)
class Reviews:
    """Asks the API server about callers of the service; ClusterError if it does not answer."""

    connection: Connection

    async def authenticate(self, token: str) -> Caller | None:
        """The user of a token; None if it is not valid."""
        body = await self._ask(_TOKENS, token_review(token), "tokenreviews.authentication.k8s.io")
        try:
            return caller_of(body)
        except InputError as error:
            raise ClusterError(f"the response to a TokenReview can't be read: {error}") from error

    async def may(self, caller: Caller, verb: str, namespace: str, name: str = "", resource: str = "pods") -> bool:
        """Whether a user may do this with a pod, with the pods of a namespace, or with all pods or nodes."""
        body = await self._ask(
            _ACCESS, access_review(caller, verb, namespace, name, resource), "subjectaccessreviews.authorization.k8s.io"
        )
        try:
            return allowed_by(body)
        except InputError as error:
            raise ClusterError(f"the response to a SubjectAccessReview can't be read: {error}") from error

    async def _ask(self, path: str, body: bytes, kind: str) -> bytes:
        answer = await self.connection.call("POST", path, body, wait=WAIT)
        if answer.status in {200, 201}:
            return answer.body
        message = status_of(answer.body).message or f"the API server answered {answer.status}"
        if answer.status == 403:
            raise ClusterError(f"may not create {kind}: grant it (`linkwise manifests rbac` prints the role)")
        raise ClusterError(f"create of {kind} failed: {message}")
