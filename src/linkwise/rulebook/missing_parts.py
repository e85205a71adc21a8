"""Missing parts: for each rule that is not implemented, the planned parts of Linkwise that it depends on.

A test checks that the table lists every such rule and no implemented one.
"""

from typing import Final

__all__ = ["WAITING", "parts_by_rule"]

WAITING: Final = {
    "usage per device and pod": ("002.usage",),
    "admission webhook": ("002.name", "002.access", "003.valid-job"),
    "Volcano extender": (
        "003.valid-job",
        "003.order",
        "003.allocate",
        "003.in-session",
        "003.config",
    ),
    "access control": ("002.access",),
    "NUMA alignment": ("002.affinity",),
    "version matching": ("002.versions",),
    "vendor-agnostic requests": ("002.agnostic",),
    "doctor": ("004.trouble",),
    "guides and sample scripts": ("002.documents",),
}
"""rules by the part they depend on; a rule may depend on several"""


def parts_by_rule(waiting: dict[str, tuple[str, ...]] = WAITING) -> dict[str, tuple[str, ...]]:
    """Invert the table: the parts that each rule depends on."""
    parts: dict[str, tuple[str, ...]] = {}
    for part, rules in waiting.items():
        for rule in rules:
            parts[rule] = (*parts.get(rule, ()), part)
    return parts
