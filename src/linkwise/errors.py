"""Every exception Linkwise raises on purpose.

A refusal ("no node fits") is a value, not an exception. Exceptions are for input that makes no sense, for
the outside failing, and for bugs::

    LinkwiseError
      InputError          what was given makes no sense; the text names the thing and the place
        TopologyError     a matrix or a machine description makes no sense
        AskError          an ask makes no sense: a device named twice, a size that is no number
      ClusterError        the API server, or the way to it, does not do what it should; the text says what to look at
        NotFoundError     the cluster has no object of that name; the text suggests similar names
      LedgerError         a promise was asked for that the ledger's rules forbid; nothing was changed
      NotNowError         the service does not decide now: not yet, not any more, or another replica does
      PolicyError         a policy is not fit to be registered
      RulebookError       a rule mark in the code or in a test names no rule
"""

__all__ = [
    "AskError",
    "ClusterError",
    "InputError",
    "LedgerError",
    "LinkwiseError",
    "NotFoundError",
    "NotNowError",
    "PolicyError",
    "RulebookError",
    "TopologyError",
]


class LinkwiseError(Exception):
    """The root of the tree."""


class InputError(LinkwiseError, ValueError):
    """What was given makes no sense."""


class TopologyError(InputError):
    """A matrix or a machine description makes no sense."""


class AskError(InputError):
    """An ask makes no sense."""


class ClusterError(LinkwiseError):
    """The API server, or the way to it, does not do what it should."""


class NotFoundError(ClusterError):
    """The cluster has no object of that name."""


class LedgerError(LinkwiseError):
    """A promise was asked for that the ledger's rules forbid; nothing was changed."""


class NotNowError(LinkwiseError):
    """The service does not decide now: not yet, not any more, or another replica does."""


class PolicyError(LinkwiseError):
    """A policy is not fit to be registered."""


class RulebookError(LinkwiseError):
    """A rule mark in the code or in a test names no rule."""
