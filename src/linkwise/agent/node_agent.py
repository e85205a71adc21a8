"""Node agent: discovers devices, serves them to the kubelet, follows what it allocates, and publishes all of it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from linkwise.agent.allocator import Allocator, RecordKeeper
from linkwise.agent.container_access import ContainerAccess
from linkwise.agent.discovering import Discoverer
from linkwise.agent.dra.driver import ClaimDriver
from linkwise.agent.holds import Holds, Survey
from linkwise.agent.kubelet.plugin import DevicePlugin, Registrar, Status
from linkwise.agent.kubelet.state import PodResources, alignment_in, container_answers
from linkwise.agent.measured_driver import state_folder
from linkwise.agent.modes import ResourceMode, checkpoint_mode, resource_mode, resources_of_vendor, wanted_mode
from linkwise.agent.publisher import AgentKnowledge, node_state, parsed_document
from linkwise.agent.usage import NodePods, SerialDriver, UsageMonitor
from linkwise.broker.cluster.kubelet_choice import idle_node
from linkwise.broker.watch_events import NodeObject, PodDeleted, PodListComplete
from linkwise.dialects.linkwise.cordon import cordons_of
from linkwise.dialects.linkwise.inventory import KIND, inventory_facts, inventory_faults
from linkwise.dialects.registry import whole_device_dialect
from linkwise.errors import ClusterError
from linkwise.model.inventory import Discovery, Hold
from linkwise.model.node import NumaAlignment
from linkwise.model.views import NodeView, PodView
from linkwise.node.allocation import Allocations
from linkwise.node.container import devices_given
from linkwise.node.corrections import Addresses
from linkwise.node.health import Recovery, with_cordons
from linkwise.node.publishing import (
    NodeState,
    Serving,
    inventory_of,
    node_with_facts,
)
from linkwise.node.usage import holdings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from linkwise.agent.allocator import PodWriter
    from linkwise.agent.dra.driver import ClaimApi, Service
    from linkwise.broker.cluster.kubelet_choice import IdleNode
    from linkwise.broker.watch_events import WatchEvent
    from linkwise.config.settings import AgentSettings
    from linkwise.model.driver import Driver
    from linkwise.net.timing import Timing
    from linkwise.node.allocation import Listed

__all__ = ["NodeAgent", "Publishing"]

log = logging.getLogger(__name__)

API_SECONDS: Final = 5.0
"""to wait for the Node object at start: its label sets the mode"""
SETTLE_DELAY: Final = 0.2  # seconds from an answer until the kubelet lists it
AWAY_SECONDS: Final = 30.0
"""for which devices are held that the kubelet can't allocate: three times as long as it takes to report them as not allocatable"""
AWAY: Final = "the kubelet has no connection to the device plugin"
PLUGIN_SOCKETS: Final = {"whole": "linkwise.sock", "share": "linkwise-share.sock"}
"""by mode, in the kubelet's folder"""


Document = Mapping[str, object] | bytes | None
"""an object as JSON or parsed; None if it does not exist"""


class Publishing(Protocol):
    """Shows the API server what the node should look like."""

    def publish(self, state: NodeState) -> None:
        """Set the desired state."""
        ...

    def observe_node(self, view: NodeView) -> None:
        """Record the Node as the API server shows it."""
        ...

    def observe_inventory(self, document: Document) -> None:
        """Record the DeviceInventory as the API server shows it; None if there is none."""
        ...

    def observe_device(self, document: Document) -> None:
        """Record Koordinator's Device object as the API server shows it; None if there is none."""
        ...

    def observe_device_info(self, document: Document) -> None:
        """Record the ConfigMap of Huawei's device plugin as the API server shows it; None if there is none."""
        ...


