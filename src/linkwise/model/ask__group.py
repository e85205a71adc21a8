"""Pods that are placed as one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Group", "MatchPolicy", "NetworkWish"]

MatchPolicy = Literal["once-satisfied", "only-waiting", "waiting-and-running"]
"""which members count for the minimum: all that ever ran, only those waiting, or those waiting and running"""


@dataclass(frozen=True, slots=True)
class NetworkWish:
    """A level of the network that members shall share: a node label key, or a system's own name for one."""

    level: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """What one pod says about the group it belongs to; equal keys are one group."""

    key: str
    """namespace, name, and what else tells it apart from a group of the same name"""
    source: str
    """whose convention says so: koordinator, kubernetes, volcano, kai, kueue, scheduler-plugins; or owner"""
    total: int | None = None
    """how many members it has; None if that is not said"""
    minimum: int | None = None
    """how many must start together; None without all-or-nothing"""
    rank: int | None = None
    """this pod's place among the members"""
    role: str = ""
    match_policy: MatchPolicy = "once-satisfied"
    strict: bool = True
    """whether one failure lets all waiting members go"""
    waiting_time: float = 600.0  # seconds
    bundle: tuple[str, ...] = ()
    """groups that start together with it"""
    network: tuple[NetworkWish, ...] = ()
