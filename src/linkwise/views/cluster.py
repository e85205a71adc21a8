"""Cluster view: a broker at one moment, with lookups of objects by name whose errors suggest similar names."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from linkwise.errors import NotFoundError
from linkwise.explain.published.lists import named
from linkwise.explain.text.phrases import names_text
from linkwise.explain.workload import workload_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from linkwise.broker.broker import Broker
    from linkwise.model.views import PodView
    from linkwise.views.table import Selection

__all__ = ["ClusterView"]


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A cluster as it is now."""

    broker: Broker
    now: float
    namespace: str
    """the one that is meant where none is named"""
    is_service: bool = False
    """whether the broker is that of the service, which also knows the calls of schedulers"""
    only: frozenset[str] | None = None
    """the namespaces whose pods and groups are listed, and named in reasons; None for all"""

    def selects_pod(self, selection: Selection) -> Callable[[PodView], bool]:
        """Return whether a pod is selected, of the namespaces that are listed."""
        only = self.only
        return selection.selects if only is None else lambda pod: pod.namespace in only and selection.selects(pod)

    def node(self, name: str) -> str:
        """The name, if there is such a node."""
        return _known("node", name, list(self.broker.nodes))

    def pod(self, namespace: str, name: str) -> str:
        """The UID of a pod."""
        uid = self.broker.find_pod(namespace, name)
        if uid:
            return uid
        pods = self.broker.pods.values()
        elsewhere = sorted(pod.namespace for pod in pods if pod.name == name) if self.only is None else []
        if elsewhere:
            raise NotFoundError(
                f"pod {namespace}/{name} not found; one of that name is in {names_text(elsewhere)}: use -n"
            )
        return _known(f"pod {namespace}/", name, [pod.name for pod in pods if pod.namespace == namespace])

    def workload(self, kind: str, namespace: str, name: str) -> str:
        """The name, if there is such a workload with pods."""
        names = workload_names(self.broker, kind, namespace)
        if name not in names:
            raise NotFoundError(f"no pods of {kind} {namespace}/{name} found{_hint(name, names)}")
        return name

    def policy(self, name: str) -> str:
        """The name, if there is such an AcceleratorPolicy."""
        return _known("AcceleratorPolicy", name, [report.policy.name for report in self.broker.policy_reports()])

    def group(self, namespace: str, name: str) -> str:
        """The key of a group, by its name or by the key itself."""
        keys = [key for key in self.broker.group_keys() if self.only is None or named(key)[0] in self.only]
        if name in keys:
            return name
        matches = [key for key in keys if named(key) == (namespace, name)]
        if len(matches) > 1:
            raise NotFoundError(
                f"{len(matches)} groups are called {namespace}/{name}; name one of {names_text(matches)}"
            )
        names = {named(key)[1]: key for key in keys if named(key)[0] == namespace}
        return matches[0] if matches else names[_known(f"group {namespace}/", name, list(names))]


def _known(what: str, name: str, names: Sequence[str]) -> str:
    if name in names:
        return name
    raise NotFoundError(f"{what}{'' if what.endswith('/') else ' '}{name} not found{_hint(name, names)}")


def _hint(name: str, names: Iterable[str]) -> str:
    all_names = sorted(names)
    near = get_close_matches(name, all_names, n=3, cutoff=0.6) or [found for found in all_names if name in found][:3]
    if near:
        return f"; did you mean {' or '.join(near)}?"
    return f"; there {'is' if len(all_names) == 1 else 'are'} {names_text(all_names)}" if all_names else ""
