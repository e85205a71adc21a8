"""Allocation of a node's devices: which pod a call of the kubelet is for, which devices it gets, and their ids.

The kubelet's calls carry no pod. It admits pods in the order in which it sees them, and so does the agent, so a call is
matched to the first container that waits for that number of ids. What a container was given in the end is what counts:
`settle` compares it with the records and returns those to correct.

Ids of the kubelet are the devices where this agent answered the call. Other plugins may give a container other devices than
those of its ids: such a container is believed to have what the answer to the kubelet named, else what its record names.

A container's life, as (state, event) -> state::

    WAITING    -- answered --> ANSWERED     Allocate was answered for it
    WAITING    -- listed ----> ALLOCATED    the kubelet has devices for it: the agent restarted, or calls were swapped
    WAITING    -- refused ---> REFUSED      its pod has no record, or requires other devices; the kubelet rejects the pod
                                            and does not call again
    ANSWERED   -- listed ----> ALLOCATED
    ANSWERED   -- missing ---> WAITING      the answer was lost, or was for another pod
    ALLOCATED  -- listed ----> ALLOCATED
    ALLOCATED  -- missing ---> WAITING      the kubelet lost its checkpoint, as after a reboot

Source: seed 004, step 3; seed 000, "the device plugin".

Source: seed 004 and its device plugin, whose ids are the UUID, a separator and a number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from linkwise.dialects.pod_resources import amount
from linkwise.dialects.registry import held_by, required_by
from linkwise.engine.reasons.catalog import refusal
from linkwise.engine.requirements import unmet_by
from linkwise.errors import InputError, LedgerError
from linkwise.model.requirement import Requirement
from linkwise.model.verdict import Problem
from linkwise.model.views import FINISHED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from linkwise.model.device import Device
    from linkwise.model.node import Node
    from linkwise.model.verdict import Grant
    from linkwise.model.views import ContainerView, PodView

__all__ = [
    "LONGEST_ID",
    "TABLE",
    "Allocated",
    "Allocations",
    "Claim",
    "Correction",
    "Listed",
    "Refused",
    "State",
    "by_device",
    "device_of",
    "id_problem",
    "share_ids",
    "units_of",
]

State = Literal["WAITING", "ANSWERED", "ALLOCATED", "REFUSED"]
Transition = Literal["answered", "listed", "missing", "refused"]

TABLE: Final[Mapping[tuple[State, Transition], State]] = {
    ("WAITING", "answered"): "ANSWERED",
    ("WAITING", "listed"): "ALLOCATED",
    ("WAITING", "missing"): "WAITING",
    ("WAITING", "refused"): "REFUSED",
    ("ANSWERED", "answered"): "ANSWERED",  # the kubelet repeats a call
    ("ANSWERED", "listed"): "ALLOCATED",
    ("ANSWERED", "missing"): "WAITING",
    ("ALLOCATED", "answered"): "ANSWERED",  # the kubelet forgot the devices and asks again
    ("ALLOCATED", "listed"): "ALLOCATED",
    ("ALLOCATED", "missing"): "WAITING",
    ("REFUSED", "listed"): "ALLOCATED",  # the call was for another pod
    ("REFUSED", "missing"): "REFUSED",
}

SETTLE_SECONDS: Final = 5.0
"""an answer is missing only if a list that began this long after it does not show it"""

How = Literal["recorded", "other devices", "adopted"]
"""whether the devices are those on record; `adopted` if no record names any"""

Pick = Callable[[Sequence[str], Sequence[str], int], tuple[str, ...]]
"""the scheduler's choice among available devices, with the required ones, of that number"""
SEPARATOR: Final = "-_-"
SLICES: Final = "::"
LONGEST_ID: Final = 63  # characters of an id that the kubelet accepts
MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""the largest message that the kubelet receives"""
_BYTES_BESIDE_ID: Final = 22
"""the most bytes of a listed device besides its id: health, NUMA node, tags and lengths"""


@dataclass(slots=True)
class Claim:
    """One container's devices: recorded by the scheduler, and allocated by the kubelet."""

    pod: PodView
    container: str
    amount: int
    """ids that the kubelet allocates"""
    picks: tuple[str, ...]
    """the recorded devices; empty without a record"""
    init: bool = False
    """an ordinary init container: its devices pass on to the others, and the kubelet does not list them"""
    state: State = "WAITING"
    ids: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    """that the container has; those of its ids, unless another plugin gave it others"""
    proven: bool = False
    """whether the answer to the kubelet says so; else it is believed by the record"""
    answered_at: float = 0.0

    @property
    def differs(self) -> bool:
        """Whether the container has other devices than those of its ids."""
        return bool(self.ids) and set(self.devices) != set(map(device_of, self.ids))

    def move(self, event: Transition) -> None:
        """Change the state by the table."""
        if (self.state, event) not in TABLE:
            raise LedgerError(f"container {self.container} is {self.state}: {event!r} is not allowed")
        self.state = TABLE[self.state, event]
        if self.state == "WAITING":
            self.ids, self.devices, self.proven = (), (), False


