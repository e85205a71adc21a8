"""Checks of clocks: leases, plans and certificates are compared with the time of other machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.doctor.facts import Check, names_text, warning
from linkwise.doctor.objects import is_ready, name, number_at, time_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.doctor.facts import Facts, Finding

__all__ = ["CHECKS"]

GROUP: Final = "Clocks"
TOLERANCE: Final = 5.0
"""seconds; the API server states its time in whole ones"""
_LEASE: Final = 40
"""seconds that a kubelet's lease lasts by default; it is renewed every ten"""


def local(facts: Facts) -> Iterator[Finding]:
    """This machine and the API server agree."""
    skew = facts.now - facts.api_now
    if abs(skew) > TOLERANCE:
        where = "ahead of" if skew > 0 else "behind"
        found = f"the clock of this machine is {abs(skew):.0f} s {where} that of the API server"
        yield warning("", found, "synchronise both with NTP; ages and expiries that are printed here may be wrong")


def nodes(facts: Facts) -> Iterator[Finding]:
    """Nodes and the API server agree."""
    ready = {name(each) for each in facts.items("nodes") if is_ready(each)}
    ahead: dict[str, float] = {}
    behind: dict[str, float] = {}
    for lease in facts.items("node-leases"):
        renewed = time_at(lease, "spec", "renewTime")
        if renewed is None or name(lease) not in ready:
            continue
        age = facts.time_of("node-leases") - renewed
        # A node that is ready renews its lease in time, so an old time in it is that of its own clock.
        if age < -TOLERANCE:
            ahead[name(lease)] = -age
        elif age > (number_at(lease, "spec", "leaseDurationSeconds") or _LEASE) + TOLERANCE:
            behind[name(lease)] = age
    for where, found in (("ahead of", ahead), ("behind", behind)):
        if found:
            text = f"the clocks of {len(found)} node(s) are up to {max(found.values()):.0f} s {where} that of the API server"
            remedy = "synchronise them with NTP: elections and the expiry of plans and certificates go by the clock"
            subject = f"node/{next(iter(found))}" if len(found) == 1 else ""
            yield warning(subject, f"{text}: {names_text(found)}", remedy, sorted(found))


CHECKS: Final = (
    Check("clock-local", GROUP, "this machine and the API server agree on the time", local, ("clock",)),
    Check("clock-nodes", GROUP, "nodes and the API server agree on the time", nodes, ("nodes", "node-leases", "clock")),
)
