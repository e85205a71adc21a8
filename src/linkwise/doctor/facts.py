"""Facts and findings: what checks know of a cluster, gathered before the first of them runs, and what they report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from linkwise.config.scheduler_file import CONFIGURATION
from linkwise.config.settings import ServeSettings
from linkwise.doctor.objects import name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from linkwise.config.scheduler_file import ExtenderEntry, SchedulerDocument
    from linkwise.doctor.objects import Raw
    from linkwise.doctor.permissions import Permission

__all__ = [
    "SEVERITIES",
    "CertificateFacts",
    "Check",
    "Connected",
    "Facts",
    "Finding",
    "ServiceAnswer",
    "Severity",
    "names_text",
    "problem",
    "skipped",
    "warning",
]

Severity = Literal["error", "warning", "ok", "skipped"]
SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "skipped", "ok")
"""the worst first"""
PAGE: Final = "docs/reference/doctor.md"
NAMES_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """What a certificate says."""

    begins: float
    """seconds since the epoch"""
    ends: float
    names: frozenset[str] = frozenset()
    """host names and addresses that it is for"""


@dataclass(frozen=True, slots=True)
class Connected:
    """A connection to an address of a scheduler's configuration, tried from this machine."""

    error: str = ""
    """why it failed; empty if the service answered"""
    elsewhere: tuple[str, ...] = ()
    """addresses of this machine at which the port is open"""


@dataclass(frozen=True, slots=True)
class ServiceAnswer:
    """What the service says of itself."""

    ready: bool = False
    waits: tuple[str, ...] = ()
    """what it waits for before it is ready"""
    notes: tuple[str, ...] = ()
    """problems while it answers"""
    standby: bool = False
    """whether another replica leads"""


@dataclass(frozen=True, slots=True)
class Facts:
    """A cluster, as far as it could be read."""

    now: float
    """by the clock of this machine, in seconds since the epoch"""
    namespace: str = "linkwise-system"
    version: str = ""
    """of this program"""
    embedded: bool = False
    """whether it is the embedded cluster of `linkwise up`"""
    server_time: float | None = None
    """by the API server, at `now`"""
    lists: Mapping[str, tuple[Raw, ...]] = field(default_factory=dict)
    """objects by source"""
    read_at: Mapping[str, float] = field(default_factory=dict)
    """when a source was read, by the clock of this machine"""
    unread: Mapping[str, str] = field(default_factory=dict)
    """by source, why it could not be read and what to grant"""
    cut: frozenset[str] = frozenset()
    """sources that were too long to be read completely"""
    settings: ServeSettings = field(default_factory=ServeSettings)
    settings_problems: tuple[str, ...] = ()
    settings_place: str = ""
    """where they were found; empty for the defaults"""
    schedulers: tuple[SchedulerDocument, ...] = ()
    service: ServiceAnswer = field(default_factory=ServiceAnswer)
    metrics: Mapping[str, float] = field(default_factory=dict)
    """of the service: values by name and labels, as they are printed"""
    allowed: Mapping[Permission, bool] = field(default_factory=dict)
    """what service accounts may do"""
    groups: frozenset[str] = frozenset()
    """API groups that are served"""
    kubelets: Mapping[str, Raw] = field(default_factory=dict)
    """configurations by node"""
    certificates: Mapping[str, tuple[CertificateFacts, ...]] = field(default_factory=dict)
    """by place: `bundle` for the authorities that the API server trusts, `serving` for the certificate of the webhook,
    `secret/NAME` for those between scheduler and service"""
    trusted: bool | None = None
    """whether an authority of the bundle issued the serving certificate; None if one of them is not known"""
    connections: Mapping[str, Connected] = field(default_factory=dict)
    """by URL"""
    schemas: tuple[Raw, ...] = ()
    """CustomResourceDefinitions of this version"""

    def items(self, source: str) -> tuple[Raw, ...]:
        """The objects of a source; none if it was not read."""
        return self.lists.get(source, ())

    @property
    def inventories(self) -> dict[str, Raw]:
        """DeviceInventories by node."""
        return {name(each): each for each in self.items("inventories")}

    @property
    def extenders(self) -> list[tuple[SchedulerDocument, ExtenderEntry]]:
        """The extenders that are Linkwise, each with its configuration; those of policy files are not examined further."""
        return [(each, each.ours) for each in self.schedulers if each.ours is not None and each.kind == CONFIGURATION]

    @property
    def api_now(self) -> float:
        """The time by the API server, or by this machine if that is not known."""
        return self.now if self.server_time is None else self.server_time

    def time_of(self, source: str) -> float:
        """The time by the API server when a source was read: reading a large cluster takes a while."""
        return self.api_now - (self.now - self.read_at.get(source, self.now))


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check."""

    severity: Severity
    subject: str
    """the object, as kubectl names it: `node/gpu-1`, `configmap/linkwise-scheduler`; empty for the cluster"""
    found: str
    """what was found, in a sentence"""
    remedy: str = ""
    """what to do, in a sentence"""
    objects: tuple[str, ...] = ()
    """all objects that it is about, if there are several"""
    check: str = ""
    """id of the check; the runner sets it"""
    page: str = ""
    """where the check is documented; the runner sets it"""


@dataclass(frozen=True, slots=True)
class Check:
    """A check: an id that never changes, and a function of the facts."""

    id: str
    group: str
    """heading under which it is listed"""
    claim: str
    """what holds if nothing is found"""
    run: Callable[[Facts], Iterable[Finding]]
    needs: tuple[str, ...] = ()
    """sources without which it is skipped"""
    uses: tuple[str, ...] = ()
    """further sources that it reads; without one of them it finds less"""

    @property
    def page(self) -> str:
        """Where it is documented."""
        return f"{PAGE}#{self.id}"


def problem(subject: str, found: str, remedy: str, objects: Iterable[str] = ()) -> Finding:
    """Something that breaks scheduling, or will."""
    return Finding("error", subject, found, remedy, tuple(objects))


def warning(subject: str, found: str, remedy: str, objects: Iterable[str] = ()) -> Finding:
    """Something that works, and works worse or less safely than it could."""
    return Finding("warning", subject, found, remedy, tuple(objects))


def skipped(found: str, remedy: str = "") -> Finding:
    """Something that could not be examined."""
    return Finding("skipped", "", found, remedy)


def names_text(names: Iterable[str]) -> str:
    """Names for a sentence: the first few, and how many more there are."""
    every = sorted(names)
    more = len(every) - NAMES_SHOWN
    return ", ".join(every[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
