"""Access policies: who may request which accelerators, how many at one time, and with whom devices may be shared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.views import SelectorRequirement

__all__ = [
    "ALONE",
    "COMMON",
    "CONTROLLERS",
    "OPERATORS",
    "AcceleratorPolicy",
    "NamespaceSelector",
    "Requester",
    "ShareLimit",
    "ShareWith",
    "Subject",
    "Subjects",
    "domain_text",
]

ShareWith = Literal["never", "namespace", "user", "namespace-and-user", "any"]
"""the pods that may be on one device"""

COMMON: Final = "*"
"""the sharing domain of all pods that may share with any other; not a valid namespace"""
ALONE: Final = "!"
"""the sharing domain of a pod that shares with none: not even with another pod of this domain"""
_KUBE_SYSTEM: Final = "system:serviceaccount:kube-system"
CONTROLLERS: Final = (
    "system:kube-controller-manager",
    f"{_KUBE_SYSTEM}:cronjob-controller",
    f"{_KUBE_SYSTEM}:daemon-set-controller",
    f"{_KUBE_SYSTEM}:deployment-controller",
    f"{_KUBE_SYSTEM}:job-controller",
    f"{_KUBE_SYSTEM}:replicaset-controller",
    f"{_KUBE_SYSTEM}:replication-controller",
    f"{_KUBE_SYSTEM}:statefulset-controller",
)
"""as whom Kubernetes' own controllers create pods and workloads from templates that users wrote"""
OPERATORS: Final = ("system:serviceaccount:volcano-system:volcano-controllers",)
"""the same for controllers of other projects whose workloads the webhook reviews"""


@dataclass(frozen=True, slots=True)
class Subject:
    """A pod as policies see it: where it is, who made it, and as what it runs."""

    namespace: str
    user: str = ""
    """who created it; empty if that is not known"""
    groups: tuple[str, ...] = ()
    """of that user, as far as they are known"""
    service_account: str = "default"


@dataclass(frozen=True, slots=True)
class NamespaceSelector:
    """Namespaces by their labels; an empty selector selects all."""

    match_labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    expressions: tuple[SelectorRequirement, ...] = ()

    @property
    def selects_all(self) -> bool:
        """Whether it has no requirement."""
        return not (self.match_labels or self.expressions)


@dataclass(frozen=True, slots=True)
class Subjects:
    """Selected users, groups, service accounts and namespaces: a pod that matches any entry is selected."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    service_accounts: tuple[tuple[str, str], ...] = ()
    """namespace and name"""
    namespaces: tuple[str, ...] = ()
    selector: NamespaceSelector | None = None

    @property
    def selects_all(self) -> bool:
        """Whether every pod is selected."""
        return self.selector is not None and self.selector.selects_all


@dataclass(frozen=True, slots=True)
class ShareLimit:
    """A part of one device: percent of its memory, or an amount in the unit of the resource."""

    amount: int
    percent: bool = False

    def __str__(self) -> str:
        return f"{self.amount}%" if self.percent else str(self.amount)


@dataclass(frozen=True, slots=True)
class AcceleratorPolicy:
    """One policy; what it does not mention, it does not restrict."""

    name: str
    subjects: Subjects = field(default_factory=Subjects)
    exempt: Subjects = field(default_factory=Subjects)
    """to whom it does not apply, although `subjects` selects them"""
    resources: tuple[str, ...] | None = None
    """patterns; an empty tuple permits none"""
    models: tuple[str, ...] | None = None
    """patterns"""
    max_devices: int | None = None
    """of the selected pods of one namespace, at one time"""
    share_with: ShareWith | None = None
    max_share: ShareLimit | None = None
    default_share: ShareLimit | None = None
    invalid: str = ""
    """what can't be read: such a policy permits nothing to those it selects"""
    generation: int = 0


def domain_text(domain: str) -> str:
    """A sharing domain in words: `namespace team-a`, `user alice`."""
    if domain == COMMON:
        return "pods that may share with any other"
    if domain == ALONE:
        return "pods that may not share"
    namespace, _, user = domain.partition("user:")
    parts = (f"namespace {namespace.rstrip()}" if namespace else "", f"user {user}" if user else "")
    return " and ".join(filter(None, parts))


@dataclass(frozen=True, slots=True)
class Requester:
    """The user who creates or changes an object, as the API server authenticated it."""

    user: str
    """a service account is `system:serviceaccount:NAMESPACE:NAME`"""
    groups: tuple[str, ...] = ()
