"""What kube-scheduler's extender calls carry: Go's field names outside, ordinary Kubernetes objects inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from linkwise.errors import InputError
from linkwise.speed.uniform_mapping import UniformMapping
from linkwise.wire.decoding import plain_words
from linkwise.wire.kubernetes.pod import PodObject  # noqa: TC001 - read when the structs are made

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "BindArgs",
    "ExtenderBindingResult",
    "FilterArgs",
    "FilterResult",
    "HostPriority",
    "MetaVictims",
    "NodeList",
    "PreemptArgs",
    "PreemptResult",
    "decode_bind",
    "decode_filter",
    "decode_preempt",
    "encode",
    "filter_result",
]

T = TypeVar("T")


class _Go(msgspec.Struct, rename="pascal", omit_defaults=True):
    """Fields that are not listed are not read."""


class _Named(msgspec.Struct):
    name: str = ""


class _WholeNode(msgspec.Struct):
    metadata: _Named = msgspec.field(default_factory=_Named)


class _WholeNodes(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


class FilterArgs(_Go):
    """A pod and the nodes it may go to: by name, or as whole objects if the scheduler keeps no cache for us."""

    pod: PodObject
    node_names: list[str] | None = None
    nodes: _WholeNodes | None = None

    @property
    def dry(self) -> bool:
        """Whether whole objects are given: whoever sends them only tries what would be."""
        return self.node_names is None

    def names(self) -> list[str]:
        """The nodes by name, in the order given; InputError if there are none in either way."""
        if self.node_names is None and self.nodes is None:
            raise InputError("the call has neither NodeNames nor Nodes")
        return self.node_names if self.node_names is not None else list(self.whole())

    def whole(self) -> dict[str, msgspec.Raw]:
        """The objects of the nodes as they were sent, by name."""
        items = (self.nodes and self.nodes.items) or []
        return {_decode(_WHOLE, node).metadata.name: node for node in items}


class NodeList(_Go):
    """Whole nodes, as they were sent."""

    items: list[msgspec.Raw] = msgspec.field(name="items")


class FilterResult(_Go):
    """The nodes that are left, or why none is."""

    node_names: list[str]
    nodes: NodeList | None = None
    failed_nodes: dict[str, str] | msgspec.Raw = msgspec.field(default_factory=dict)
    failed_and_unresolvable_nodes: dict[str, str] | msgspec.Raw = msgspec.field(default_factory=dict)
    error: str = ""


class HostPriority(_Go):
    """A node's score; Go reads integers only."""

    host: str
    score: int


class BindArgs(_Go):
    """Which pod goes where."""

    pod_name: str
    pod_namespace: str
    pod_uid: str = msgspec.field(name="PodUID")
    node: str = ""


class ExtenderBindingResult(_Go):
    """Why the pod was not bound; empty if it was."""

    error: str = ""


class _Victim(msgspec.Struct):
    uid: str = msgspec.field(name="UID", default="")


class MetaVictims(_Go, omit_defaults=False):
    """Pods that would be evicted from one node."""

    pods: list[_Victim] | None = None
    num_pdb_violations: int = msgspec.field(name="NumPDBViolations", default=0)


class _Victims(_Go):
    pods: list[PodObject] | None = None
    num_pdb_violations: int = msgspec.field(name="NumPDBViolations", default=0)


class PreemptArgs(_Go):
    """A pod, and what could be evicted for it: by UID, or as whole pods if the scheduler keeps no cache for us."""

    pod: PodObject
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None
    node_name_to_victims: dict[str, _Victims] | None = None

    def victims(self) -> dict[str, MetaVictims]:
        """By node and UID, however they were named."""
        if self.node_name_to_meta_victims is not None:
            return self.node_name_to_meta_victims
        return {
            node: MetaVictims([_Victim(pod.metadata.uid) for pod in found.pods or ()], found.num_pdb_violations)
            for node, found in (self.node_name_to_victims or {}).items()
        }


class PreemptResult(_Go, omit_defaults=False):
    """The nodes on which the evictions would help."""

    node_name_to_meta_victims: dict[str, MetaVictims]


def filter_result(nodes: list[str], failed: Mapping[str, str], unresolvable: Mapping[str, str]) -> FilterResult:
    """The reply to a filter."""
    return FilterResult(nodes, None, _texts(failed), _texts(unresolvable))


def _texts(found: Mapping[str, str]) -> dict[str, str] | msgspec.Raw:
    """Texts by node; one text for all is written as it is, without a dictionary in between."""
    if not isinstance(found, UniformMapping):
        return dict(found)
    if not found.plain or not found.names:
        return found.whole()
    # Each copy of so long a text costs as much as making it: begin and end are joined with the names.
    text, names = encode(found.text).decode(), list(found.names)
    names[0] = '{"' + names[0]
    names[-1] += f'":{text}}}'
    return msgspec.Raw(f'":{text},"'.join(names))


_WHOLE: Final = msgspec.json.Decoder(_WholeNode)
_FILTER: Final = msgspec.json.Decoder(FilterArgs)
_BIND: Final = msgspec.json.Decoder(BindArgs)
_PREEMPT: Final = msgspec.json.Decoder(PreemptArgs)
encode: Final = msgspec.json.Encoder().encode


def decode_filter(data: bytes) -> FilterArgs:
    """A call of filter or prioritize; InputError names the field that is wrong."""
    return _decode(_FILTER, data)


def decode_bind(data: bytes) -> BindArgs:
    """A call of bind."""
    return _decode(_BIND, data)


def decode_preempt(data: bytes) -> PreemptArgs:
    """A call of preempt."""
    return _decode(_PREEMPT, data)


def _decode(decoder: msgspec.json.Decoder[T], data: bytes | msgspec.Raw) -> T:
    try:
        return decoder.decode(data)
    except msgspec.DecodeError as error:
        raise InputError(plain_words(error)) from error
    except UnicodeDecodeError as error:
        raise InputError("the JSON is no UTF-8") from error
    except RecursionError as error:
        raise InputError("the JSON is nested too deep") from error
