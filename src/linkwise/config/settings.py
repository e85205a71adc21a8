"""What an administrator may set about the service, as values; a dataclass a concern, a sentence a field."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from linkwise.model.settings import PlacingSettings

__all__ = ["DebugSettings", "HttpSettings", "KubeSettings", "LogSettings", "ServeSettings"]


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Where the service listens."""

    host: str = "127.0.0.1"
    """the address; in a pod of a cluster it is 0.0.0.0 where nothing else is said"""
    port: int = 39999
    """the port; the one that gpushare's extender has where nothing else is said; 0 takes a free one"""
    drain: float = 20.0  # seconds
    """for how long binds that are under way may take to end after SIGTERM; keep it below the pod's grace period"""


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What the service says about itself."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """what is said at least"""
    format: Literal["text", "json"] = "text"
    """key=value for people, or an object a line for programs"""


@dataclass(frozen=True, slots=True)
class KubeSettings:
    """How the API server is used."""

    page: int = 500
    """objects in one page of a list"""
    resync: float = 3600.0  # seconds
    """after so long everything is listed anew, in case a watch lost something; 0 never does"""
    bind_timeout: float = 4.0  # seconds
    """for how long a Binding may take; keep it below the scheduler's httpTimeout, so that it hears how the bind ended"""
    wake_rate: float = 100.0  # a second
    """refused pods that are woken; others wait for their turn, the oldest first"""
    wake_burst: int = 200
    """refused pods that may be woken at once after a quiet time"""
    event_rate: float = 50.0  # a second
    """events that are written, warnings first; decisions never wait for them, and what piles up is dropped and counted"""
    event_burst: int = 200
    """events that may be written at once after a quiet time"""


@dataclass(frozen=True, slots=True)
class DebugSettings:
    """Who may look inside."""

    token: str = field(default="", repr=False)
    """what callers of /debug from other machines must send as a bearer token; empty lets only this machine ask"""


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """All that `linkwise serve` can be told."""

    http: HttpSettings = field(default_factory=HttpSettings)
    log: LogSettings = field(default_factory=LogSettings)
    kube: KubeSettings = field(default_factory=KubeSettings)
    debug: DebugSettings = field(default_factory=DebugSettings)
    placing: PlacingSettings = field(default_factory=PlacingSettings)
