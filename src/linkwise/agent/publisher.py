"""Publisher: keeps what the API server shows of a node equal to what the parts of its agent know of it.

It compares the desired state with what the watches showed last, and writes only the difference, on a change of either:
also if another client removed or changed what it wrote. Each part is written on its own, so that a write that fails or
hangs delays no other.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from linkwise import __version__
from linkwise.dialects.ascend.node import DeviceInfo, chip_lists, config_map, is_current
from linkwise.dialects.koordinator.device_object import other_writer
from linkwise.dialects.linkwise.usage import with_usage
from linkwise.errors import InputError
from linkwise.net.timing import Backoff, Timing
from linkwise.node.health import with_cordons
from linkwise.node.publishing import (
    ANNOTATIONS,
    IDLE_ACCELERATORS,
    LABELS,
    Condition,
    NodeState,
    Reserve,
    annotations_of,
    believed_condition,
    capacity_of,
    chip_annotations,
    chips_of,
    conditions_of,
    cordon_condition,
    device_of,
    inventory_of,
    is_tainted,
    labels_of,
    should_taint,
    with_condition,
)
from linkwise.node.writes import capacity_changes, object_changes, text_changes, with_times
from linkwise.wire.decoding import decode_as

if TYPE_CHECKING:
    from linkwise.agent.kubelet.plugin import Status
    from linkwise.config.settings import AgentSettings
    from linkwise.dialects.ascend.node import ChipStates
    from linkwise.model.inventory import Discovery, Hold
    from linkwise.model.views import NodeView, PodView
    from linkwise.node.allocation import Claim
    from linkwise.node.publishing import Serving
    from linkwise.node.writes import NodeWriter, Written

__all__ = ["AgentKnowledge", "PublishSettings", "Publisher", "node_state", "object_version", "parsed_document"]

log = logging.getLogger(__name__)

Document = Mapping[str, object]
Write = Callable[[], Awaitable["Written"]]
T = TypeVar("T")

_DEVICE_CONDITION: Final = "KoordinatorDevicePublished"
_MAX_VERSION_DIGITS: Final = 20
"""resourceVersions of the API server are 64-bit numbers"""
_REGISTRATION_REASONS: Final = {
    "registered": "Registered",
    "foreign": "ServedByAnotherPlugin",
    "refused": "RegistrationFailed",
}


@dataclass(frozen=True, slots=True)
class PublishSettings:
    """Pauses of the publisher."""

    between_writes: float = 0.1  # s
    """of one part: changes in the meantime are written together"""
    first_retry: float = 0.25  # s
    last_retry: float = 30.0  # s
    contested: float = 60.0  # s
    """the same write again within this time means that another client undoes it; it is then repeated less and less often"""
    late_events: float = 30.0  # s
    """for which events that are older than the agent's own write are ignored; after it, they mean a restored backup"""


@dataclass(slots=True)
class _Observed(Generic[T]):
    """One object as the API server has it, from the watch or from the response to a write."""

    version: Callable[[T], int]
    """its resourceVersion as a number; 0 if it is not one"""
    value: T | None = None
    """None if it does not exist"""
    known: bool = False
    """whether the watch has looked for it"""
    written_at: float = float("-inf")
    deletions: int = 0
    """how often the watch has shown that it does not exist"""

    def observe(self, value: T | None, now: float, late: float) -> bool:
        """Take an event of the watch; False if it is older than what is known, or the same."""
        if value is not None and self.value is not None and self.version(value):
            newer = self.version(value) - self.version(self.value)
            if newer == 0 or (newer < 0 and now - self.written_at < late):
                return False
        self.value, self.known = value, True
        self.deletions += value is None
        return True

    def wrote(self, value: T, now: float, deletions: int) -> None:
        """Take the response to a write, unless the watch has shown a newer object, or a deletion, since it was sent."""
        self.written_at = now
        older = self.value is not None and self.version(value) < self.version(self.value)
        if not older and self.deletions == deletions:
            self.value = value


@dataclass(slots=True)
class _Part:
    """One kind of write: what is desired, what is there, and how the writes go."""

    kind: str
    plan: Callable[[], Write | None]
    """the write that makes the two equal; None if they are, or it is not known yet what is there"""
    desired: Callable[[], object]
    seen: _Observed[Any]
    backoff: Backoff
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    sending: bool = False
    trouble: str = ""
    last: tuple[object, float] | None = None
    """what was desired at the last write that succeeded, and when it was"""
    ineffective: tuple[object, object] | None = None
    """what was desired and what was there after a write that the API server answered without storing all of it"""

    def due(self) -> Write | None:
        """The write to send now; one that had no effect is not repeated until something changes."""
        if (write := self.plan()) is None or self.ineffective is None:
            return write
        desired, observed = self.ineffective
        return None if observed is self.seen.value and desired == self.desired() else write


