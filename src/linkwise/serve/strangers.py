"""Strangers: callers that are refused because they have no client certificate, counted and logged at a limited rate."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from linkwise.net.http.messages import Request, Response
    from linkwise.net.http.routes import Route
    from linkwise.net.timing import Timing
    from linkwise.serve.metrics import Counting

__all__ = ["NO_CERTIFICATE", "Strangers"]

log: Final = logging.getLogger(__name__)

NO_CERTIFICATE: Final = "no_certificate"
"""a scheduler's route was called on a connection without a client certificate"""
LOG_SECONDS: Final = 60.0
"""between two log lines for one reason"""
REFUSAL: Final = (
    "access denied: this route is for schedulers; present a client certificate that Linkwise trusts, such as that of the"
    " Secret tls.client_secret"
)


@dataclass(slots=True)
class _Logged:
    at: float
    """monotonic seconds"""
    since: int = 0
    """refusals that were not logged since then"""


class Strangers:
    """Refuses callers without a certificate of the authority; with one, any name counts."""

    def __init__(self, counting: Counting, timing: Timing) -> None:
        self._counting = counting
        self._timing = timing
        self._logged: dict[str, _Logged] = {}

    def guard(self, route: Route) -> Route:
        """The route for callers with a certificate only; others get 403."""

        def guarded(request: Request, variables: Mapping[str, str]) -> Response | Awaitable[Response]:
            if request.certified:
                return route.handler(request, variables)
            self._refused(NO_CERTIFICATE, f"path={request.path} client={request.client}")
            return route.refuse(request, 403, REFUSAL)

        return replace(route, handler=guarded)

    def handshake_failed(self, reason: str, detail: str) -> None:
        """Count a TLS handshake that failed."""
        self._refused(reason, f"detail={detail!r}")

    def _refused(self, reason: str, about: str) -> None:
        self._counting.stranger(reason)
        now, last = self._timing.clock(), self._logged.get(reason)
        if last is not None and now - last.at < LOG_SECONDS:
            last.since += 1
            return
        self._logged[reason] = _Logged(now)
        more = f" and {last.since} more in the last {now - last.at:.0f} s" if last and last.since else ""
        log.warning("caller refused reason=%s %s%s", reason, about, more)
