"""Health routes: liveness and readiness probes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.net.http.messages import text
from linkwise.net.http.routes import Route

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from linkwise.net.http.messages import Request, Response

__all__ = ["health_routes"]


def health_routes(
    ready: Callable[[], Mapping[str, str]], notes: Callable[[], Sequence[str]], role: Callable[[], str] = str
) -> list[Route]:
    """Build the probes.

    Args:
        ready: what the service waits for before it is ready, by name, each with a sentence.
        notes: problems to report while the service answers.
        role: which of several replicas this one is, for people; empty if there is only one.
    """

    def livez(request: Request, variables: Mapping[str, str]) -> Response:
        """Succeeds as long as the event loop runs."""
        del request, variables
        return text("ok")

    def readyz(request: Request, variables: Mapping[str, str]) -> Response:
        """Fails until the initial lists are complete; notes do not make it fail."""
        del request, variables
        blockers = [f"{name}: {sentence}" for name, sentence in ready().items()]
        lines = [f"not ready: {blocker}" for blocker in blockers] or ["ok"]
        lines += filter(None, [role()])
        lines += [f"note: {note}" for note in notes() if note not in blockers]
        return text("\n".join(lines), 503 if blockers else 200)

    return [Route("GET", "/livez", livez), Route("GET", "/readyz", readyz), Route("GET", "/healthz", livez)]