class Publisher:
    """Writes the state of one node to the API server."""

    def __init__(
        self, writer: NodeWriter, settings: PublishSettings | None = None, timing: Timing | None = None
    ) -> None:
        self.writes: Final[Counter[tuple[str, str]]] = Counter()
        """by kind (inventory, node, capacity, taint, device, device info) and outcome (done, refused, unreachable)"""
        self._writer = writer
        self._settings = settings or PublishSettings()
        self._timing = timing or Timing()
        self._state: NodeState | None = None
        self._node: _Observed[NodeView] = _Observed(lambda view: view.version)
        self._inventory: _Observed[Document] = _Observed(object_version)
        self._device: _Observed[Document] = _Observed(object_version)
        self._device_info: _Observed[Document] = _Observed(object_version)
        self._parts = {
            "inventory": self._part("inventory", self._inventory_write, self._inventory_document, self._inventory),
            "node": self._part("node", self._node_write, self._of_state("labels", "annotations"), self._node),
            "capacity": self._part("capacity", self._capacity_write, self._of_state("capacity"), self._node),
            "taint": self._part("taint", self._taint_write, self._of_state("tainted"), self._node),
            "device": self._part("device", self._device_write, self._of_state("device"), self._device),
            "device info": self._part(
                "device info", self._device_info_write, self._of_state("device_info"), self._device_info
            ),
        }

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems for an operator to look at, as sentences."""
        troubles = [part.trouble for part in self._parts.values() if part.trouble]
        return (*troubles, *([self._foreign_device] if self._foreign_device else []))

    @property
    def settled(self) -> bool:
        """Whether everything that can be written is written."""
        return not any(part.sending or part.due() for part in self._parts.values())

    def publish(self, state: NodeState) -> None:
        """Set what the API server should show; returns at once."""
        self._state = state
        self._wake(*self._parts)

    def observe_node(self, view: NodeView | None) -> None:
        """Take the Node from the watch; None if there is none."""
        if self._node.observe(view, self._timing.clock(), self._settings.late_events):
            self._wake("node", "capacity", "taint")

    def observe_inventory(self, document: object) -> None:
        """Take the DeviceInventory from the watch, as JSON or parsed; None if there is none."""
        if self._inventory.observe(parsed_document(document), self._timing.clock(), self._settings.late_events):
            self._wake("inventory")

    def observe_device(self, document: object) -> None:
        """Take Koordinator's Device object from the watch, as JSON or parsed; None if there is none."""
        if self._device.observe(parsed_document(document), self._timing.clock(), self._settings.late_events):
            self._wake("device", "inventory")

    def observe_device_info(self, document: object) -> None:
        """Take the ConfigMap of Huawei's device plugin from the watch, as JSON or parsed; None if there is none."""
        if self._device_info.observe(parsed_document(document), self._timing.clock(), self._settings.late_events):
            self._wake("device info")

    async def run(self) -> None:
        """Write what differs, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for part in self._parts.values():
                tasks.create_task(self._keep_written(part), name=f"publish {part.kind}")

    def _part(
        self, kind: str, plan: Callable[[], Write | None], desired: Callable[[], object], seen: _Observed[T]
    ) -> _Part:
        backoff = Backoff(self._timing, self._settings.first_retry, self._settings.last_retry)
        return _Part(kind, plan, desired, seen, backoff)

    def _of_state(self, *fields: str) -> Callable[[], object]:
        return lambda: [getattr(self._state, name, None) for name in fields]

    def _wake(self, *kinds: str) -> None:
        for kind in kinds:
            self._parts[kind].changed.set()

    async def _keep_written(self, part: _Part) -> None:
        while True:
            await part.changed.wait()
            part.changed.clear()
            try:
                pause = await self._write(part)
            except Exception as error:  # a bug must not keep the node from serving the kubelet
                log.exception("kind=%s not published", part.kind)
                part.trouble = f"the {part.kind} is not published (a bug in Linkwise): {error!r}"
                pause = part.backoff.next()
            if pause is not None:
                await self._timing.sleep(pause)
                part.changed.set()  # for what changed in the meantime, or failed

    async def _write(self, part: _Part) -> float | None:
        """Write what is due; the seconds until the next write, or None if nothing was."""
        write, desired, deletions = part.due(), part.desired(), part.seen.deletions
        if write is None:
            if part.plan() is None:
                part.trouble = ""
            return None
        part.sending = True
        try:
            written = await write()
        finally:
            part.sending = False
        response = written.document if written.view is None else written.view
        if response is not None:
            part.seen.wrote(response, self._timing.clock(), deletions)
        return self._finish(part, written, desired)

    def _finish(self, part: _Part, written: Written, desired: object) -> float:
        """Take the result of a write; the seconds until the next one of this part."""
        now = self._timing.clock()
        self.writes[part.kind, written.outcome] += 1
        if part.kind == "device":
            self._wake("inventory")  # which has a condition about it
        if written.outcome != "done":
            self._report(part, written.sentence)
            return max(part.backoff.next(), written.wait)
        self._check_effect(part, written, desired)
        repeated = part.last is not None and part.last[0] == desired and now - part.last[1] < self._settings.contested
        part.last = desired, now
        if repeated:
            return max(part.backoff.next(), self._settings.between_writes)
        part.backoff.reset()
        return self._settings.between_writes

    def _check_effect(self, part: _Part, written: Written, desired: object) -> None:
        """Report a write after which the API server still shows something else: a webhook or a schema has changed it."""
        response = written.document if written.view is None else written.view
        if part.seen.value is response and part.desired() == desired and part.plan() is not None:
            part.ineffective = desired, response
            self._report(part, f"the API server did not store the {part.kind} as written; check its CRD and webhooks")
        else:
            part.ineffective, part.trouble = None, ""

    def _report(self, part: _Part, sentence: str) -> None:
        if part.trouble != sentence:
            log.warning("kind=%s not published: %s", part.kind, sentence)
        part.trouble = sentence

    # what is to be written

    def _inventory_document(self) -> Document | None:
        """The DeviceInventory without times."""
        if self._state is None:
            return None
        condition = self._device_condition()
        return with_condition(self._state.inventory, condition) if condition else self._state.inventory

    def _inventory_write(self) -> Write | None:
        desired, known = self._inventory_document(), self._inventory.value
        if desired is None or not self._inventory.known:
            return None
        document = with_times(desired, known, _timestamp(self._timing.now()))
        if known is not None and not object_changes(known, document):
            return None
        return lambda: self._writer.write_inventory(document, known)

    def _node_write(self) -> Write | None:
        state, view = self._state, self._node.value
        if state is None or view is None:
            return None
        labels = text_changes(view.labels, state.labels, LABELS)
        annotations = text_changes(view.annotations, state.annotations, ANNOTATIONS)
        return (lambda: self._writer.patch_node(labels, annotations)) if labels or annotations else None

    def _capacity_write(self) -> Write | None:
        state, view = self._state, self._node.value
        if state is None or view is None or not (changes := capacity_changes(view, state.capacity)):
            return None
        return lambda: self._writer.patch_node_status(changes.get("capacity", {}), changes.get("allocatable", {}))

    def _taint_write(self) -> Write | None:
        state, view = self._state, self._node.value
        if state is None or view is None or state.tainted is None:
            return None
        tainted = state.tainted
        right = IDLE_ACCELERATORS in view.taints if tainted else not is_tainted(view)
        return None if right else lambda: self._writer.set_taint(IDLE_ACCELERATORS, present=tainted)

    def _device_write(self) -> Write | None:
        document, known = self._state and self._state.device, self._device.value
        if not document or not self._device.known or self._foreign_device:
            return None
        if known is not None and not object_changes(known, document):
            return None
        return lambda: self._writer.write_device(document, known)

    def _device_info_write(self) -> Write | None:
        desired = self._state.device_info if self._state else None
        known, now = self._device_info.value, self._timing.now()
        if desired is None or not self._device_info.known or (known is not None and is_current(known, desired, now)):
            return None
        document = config_map(desired, int(now))
        return lambda: self._writer.write_device_info(document, known)

    @property
    def _foreign_device(self) -> str:
        """Why the Device object is left alone; empty if it is not, or is not to be written."""
        writer = other_writer(self._device.value) if self._state and self._state.device else ""
        return f"the Device object of this node is written by {writer}; it is left alone" if writer else ""

    def _device_condition(self) -> Condition | None:
        """The condition about Koordinator's Device object; None if it is not to be written, or nothing is known yet."""
        if not self._state or not self._state.device:
            return None
        if self._foreign_device:
            return Condition(_DEVICE_CONDITION, "False", "OtherWriter", self._foreign_device)
        if trouble := self._parts["device"].trouble:
            return Condition(_DEVICE_CONDITION, "False", "NotPublished", trouble)
        return Condition(_DEVICE_CONDITION, "True", "Published") if self._device.value is not None else None


