"""Leadership of this replica as shown to people: in /readyz, /debug/leader and metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["ALONE", "LeaderStatus"]


@dataclass(frozen=True, slots=True)
class LeaderStatus:
    """What a replica knows of the election."""

    enabled: bool = False
    lease: str = ""
    """namespace and name"""
    identity: str = ""
    """of this replica in the Lease"""
    leader: str = ""
    """the holder of the Lease as last seen"""
    leads: bool = False
    """whether this replica decides now"""
    refusal: str = ""
    """why it does not"""
    transitions: int = 0
    """how often the holder of the Lease changed"""
    renewed: float | None = None
    """seconds since this replica last renewed the Lease"""
    takeover: float | None = None
    """seconds from the Lease taken to the first call answered, of this replica"""

    def line(self) -> str:
        """One line for /readyz; empty without an election."""
        if not self.enabled:
            return ""
        if self.leads or self.leader == self.identity:
            return f"leader: this replica, {self.identity}, holds lease {self.lease}"
        return f"standby: {self.leader or 'no replica'} holds lease {self.lease}"


ALONE: Final = LeaderStatus(leads=True)
"""the only replica, without an election"""
