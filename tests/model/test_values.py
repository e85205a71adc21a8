from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, is_dataclass

import pytest

from linkwise import Ask, ContainerAsk, Device, Node, Offer, Part, Use, model


@pytest.mark.parametrize("name", model.__all__)
def test_values_can_not_be_changed(name: str) -> None:
    kind = getattr(model, name)
    if isinstance(kind, type) and is_dataclass(kind):
        assert hasattr(kind, "__slots__")
        blank = kind.__new__(kind)
        with pytest.raises(FrozenInstanceError):
            setattr(blank, fields(kind)[0].name, None)


def test_an_ask_adds_up_its_containers() -> None:
    ask = Ask("nvidia.com/gpu", (ContainerAsk("a", devices=2), ContainerAsk("b", devices=1, share=4, core=50)))
    assert (ask.devices, ask.share, ask.core) == (3, 4, 50)


def test_an_offer_lists_each_device_once() -> None:
    offer = Offer("n", (Part("a", ("GPU-1", "GPU-2")), Part("b", ("GPU-2",))))
    assert offer.devices == ("GPU-1", "GPU-2")


def test_a_device_is_free_only_if_healthy_and_untouched() -> None:
    devices = (Device("a", 0), Device("b", 1, healthy=False), Device("c", 2))
    node = Node("n", devices, used={"c": Use(share=1)})
    assert node.free() == (devices[0],)


def test_room_is_never_below_zero() -> None:
    devices = (Device("a", 0, memory=10), Device("b", 1, memory=10), Device("c", 2, memory=10, healthy=False))
    node = Node("n", devices, used={"a": Use(share=12), "b": Use(whole=True)})
    assert node.room() == {"a": 0, "b": 0}
