"""Documents that the service sends to the web page, with the names of their fields on the wire in camelCase.

docs/reference/http.md describes the routes. A document is compared field by field, so that only what differs is sent.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

__all__ = [
    "Against",
    "AmountOfPod",
    "Change",
    "Cluster",
    "DeviceDetail",
    "DevicePod",
    "DeviceUsage",
    "FreedPods",
    "GroupHost",
    "GroupMember",
    "GroupPage",
    "GroupRemedyCard",
    "Held",
    "HeldState",
    "Holding",
    "Layout",
    "Level",
    "LinkKind",
    "Links",
    "ManifestError",
    "ModelFit",
    "NextNode",
    "NodePage",
    "NodeStrip",
    "Placed",
    "PlanPage",
    "PlannedPod",
    "PodPage",
    "PodWaiting",
    "Reader",
    "RemedyCard",
    "RunnerUpSet",
    "Totals",
    "Waiting",
]

HeldState = Literal["bound", "binding", "terminating", "planned", "offered", "reserved", "claimed"]


class _Document(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """One JSON object."""


class Reader(_Document, frozen=True):
    """Whose pods are named."""

    everywhere: bool
    namespaces: tuple[str, ...]


class Totals(_Document, frozen=True):
    """Counts of devices, and of pods that wait."""

    devices: int
    in_use: int
    idle: int
    reserved: int
    unusable: int
    waiting_pods: int


class ModelFit(_Document, frozen=True):
    """How many pods would still fit on devices of one model, by the number of devices that each requests."""

    model: str
    nodes: int
    devices: int
    free: int
    largest: int
    fits: dict[str, int]


class Held(_Document, frozen=True):
    """Devices of one node that a pod holds, or that are set aside."""

    pod: str
    """namespace/name; empty if the reader may not see it, or if it is no pod"""
    group: str
    state: HeldState
    devices: tuple[int, ...]
    """positions in the marks of the node"""
    part: int | UnsetType = UNSET  # percent of each device


class NodeStrip(_Document, frozen=True):
    """One node of the cluster: its devices as marks, and who holds them."""

    name: str
    model: str
    rack: str
    marks: str
    """one per device: . usable, x unhealthy, c cordoned"""
    held: tuple[Held, ...]
    mode: str
    note: str
    indices: tuple[int, ...] | UnsetType = UNSET
    """of the devices, unless they are numbered 0, 1, 2 and so on"""


class Waiting(_Document, frozen=True):
    """A pod that waits, or a group with pods that wait."""

    kind: Literal["pod", "group"]
    namespace: str
    name: str
    pods: int
    devices: int
    sentence: str
    code: str
    since: str


class Cluster(_Document, frozen=True):
    """The cluster at one moment."""

    version: str
    at: str
    reader: Reader
    totals: Totals
    models: tuple[ModelFit, ...]
    nodes: tuple[NodeStrip, ...]
    waiting: tuple[Waiting, ...]
    notes: tuple[str, ...]


class Change(_Document, frozen=True):
    """What differs from the document before; what is missing is unchanged."""

    version: str
    at: str
    totals: Totals | UnsetType = UNSET
    models: tuple[ModelFit, ...] | UnsetType = UNSET
    waiting: tuple[Waiting, ...] | UnsetType = UNSET
    notes: tuple[str, ...] | UnsetType = UNSET
    nodes: tuple[NodeStrip, ...] | UnsetType = UNSET
    gone: tuple[str, ...] | UnsetType = UNSET


class DevicePod(_Document, frozen=True):
    """A pod on a device."""

    pod: str
    text: str
    """with its share"""
    state: str


class DeviceUsage(_Document, frozen=True):
    """What a device was last seen to use, in percent."""

    compute: int | None
    memory: int | None


class DeviceDetail(_Document, frozen=True):
    """One device of a node."""

    index: int
    id: str
    model: str
    state: str
    health: str
    fault: str
    cordon: str
    memory: int
    used: int
    unit: str
    numa: int | None
    bus: str
    pods: tuple[DevicePod, ...]
    usage: DeviceUsage | None


class LinkKind(_Document, frozen=True):
    """A kind of link between two devices."""

    code: str
    name: str
    gbps: float | None
    direct: bool


class Layout(_Document, frozen=True):
    """How a machine is built, for its drawing."""

    shape: Literal["hub", "rings", "quads", "pairs", "islands", "tree"]
    groups: tuple[tuple[int, ...], ...]
    hub: str
    numa: tuple[tuple[int, ...], ...]
    switches: tuple[tuple[int, ...], ...]


class Links(_Document, frozen=True):
    """The links between the devices of a node."""

    measured: bool
    kinds: tuple[LinkKind, ...]
    """the fastest first"""
    pairs: tuple[tuple[int, int, int, float | None], ...]
    """two positions, the kind, GB/s"""
    layout: Layout
    matrix: tuple[tuple[str, ...], ...]
    worth: tuple[tuple[float, ...], ...]


class NodePage(_Document, frozen=True):
    """One node."""

    name: str
    model: str
    address: str
    mode: str
    allocator: str
    headline: str
    lines: tuple[str, ...]
    problems: tuple[str, ...]
    devices: tuple[DeviceDetail, ...]
    links: Links | None
    sizes: tuple[int, ...]
    fits: str


class Against(_Document, frozen=True):
    """A reason that speaks against nodes."""

    code: str
    count: int
    text: str
    temporary: bool
    """whether it may change when other pods finish"""
    nearest: str
    sentence: str


class AmountOfPod(_Document, frozen=True):
    """A pod and what it would free."""

    pod: str
    text: str


class RemedyCard(_Document, frozen=True):
    """What would let a pod start."""

    title: str
    node: str
    pods: tuple[AmountOfPod, ...]


class Holding(_Document, frozen=True):
    """A pod that holds devices which a waiting pod could use."""

    pod: str
    node: str
    devices: int
    text: str


class FreedPods(_Document, frozen=True):
    """Pods that are evicted for a waiting pod."""

    sentence: str
    pods: tuple[AmountOfPod, ...]


class RunnerUpSet(_Document, frozen=True):
    """The devices that came second."""

    devices: tuple[int, ...]
    sentence: str


class NextNode(_Document, frozen=True):
    """The node that came second."""

    node: str
    sentence: str


class Placed(_Document, frozen=True):
    """Where a pod is, or would go, and why."""

    node: str
    devices: tuple[int, ...]
    certainty: str
    reasons: tuple[str, ...]
    slowest: str
    runner_up: RunnerUpSet | None
    next_node: NextNode | None


class PodWaiting(_Document, frozen=True):
    """Why a pod waits."""

    nodes: int
    fitting: int
    against: tuple[Against, ...]
    remedies: tuple[RemedyCard, ...]
    unresolved: str
    """that no pods were found whose end would help; empty if some were"""
    holders: tuple[Holding, ...]
    victims: FreedPods | None


class PodPage(_Document, frozen=True):
    """One pod."""

    namespace: str
    name: str
    state: str
    code: str
    group: str
    request: str
    policy: str
    headline: str
    lines: tuple[str, ...]
    remarks: tuple[str, ...]
    """sentences about its state that belong to no part below"""
    notes: tuple[str, ...]
    placed: Placed | None
    waiting: PodWaiting | None


class GroupMember(_Document, frozen=True):
    """One pod of a group."""

    pod: str
    state: str
    node: str
    devices: tuple[int, ...]
    asks: int
    slowest: float | None  # GB/s


class GroupHost(_Document, frozen=True):
    """A node with members of a group."""

    node: str
    members: int
    devices: tuple[int, ...]
    slowest: float | None  # GB/s


class Level(_Document, frozen=True):
    """The result of a plan in one level."""

    name: str
    value: str


class GroupRemedyCard(_Document, frozen=True):
    """What would let a group start."""

    title: str
    nodes: tuple[str, ...]
    pods: tuple[AmountOfPod, ...]


class GroupPage(_Document, frozen=True):
    """One group."""

    namespace: str
    name: str
    source: str
    stage: str
    code: str
    headline: str
    lines: tuple[str, ...]
    remarks: tuple[str, ...]
    """sentences about its members and its plan that belong to no part below"""
    notes: tuple[str, ...]
    members: tuple[GroupMember, ...]
    missing: int
    hosts: tuple[GroupHost, ...]
    levels: tuple[Level, ...]
    held_seconds: float
    slowest: str
    lacks: tuple[str, ...]
    fitting: int
    """nodes that can take a member"""
    against: tuple[Against, ...]
    remedies: tuple[GroupRemedyCard, ...]
    unresolved: str
    """that no end of other pods would let it fit; empty if one would"""


class ManifestError(_Document, frozen=True):
    """A mistake in a manifest, by line and column from 1; 0 if it concerns all of it."""

    line: int
    column: int
    sentence: str


class PlannedPod(_Document, frozen=True):
    """A pod of a manifest and the place it would get."""

    pod: str
    node: str
    devices: tuple[int, ...]


class PlanPage(_Document, frozen=True):
    """What would become of a manifest's pods; nothing is created."""

    errors: tuple[ManifestError, ...]
    headline: str
    lines: tuple[str, ...]
    places: tuple[PlannedPod, ...]
    groups: tuple[GroupPage, ...]
    pods: tuple[PodPage, ...]
