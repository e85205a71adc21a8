"""Strangers: callers that are refused because they have no client certificate, counted and logged at a limited rate."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.net.timing import LogLimit

if TYPE_CHECKING:
    from linkwise.net.http.messages import Request, Response
    from linkwise.net.http.routes import Route
    from linkwise.net.timing import Timing
    from linkwise.serve.metrics import Counting

__all__ = ["NO_CERTIFICATE", "Strangers"]

log: Final = logging.getLogger(__name__)

NO_CERTIFICATE: Final = "no_certificate"
"""a scheduler's route was called on a connection without a client certificate"""
REFUSAL: Final = (
    "access denied: this route is for schedulers; present a client certificate that Linkwise trusts, such as that of the"
    " Secret tls.client_secret"
)


class Strangers:
    """Refuses callers without a certificate of the authority; with one, any name counts."""

    def __init__(self, counting: Counting, timing: Timing) -> None:
        self._counting = counting
        self._log = LogLimit(log, timing)

    def guard(self, route: Route) -> Route:
        """The route for callers with a certificate only; others get 403, before their body is received."""

        def check(request: Request) -> Response | None:
            if request.certified:
                return None
            self._refused(NO_CERTIFICATE, "path=%s client=%s", request.path, request.client)
            return route.refuse(request, 403, REFUSAL)

        return replace(route, guard=check)

    def handshake_failed(self, reason: str, detail: str) -> None:
        """Count a TLS handshake that failed."""
        self._refused(reason, "detail=%r", detail)

    def _refused(self, reason: str, about: str, *values: str) -> None:
        self._counting.stranger(reason)
        self._log.warning(reason, f"caller refused reason=%s {about}", reason, *values)
