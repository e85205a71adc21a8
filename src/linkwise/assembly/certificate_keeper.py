"""Certificate of an HTTPS server, kept valid while it listens: looked at regularly, and served when it is new."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from linkwise.errors import ClusterError, InputError
from linkwise.net.certificates import Certificate, expiry

if TYPE_CHECKING:
    from linkwise.net.server_tls import ServerTls
    from linkwise.net.timing import Timing

__all__ = ["CertificateKeeper", "Found", "Look", "read_file"]

log: Final = logging.getLogger(__name__)

CHECK_SECONDS: Final = 10.0
"""between looks at the certificate"""
CHECKS_PER_LIFETIME: Final = 12
"""of a certificate, at least"""
RETRY_SECONDS: Final = 1.0
"""between looks until there is a certificate"""


class Found(NamedTuple):
    """What a look found."""

    serving: Certificate
    client_authorities: str = ""
    """PEM, of the client certificates to accept"""
    problems: tuple[str, ...] = ()


Look = Callable[[datetime], Awaitable[Found]]
"""finds what to serve at that time, created or renewed if need be; raises ClusterError or InputError"""


class CertificateKeeper:
    """Keeps the certificate of one server.

    Certificates are compared with the wall clock at every look, since it may jump.

    Args:
        subject: which server it is, for logs and problems.
        tls: of the server.
        look: finds the certificate.
        lifetime: of the certificates, in seconds; they are looked at several times in it.
        timing: time and sleep.
        served: called with the time of expiry, in seconds since the epoch, of each certificate that is served.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - its parts
        self,
        subject: str,
        tls: ServerTls,
        look: Look,
        lifetime: float,
        timing: Timing,
        served: Callable[[float], None],
    ) -> None:
        self._subject, self._tls, self._find, self._timing, self._report = subject, tls, look, timing, served
        self._interval = min(CHECK_SECONDS, lifetime / CHECKS_PER_LIFETIME)
        self._served: tuple[Certificate, str] | None = None
        self.problems: tuple[str, ...] = (f"{subject}: it has no certificate yet",)
        """for an operator to look at"""

    @property
    def loaded(self) -> bool:
        """Whether there is a certificate to serve."""
        return self._served is not None

    async def run(self) -> None:
        """Look at the certificate until cancelled."""
        while True:
            await self.look()
            await self._timing.sleep(self._interval if self.loaded else RETRY_SECONDS)

    async def look(self) -> None:
        """Find the certificate, and serve it if it is new."""
        try:
            problems = await self._refresh()
        except (ClusterError, InputError) as error:
            problems = [str(error)]
        except Exception:
            log.exception("%s: the certificate was not checked (a bug in Linkwise)", self._subject)
            problems = ["the certificate was not checked; see the log"]
        current = tuple(f"{self._subject}: {problem}" for problem in problems)
        for problem in current:
            if problem not in self.problems:
                log.warning("%s", problem)
        self.problems = current

    async def _refresh(self) -> list[str]:
        now = datetime.fromtimestamp(self._timing.now(), UTC)
        found = await self._find(now)
        is_new = self._served != (found.serving, found.client_authorities)
        if is_new:
            self._tls.replace(found.serving, found.client_authorities)
            self._served = (found.serving, found.client_authorities)
        expires = expiry(found.serving.text)
        if is_new:
            self._report(expires.timestamp())
            log.info("certificate served by=%s expires=%s", self._subject, expires.isoformat())
        expired = [f"the certificate expired at {expires.isoformat()}"] if expires <= now else []
        return [*found.problems, *expired]


def read_file(setting: str, name: str) -> str:
    """The text of a file that a setting names."""
    try:
        return Path(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{setting} can't be read: {error}") from error
