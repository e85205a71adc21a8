"""Linkwise places accelerator workloads by how their devices are linked, filled and shared.

The names below are the public API; everything else may change between releases. They are found when they are first
used, so that `import linkwise` costs nothing.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # typing's own is the most of what importing this would cost
if TYPE_CHECKING:
    from typing import Final

    from linkwise.engine.reasons.catalog import refusal
    from linkwise.errors import AskError, InputError, LinkwiseError, PolicyError, RulebookError, TopologyError
    from linkwise.model import (
        Ask,
        ContainerAsk,
        ContainerView,
        Device,
        Grant,
        Link,
        Node,
        NodeView,
        Offer,
        Owner,
        Part,
        Pcie,
        PodView,
        Reason,
        Reject,
        Taint,
        Toleration,
        Topology,
        Use,
    )
    from linkwise.topology.bottleneck import Bottleneck, best_bottleneck
    from linkwise.topology.link_values import pair_score, score_matrix
    from linkwise.topology.partition import Partition, best_partition
    from linkwise.vendors.readers import parse_topology

__version__ = "0.1.0"

__all__ = [
    "Ask",
    "AskError",
    "Bottleneck",
    "ContainerAsk",
    "ContainerView",
    "Device",
    "Grant",
    "InputError",
    "Link",
    "LinkwiseError",
    "Node",
    "NodeView",
    "Offer",
    "Owner",
    "Part",
    "Partition",
    "Pcie",
    "PodView",
    "PolicyError",
    "Reason",
    "Reject",
    "RulebookError",
    "Taint",
    "Toleration",
    "Topology",
    "TopologyError",
    "Use",
    "__version__",
    "best_bottleneck",
    "best_partition",
    "pair_score",
    "parse_topology",
    "refusal",
    "score_matrix",
]

_HOMES: Final = {
    "linkwise.engine.reasons.catalog": ("refusal",),
    "linkwise.errors": ("AskError", "InputError", "LinkwiseError", "PolicyError", "RulebookError", "TopologyError"),
    "linkwise.topology.bottleneck": ("Bottleneck", "best_bottleneck"),
    "linkwise.topology.link_values": ("pair_score", "score_matrix"),
    "linkwise.topology.partition": ("Partition", "best_partition"),
    "linkwise.vendors.readers": ("parse_topology",),
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'linkwise' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF.get(name, "linkwise.model")), name)


def __dir__() -> list[str]:
    return __all__