def parsed_document(document: object) -> Document | None:
    """The object of a watch event; one that can't be read counts as empty, so that it is written again."""
    if isinstance(document, bytes):
        try:
            return decode_as(document, dict[str, object])
        except InputError:
            return {}
    return document if document is None or isinstance(document, Mapping) else {}


@dataclass(frozen=True, slots=True)
class AgentKnowledge:
    """What the parts of an agent know."""

    node: str
    view: NodeView | None
    """None until the API server has shown the Node"""
    pods: Mapping[str, PodView]
    """of the node, by UID"""
    found: Discovery
    cordons: Mapping[str, str]
    """reasons of cordoned devices, by id"""
    serving: Serving
    resource: str
    """that is served, or would be if no other plugin did; empty if there is none"""
    in_use: Mapping[str, tuple[str, ...]]
    """devices by pod UID, as the kubelet has allocated them"""
    recorded: frozenset[str]
    """devices on the records of pods, before the kubelet allocates them too"""
    holds: tuple[Hold, ...]
    usage: Mapping[str, object] | None
    """summary for the inventory; None if there is none"""
    registration: Status
    stopping: bool
    """whether the agent is about to end, and no other stands by"""
    differing: tuple[Claim, ...]
    """containers that have other devices than those of the kubelet's ids"""
    mode_problem: str
    access_problem: str