@dataclass(frozen=True, slots=True)
class Allocated:
    """Devices of one call; without a claim if no pod is known for it."""

    ids: tuple[str, ...]
    devices: tuple[str, ...]
    claim: Claim | None
    how: How


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a call can't be answered, for the kubelet's event on the pod."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Listed:
    """Ids that the kubelet has allocated to a container."""

    namespace: str
    pod: str
    container: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Correction:
    """A pod whose record differs from what its containers have."""

    pod: PodView
    grant: Grant
    """as the kubelet allocated the devices"""
    swapped: bool
    """whether it has what was recorded for another pod of the same size, and that one has its devices"""


@dataclass(slots=True)
class Allocations:
    """The claims on the devices of one node under one resource.

    Args:
        resource: the resource name, such as `nvidia.com/gpu`.
        shared: whether an id is a unit of memory, and all ids of a container are of one device.
        pick: chooses among available devices where no record does.
    """

    resource: str
    shared: bool
    pick: Pick
    devices: Mapping[str, Device] = field(default_factory=dict)
    """of the node, by id, with memory in the unit of shares"""
    facts: Node | None = None
    """the node with the facts that requirements of pods are compared with; None until they are known"""
    results: Counter[str] = field(default_factory=Counter)
    """calls of Allocate by result, and corrections"""
    _claims: dict[tuple[str, str], Claim] = field(default_factory=dict)
    """by pod UID and container, in the order in which they were seen"""

    def observe(self, pod: PodView) -> None:
        """Add or update the claims of a pod on this node."""
        if pod.phase in FINISHED or pod.stopped:
            self.forget(pod.uid)
            return
        picks = _recorded(pod, self.devices)
        for container in pod.containers:
            wanted = self._wanted(container)
            known = self._claims.get((pod.uid, container.name))
            if known is not None:
                known.pod, known.picks = pod, _picks_of(pod, container, picks, wanted, shared=self.shared)
            elif wanted and self.resource not in pod.hosted_by_claims:
                own = _picks_of(pod, container, picks, wanted, shared=self.shared)
                init = container.init and not container.sidecar
                self._claims[pod.uid, container.name] = Claim(pod, container.name, wanted, own, init)

    def forget(self, uid: str) -> None:
        """Drop the claims of a pod that was deleted or has finished."""
        for key in [key for key in self._claims if key[0] == uid]:
            del self._claims[key]

    def keep(self, uids: frozenset[str]) -> None:
        """Drop the claims of all other pods."""
        for uid in {uid for uid, _ in self._claims} - uids:
            self.forget(uid)

    def claims(self) -> tuple[Claim, ...]:
        """All claims, in the order in which they were seen."""
        return tuple(self._claims.values())

    def expects(self, size: int) -> bool:
        """Whether a container waits for that number of ids."""
        return any(True for _ in self._waiting(size))

    def in_use(self) -> dict[str, tuple[str, ...]]:
        """Devices by pod UID, as far as the kubelet was given them."""
        by_pod: dict[str, list[str]] = {}
        for claim in self._claims.values():
            if claim.ids:
                by_pod.setdefault(claim.pod.uid, []).extend(claim.devices)
        return {uid: tuple(dict.fromkeys(devices)) for uid, devices in by_pod.items()}

    def devices_of(self, uid: str) -> tuple[Device, ...]:
        """Devices of one pod, as far as the kubelet was given them."""
        return tuple(self.devices[name] for name in self.in_use().get(uid, ()) if name in self.devices)

    def differing(self) -> tuple[Claim, ...]:
        """Containers that have other devices than those of their ids."""
        return tuple(claim for claim in self._claims.values() if claim.differs)

    def recorded(self) -> set[str]:
        """Devices on record for containers that wait for them."""
        return {pick for claim in self._claims.values() if claim.state == "WAITING" for pick in claim.picks}

    def users(self, listed: Iterable[Listed]) -> tuple[dict[str, str], str]:
        """Who has each device or is about to get it, by what the kubelet lists and by the claims.

        The second value names a pod whose devices are not known yet, if there is one: it may get any of them.
        """
        busy = {device_of(one): f"pod {each.namespace}/{each.pod} has it" for each in listed for one in each.ids}
        unknown = ""
        for claim in self._claims.values():
            name = f"pod {claim.pod.namespace}/{claim.pod.name}"
            busy |= dict.fromkeys(claim.devices, f"{name} has it")
            if claim.state == "WAITING":
                busy |= dict.fromkeys(claim.picks, f"{name} is about to get it")
                unknown = unknown or (
                    "" if claim.picks else f"{name} is about to get devices, and it is not known which"
                )
        return busy, unknown

    def preferred(self, available: Sequence[str], required: Sequence[str], size: int) -> tuple[str, ...]:
        """Return that many available ids: the recorded ones, else those that the scheduler would pick; never fails."""
        free = set(available).difference(required)  # required ones are those of the pod's init containers
        for claim in self._claims.values():
            if claim.ids and free.issuperset(claim.ids):
                claim.move("missing")  # the kubelet could allocate them again, so no container has them
        # rule 000.agree, 004.allocate: where the scheduler has chosen, the kubelet is steered to that choice.
        for claim in self._waiting(size):
            if not claim.picks:
                break
            if ids := self._ids_on(claim.picks, available, required, size):
                return ids
        return self._unrecorded(available, required, size)

    def allocate(self, ids: Sequence[str], now: float) -> Allocated | Refused:
        """Answer one call of Allocate by the table of docs/reference/agent.md; a refusal allocates nothing."""
        ids = self._ordered(ids)
        devices = _devices_of(ids)
        claim = self._claim_for(devices, len(ids))
        given = self._given_for(claim, devices, len(ids))
        if refused := self._broken_rule(ids, given):
            self.results["refused"] += 1
            return Refused(refused)
        if self.shared and (claim is None or not claim.picks):
            self.results["refused"] += 1
            if claim is not None and claim.state == "WAITING":
                claim.move("refused")
            return Refused(
                f"no pod on this node has {len(ids)} {self.resource} on record: pods that share a device must be "
                "scheduled by Linkwise; check the schedulerName of the pod"
            )
        if claim is not None and (unmet := self._unmet(claim, given)):
            self.results["refused"] += 1
            if claim.state == "WAITING":
                claim.move("refused")
            return Refused(unmet)
        if claim is not None:
            claim.move("answered")
            claim.ids, claim.devices, claim.proven, claim.answered_at = ids, given, True, now
        answer = Allocated(ids, given, claim, _how(claim, given))
        self.results[answer.how] += 1
        return answer

    def _unmet(self, claim: Claim, devices: Sequence[str]) -> str:
        """Why devices do not meet what a pod requires of them; empty if they do."""
        node, requirement = self.facts, required_by(claim.pod)
        if isinstance(requirement, Problem):
            return f"pod {claim.pod.namespace}/{claim.pod.name}: {requirement.key}: {requirement.sentence}"
        if node is None or requirement is None:
            return ""
        # rule 002.versions: what another scheduler placed here, or what changed since, does not start.
        reason = unmet_by(requirement, node, [device for device in node.devices if device.id in devices])
        return f"pod {claim.pod.namespace}/{claim.pod.name}: {refusal(reason)}" if reason else ""

    def knows(self, listed: Iterable[Listed]) -> bool:
        """Whether the pods of all listed containers were observed."""
        return self._by_container(listed).keys() <= {self._key(claim) for claim in self._claims.values()}

    def is_proven(self, listed: Iterable[Listed]) -> bool:
        """Whether it is known what each of the listed containers has, without reading the answers that they were given."""
        answers = self._answers()
        containers = self._by_container(listed)
        return all(
            self._key(claim) not in containers or containers[self._key(claim)] in answers
            for claim in self._claims.values()
        )

    def settle(
        self, listed: Iterable[Listed], began: float, given: Mapping[tuple[str, str], tuple[str, ...]] | None = None
    ) -> tuple[Correction, ...]:
        """Record what the kubelet has allocated, and return the records that differ from it.

        Args:
            listed: the ids of all containers, by the kubelet.
            began: when the list was requested.
            given: devices by pod UID and container, as answers to the kubelet name them, whichever plugin gave them.
        """
        found, answers = self._by_container(listed), self._answers()
        taken = {identifier for ids in found.values() for identifier in ids}
        for claim in self._claims.values():
            if ids := found.get(self._key(claim), ()):
                named = (given or {}).get((claim.pod.uid, claim.container), ())
                claim.move("listed")
                claim.ids = ids
                claim.devices, claim.proven = self._believed(claim, answers.get(ids, ()), named)
            # A list that was requested before the answer can't show it yet.
            elif not claim.init and claim.answered_at < began:
                overdue = claim.answered_at + SETTLE_SECONDS < began
                if overdue or not taken.isdisjoint(claim.ids):  # another container has what it was answered
                    claim.move("missing")
        return tuple(self._corrections())

    def _believed(
        self, claim: Claim, answered: tuple[str, ...], named: tuple[str, ...]
    ) -> tuple[tuple[str, ...], bool]:
        """The devices of a container that the kubelet lists, and whether that is proven."""
        own = _devices_of(claim.ids)
        if answered:
            return answered, True
        if named and (set(named) == set(own) or len(named) == (1 if self.shared else claim.amount)):
            return self._ordered(named), True
        # rule 004.allocate: without proof the record stands, because another plugin may have ignored the ids.
        return (claim.picks or own), False

    def complete(self) -> tuple[PodView, ...]:
        """Pods all of whose containers have devices."""
        states: dict[str, tuple[PodView, bool]] = {}
        for claim in self._claims.values():
            _, before = states.get(claim.pod.uid, (claim.pod, True))
            states[claim.pod.uid] = (claim.pod, before and (claim.state == "ALLOCATED" or claim.init))
        return tuple(pod for pod, whole in states.values() if whole)

    def _wanted(self, container: ContainerView) -> int:
        try:
            return amount(container, self.resource)
        except InputError:
            return 0  # the API server refuses such a pod

    def _waiting(self, size: int) -> Iterator[Claim]:
        """Containers that wait for that number of ids; those of pods that run already are last.

        A kubelet that lost its checkpoint lists nothing for them, but calls again only for containers that it starts again.
        """
        waiting = [claim for claim in self._claims.values() if claim.state == "WAITING" and claim.amount == size]
        return iter(sorted(waiting, key=lambda claim: claim.pod.phase == "Running"))

    def _key(self, claim: Claim) -> tuple[str, str, str]:
        return claim.pod.namespace, claim.pod.name, claim.container

    def _by_container(self, listed: Iterable[Listed]) -> dict[tuple[str, str, str], tuple[str, ...]]:
        return {(one.namespace, one.pod, one.container): self._ordered(map(self._known, one.ids)) for one in listed}

    def _answers(self) -> dict[tuple[str, ...], tuple[str, ...]]:
        """Devices that were given for ids, as far as that is proven: the kubelet may list the ids for another container."""
        return {claim.ids: claim.devices for claim in self._claims.values() if claim.ids and claim.proven}

    def _given_for(self, claim: Claim | None, devices: tuple[str, ...], size: int) -> tuple[str, ...]:
        """The devices to give for ids of these devices; empty if none is free.

        They are the same, unless a container has other devices than those of its ids: until it ends, the kubelet counts
        devices as free that are in use, and the other way round.
        """
        if not self.differing():
            return devices
        free = self._free_units(claim)
        choices = [claim.picks if claim else (), devices]
        if self.shared:
            choices += [(name,) for name in sorted(free, key=lambda name: (free[name], self._index(name)))]
        elif len(whole := [name for name, units in free.items() if units > 0]) >= size:
            choices.append(self.pick(whole, (), size))
        units, count = (size, 1) if self.shared else (1, size)
        fitting = (one for one in choices if len(one) == count and all(free.get(name, 0) >= units for name in one))
        return self._ordered(next(fitting, ()))

    def _free_units(self, asking: Claim | None) -> dict[str, int]:
        """Units of each healthy device that no other container has; init containers pass theirs on."""
        free = {name: each.memory if self.shared else 1 for name, each in self.devices.items() if each.healthy}
        for claim in self._claims.values():
            same = asking is not None and claim.pod.uid == asking.pod.uid
            if claim is asking or (claim.init and (same or claim.pod.phase == "Running")):
                continue
            for name in free.keys() & set(claim.devices):
                free[name] -= claim.amount if self.shared else 1
        return free

    def _ids_on(
        self, picks: Sequence[str], available: Sequence[str], required: Sequence[str], size: int
    ) -> tuple[str, ...]:
        """Ids of the picked devices; empty if they are not all available."""
        if not self.shared:
            return tuple(picks) if set(required) <= set(picks) <= set(available) else ()
        own, picked = units_of(picks[0], available), set(required)
        rest = [identifier for identifier in own if identifier not in picked]
        fits = {device_of(identifier) for identifier in required} <= {picks[0]} and len(own) >= size
        return (*required, *rest[: size - len(required)]) if fits else ()

    def _unrecorded(self, available: Sequence[str], required: Sequence[str], size: int) -> tuple[str, ...]:
        promised, unfit = self.recorded(), self._unfit(size)
        others = [i for i in available if device_of(i) not in promised or i in required]
        fitting = [i for i in others if device_of(i) not in unfit or i in required]
        for candidates in (fitting, others, list(available)) if unfit else (others, list(available)):
            ids = self._shares(candidates, required, size) if self.shared else self.pick(candidates, required, size)
            if len(ids) == size:
                return ids
        needed = set(required)
        rest = [identifier for identifier in available if identifier not in needed]
        return (*required, *rest)[:size]

    def _unfit(self, size: int) -> set[str]:
        """Devices that do not meet the requirement of the container that the kubelet most likely asks for."""
        claim = next((claim for claim in self._waiting(size) if not claim.picks), None)
        requirement = required_by(claim.pod) if claim else None
        if self.facts is None or not isinstance(requirement, Requirement):
            return set()
        return {device.id for device in self.facts.devices if unmet_by(requirement, self.facts, [device])}

    def _shares(self, available: Sequence[str], required: Sequence[str], size: int) -> tuple[str, ...]:
        """Ids of the fullest device that has enough of them."""
        fitting = [
            (len(own), self._index(device), device)
            for device, own in by_device(available).items()
            if len(own) >= size and {device_of(identifier) for identifier in required} <= {device}
        ]
        return self._ids_on((min(fitting)[2],), available, required, size) if fitting else ()

    def _index(self, device: str) -> int:
        return self.devices[device].index if device in self.devices else 0

    def _broken_rule(self, ids: Sequence[str], devices: Sequence[str]) -> str:
        unknown = [device for device in _devices_of(ids) if device not in self.devices]
        if unknown or not ids:
            return f"the kubelet asked for {', '.join(unknown) or 'no devices'}, which this node does not have"
        if not devices:
            return (
                f"no device has {len(ids)} {self.resource} free: containers that another device plugin served have other "
                "devices than the kubelet counts"
            )
        unhealthy = [device for device in devices if not self.devices[device].healthy]
        if unhealthy:
            return f"device {', '.join(unhealthy)} is unhealthy or cordoned"
        if self.shared and len(devices) > 1:
            # rule 004.one-card
            return f"{len(ids)} {self.resource} must be on one device, but the kubelet chose {', '.join(devices)}"
        return ""

    def _known(self, identifier: str) -> str:
        """The id by our own name of the device: other plugins may name devices by their index."""
        named = (device.id for device in self.devices.values() if str(device.index) == identifier)
        return next(named, identifier) if identifier.isdecimal() else identifier

    def _ordered(self, ids: Iterable[str]) -> tuple[str, ...]:
        """Ids by the index of their device: the kubelet lists them in another order each time."""
        return tuple(sorted(ids, key=lambda each: (self._index(device_of(each)), len(each), each)))

    def _claim_for(self, devices: tuple[str, ...], size: int) -> Claim | None:
        waiting = list(self._waiting(size))
        same = [claim for claim in waiting if set(claim.picks) == set(devices)]
        holding = [claim for claim in self._claims.values() if set(_devices_of(claim.ids)) == set(devices)]
        repeated = [claim for claim in holding if claim.amount == size]
        return next(iter((*same, *waiting, *repeated)), None)

    def _corrections(self) -> Iterator[Correction]:
        # rule 004.allocate: the pod that has a device is the pod on record.
        for pod in self.complete():
            grant = held_by(pod).grant
            own = {claim.container: claim for claim in self._claims.values() if claim.pod.uid == pod.uid}
            wrong = [claim for claim in own.values() if not claim.init and set(claim.picks) != set(claim.devices)]
            if grant is None or not wrong:
                continue
            parts = tuple(
                replace(part, devices=own[part.container].devices, indices=())
                if part.container in own and not own[part.container].init
                else part
                for part in grant.offer.parts
            )
            yield Correction(pod, replace(grant, offer=replace(grant.offer, parts=parts)), self._swapped(wrong))

    def _swapped(self, wrong: Sequence[Claim]) -> bool:
        return all(
            any(other.picks and set(other.picks) == set(claim.devices) for other in self._claims.values())
            for claim in wrong
        )