@dataclass(slots=True)
class NodeAgent:
    """The agent of one node: `run` it, and pass watch events of the node and its pods to `observe`."""

    settings: AgentSettings
    node: str
    driver: Driver
    publishing: Publishing
    cluster: PodWriter | None
    """None without an API server"""
    timing: Timing
    clock: Callable[[], float]
    """seconds since the epoch"""
    claim_api: ClaimApi | None = None
    """None without an API server"""
    found: Discovery = field(default_factory=lambda: Discovery(""))
    served: ResourceMode | None = None
    """what the plugin serves, or would serve if no other did"""
    allocations: Allocations | None = None
    registrar: Registrar = field(init=False)
    discoverer: Discoverer = field(init=False)
    records: RecordKeeper = field(init=False)
    access: ContainerAccess = field(init=False)
    holds: Holds = field(init=False)
    driver_of_claims: ClaimDriver = field(init=False)
    """serves the devices where ResourceClaims allocate them"""
    usage: UsageMonitor = field(init=False)
    _pod_resources: PodResources = field(init=False)
    _folder: Path = field(init=False)
    stopping: bool = False
    """whether it is about to end, and no other agent of the node stands by"""
    standby: str = ""
    """why it does not serve the kubelet yet, although it could; empty otherwise"""
    settled: int = 0
    """how often the kubelet's allocations were compared with the records"""
    answered: Callable[[str, float], None] = lambda *_: None
    """called with the method and the seconds of each answer to the kubelet"""
    _view: NodeView | None = None
    _cordons: Mapping[str, str] = field(default_factory=dict)
    """reasons of cordoned devices, by id"""
    _inventory_seen: bool = False
    _away_until: float = 0.0
    """until when all devices are held because pods that reach the kubelet are rejected; seconds since the epoch"""
    _pods: dict[str, PodView] = field(default_factory=dict)
    _plugin: DevicePlugin | None = None
    _allocator: Allocator | None = None
    _idle_node: IdleNode | None = None
    _mode_problem: str = ""
    _kubelet_problem: str = ""
    _mode_known: bool = False
    """whether it is decided what to serve; nothing, if there are no devices"""
    _look_again: asyncio.Event = field(default_factory=asyncio.Event)
    """set when the mode, the devices or the registration may have changed"""
    _settle_soon: asyncio.Event = field(default_factory=asyncio.Event)
    _view_seen: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        kubelet = Path(self.settings.kubelet)
        self._folder = kubelet / "device-plugins"
        self._pod_resources = PodResources(kubelet / "pod-resources/kubelet.sock")
        self.access = ContainerAccess(self.settings, self.timing, self._access_changed)
        self.registrar = Registrar(
            self._folder, self._pod_resources, self.timing, self._registration_changed, self._prepare
        )
        driver, recovery = SerialDriver(self.driver), Recovery(self.settings.health.recovery)
        self.discoverer = Discoverer(driver, self.settings.interval, self.timing, recovery, self._discovered)
        self.usage = UsageMonitor(
            self.node,
            driver,
            self.settings.usage,
            self.timing,
            pods=self._pods_with_devices,
            changed=self._publish,
            tell=self.cluster.tell if self.cluster else lambda _: None,
        )
        self.records = RecordKeeper(self.node, self.cluster, self.clock, self.timing.clock)
        self.driver_of_claims = ClaimDriver(
            self.node,
            self.settings,
            self.access,
            self.claim_api,
            self.timing,
            self._claims_changed,
            self._unknown,
            self._answered,
        )
        self.holds = Holds(state_folder(self.settings.kubelet), self.timing, self.clock, self._survey, self._publish)

    async def run(self) -> None:
        """Run until cancelled."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self.driver_of_claims.claims.load()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.discoverer.run(), name="discovery")
                tasks.create_task(self._serve(), name="plugin")
                tasks.create_task(self._follow(), name="pod resources")
                tasks.create_task(self.access.run(), name="container access")
                tasks.create_task(self.holds.run(), name="holds")
                tasks.create_task(self.usage.run(), name="usage")
                tasks.create_task(self.driver_of_claims.run(), name="claims")
        finally:
            self.driver.close()

    def announce_end(self) -> bool:
        """Publish that the kubelet will have no plugin for the devices soon; False if it has none of this agent now."""
        if not self.registrar.status.enforced:
            return False
        self.stopping, self._away_until = True, self.clock() + AWAY_SECONDS
        self._publish()
        return True

    def observe(self, events: Sequence[WatchEvent]) -> None:
        """Apply watch events of the node, its inventory and its pods."""
        for event in events:
            if isinstance(event, PodView):
                self._observe_pod(event)
            elif isinstance(event, PodDeleted):
                self._forget(event.uid)
            elif isinstance(event, PodListComplete):
                for uid in self._pods.keys() - event.uids:
                    self._forget(uid)
            elif isinstance(event, NodeView) and event.name == self.node:
                self._observe_node(event)
            elif isinstance(event, NodeObject):
                self._observe_object(event)
        self._publish()

    @property
    def usable(self) -> Discovery:
        """The devices as they are allocated: cordoned ones are not."""
        return with_cordons(self.found, self._cordons)

    def uids(self) -> frozenset[str]:
        """UIDs of all known pods."""
        return frozenset(self._pods)

    def not_ready(self) -> dict[str, str]:
        """What the agent waits for, by part."""
        if not self.discoverer.rounds:
            return {"driver": self.discoverer.problem or "discovering devices"}
        if self.standby:
            return {}  # a rolling update ends the agent before it only once this one is ready
        if not self._mode_known:
            return {"mode": "reading the sharing mode of the node"}
        served = self._plugin is not None or self.driver_of_claims.active
        if served and self._registration.state in {"waiting", "refused"}:
            return {"kubelet": self._registration.sentence}
        return {}

    def problems(self) -> tuple[str, ...]:
        """Problems to show to operators, as sentences."""
        own = (
            self.standby,
            self.discoverer.problem,
            self.access.problem,
            self._mode_problem,
            self._kubelet_problem,
            self.holds.problem,
            self.usage.problem,
            *self.driver_of_claims.problems,
        )
        foreign = self.registrar.status.sentence if self.registrar.status.state == "foreign" else ""
        faults = (f"device {device}: {sentence}" for device, sentence in self.found.faults.items())
        return tuple(filter(None, (*own, foreign, *self.found.problems, *faults, *self.records.problems)))

    def _observe_object(self, event: NodeObject) -> None:
        if event.kind == KIND:
            self._observe_inventory(event.document)
            self.holds.observe(event.document)
        elif event.kind.startswith("ConfigMap/"):
            self.publishing.observe_device_info(event.document)
        elif event.kind.startswith("ResourceSlice/"):
            self.driver_of_claims.observe_slice(event.kind.partition("/")[2], event.document)
        else:
            self.publishing.observe_device(event.document)

    def _observe_pod(self, pod: PodView) -> None:
        if pod.node != self.node:
            return
        self._pods[pod.uid] = pod
        if self.allocations is not None:
            self.allocations.observe(pod)
            self._settle_soon.set()

    @property
    def _registration(self) -> Status:
        """Whether the kubelet uses what serves the devices."""
        return self.driver_of_claims.status if self.driver_of_claims.active else self.registrar.status

    def _unknown(self) -> str:
        return self.discoverer.problem

    def _claims_changed(self) -> None:
        self._look_again.set()  # the last claim of a mode that is to end may have been taken back
        self._publish()

    def _forget(self, uid: str) -> None:
        self._pods.pop(uid, None)
        if self.allocations is not None:
            self.allocations.forget(uid)

    def _observe_inventory(self, document: Document) -> None:
        """Take over the inventory; the first one has what the last agent of the node knew of faults, and of its end."""
        if not self._inventory_seen:
            self._inventory_seen = True
            last = parsed_document(document)
            self.discoverer.remember(inventory_faults(last))
            if not self.registrar.status.enforced:
                self._away_until = max(
                    (hold.until for hold in inventory_facts(last).holds if hold.reason == AWAY), default=0.0
                )
        self.publishing.observe_inventory(document)

    def _observe_node(self, view: NodeView) -> None:
        before, self._view = self._view, view
        cordons, self._cordons = self._cordons, cordons_of(view)[0]
        self._view_seen.set()
        self.publishing.observe_node(view)
        self._update_addresses()
        if before is None or (before.labels, before.runtime, cordons) != (view.labels, view.runtime, self._cordons):
            self._update_access()
            self._update_devices()
            self._look_again.set()

    def _discovered(self, found: Discovery) -> None:
        """Take over what the driver found, which differs from before."""
        self.found = found
        self._update_addresses()
        self._update_devices()
        self._update_access()
        self._look_again.set()
        self._publish()

    def _update_addresses(self) -> None:
        self.records.addresses = Addresses(self._view.address if self._view else "", self.found.addresses)

    def _registration_changed(self, before: Status, status: Status) -> None:
        if before.enforced and not status.enforced:
            self._away_until = self.clock() + AWAY_SECONDS
        if status.state in {"registered", "foreign"} and not self.stopping:
            self._away_until = 0.0
        self._settle_soon.set()
        self._publish()

    async def _serve(self) -> None:
        """Serve the resource of the current mode, and start again when that changes."""
        await self._know_node()
        serving: asyncio.Task[None] | None = None
        try:
            while True:
                self._look_again.clear()
                known = bool(self.discoverer.rounds)
                wanted = await self._wanted()
                if wanted != self.served or (serving and serving.done()):
                    await _cancelled(serving)
                    self._begin(wanted)
                    serving = asyncio.create_task(self._run_plugin(wanted)) if self._plugin and wanted else None
                    if serving is not None:
                        serving.add_done_callback(lambda _: self._look_again.set())  # it ends only with an error
                    self._publish()
                if known:
                    self.driver_of_claims.serve(self._claim_service(wanted))
                self._mode_known = known
                await self._look_again.wait()
        finally:
            await _cancelled(serving)

    async def _know_node(self) -> None:
        """Wait for the Node object, whose label sets the mode, but not for an API server that is away."""
        if self.cluster is not None and self.settings.mode == "auto":
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(API_SECONDS):
                    await self._view_seen.wait()

    async def _wanted(self) -> ResourceMode | None:
        """The resource to serve; devices in use keep the mode as it is."""
        self._mode_problem = ""
        mode = wanted_mode(self.settings, self._view)
        if mode == "dra":
            return await self._still_used()
        if claims := self.driver_of_claims.claims.prepared:
            self._mode_problem = (
                f"the node stays in mode dra until no ResourceClaim has its devices; {len(claims)} have"
            )
            return None
        if self.settings.mode == "auto" and self._view is None:
            mode = checkpoint_mode(self._folder) or mode
        wanted = resource_mode(self.found, mode, self.settings.memory_unit) if self.found.devices else None
        other = resource_mode(self.found, "whole" if mode == "share" else "share", self.settings.memory_unit)
        if wanted and other and other.resource != wanted.resource and await self._is_used(other):
            # rule 004.mode: a device is never counted under two names.
            self._mode_problem = f"the node stays in mode {other.mode} until no pod uses {other.resource}"
            return other
        if wanted and wanted.problem:
            self._mode_problem = wanted.problem
        return wanted

    async def _still_used(self) -> ResourceMode | None:
        """The resource that pods use although ResourceClaims are to allocate the devices; None if there is none."""
        for mode in ("whole", "share"):
            other = resource_mode(self.found, mode, self.settings.memory_unit) if self.found.devices else None
            if other and other.mode == mode and await self._is_used(other):
                # rule 004.mode: a device is never counted under two names.
                self._mode_problem = f"the node stays in mode {other.mode} until no pod uses {other.resource}"
                return other
        return None

    def _claim_service(self, served: ResourceMode | None) -> Service:
        """Whether ResourceClaims allocate the devices: not while pods use a resource."""
        if served is None and self.settings.mode == "dra" and self.settings.plugin != "never":
            return "on"
        return "ending" if self.driver_of_claims.claims.prepared else "off"

    async def _is_used(self, other: ResourceMode) -> bool:
        if self.served == other and self.allocations is not None and self.allocations.in_use():
            return True
        try:
            return bool(await self._pod_resources.allocated(other.resource))
        except ClusterError:  # the file may have pods that have ended, so the list comes first
            return bool(await asyncio.to_thread(container_answers, self._folder, other.resource))

    def _begin(self, wanted: ResourceMode | None) -> None:
        self.served, self._plugin, self._allocator, self.allocations = wanted, None, None, None
        if wanted is None:
            return
        self.allocations = Allocations(wanted.resource, shared=wanted.shared, pick=self._pick)
        self._allocator = Allocator(
            self.allocations,
            self.access.options,
            self.settings.siblings,
            self.cluster,
            self.timing.clock,
            self._settle_soon.set,
            self.holds,
        )
        if self.settings.plugin != "never" and not wanted.problem:
            socket = self._folder / PLUGIN_SOCKETS[wanted.mode]
            self._plugin = DevicePlugin(
                wanted.resource, socket, self._allocator, self.access.host.host_path, self._answered
            )
        self._update_devices()
        for pod in sorted(self._pods.values(), key=lambda pod: (pod.created, pod.uid)):
            self.allocations.observe(pod)
        self._settle_soon.set()

    async def _run_plugin(self, wanted: ResourceMode) -> None:
        if self._plugin is not None:
            await self.registrar.run(self._plugin, resources_of_vendor(self.found.vendor) | {wanted.resource})

    def _answered(self, method: str, seconds: float) -> None:
        self.answered(method, seconds)

    def _update_devices(self) -> None:
        """Pass the devices on to everything that answers for them."""
        self.driver_of_claims.update(self.found, self._cordons)
        if self.served is None or self.allocations is None or self._allocator is None:
            return
        usable = self.usable
        devices = self.served.devices(usable)
        self.allocations.devices = {device.id: device for device in devices}
        for pod in self._pods.values():  # records may name devices by index
            self.allocations.observe(pod)
        # The kubelet asks only for devices of the NUMA nodes that it has chosen.
        document = inventory_of(self.node, usable, replace(self._serving(), alignment=None))
        capacity = {self.served.resource: str(len(devices))}
        labels = self._view.labels if self._view else {}  # one of them names the hardware profile
        self.allocations.facts = node_with_facts(self.node, self.found)
        view = NodeView(self.node, labels, capacity=capacity, allocatable=capacity)
        self._idle_node = idle_node(view, {KIND: document})
        if self._plugin is not None:
            self._plugin.update(self._allocator.plugin_devices(devices))

    def _pick(self, available: Sequence[str], required: Sequence[str], size: int) -> tuple[str, ...]:
        """The scheduler's choice among available devices."""
        return self._idle_node.choose(available, required, size) if self._idle_node else ()

    def _update_access(self) -> None:
        """Update how containers get devices."""
        self.access.update(self.found, self._view)
        if self._allocator is not None:
            self._allocator.host = self.access.options

    def _access_changed(self) -> None:
        if self._allocator is not None:
            self._allocator.host = self.access.options
        self._publish()

    async def _follow(self) -> None:
        """Compare the kubelet's allocations with the records: after each allocation, and at each interval."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.settings.interval):
                    await self._settle_soon.wait()
            await self.timing.sleep(SETTLE_DELAY)
            self._settle_soon.clear()
            await self._settle()

    async def _settle(self) -> None:
        allocations, began = self.allocations, self.timing.clock()
        # At start it is not known yet which plugin serves.
        if allocations is None or (self._other_maps_ids and self.registrar.status.state in {"waiting", "foreign"}):
            return
        try:
            listed = await self._pod_resources.allocated(allocations.resource)
        except ClusterError as error:
            self._kubelet_problem = f"pod resources: {error}"
            return
        self._kubelet_problem = ""
        corrections = allocations.settle(listed, began, await self._given(allocations, listed))
        await self.records.correct(allocations, corrections)
        self.settled += 1
        if self._mode_problem:
            self._look_again.set()  # the devices that kept the mode may be free now
        self._publish()

    async def _given(
        self, allocations: Allocations, listed: Sequence[Listed]
    ) -> Mapping[tuple[str, str], tuple[str, ...]]:
        """Devices that listed containers were given, by pod UID and container; nothing if all of them are known."""
        if allocations.is_proven(listed):
            return {}
        answers = await asyncio.to_thread(container_answers, self._folder, allocations.resource)
        return {key: devices_given(one, allocations.devices, self.found.vendor) for key, one in answers.items()}

    async def _prepare(self) -> None:
        """Learn what containers have before the kubelet can call: another plugin may have given them other devices than their ids."""
        allocations, began = self.allocations, self.timing.clock()
        if allocations is None:
            return
        with contextlib.suppress(ClusterError):  # a kubelet that is starting
            listed = await self._pod_resources.allocated(allocations.resource)
            if self.cluster is not None and not allocations.knows(listed):
                for pod in (await self.cluster.pods()).pods:
                    allocations.observe(pod)
            allocations.settle(listed, began, await self._given(allocations, listed))

    async def _survey(self) -> Survey:
        """The devices that no pod has or is about to get, by the kubelet and by the API server as they are now."""
        allocations = self.allocations
        if allocations is None or not self.registrar.status.enforced:
            why = (
                self.registrar.status.sentence or self._mode_problem or "its plugin is not registered with the kubelet"
            )
            return Survey(problem=f"the agent does not allocate the devices of this node: {why}")
        if self.cluster is None:
            return Survey(problem="the agent has no API server, so the scheduler would not know of a hold")
        try:
            listed = await self._pod_resources.allocated(allocations.resource)
        except ClusterError as error:
            return Survey(problem=f"pod resources: {error}")
        pods = await self.cluster.pods()
        if pods.problem:
            return Survey(problem=f"the pods of this node can't be listed: {pods.problem}")
        for pod in pods.pods:
            allocations.observe(pod)
        healthy = tuple(device.id for device in self.usable.devices if device.healthy)
        return Survey(healthy, *allocations.users(listed))

    @property
    def _other_maps_ids(self) -> bool:
        """Whether another plugin of these devices ignores which ids it is given: Huawei's, and those for shares.

        It gives a container the devices of the pod's record, and writes what belongs to that itself.
        """
        dialect = whole_device_dialect(self.found.vendor)
        return bool(self.served and self.served.shared) or bool(dialect and dialect.plugin_maps_ids)

    def _serving(self) -> Serving:
        status = self.registrar.status
        known = self.served is not None and (status.enforced or status.state == "foreign")
        unit = self.served.unit if self.served else "MiB"
        mode = self.served.mode if self.served and known else "any"
        return Serving(mode, unit, status.enforced, self._alignment())

    def _alignment(self) -> NumaAlignment | None:
        """How the kubelet aligns devices with NUMA nodes: by the settings, else by its configuration file."""
        found, policy = alignment_in(Path(self.settings.kubelet)), self.settings.topology_policy
        if policy == "auto":
            return found
        return NumaAlignment(policy, self.settings.topology_scope, static_cpus=found is None or found.static_cpus)

    def _publish(self) -> None:
        """Set what the API server should show; the publisher writes only what differs."""
        if not self.discoverer.rounds:
            return
        serving = self._serving()
        served = self.registrar.status.state != "foreign" or not self._other_maps_ids
        in_use = self.allocations.in_use() if self.allocations and served else {}
        if self.allocations is not None and self.holds.devices:
            self.holds.review({*self.allocations.recorded(), *(one for devices in in_use.values() for one in devices)})
        known = AgentKnowledge(
            node=self.node,
            view=self._view,
            pods=self._pods,
            found=self.found,
            cordons=self._cordons,
            serving=serving,
            resource=self.served.resource if self.served and self.allocations else "",
            in_use=in_use,
            recorded=frozenset(self.allocations.recorded()) if self.allocations else frozenset(),
            holds=self.holds.holds + self._away(),
            usage=self.usage.summary,
            registration=self._registration,
            stopping=self.stopping,
            differing=self.allocations.differing() if self.allocations and served else (),
            mode_problem=self._mode_problem,
            access_problem=self.access.problem,
        )
        self.publishing.publish(node_state(known, self.settings))

    def _away(self) -> tuple[Hold, ...]:
        """Holds on all devices while pods that reach the kubelet are rejected; they end by themselves, as another plugin may come."""
        if self._away_until <= self.clock():
            return ()
        measured = self.holds.devices
        return tuple(
            Hold(device.id, AWAY, self._away_until) for device in self.found.devices if device.id not in measured
        )

    def _pods_with_devices(self) -> NodePods:
        """The pods of the node and the devices that they have, to attribute usage to."""
        unit = self.served.unit if self.served else "MiB"
        holdings = holdings_of(self._pods.values(), self.allocations, self.found.devices, unit)
        return NodePods({uid: (pod.namespace, pod.name) for uid, pod in self._pods.items()}, holdings)


async def _cancelled(task: asyncio.Task[None] | None) -> None:
    """Cancel a task and wait for its end; an error that it ended with is raised."""
    if task is None:
        return
    task.cancel()
    # Unlike awaiting the task, this lets a cancellation of the caller through.
    (ended,) = await asyncio.gather(task, return_exceptions=True)
    if isinstance(ended, Exception):
        raise ended
