"""Limits and time-outs of watches and of writes to the API server."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PerformSettings", "WatchSettings"]


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """Lists and watches."""

    page: int = 500
    """objects per list request"""
    slice: int = 50
    """objects decoded and delivered before other tasks get to run"""
    watch_min: float = 300.0  # s
    """watches get a random timeoutSeconds between this and `watch_max`, so that they do not all restart at once"""
    watch_max: float = 600.0  # s
    idle_timeout: float = 60.0  # s
    """a watch without any event or bookmark for this long is restarted from its last resourceVersion"""
    resync: float = 3600.0  # s
    """interval between full lists; 0 turns them off"""
    rediscovery: float = 180.0  # s
    """mean interval between searches for kinds that are not served, or forbidden"""
    startup_grace: float = 30.0  # s
    """how long a source that is forbidden or fails may delay the start of the service"""
    wait: float = 30.0  # s
    """for a response"""


@dataclass(frozen=True, slots=True)
class PerformSettings:
    """Writes of effects."""

    bind_seconds: float = 2.0
    """the timeout parameter of a bind request: the API server gives up after it"""
    bind_margin: float = 0.5  # s
    """how much longer than that its response is awaited"""
    bind_deadline: float = 4.0  # s
    """for a bind including reads and retries; if the outcome is unknown by then, it is settled in the background"""
    settle_margin: float = 10.0  # s
    """after the API server gave up, etcd may still commit the write for this long"""
    busy_retry: float = 3.0  # s
    """how long a bind is retried on 429 Too Many Requests"""
    wait: float = 5.0  # s
    """for the response to any other write"""
    max_attempts: int = 6
    """at any other write that the API server fails, before it is given up"""
    outage: float = 300.0  # s
    """how long such a write is retried while the API server can't be reached"""
    concurrent_wakes: int = 8
    wakes: float = 100.0  # per second
    wakes_burst: int = 200
    concurrent_steers: int = 16
    steers: float = 500.0  # per second; each takes two requests
    steers_burst: int = 1024
    steer_conflicts: int = 20
    """how often a plan is written again because another client has changed the pod in between"""
    retry_failed: float = 5.0  # s
    """after which a failed wake or plan is queued again: RBAC, a policy or a webhook may have been the cause"""
    events: float = 50.0  # per second
    events_burst: int = 200
    max_queued_events: int = 1000
    """more are dropped and counted"""
    remembered_events: int = 1024
    """recent events, whose count is increased when they occur again"""
    concurrent_records: int = 8
    concurrent_conditions: int = 4
    concurrent_evictions: int = 4
    evictions: float = 5.0  # per second
    evictions_burst: int = 20
    evict_attempts: int = 12
    """at an eviction that a disruption budget forbids or that the API server fails; a minute apart at the end"""
    flush: float = 3.0  # s
    """to send queued effects at shutdown"""