def share_ids(device: Device) -> list[str]:
    """An id per unit of the device's memory."""
    # rule 004.report: the node's total is the number of ids, from the memory that the hardware reports.
    return [f"{device.id}{SEPARATOR}{number}" for number in range(device.memory)]


def device_of(identifier: str) -> str:
    """The device that an id belongs to; NVIDIA's plugin numbers the time slices of a device."""
    return identifier.partition(SEPARATOR)[0].partition(SLICES)[0]


def by_device(ids: Iterable[str]) -> dict[str, list[str]]:
    """Ids of each device."""
    found: dict[str, list[str]] = {}
    for identifier in ids:
        found.setdefault(device_of(identifier), []).append(identifier)
    return found


def units_of(device: str, ids: Iterable[str]) -> list[str]:
    """Ids of one device's units, in the order of their numbers."""
    start = f"{device}{SEPARATOR}"
    return sorted((identifier for identifier in ids if identifier.startswith(start)), key=_number)


def id_problem(devices: Iterable[Device], unit: str) -> str:
    """Why the kubelet can't be served an id per unit of memory, and what to set; empty if it can."""
    # rule 004.units: the unit is never changed silently, because pods request amounts of it.
    size = 0
    for device in devices:
        if not device.memory:
            continue
        longest = f"{device.id}{SEPARATOR}{device.memory - 1}"
        if len(longest) > LONGEST_ID:
            return (
                f"device {device.id}: ids such as {longest} are longer than the {LONGEST_ID} characters of the kubelet"
            )
        size += device.memory * (len(longest.encode()) + _BYTES_BESIDE_ID)
    if size <= MESSAGE_BYTES:
        return ""
    total = sum(device.memory for device in devices)
    return (
        f"{total} units of {unit} do not fit into one message to the kubelet ({MESSAGE_BYTES // 2**20} MiB): "
        "set agent.memory_unit to GiB for the cluster"
    )


