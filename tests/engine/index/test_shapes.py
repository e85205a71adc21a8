"""Nodes of one build have one shape, and others another."""

from __future__ import annotations

from linkwise.engine.index.shapes import Shapes
from linkwise.model.device import Device
from linkwise.model.node import Node
from linkwise.model.topology import Topology


def test_one_device_that_was_measured_is_told_from_one_of_which_nothing_is_known() -> None:
    shapes, device = Shapes(), Device("a", 0)
    measured = Node("n", (device,), topology=Topology(("a",), bandwidth=((0.0,),)))
    unknown = Node("m", (device,), topology=Topology(("a",)))
    assert shapes.shape(measured, frozenset()) != shapes.shape(unknown, frozenset())
