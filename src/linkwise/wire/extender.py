"""Extender API messages of kube-scheduler: Go field names outside, ordinary Kubernetes objects inside.

kube-scheduler uses the texts of an answer as format strings, so none of them has a percent sign.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar, overload

import msgspec

from linkwise.errors import InputError
from linkwise.speed.uniform_mapping import UniformMapping
from linkwise.wire.decoding import MOST_VALUES, at_place, check_values, decode_with, within
from linkwise.wire.kubernetes.pod import PodObject

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "MOST_NODES",
    "MOST_OBJECT",
    "MOST_VICTIMS",
    "BindArgs",
    "ExtenderBindingResult",
    "FilterArgs",
    "FilterResult",
    "HostPriority",
    "MetaVictims",
    "NodeList",
    "NodeNames",
    "PreemptArgs",
    "PreemptResult",
    "decode_bind",
    "decode_filter",
    "decode_preempt",
    "encode",
    "filter_result",
    "is_searchable",
    "meta_victims",
]


T = TypeVar("T")

SHORT: Final = 4096
"""bytes of JSON that are decoded at once"""
MOST_NODES: Final = 200_000
"""nodes that one call may name: forty times as many as Kubernetes supports, in a few tenths of a second"""
FEW: Final = 3 * MOST_NODES
"""bytes of names that can't be too many, so that these are not counted: an empty name has two quotes and a comma"""
PIECE: Final = 1 << 20
"""bytes of names that are counted at once"""
MOST_VICTIMS: Final = 500_000
"""values in a call with victims, one for each that is named by its UID: three times the pods of the largest cluster"""
MOST_OBJECT: Final = 4 << 20
"""bytes of one pod or node; the API server accepts 3 MiB"""
_TOO_MANY: Final = f"the call names more than {MOST_NODES} nodes, which is the limit"
_NAME: Final = re.compile(r"[a-z0-9.-]+")
"""the characters of names in Kubernetes"""


class _Go(msgspec.Struct, rename="pascal", omit_defaults=True):
    """Unknown fields are ignored."""


class _Named(msgspec.Struct):
    name: str = ""


class _FullNode(msgspec.Struct):
    metadata: _Named = msgspec.field(default_factory=_Named)


