"""Nodes of one build share a shape; different builds have different shapes."""

from __future__ import annotations

from linkwise.engine.index.score_table import Shapes
from linkwise.model.device import Device
from linkwise.model.node import Node
from linkwise.model.topology import Topology


def test_a_measured_single_device_is_distinguished_from_an_unknown_one() -> None:
    shapes, device = Shapes(), Device("a", 0)
    measured = Node("n", (device,), topology=Topology(("a",), bandwidth=((0.0,),)))
    unknown = Node("m", (device,), topology=Topology(("a",)))
    assert shapes.shape(measured, frozenset()) != shapes.shape(unknown, frozenset())
