"""Health routes: liveness and readiness probes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.routing import Route

from linkwise.serve.http.endpoint import text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["health_routes"]


def health_routes(ready: Callable[[], Mapping[str, str]], notes: Callable[[], Sequence[str]]) -> list[Route]:
    """Build the probes.

    Args:
        ready: what the service waits for before it is ready, by name, each with a sentence.
        notes: problems to report while the service answers.
    """

    async def livez(request: Request) -> Response:
        """Succeeds as long as the event loop runs."""
        del request
        return text("ok")

    async def readyz(request: Request) -> Response:
        """Fails until the initial lists are complete; notes do not make it fail."""
        del request
        blockers = [f"{name}: {sentence}" for name, sentence in ready().items()]
        lines = [f"not ready: {blocker}" for blocker in blockers] or ["ok"]
        lines += [f"note: {note}" for note in notes() if note not in blockers]
        return text("\n".join(lines), 503 if blockers else 200)

    return [Route("/livez", livez), Route("/readyz", readyz), Route("/healthz", livez)]
