"""What vendors have in common whose plugins count whole devices and write nothing on pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from linkwise.dialects.dialect import Dialect, Held, where_pod
from linkwise.dialects.pod_resources import by_container
from linkwise.model.ask import Ask, ContainerAsk
from linkwise.model.verdict__problem import Problem

if TYPE_CHECKING:
    from linkwise.dialects.dialect import Writing
    from linkwise.model.views import PodView

__all__ = ["ByCount"]


class ByCount(Dialect):
    """Whole devices of one resource; which of them a pod was given is not told in such words."""

    resource: ClassVar[str]

    def owns(self, resource: str) -> bool:
        """The one resource."""
        return resource == self.resource

    def ask(self, pod: PodView) -> Ask | Problem | None:
        """Whole devices, by container."""
        if pod.claims or self.resource in pod.hosted_by_claims:
            return None
        try:
            counts = by_container(pod, self.resource)
        except ValueError as error:
            return Problem(where_pod(pod), self.resource, f"{error}; ask for whole devices, such as 2")
        names = dict.fromkeys(found.name for found in pod.containers if found.name in counts)
        wanted = tuple(ContainerAsk(name, counts[name]) for name in names)
        return Ask(self.resource, wanted, pod.namespace) if wanted else None

    def held(self, pod: PodView) -> Held:
        """Nothing: it is not written on pods."""
        del pod
        return Held(None)

    def write(self, writing: Writing) -> dict[str, str]:
        """Nothing: the vendor's tools read nothing from pods."""
        del writing
        return {}
