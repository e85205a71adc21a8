"""Changes: everything that was observed or decided since the last reconciliation, which processes and empties it.

Observing only notes what changed, so that a start with many thousands of objects computes nothing twice, and the order
in which pods, nodes and inventories are observed does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from linkwise.engine.access import AccessRules
    from linkwise.engine.usage import Drift
    from linkwise.model.inventory import NodeInventory
    from linkwise.model.verdict import Grant, Key

__all__ = ["Changes"]


@dataclass(slots=True)
class Changes:
    """Names of what changed, by the work that follows from it."""

    observed: dict[str, None] = field(default_factory=dict)
    """nodes whose view or objects changed: their inventory is merged again"""
    used: set[str] = field(default_factory=set)
    """nodes whose ledger entries changed: their usage is computed again"""
    opened: set[str] = field(default_factory=set)
    """nodes that may serve requests that they did not serve before"""
    gained: set[str] = field(default_factory=set)
    """nodes that have more free devices: pods may be woken"""
    inventories: dict[str, NodeInventory | None] = field(default_factory=dict)
    """nodes whose inventory changed, with the earlier one: events may follow"""
    drift: dict[str, tuple[Drift, ...]] = field(default_factory=dict)
    """nodes whose drift changed, with the earlier drift: events may follow"""
    pod_groups: set[str] = field(default_factory=set)
    """names of PodGroups that changed"""
    network: bool = False
    """whether the network topology changed"""
    volumes: bool = False
    """whether PersistentVolumeClaims or StorageClasses changed"""
    pods: dict[str, None] = field(default_factory=dict)
    """queued pods that the watch delivered for the first time"""
    untaken: dict[str, None] = field(default_factory=dict)
    """nodes that a pod was woken for and did not take"""
    groups: dict[str, None] = field(default_factory=dict)
    """groups whose members or objects changed: their stage is reviewed"""
    answers: dict[str, None] = field(default_factory=dict)
    """groups of which members may get another answer: they may be woken"""
    claims: dict[str, None] = field(default_factory=dict)
    """pods whose claims of ours changed: their group may go on"""
    vacated: list[tuple[str, Grant]] = field(default_factory=list)
    """devices of members that are gone, by group: they may be kept for replacements"""
    forgotten_groups: list[tuple[str, tuple[Key, ...]]] = field(default_factory=list)
    """groups without members, and the keys under which the ledger may still reserve devices for them"""
    invalid_groups: dict[str, str] = field(default_factory=dict)
    """pods with invalid group annotations, and the problem: events follow"""
    capacity: dict[str, int] = field(default_factory=dict)
    """nodes that gained capacity for groups, and how many changes of nodes the index had counted then"""
    reopened: bool = False
    """whether a node changed so that it may accept more pods"""
    overwritten: dict[str, Grant] = field(default_factory=dict)
    """pods whose record differs from what was booked for them, with the booking: events follow"""
    access: AccessRules | None = None
    """the access rules before policies or labels of namespaces changed; None if they did not"""

    def take_pod_groups(self) -> list[str]:
        """Take the names of changed PodGroups out, in order."""
        names = sorted(self.pod_groups)
        self.pod_groups.clear()
        return names

    def take_network(self) -> bool:
        """Take out whether the network topology changed."""
        changed, self.network = self.network, False
        return changed

    def take_volumes(self) -> bool:
        """Take out whether PersistentVolumeClaims or StorageClasses changed."""
        changed, self.volumes = self.volumes, False
        return changed

    def take_access(self) -> AccessRules | None:
        """Take the earlier access rules out."""
        before, self.access = self.access, None
        return before

    def forget_consequences(self) -> None:
        """Drop all but the nodes to be processed, for an instance that does not decide: sets must not grow for weeks."""
        for each in fields(self):
            notes: object = getattr(self, each.name)
            if each.name not in {"observed", "used"} and isinstance(notes, dict | set | list):
                notes.clear()
        self.network = self.reopened = self.volumes = False
        self.access = None

    def forget_events(self) -> None:
        """Drop what would only lead to events, for a restored state: nothing of it is new."""
        self.inventories.clear()
        self.drift.clear()
        self.overwritten.clear()
