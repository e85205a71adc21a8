"""Registers vendors, dialects and policies for the length of a test, and takes them back."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from linkwise.dialects import registry as dialects
from linkwise.dialects.linkwise.inventory import forget_links
from linkwise.policies import registry as policies
from linkwise.vendors import registry as vendors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.dialects.dialect import Dialect
    from linkwise.policies.policy import Policy
    from linkwise.vendors.vendor import Vendor

__all__ = ["plugged_in"]


@contextmanager
def plugged_in(
    *, vendor: Vendor | None = None, dialect: Dialect | None = None, policy: Policy | None = None
) -> Iterator[None]:
    """Register these as a plug-in would at start; PluginError if one can't be used."""
    before = (tuple(vendors.VENDORS.values()), tuple(dialects.DIALECTS), policies.added_policies())
    try:
        if vendor is not None:
            vendors.register(vendor)
        if dialect is not None:
            dialects.register(dialect)
        if policy is not None:
            policies.register(policy)
        forget_links()
        yield
    finally:
        vendors.set_vendors(before[0])
        dialects.set_dialects(before[1])
        policies.set_added_policies(before[2])
        forget_links()
