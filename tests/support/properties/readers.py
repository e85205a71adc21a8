"""What readers of one namespace get: the answers to a tenant, and what is written to the namespace."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from linkwise.broker.effects import NODE_EVENTS, Event
from linkwise.explain.published.lists import PodExplainer, named
from linkwise.explain.published.publishing import finding_of
from linkwise.views.blocks import encode_page
from linkwise.views.cluster import ClusterView
from linkwise.views.description import description_of
from linkwise.views.explanations import document_of, explain_object
from linkwise.views.listing import section_of
from linkwise.views.table import OF_NAMESPACES, OF_NODES, Selection, encode_section

if TYPE_CHECKING:
    from linkwise.broker.broker import Broker
    from linkwise.broker.effects import Effect

__all__ = ["answers", "node_answers", "written"]


def answers(broker: Broker, now: float, namespace: str, only: frozenset[str] | None) -> list[Any]:
    """All answers about a namespace and about nodes, to a tenant, or to an administrator with `only=None`, as documents."""
    cluster = ClusterView(broker, now, namespace, is_service=True, only=only)
    own = [pod.name for pod in broker.pods.values() if pod.namespace == namespace]
    groups = {named(key)[1] for key in broker.group_keys() if named(key)[0] == namespace}
    objects = [
        *(("pod", name) for name in own),
        *(("group", name) for name in sorted(groups)),
        *(("node", name) for name in broker.nodes),
    ]
    pages = [encode_page(description_of(cluster, kind, name, namespace)) for kind, name in objects]
    tables = [Selection(kind, namespace=namespace) for kind in sorted(OF_NAMESPACES)]
    sections = [encode_section(section_of(cluster, each), documents=True) for each in tables]
    explainer = PodExplainer(broker, now)
    published = [
        finding_of(found)
        for pod in list(broker.pods.values())
        if pod.namespace == namespace and (found := explainer.explain(pod.uid, only))
    ]
    explained = [document_of(explain_object(cluster, kind, name, namespace)) for kind, name in objects]
    return [explained, pages, sections, [asdict(one) for one in published if one]]


def node_answers(broker: Broker, now: float, namespace: str) -> list[Any]:
    """The tables of all nodes, to a tenant of the namespace."""
    cluster = ClusterView(broker, now, namespace, is_service=True, only=frozenset({namespace}))
    kinds = sorted(OF_NODES | {"capacity"})
    return [encode_section(section_of(cluster, Selection(kind)), documents=True) for kind in kinds]


def written(effect: Effect) -> tuple[str, str]:
    """The namespace whose readers an effect reaches, and all that it writes there."""
    of_node = isinstance(effect, Event) and not effect.name
    return NODE_EVENTS if of_node else effect.namespace, str(effect)
