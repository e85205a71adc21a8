"""Words of pods and objects that make groups, for tests with hypothesis."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ALONE", "GROUPS", "OBJECTS", "RACK"]

Said = tuple[dict[str, str], dict[str, str]]
"""labels and annotations"""

RACK: Final = "net.example.com/rack"
SEED: Final = "gputopology.scheduling.koordinator.sh/"
GANG: Final = "gang.scheduling.koordinator.sh/"
VOLCANO: Final = "scheduling.volcano.sh/group-name"


def _gang(name: str, minimum: int, *bundle: str) -> Said:
    words = {f"{GANG}name": name, f"{GANG}min-available": str(minimum), f"{GANG}total-number": "3"}
    return {}, words | ({f"{GANG}groups": json.dumps(bundle)} if bundle else {})


ALONE: Final[Said] = ({}, {})
GROUPS: Final[tuple[Said, ...]] = (
    ({f"{SEED}name": "g", f"{SEED}replica": "2"}, {}),
    ({f"{SEED}name": "g", f"{SEED}replica": "3"}, {}),
    _gang("alone", 2),
    _gang("left", 1, "team-a/left", "team-a/right"),
    _gang("right", 2, "team-a/left", "team-a/right"),
    ({}, {VOLCANO: "v", "volcano.sh/network-topology-mode": "hard", "volcano.sh/network-topology-highest-tier": "1"}),
)
OBJECTS: Final[tuple[tuple[str, str, tuple[Mapping[str, object], ...]], ...]] = (
    ("PodGroup.scheduling.volcano.sh", "team-a/v", ({"spec": {"minMember": 2}}, {"spec": {"minMember": 1}})),
    ("PodGroup.scheduling.volcano.sh", "team-b/v", ({"spec": {"minMember": 3}}, {"spec": {"minMember": "x"}})),
    ("Topology.kueue.x-k8s.io", "t", ({"spec": {"levels": [{"nodeLabel": RACK}]}}, {"spec": {}})),
    (
        "HyperNode.topology.volcano.sh",
        "s0",
        (
            {"spec": {"tier": 1, "members": [{"type": "Node", "selector": {"regexMatch": {"pattern": "n[0-4]"}}}]}},
            {"spec": {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "n0"}}}]}},
        ),
    ),
)
