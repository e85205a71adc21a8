"""Pod as processes: waits for what its volumes refer to, runs its containers, probes them, restarts them and reports."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from signal import SIGTERM
from typing import TYPE_CHECKING, Final

from support.e2e.api_client import ApiError
from support.e2e.process_pods.container import container_process, image_of
from support.e2e.process_pods.network import GATEWAY, probe_http, probe_tcp
from support.e2e.process_pods.volumes import MissingError, Volumes
from support.e2e.processes import BedError, Process

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future
    from pathlib import Path

    from support.e2e.api_client import Api, Raw
    from support.e2e.process_pods.container import Environment, Image
    from support.e2e.process_pods.network import Network

__all__ = ["PodProcesses"]

REFRESH: Final = 1.0  # seconds between two looks at the objects that volumes are made of
FIRST_BACKOFF, MAX_BACKOFF = 0.5, 8.0  # seconds; kubelet starts at ten and goes up to three hundred
NAMES: Final = {"livenessProbe": "live", "readinessProbe": "ready", "startupProbe": "started"}


@dataclass
class Probe:
    """One probe of a container: when it is due, and how often in a row it had the same result."""

    spec: Raw
    due: float
    running: Future[int] | None = None
    successes: int = 0
    failures: int = 0

    @property
    def passed(self) -> bool:
        """Whether enough attempts in a row succeeded."""
        return self.successes >= int(self.spec.get("successThreshold", 1))

    @property
    def failed(self) -> bool:
        """Whether too many attempts in a row failed."""
        return self.failures >= int(self.spec.get("failureThreshold", 3))


@dataclass
class Container:
    """A container of the pod and its process, which is another after each restart."""

    spec: Raw
    process: Process | None = None
    restarts: int = -1
    code: int | None = None
    """of the last process, once it has ended"""
    started: str = ""
    finished: str = ""
    not_before: float = 0.0
    probes: dict[str, Probe] = field(default_factory=dict)

    @property
    def running(self) -> bool:
        """Whether its process runs."""
        return self.process is not None and self.process.alive

    @property
    def is_started(self) -> bool:
        """Whether it runs and its startup probe has passed."""
        probe = self.probes.get("startupProbe")
        return self.running and (probe is None or probe.passed)

    @property
    def ready(self) -> bool:
        """Whether it is started and its readiness probe passes."""
        probe = self.probes.get("readinessProbe")
        return self.is_started and (probe is None or (probe.passed and not probe.failed))


class PodProcesses:
    """One pod that is assigned to a node of ours; `step` is called again and again until it returns False."""

    def __init__(  # noqa: PLR0913, PLR0917 - what a kubelet gives to all its pods
        self,
        api: Api,
        pod: Raw,
        folder: Path,
        host: Path,
        network: Network,
        images: Mapping[str, Image],
        about: Environment,
    ) -> None:
        self._api, self.pod, self._folder, self._network = api, pod, folder, network
        self._images, self._about = images, about
        folder.mkdir(parents=True)
        self._volumes = Volumes(api, pod, folder / "volumes", host)
        self._init = [Container(spec) for spec in pod["spec"].get("initContainers", [])]
        self.containers = [Container(spec) for spec in pod["spec"]["containers"]]
        self._pause: Process | None = None
        self._refreshed, self._complete = 0.0, False
        self._waits = ""
        self._said: Raw = {}
        self._begun = _now()
        self._ending: float | None = None

    @property
    def name(self) -> str:
        """Namespace and name."""
        return f"{self.pod['metadata']['namespace']}/{self.pod['metadata']['name']}"

    @property
    def waits_for(self) -> str:
        """What it can't start without, if anything."""
        return self._waits

    @property
    def address(self) -> str:
        """Its address; empty until it has one."""
        return str(self.pod.get("status", {}).get("podIP", ""))

    def step(self, pod: Raw) -> bool:
        """Do what is due for the pod as the API server has it; False once it is gone."""
        self.pod = {**pod, "status": {**pod["status"], **self._addresses()}}
        if pod["metadata"].get("deletionTimestamp"):
            return self._end()
        if self._over:
            return True
        if self._prepared():
            self._run()
        self._report()
        return True

    def close(self) -> None:
        """End all processes at once."""
        for container in (*self._init, *self.containers):
            if container.process:
                container.process.kill()
        if self._pause:
            self._pause.kill()

    # start

    def _prepared(self) -> bool:
        """Whether the pod has a network and all its volumes."""
        if self._pause is None:
            self._pause = Process(
                f"{self.pod['metadata']['name']}.pause", ["unshare", "--net", *_SLEEP], self._folder.parent
            )
            self._pause.start()
            self._pause.wait_until(lambda: self._pause is not None and _SIGN in self._pause.tail(), 5)
            hosted = self.pod["spec"].get("hostNetwork")
            address = GATEWAY if hosted else self._network.attach(self._pause.pid)
            self.pod["status"] |= {"podIP": address, "podIPs": [{"ip": address}], "hostIP": GATEWAY}
        if time.monotonic() - self._refreshed > REFRESH:
            try:
                self._volumes.write()
            except MissingError as error:
                self._waits = str(error)
            else:
                self._waits, self._complete = "", True
            self._refreshed = time.monotonic()
        return self._complete

    def _addresses(self) -> Raw:
        """The address that it was given, which the API server may not have yet."""
        known = self.pod.get("status", {})
        return {key: known[key] for key in ("podIP", "podIPs", "hostIP") if key in known}

    def _run(self) -> None:
        for container in self._init:
            if container.code == 0:
                continue
            self._keep(container, again=self.pod["spec"]["restartPolicy"] != "Never")
            return
        for container in self.containers:
            self._keep(container, again=self._restarts(container))
            if container.running:
                self._probe(container)

    def _restarts(self, container: Container) -> bool:
        policy = self.pod["spec"].get("restartPolicy", "Always")
        return policy == "Always" or (policy == "OnFailure" and container.code != 0)

    def _keep(self, container: Container, *, again: bool) -> None:
        """Start a container that does not run, unless it has ended for good; each time after a longer pause."""
        if container.running:
            return
        if container.process is not None:
            container.code, container.process, container.finished = container.process.kill(), None, _now()
            pause = min(MAX_BACKOFF, FIRST_BACKOFF * 2**container.restarts)
            container.not_before = time.monotonic() + pause
        if (container.restarts >= 0 and not again) or time.monotonic() < container.not_before:
            return
        try:
            container.process = self._process(container.spec)
        except MissingError as error:
            self._waits = str(error)
            return
        container.process.start()
        container.restarts += 1
        container.started = _now()
        now = time.monotonic()
        container.probes = {
            name: Probe(spec, now + spec.get("initialDelaySeconds", 0))
            for name in NAMES
            if (spec := container.spec.get(name))
        }

    def _process(self, spec: Raw) -> Process:
        assert self._pause is not None
        hosted = self.pod["spec"].get("hostNetwork")
        enter = self._network.enter if hosted else ["nsenter", f"--net=/proc/{self._pause.pid}/ns/net", "--"]
        image = image_of(self._images, spec["image"])
        return container_process(spec, self.pod, image, self._volumes, self._folder, enter=enter, about=self._about)

    # probes

    def _probe(self, container: Container) -> None:
        """Start the probes that are due, and act on those that have a result."""
        for name, probe in container.probes.items():
            if name != "startupProbe" and not container.is_started:
                continue
            if name == "startupProbe" and probe.passed:
                continue
            self._attempt(container, probe)
            if probe.failed and name != "readinessProbe" and container.process:
                container.process.signal(SIGTERM)
                probe.failures = 0

    def _attempt(self, container: Container, probe: Probe) -> None:
        if probe.running and probe.running.done():
            good = 200 <= probe.running.result() < 400
            probe.successes, probe.failures = (probe.successes + 1, 0) if good else (0, probe.failures + 1)
            probe.running = None
            # A pod that is not ready yet is asked more often than kubelet would.
            pause = float(probe.spec.get("periodSeconds", 10)) if good else 0.3
            probe.due = time.monotonic() + pause
        if probe.running is None and time.monotonic() >= probe.due:
            probe.running = self._network.begin(self._answer(container, probe.spec))

    async def _answer(self, container: Container, spec: Raw) -> int:
        seconds = float(spec.get("timeoutSeconds", 1))
        ports = {port["name"]: port["containerPort"] for port in container.spec.get("ports", []) if "name" in port}
        if "httpGet" in spec:
            asked = spec["httpGet"]
            address = asked.get("host", self.address), int(ports.get(asked["port"], asked["port"]))
            tls = asked.get("scheme", "HTTP") == "HTTPS"
            return await probe_http(address, asked.get("path", "/"), tls=tls, seconds=seconds)
        if "tcpSocket" in spec:
            port = spec["tcpSocket"]["port"]
            return await probe_tcp((self.address, int(ports.get(port, port))), seconds)
        raise BedError(f"probe {spec} is of a kind that the tests do not know")

    # end

    @property
    def _over(self) -> bool:
        return self.pod["status"].get("phase") in {"Succeeded", "Failed"} and not self._pause

    def _end(self) -> bool:
        """SIGTERM, SIGKILL after the grace period, then the object is removed."""
        grace = float(self.pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        if self._ending is None:
            self._ending = time.monotonic() + grace
            self._stop_from = time.monotonic() + min(grace, self._pre_stop())
            self._asked_to_stop = False
        if not self._asked_to_stop and time.monotonic() >= self._stop_from:
            self._asked_to_stop = True
            for container in self.containers:
                if container.running and container.process:
                    container.process.signal(SIGTERM)
        alive = any(container.running for container in (*self._init, *self.containers))
        if alive and time.monotonic() < self._ending:
            self._report()
            return True
        self.close()
        about = self.pod["metadata"]
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": about["uid"]}}
        try:
            self._api.call("DELETE", f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}", body)
        except ApiError as error:
            if error.status not in {404, 409}:
                raise
        return False

    def _pre_stop(self) -> float:
        hooks = [
            container.spec["lifecycle"]["preStop"] for container in self.containers if container.spec.get("lifecycle")
        ]
        if any("sleep" not in hook for hook in hooks):
            raise BedError(f"{self.name}: the tests know no other preStop hook than sleep")
        return max((float(hook["sleep"]["seconds"]) for hook in hooks), default=0.0)

    # status

    def _report(self) -> None:
        """Write the status, if it has changed."""
        phase = self._phase()
        ready = phase == "Running" and all(container.ready for container in self.containers)
        initialized = all(container.code == 0 for container in self._init)
        conditions = {
            "PodScheduled": True,
            "PodReadyToStartContainers": self._pause is not None,
            "Initialized": initialized,
            "ContainersReady": ready,
            "Ready": ready,
        }
        status = {
            "phase": phase,
            "startTime": self._begun,
            **self._addresses(),
            "containerStatuses": [self._container_status(container) for container in self.containers],
            "initContainerStatuses": [self._container_status(container) for container in self._init],
        }
        state = {**status, "conditions": conditions}
        if state == self._said:
            return
        known = {each["type"]: each for each in self.pod["status"].get("conditions", [])}
        written = [
            _condition(kind, "True" if value else "False", known.get(kind)) for kind, value in conditions.items()
        ]
        about = self.pod["metadata"]
        body = {"metadata": {"uid": about["uid"]}, "status": {**status, "conditions": written}}
        try:
            path = f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}/status"
            self._api.call("PATCH", path, body, "application/strategic-merge-patch+json")
        except ApiError as error:
            if error.status not in {404, 409}:
                raise
            return
        self._said = state
        if phase in {"Succeeded", "Failed"} and self._pause:
            self._pause.kill()
            self._pause = None

    def _phase(self) -> str:
        ended = [c for c in self.containers if not c.running and c.code is not None and not self._restarts(c)]
        if len(ended) == len(self.containers):
            return "Succeeded" if all(container.code == 0 for container in ended) else "Failed"
        if any(c.code not in {0, None} for c in self._init) and self.pod["spec"].get("restartPolicy") == "Never":
            return "Failed"
        return "Running" if any(container.restarts >= 0 for container in self.containers) else "Pending"

    def _container_status(self, container: Container) -> Raw:
        ended = {"exitCode": container.code, "startedAt": container.started, "finishedAt": container.finished}
        if container.running:
            state: Raw = {"running": {"startedAt": container.started}}
        elif container.code is not None and not self._restarts(container):
            state = {"terminated": {**ended, "reason": "Completed" if container.code == 0 else "Error"}}
        elif container.code is not None:
            state = {"waiting": {"reason": "CrashLoopBackOff"}}
        else:
            state = {"waiting": {"reason": "ContainerCreating", "message": self._waits}}
        last = {"lastState": {"terminated": ended}} if container.code is not None else {}
        return {
            "name": container.spec["name"],
            "image": container.spec["image"],
            "imageID": "process",
            "ready": container.ready,
            "started": container.is_started,
            "restartCount": max(0, container.restarts),
            "state": state,
            **last,
        }


_SIGN: Final = "up"
_SLEEP: Final = ("sh", "-c", f"echo {_SIGN}; exec sleep infinity")


def _condition(kind: str, status: str, known: Raw | None) -> Raw:
    if known and known["status"] == status:
        return dict(known)
    return {"type": kind, "status": status, "lastTransitionTime": _now()}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
