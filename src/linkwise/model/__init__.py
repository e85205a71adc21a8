"""Values of the domain: pods, nodes, devices, links, asks and verdicts. Frozen, without rules and without I/O."""

from linkwise.model.ask import Ask, ContainerAsk
from linkwise.model.device import Device
from linkwise.model.link import Link, Pcie
from linkwise.model.node import Node, Use
from linkwise.model.topology import Topology
from linkwise.model.verdict import Grant, Offer, Part, Reason, Reject
from linkwise.model.views import ContainerView, NodeView, Owner, PodView, Taint, Toleration

__all__ = [
    "Ask",
    "ContainerAsk",
    "ContainerView",
    "Device",
    "Grant",
    "Link",
    "Node",
    "NodeView",
    "Offer",
    "Owner",
    "Part",
    "Pcie",
    "PodView",
    "Reason",
    "Reject",
    "Taint",
    "Toleration",
    "Topology",
    "Use",
]
