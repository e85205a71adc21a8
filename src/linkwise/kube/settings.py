"""How the API server is watched and written to, as values."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PerformSettings", "WatchSettings"]


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """How objects are listed and watched."""

    page: int = 500
    """objects a request of a list"""
    slice: int = 50
    """objects that are read and handed on before others get their turn"""
    shortest: float = 300.0  # s
    """a watch is ended and begun anew after this time at the earliest"""
    longest: float = 600.0  # s
    silence: float = 60.0  # s
    """a watch that says nothing for so long is begun anew from where it was"""
    resync: float = 3600.0  # s
    """everything is listed anew after this time; 0 for never"""
    look_again: float = 180.0  # s
    """how often kinds are looked for that were not there, or not allowed"""
    patience: float = 30.0  # s
    """how long what may not be read, or fails, keeps the service from starting"""
    wait: float = 30.0  # s
    """for an answer"""


@dataclass(frozen=True, slots=True)
class PerformSettings:
    """How effects are written."""

    bind_seconds: int = 2
    """after which the server itself gives a bind up"""
    bind_margin: float = 0.5  # s
    """how much longer its answer is waited for"""
    bind_whole: float = 4.0  # s
    """for a bind with all that is asked and sent again; what is not known by then is found out behind it"""
    settle_margin: float = 10.0  # s
    """after the server gave up, the time in which etcd may still write what it was handed"""
    busy: float = 3.0  # s
    """how long a bind is tried again that the server has no time for"""
    wait: float = 5.0  # s
    """for the answer to anything else"""
    tries: int = 6
    """of anything but a bind that the server fails to do, before it is given up"""
    outage: float = 300.0  # s
    """how long a server that can't be reached is waited for with these"""
    waking: int = 8
    """so many pods are woken at once"""
    wakes: float = 100.0  # a second
    wakes_burst: int = 200
    annotating: int = 8
    """annotations of so many pods are written at once"""
    again: float = 5.0  # s
    """after which a pod is woken or annotated that could not be: a right, a policy or a webhook may have been in the way"""
    events: float = 50.0  # a second
    events_burst: int = 200
    events_held: int = 1000
    """events that may wait; more are dropped and counted"""
    events_known: int = 1024
    """events that are remembered, so that equal ones are counted up"""
    evicting: int = 4
    """so many pods are evicted at once"""
    evictions: float = 5.0  # a second
    evictions_burst: int = 20
    evict_tries: int = 12
    """of an eviction that a disruption budget forbids, or that the server fails to do; a minute lies between the last ones"""
    closing: float = 3.0  # s
    """to send what is left"""
