"""Facts: everything that checks know of a cluster, gathered before the first of them runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from linkwise.config.scheduler_file import CONFIGURATION
from linkwise.config.settings import ServeSettings
from linkwise.doctor.objects import name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.config.scheduler_file import ExtenderEntry, SchedulerDocument
    from linkwise.doctor.objects import Raw
    from linkwise.doctor.permissions import Permission

__all__ = ["CertificateFacts", "Connected", "Facts", "ServiceAnswer"]


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
