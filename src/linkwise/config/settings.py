"""Settings of the service: one dataclass per section, one description per field."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from linkwise.model.settings import PlacingSettings

__all__ = ["DebugSettings", "HttpSettings", "KubeSettings", "LogSettings", "ServeSettings"]


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """The HTTP server."""

    host: str = "127.0.0.1"
    """address to listen on; the default in a pod is 0.0.0.0"""
    port: int = 39999
    """port to listen on, by default that of gpushare's extender; 0 picks a free port"""
    drain: float = 20.0  # seconds
    """for binds in flight to complete after SIGTERM; keep it below the pod's terminationGracePeriodSeconds"""


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The log."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """minimum severity"""
    format: Literal["text", "json"] = "text"
    """key=value text, or one JSON object per line"""


@dataclass(frozen=True, slots=True)
class KubeSettings:
    """Access to the API server."""

    page: int = 500
    """objects per page of a list"""
    resync: float = 3600.0  # seconds
    """interval between full lists, in case a watch missed an event; 0 turns them off"""
    bind_timeout: float = 4.0  # seconds
    """for a bind; keep it below the scheduler's httpTimeout, so that the scheduler gets the result"""
    wake_rate: float = 100.0  # per second
    """limit for waking unschedulable pods; the others are queued by priority, then by age"""
    wake_burst: int = 200
    """pods that may be woken in a burst"""
    event_rate: float = 50.0  # per second
    """limit for writing events, warnings first; decisions never wait for them, and excess is dropped and counted"""
    event_burst: int = 200
    """events that may be written in a burst"""


@dataclass(frozen=True, slots=True)
class DebugSettings:
    """Access to the debug routes."""

    token: str = field(default="", repr=False)
    """bearer token for callers of /debug from other machines; if empty, only local callers are allowed"""


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """All settings of `linkwise serve`."""

    http: HttpSettings = field(default_factory=HttpSettings)
    log: LogSettings = field(default_factory=LogSettings)
    kube: KubeSettings = field(default_factory=KubeSettings)
    debug: DebugSettings = field(default_factory=DebugSettings)
    placing: PlacingSettings = field(default_factory=PlacingSettings)