def node_state(known: AgentKnowledge, settings: AgentSettings) -> NodeState:
    """Return what the API server should show."""
    found, usable = known.found, with_cordons(known.found, known.cordons)
    pods = {uid: (pod.namespace, pod.name) for uid, pod in known.pods.items() if uid in known.in_use}
    conditions = _conditions(known, settings)
    inventory = inventory_of(
        known.node, found, known.serving, known.in_use, pods, conditions, known.holds, version=__version__
    )
    chips, ascend = _chips(known, usable), settings.ascend
    return NodeState(
        with_usage(inventory, known.usage),
        labels_of(found),
        annotations_of(found) | chip_annotations(found, chips, wanted=ascend.annotations),
        capacity_of(found, known.serving),
        _tainted(known, usable, settings),
        device_of(known.node, usable) if settings.koordinator_device else None,
        DeviceInfo(known.node, chip_lists(chips)) if chips and ascend.device_info else None,
    )


def object_version(document: Document) -> int:
    """The resourceVersion of an object as a number; 0 if it is not one."""
    metadata = document.get("metadata")
    text = metadata.get("resourceVersion") if isinstance(metadata, Mapping) else None
    is_number = isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) <= _MAX_VERSION_DIGITS
    return int(text) if isinstance(text, str) and is_number else 0


def _timestamp(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _conditions(known: AgentKnowledge, settings: AgentSettings) -> tuple[Condition, ...]:
    status = known.registration
    reason, sentence = _REGISTRATION_REASONS.get(status.state, "WaitingForKubelet"), status.sentence
    if settings.plugin == "never":
        reason, sentence = "Disabled", "the setting agent.plugin is never"
    elif known.stopping:
        reason, sentence = "AgentStopped", "the agent of this node has ended; the kubelet rejects pods until it is back"
    elif known.mode_problem and not status.enforced:
        reason, sentence = "ModeNotServed", known.mode_problem
    serves = status.enforced and not known.stopping
    registered = Condition("PluginRegistered", "True" if serves else "False", reason, sentence)
    cdi = Condition("CDIWritten", "False", "NotWritable", known.access_problem) if known.access_problem else None
    served = (registered, believed_condition(known.differing), cdi)
    return tuple(filter(None, (*conditions_of(known.found), cordon_condition(known.cordons), *served)))


def _chips(known: AgentKnowledge, usable: Discovery) -> ChipStates | None:
    """The chips for Huawei's lists, of which those on record count as taken before the kubelet allocates them."""
    if not known.resource:
        return None
    listed = known.view is not None and known.view.capacity.get(known.resource, "0") != "0"
    return chips_of(usable, known.serving, known.resource, _used(known) | known.recorded, listed=listed)


def _used(known: AgentKnowledge) -> frozenset[str]:
    return frozenset(device for devices in known.in_use.values() for device in devices)


def _tainted(known: AgentKnowledge, usable: Discovery, settings: AgentSettings) -> bool | None:
    """Whether the node should have the taint for idle devices; None until the node is known."""
    stranded, used = settings.stranded, _used(known)
    if known.view is None:
        return None
    if not stranded.taint:
        return False  # it may be left from a time when the setting was on
    idle = sum(device.healthy and device.id not in used for device in usable.devices)
    reserve = Reserve(int(1000 * stranded.cpu), int(stranded.memory * 2**30))
    return should_taint(known.view, known.pods.values(), idle, reserve)
