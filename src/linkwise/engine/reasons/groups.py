"""Refusals about groups: members that are missing, plans that are not made, or not to be had."""

from __future__ import annotations

from typing import Final

from linkwise.engine.reasons.phrases import Words, list_

__all__ = ["GROUP_WORDS"]

GROUP_WORDS: Final[dict[tuple[str, str], Words]] = {
    ("001.members", "missing"): Words(
        "its group is not complete", lambda r: f"{r.found} of {r.asked} members of its group are there"
    ),
    ("001.members", "gated"): Words(
        "its group is held back by scheduling gates",
        lambda r: f"{r.found} of {r.asked} members of its group are held back by scheduling gates",
    ),
    ("001.members", "planning"): Words(
        "its group is being planned", lambda _: "its group is being planned; it is tried again when that is done"
    ),
    ("001.gang", "missing"): Words(
        "its gang is not complete",
        lambda r: (
            f"{r.found} {'member of its gang is' if r.found == 1 else 'members of its gang are'} there "
            f"and {r.asked} must start together"
        ),
    ),
    ("001.gang", "bundle"): Words(
        "a gang that starts with its own is not complete",
        lambda r: f"gang {r.asked} must start together with its own and is not complete",
    ),
    ("001.gang", "short"): Words(
        "its gang does not fit as a whole",
        lambda r: f"the {r.asked} members of its gang that wait do not fit together; nothing is held for them",
    ),
    ("001.fewest-nodes", "short"): Words(
        "no member of its group fits", lambda r: f"none of the {r.asked} members of its group that wait fits anywhere"
    ),
    ("001.gang", "never"): Words(
        "its gang can never fit as a whole",
        lambda r: f"the {r.asked} members of its gang that wait would not fit together on empty nodes either",
    ),
    ("001.fewest-nodes", "never"): Words(
        "no member of its group can ever fit",
        lambda r: f"none of the {r.asked} members of its group that wait would fit on an empty node",
    ),
    ("001.group", "schedulers"): Words(
        "members of its group wait for different schedulers",
        lambda r: f"members of its group wait for the schedulers {list_(r.found)}; a group needs one",
    ),
    ("001.hold", "resting"): Words(
        "its group's last plan was not carried out in time",
        lambda _: "its group's last plan was not carried out in time; it is planned again in a while",
    ),
    ("001.tolerant", "left out"): Words(
        "the rest of its group left no room", lambda _: "members of its group with a lower rank took the room there is"
    ),
    ("001.steer", "elsewhere"): Words(
        "its group's plan has another node for it",
        lambda _: "its group's plan has a node for it that the scheduler did not name",
    ),
}
