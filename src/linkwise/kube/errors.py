"""Answers of the API server that callers handle: each is a ClusterError of its own."""

from linkwise.errors import ClusterError

__all__ = ["AbsentError", "ExpiredError", "ForbiddenError", "OtherReleaseError", "RestoredError", "UnauthorizedError"]


class AbsentError(ClusterError):
    """The server does not serve the kind."""


class ForbiddenError(ClusterError):
    """RBAC does not allow the request."""


class ExpiredError(ClusterError):
    """The server no longer has the resourceVersion, or the rest of a list."""


class OtherReleaseError(ClusterError):
    """The CustomResourceDefinitions of Linkwise are of a release that this one can't read."""


class RestoredError(ClusterError):
    """The server's data is older than before, as after a restore; what is known of its objects is no longer valid."""


class UnauthorizedError(ClusterError):
    """The server does not accept the credentials."""
