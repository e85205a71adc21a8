"""Exceptions of Linkwise.

A refusal ("no node fits") is a value, not an exception. Exceptions are for invalid input, for failures outside
Linkwise, and for bugs::

    LinkwiseError
      InputError          invalid input; the text names the value and its place
        TopologyError     an invalid matrix or machine description
        AskError          an invalid ask: a device named twice, a size that is not a number
      ClusterError        the API server or the connection to it failed; the text says what to check
        NotFoundError     the cluster has no object of that name; the text suggests similar names
        LostLeaseError    another replica may lead now; this one must end
      DriverError         the hardware or its management library can't be read; the text says what to check
      LedgerError         a transition that the ledger's table does not allow; nothing was changed
      GroupError          a transition that the table of group stages does not allow; nothing was changed
      NotNowError         the service is not deciding: it is starting, stopping, or not the leader
      PluginError         a vendor, a dialect or a policy that can't be registered
        PolicyError       a policy that can't be registered
      RulebookError       a rule mark in the code or in a test that names an unknown rule
"""

__all__ = [
    "AskError",
    "ClusterError",
    "DriverError",
    "GroupError",
    "InputError",
    "LedgerError",
    "LinkwiseError",
    "LostLeaseError",
    "NotFoundError",
    "NotNowError",
    "PluginError",
    "PolicyError",
    "RulebookError",
    "TopologyError",
]


class LinkwiseError(Exception):
    """The root of the tree."""


class InputError(LinkwiseError, ValueError):
    """Invalid input; the text names the value and its place."""


class TopologyError(InputError):
    """An invalid matrix or machine description."""


class AskError(InputError):
    """An invalid ask."""


class ClusterError(LinkwiseError):
    """The API server or the connection to it failed; the text says what to check."""


class NotFoundError(ClusterError):
    """The cluster has no object of that name."""


class LostLeaseError(ClusterError):
    """Another replica may lead now; this one must end."""


class DriverError(LinkwiseError):
    """The hardware or its management library can't be read; the text says what to check."""


class LedgerError(LinkwiseError):
    """A transition that the ledger's table does not allow; nothing was changed."""


class GroupError(LinkwiseError):
    """A transition that the table of group stages does not allow; nothing was changed."""


class NotNowError(LinkwiseError):
    """The service is not deciding: it is starting, stopping, or not the leader."""


class PluginError(LinkwiseError):
    """A vendor, a dialect or a policy that can't be registered."""


class PolicyError(PluginError):
    """A policy that can't be registered."""


class RulebookError(LinkwiseError):
    """A rule mark in the code or in a test that names an unknown rule."""
