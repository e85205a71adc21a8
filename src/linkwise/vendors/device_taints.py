"""Meaning of the device taints that DRA drivers of vendors write into ResourceSlices."""

from __future__ import annotations

from linkwise.vendors.registry import VENDORS

__all__ = ["taint_meaning"]


def taint_meaning(key: str, value: str) -> str:
    """What a taint says about a device; empty if no vendor knows its key."""
    meaning = next((vendor.device_taints[key] for vendor in VENDORS.values() if key in vendor.device_taints), None)
    return meaning(value) if meaning else ""