def _recorded(pod: PodView, devices: Mapping[str, Device]) -> dict[str, tuple[str, ...]]:
    """Recorded devices by container; a record may have only indices."""
    grant = held_by(pod).grant
    if grant is None:
        return {}
    ids = {f"#{device.index}": device.id for device in devices.values()}
    parts = grant.offer.parts
    return {part.container: tuple(ids.get(device, device) for device in part.devices) for part in parts}


def _picks_of(
    pod: PodView, container: ContainerView, picks: Mapping[str, tuple[str, ...]], wanted: int, *, shared: bool
) -> tuple[str, ...]:
    """Recorded devices of one container; an ordinary init container uses those of the containers that start after it."""
    own = picks.get(container.name, ())
    if container.init and not container.sidecar:
        after = pod.containers[pod.containers.index(container) + 1 :]
        running = [each for each in after if each.sidecar or not each.init]
        later = [device for each in running for device in picks.get(each.name, ())]
        own = tuple(dict.fromkeys((*later, *own)))
    return own[: 1 if shared else wanted]


def _devices_of(ids: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(device_of, ids)))


def _how(claim: Claim | None, devices: tuple[str, ...]) -> How:
    if claim is None or not claim.picks:
        return "adopted"
    return "recorded" if set(claim.picks) == set(devices) else "other devices"


def _number(identifier: str) -> int:
    number = identifier.rpartition(SEPARATOR)[2]
    return int(number) if number.isdecimal() else 0
