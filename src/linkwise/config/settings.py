"""Settings of the service: one dataclass per section, one description per field."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from linkwise.model.settings import PlacingSettings

__all__ = ["AgentSettings", "DebugSettings", "HttpSettings", "KubeSettings", "LogSettings", "ServeSettings"]


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """The HTTP server."""

    host: str = "127.0.0.1"
    """address to listen on; the default in a pod is 0.0.0.0"""
    port: int = 39999
    """port to listen on, by default that of gpushare's extender; 0 picks a free port"""
    drain: float = 20.0  # seconds
    """for binds in flight to complete after SIGTERM; keep it below the pod's terminationGracePeriodSeconds"""


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The log."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """minimum severity"""
    format: Literal["text", "json"] = "text"
    """key=value text, or one JSON object per line"""


@dataclass(frozen=True, slots=True)
class KubeSettings:
    """Access to the API server."""

    page: int = 500
    """objects per page of a list"""
    resync: float = 3600.0  # seconds
    """interval between full lists, in case a watch missed an event; 0 turns them off"""
    bind_timeout: float = 4.0  # seconds
    """for a bind; keep it below the scheduler's httpTimeout, so that the scheduler gets the result"""
    wake_rate: float = 100.0  # per second
    """limit for waking unschedulable pods; the others are queued by priority, then by age"""
    wake_burst: int = 200
    """pods that may be woken in a burst"""
    event_rate: float = 50.0  # per second
    """limit for writing events, warnings first; decisions never wait for them, and excess is dropped and counted"""
    event_burst: int = 200
    """events that may be written in a burst"""


@dataclass(frozen=True, slots=True)
class DebugSettings:
    """Access to the debug routes."""

    token: str = field(default="", repr=False)
    """bearer token for callers of /debug from other machines; if empty, only local callers are allowed"""


@dataclass(frozen=True, slots=True)
class StrandedSettings:
    """The taint for nodes with idle devices and little room beside them."""

    taint: bool = False
    """whether the agent taints its node (PreferNoSchedule) while pods without devices would use up the rest of it"""
    cpu: float = 1.0  # CPUs
    """to keep unrequested for each idle device"""
    memory: float = 1.0  # GiB
    """to keep unrequested for each idle device"""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The node agent, `linkwise agent`."""

    node: str = ""
    """name of the node; NODE_NAME is read too, and the host name is the default"""
    host: str = "127.0.0.1"
    """address to serve metrics and probes on; the default in a pod is 0.0.0.0"""
    port: int = 39998
    """port to serve metrics and probes on; 0 picks a free port"""
    driver: Literal["auto", "nvml", "nvidia-smi", "recorded", "simulated"] = "auto"
    """how devices are discovered; auto tries NVML, then nvidia-smi"""
    source: str = ""
    """folder of recorded tool outputs, or machine profile to simulate"""
    interval: float = 10.0  # seconds
    """between discoveries: a device that fails or comes back is noticed within this time"""
    bandwidth: str = ""
    """file with the output of p2pBandwidthLatencyTest or nvbandwidth on this node"""
    plugin: Literal["auto", "never"] = "auto"
    """auto serves the kubelet unless another device plugin serves the same devices; never only publishes them"""
    mode: Literal["auto", "whole", "share"] = "auto"
    """sharing mode of the node's devices; auto is share on nodes with the label gpushare=true, else whole"""
    memory_unit: Literal["GiB", "MiB"] = "GiB"
    """unit of aliyun.com/gpu-mem; set the same on all nodes, because pods request amounts of it"""
    kubelet: str = "/var/lib/kubelet"
    """root folder of the kubelet, with device-plugins and pod-resources below"""
    host_root: str = "/"
    """where the file system of the host is mounted, to look for device nodes and driver files"""
    driver_root: str = "/"
    """folder of the host in which the driver is installed; device nodes and driver files are below it"""
    cdi: Literal["auto", "always", "never"] = "auto"
    """whether containers get devices by CDI names; auto does where the container runtime has CDI on by default"""
    cdi_folder: str = "/var/run/cdi"
    """folder for the CDI specification"""
    driver_files: Literal["auto", "always", "never"] = "auto"
    """whether libraries of the driver are mounted; auto does where the vendor's container toolkit is not installed"""
    siblings: Literal["group", "opt-in", "never"] = "group"
    """whose containers also see the devices of the other members of their group on the node"""
    koordinator_device: bool = False
    """whether to write Koordinator's Device object too, on nodes where no koordlet does"""
    flags: bool = False
    """whether to serve the container flags of devices at /docker/cli, to callers on the same host"""
    stranded: StrandedSettings = field(default_factory=StrandedSettings)


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """All settings, of `linkwise serve` and `linkwise agent`."""

    http: HttpSettings = field(default_factory=HttpSettings)
    log: LogSettings = field(default_factory=LogSettings)
    kube: KubeSettings = field(default_factory=KubeSettings)
    debug: DebugSettings = field(default_factory=DebugSettings)
    placing: PlacingSettings = field(default_factory=PlacingSettings)
    agent: AgentSettings = field(default_factory=AgentSettings)
