"""Whether the process lives, and whether it answers."""

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
    """`ready` names what the service waits for, each with a sentence; `notes` what is wrong though it answers."""

    async def livez(request: Request) -> Response:
        """That anything is answered is all that is asked."""
        del request
        return text("ok")

    async def readyz(request: Request) -> Response:
        """Not ready until everything was listed."""
        del request
        waits = [f"{name}: {sentence}" for name, sentence in ready().items()]
        told = [f"not ready: {wait}" for wait in waits] or ["ok"]
        told += [f"note: {note}" for note in notes() if note not in waits]
        return text("\n".join(told), 503 if waits else 200)

    return [Route("/livez", livez), Route("/readyz", readyz), Route("/healthz", livez)]
