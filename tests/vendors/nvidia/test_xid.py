"""Which Xid events leave a GPU in use."""

from __future__ import annotations

import pytest

from linkwise.vendors.nvidia.xid import CATALOGUE, HARMLESS, harmless_xids, xid_text


@pytest.mark.parametrize("xid", [13, 31, 43, 45, 68, 109])
def test_what_nvidias_device_plugin_ignores_is_harmless(xid: int) -> None:
    assert xid in HARMLESS


@pytest.mark.parametrize("xid", [46, 48, 62, 64, 74, 79, 95, 119, 120, 140, 143])
def test_what_needs_a_reset_or_a_restart_of_the_node_is_not_harmless(xid: int) -> None:
    assert xid not in HARMLESS


def test_an_event_that_the_catalogue_does_not_have_is_not_harmless() -> None:
    assert 9999 not in harmless_xids()
    assert xid_text(9999) == "Xid 9999"


def test_settings_override_the_catalogue_and_fatal_goes_first() -> None:
    chosen = harmless_xids(ignored=[79, 48], fatal=[31, 48])
    assert 79 in chosen
    assert not {31, 48} & chosen


def test_every_event_says_what_it_is_and_what_to_do() -> None:
    assert xid_text(48) == "Xid 48 (uncorrectable memory error; reset the device)"
    assert all(xid_text(number).startswith(f"Xid {number} (") for number in CATALOGUE)