class _FullNodes(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


class _Call(_Go):
    """A call with its pod as it was sent."""

    pod: msgspec.Raw


class _FilterCall(_Call):
    node_names: msgspec.Raw = msgspec.Raw(b"null")
    nodes: _FullNodes | None = None


class FilterArgs(msgspec.Struct):
    """A pod and the candidate nodes: by name with nodeCacheCapable, otherwise as full objects."""

    pod: PodObject
    node_names: msgspec.Raw = msgspec.Raw(b"null")
    nodes: _FullNodes | None = None

    @property
    def dry(self) -> bool:
        """Whether the call has full objects: those are simulations, of which nothing is remembered."""
        return memoryview(self.node_names) == _NULL

    def names(self) -> Sequence[str]:
        """The node names in the order of the call; InputError if it has no nodes in either form."""
        if not self.dry:
            if _are_too_many(memoryview(self.node_names)):
                raise InputError(_TOO_MANY)
            text = bytes(self.node_names)
            if is_searchable(text):
                return NodeNames(text)
            try:
                return decode_with(_NAMES, text)
            except InputError as error:
                raise at_place("NodeNames", str(error)) from error
        return list(dict(self.full_nodes()))

    def full_nodes(self) -> Iterator[tuple[str, msgspec.Raw]]:
        """The node objects as they were sent, each with its name; InputError if the call has none, or too many."""
        if self.nodes is None:
            raise InputError("the call has neither NodeNames nor Nodes")
        items = self.nodes.items or ()
        if len(items) > MOST_NODES:
            raise InputError(_TOO_MANY)
        return ((_name_of(node), node) for node in items)


class NodeList(_Go):
    """Full nodes, as they were sent."""

    items: list[msgspec.Raw] = msgspec.field(name="items")


class FilterResult(_Go):
    """The feasible nodes, and why the others are not."""

    node_names: list[str]
    nodes: NodeList | None = None
    failed_nodes: dict[str, str] | msgspec.Raw = msgspec.field(default_factory=dict)
    failed_and_unresolvable_nodes: dict[str, str] | msgspec.Raw = msgspec.field(default_factory=dict)
    error: str = ""

    def __post_init__(self) -> None:
        self.error = _without_percent_sign(self.error)


class HostPriority(_Go):
    """A node's score; Go decodes integers only."""

    host: str
    score: int


class BindArgs(_Go):
    """A pod and the node to bind it to."""

    pod_name: str
    pod_namespace: str
    pod_uid: str = msgspec.field(name="PodUID")
    node: str = ""


class ExtenderBindingResult(_Go):
    """Why the pod was not bound; empty if it was."""

    error: str = ""

    def __post_init__(self) -> None:
        self.error = _without_percent_sign(self.error)


class _Victim(msgspec.Struct):
    uid: str = msgspec.field(name="UID", default="")


class MetaVictims(_Go, omit_defaults=False):
    """Preemption victims of one node, by UID."""

    pods: list[_Victim] | None = None
    num_pdb_violations: int = msgspec.field(name="NumPDBViolations", default=0)


class _Identified(msgspec.Struct):
    uid: str = ""


class _FullVictim(msgspec.Struct):
    metadata: _Identified = msgspec.field(default_factory=_Identified)


class _Victims(_Go):
    pods: list[_FullVictim] | None = None
    num_pdb_violations: int = msgspec.field(name="NumPDBViolations", default=0)


class _PreemptCall(_Call):
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None
    node_name_to_victims: dict[str, _Victims] | None = None


class PreemptArgs(msgspec.Struct):
    """A preempting pod and its candidate victims: by UID with nodeCacheCapable, otherwise as full pods."""

    pod: PodObject
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None
    node_name_to_victims: dict[str, _Victims] | None = None

    def victims(self) -> dict[str, MetaVictims]:
        """The victims by node, in either form; InputError if there are too many nodes."""
        if (count := len(self.node_name_to_meta_victims or self.node_name_to_victims or ())) > MOST_NODES:
            raise InputError(f"the call has victims on {count} nodes; the limit is {MOST_NODES}")
        if self.node_name_to_meta_victims is not None:
            return self.node_name_to_meta_victims
        return {
            node: MetaVictims([_Victim(pod.metadata.uid) for pod in victims.pods or ()], victims.num_pdb_violations)
            for node, victims in (self.node_name_to_victims or {}).items()
        }


class PreemptResult(_Go, omit_defaults=False):
    """The nodes where evicting these victims makes the pod fit."""

    node_name_to_meta_victims: dict[str, MetaVictims]


class NodeNames(Sequence[str]):
    """The node names of a call, decoded lazily, from a searchable JSON array; elements that are not strings name no node.

    kube-scheduler names every node that passes its own filters, thousands in a large cluster. The best node is almost always
    one of them, so that searching its name in the JSON answers the call; decoding all names takes several times as long.
    """

    __slots__ = ("_count", "_names", "_text")

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._names: list[str] | None = None
        self._count: int | None = None

    def __bool__(self) -> bool:
        return True

    def __contains__(self, name: object) -> bool:
        if self._names is None and isinstance(name, str) and _NAME.fullmatch(name):
            # Quotes delimit the names, so that such a text between two of them is one.
            return f'"{name}"'.encode() in self._text
        return name in self._decoded()

    def __iter__(self) -> Iterator[str]:
        return iter(self._decoded())

    def __len__(self) -> int:
        if self._count is None:
            self._count = self._text.count(b'"') // 2
        return self._count

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        return self._decoded()[index]

    def __repr__(self) -> str:
        return repr(self._decoded())

    def _decoded(self) -> list[str]:
        if self._names is None:
            try:
                self._names = _NAMES.decode(self._text)
            except msgspec.ValidationError:
                self._names = [name for name in msgspec.json.decode(self._text) if isinstance(name, str)]
        return self._names


def _are_too_many(names: memoryview) -> bool:
    """Whether a JSON array has more names than a call may name; counted in pieces, so that most of it is never read."""
    count = 0
    for start in range(0, len(names) if len(names) > FEW else 0, PIECE):
        count += bytes(names[start : start + PIECE]).count(b'"')
        if count > 2 * MOST_NODES:
            return True
    return False


def is_searchable(text: bytes) -> bool:
    """Whether each name appears in the JSON as it is, between quotes: a long flat array without escapes."""
    return (
        len(text) > SHORT
        and text.startswith(b'["')
        and text.isascii()
        and not any(sign in text for sign in (b"\\", b"{"))
        and text.find(b"[", 1) < 0
    )


def filter_result(nodes: list[str], failed: Mapping[str, str], unresolvable: Mapping[str, str]) -> FilterResult:
    """The result of a filter call."""
    return FilterResult(nodes, None, _reasons(failed), _reasons(unresolvable))


def meta_victims(uids: Iterable[str], violations: int) -> MetaVictims:
    """The victims of one node in the result of a preempt call."""
    return MetaVictims([_Victim(uid) for uid in uids], violations)


def _reasons(by_node: Mapping[str, str]) -> dict[str, str] | msgspec.Raw:
    """Reasons by node; if all nodes share one, the JSON is built without a dictionary in between."""
    if not isinstance(by_node, UniformMapping):
        unsafe = {text: _without_percent_sign(text) for text in set(by_node.values()) if "%" in text}
        return {name: unsafe.get(text, text) for name, text in by_node.items()} if unsafe else dict(by_node)
    text = _without_percent_sign(by_node.text)
    if not by_node.plain or not by_node.names:
        return by_node.whole() if text == by_node.text else dict.fromkeys(by_node.names, text)
    # Copying a text of this length costs as much as building it, so both ends are joined with the names.
    text, names = encode(text).decode(), list(by_node.names)
    names[0] = '{"' + names[0]
    names[-1] += f'":{text}}}'
    return msgspec.Raw(f'":{text},"'.join(names))


def _without_percent_sign(text: str) -> str:
    """Return the text with the word instead of the sign: `50 percent`."""
    return _PERCENT.sub(" percent", text) if "%" in text else text


_PERCENT: Final = re.compile(" ?%+")
_NAMES: Final = msgspec.json.Decoder(list[str])
_NULL: Final = memoryview(b"null")
_NODE: Final = msgspec.json.Decoder(_FullNode)
_POD: Final = msgspec.json.Decoder(PodObject)
_FILTER: Final = msgspec.json.Decoder(_FilterCall)
_BIND: Final = msgspec.json.Decoder(BindArgs)
_PREEMPT: Final = msgspec.json.Decoder(_PreemptCall)
encode: Final = msgspec.json.Encoder().encode


def decode_filter(data: bytes) -> FilterArgs:
    """Arguments of filter or prioritize; InputError names the invalid field."""
    check_values(data, MOST_VALUES)
    call = decode_with(_FILTER, data)
    return FilterArgs(_pod(call), call.node_names, call.nodes)


def decode_bind(data: bytes) -> BindArgs:
    """Arguments of bind."""
    return decode_with(_BIND, data)


def decode_preempt(data: bytes) -> PreemptArgs:
    """Arguments of preempt."""
    check_values(data, MOST_VICTIMS)
    call = decode_with(_PREEMPT, data)
    return PreemptArgs(_pod(call), call.node_name_to_meta_victims, call.node_name_to_victims)


def _name_of(node: msgspec.Raw) -> str:
    _check_size(node, "Nodes.items")
    return decode_with(_NODE, node).metadata.name


def _check_size(text: msgspec.Raw, place: str) -> None:
    if (size := memoryview(text).nbytes) > MOST_OBJECT:
        raise InputError(f"{place}: an object of {size} bytes; the limit is {MOST_OBJECT}")


def _pod(call: _Call) -> PodObject:
    _check_size(call.pod, "Pod")
    with within("Pod"):
        return decode_with(_POD, call.pod)
