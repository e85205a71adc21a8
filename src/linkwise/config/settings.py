"""Settings of the service: one dataclass per section, one description per field."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from linkwise.model.settings import AdmissionSettings, PlacingSettings

__all__ = [
    "AgentSettings",
    "AscendSettings",
    "DebugSettings",
    "ExplainSettings",
    "HealthSettings",
    "HttpSettings",
    "KubeSettings",
    "LeaderSettings",
    "LogSettings",
    "PageSettings",
    "ServeSettings",
    "TlsSettings",
    "VolcanoRouteSettings",
    "WebhookSettings",
]


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
class TlsSettings:
    """TLS of the HTTP server, and the client certificates of schedulers."""

    enabled: bool = False
    """whether the HTTP server speaks TLS only, and schedulers need a client certificate"""
    namespace: str = ""
    """namespace of the Secrets and the Service; by default that of the service itself"""
    secret: str = "linkwise-tls"  # noqa: S105 - the name of an object
    """name of the Secret with the authority and the serving certificate that the service creates; replicas share it"""
    client_secret: str = "linkwise-scheduler-tls"  # noqa: S105 - the name of an object
    """name of the Secret with the client certificate that the service creates for kube-scheduler"""
    service: str = "linkwise"
    """name of the Service by which kube-scheduler calls the service"""
    names: tuple[str, ...] = ()
    """further host names and addresses by which it is called, for the certificate"""
    certificate_lifetime: float = 7_776_000.0  # seconds
    """of the certificates that the service creates; they are renewed after two thirds of it"""
    cert_file: str = ""
    """certificate to serve instead, such as one of cert-manager, in PEM format; read again when it changes"""
    key_file: str = ""
    """its private key"""
    client_ca_file: str = ""
    """authorities of the client certificates to accept, in PEM format"""


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
    without: tuple[str, ...] = ()
    """features whose objects are not watched, such as those that `linkwise manifests rbac --without` leaves out"""


@dataclass(frozen=True, slots=True)
class LeaderSettings:
    """Leader election among the replicas of the service, by a Lease."""

    enabled: bool = True
    """whether only the holder of the Lease decides; without it, two replicas would allocate devices twice"""
    lease: str = "linkwise"
    """name of the Lease; replicas of one service have the same"""
    namespace: str = ""
    """namespace of the Lease and the Service; by default that of the pod, or linkwise-system outside a cluster"""
    lease_duration: float = 15.0  # seconds
    """for which another replica must see no renewal before it takes over"""
    renew_deadline: float = 10.0  # seconds
    """for which the leader writes without a renewal; the rest of lease_duration must be longer than kube.bind_timeout"""
    retry_period: float = 2.0  # seconds
    """between two renewals of the leader, and at most between two looks of the others, which watch the Lease too"""
    identity: str = ""
    """start of this replica's name in the Lease, before a random suffix; by default POD_NAME or the host name"""
    service: str = ""
    """name of a Service without a selector, whose EndpointSlice SERVICE-leader the leader writes; empty for none"""
    address: str = ""
    """address of this replica in that EndpointSlice; POD_IP by default"""


@dataclass(frozen=True, slots=True)
class DebugSettings:
    """Access to the debug routes."""

    token: str = field(default="", repr=False)
    """bearer token for callers of /debug from other machines; if empty, only local callers are allowed"""


@dataclass(frozen=True, slots=True)
class WebhookSettings(AdmissionSettings):
    """The admission webhook: its HTTPS server and its certificate, and how it changes pods."""

    enabled: bool = False
    """whether the service answers admission reviews, for the configurations that `linkwise manifests webhook` prints"""
    host: str = "127.0.0.1"
    """address to listen on; the default in a pod is 0.0.0.0"""
    port: int = 9443
    """port to listen on; 0 picks a free port"""
    configuration: str = "linkwise"
    """name of the webhook configurations into which the service writes the certificate of its authority"""
    namespace: str = ""
    """namespace of the Secret and the Service; by default that of the service itself"""
    secret: str = "linkwise-webhook"  # noqa: S105 - the name of an object
    """name of the Secret with the certificates that the service creates; replicas share it"""
    service: str = "linkwise-webhook"
    """name of the Service by which the API server calls the webhook"""
    names: tuple[str, ...] = ()
    """further host names and addresses by which the API server calls the webhook, for the certificate"""
    certificate_lifetime: float = 7_776_000.0  # seconds
    """of the certificates that the service creates; they are renewed after two thirds of it"""
    cert_file: str = ""
    """certificate to serve instead, such as one of cert-manager, in PEM format; read again when it changes"""
    key_file: str = ""
    """its private key"""


@dataclass(frozen=True, slots=True)
class ExplainSettings:
    """Explanations for the owners of pods."""

    publish: bool = True
    """whether the reason that a pod is pending is published as a condition and as events of the pod"""
    schedulers: tuple[str, ...] = ("linkwise-scheduler",)
    """names of schedulers that call the service; one that has asked about a pod since the start is known anyway"""
    delay: float = 3.0  # seconds
    """for which a pod must be pending; pods that are bound sooner get no condition"""
    interval: float = 10.0  # seconds
    """minimum time between two explanations of one pod"""
    rate: float = 10.0  # per second
    """limit for writing conditions; pods of higher priority and older ones go first"""
    burst: int = 50
    """conditions that may be written in a burst"""
    tenants: bool = True
    """whether /explain and /v1 answer callers with a token, for what their own rights cover"""
    port: int = 0
    """port for /explain and /v1 alone, which every user may reach, with TLS if tls.enabled; 0: they are on http.port"""


@dataclass(frozen=True, slots=True)
class PageSettings:
    """The web page: devices, links and groups, and why pods wait."""

    enabled: bool = True
    """whether the page is served where /explain and /v1 are, to callers with a token, for what their own rights cover"""


@dataclass(frozen=True, slots=True)
class VolcanoRouteSettings:
    """The routes for Volcano's extender plugin."""

    port: int = 0
    """port without TLS for these routes and the probes only, since Volcano has no client certificates; 0 for none"""
    predicate_reply: Literal["string", "list"] = "string"
    """shape of the reply of predicate; list for Volcano 1.8 and 1.9 only"""


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
class UsageSettings:
    """Memory and utilization of devices, per device and per pod."""

    interval: float = 10.0  # seconds
    """between readings, which metrics show; 0 turns them off"""
    publish_interval: float = 30.0  # seconds
    """minimum time between two summaries in the DeviceInventory, which `linkwise top` shows; 0 publishes none"""
    threshold: float = 5.0  # percent
    """of a device's memory or compute by which a value must differ for a new summary, which is written every 5 minutes anyway"""


@dataclass(frozen=True, slots=True)
class HealthSettings:
    """The health of devices."""

    recovery: float = 60.0  # seconds
    """for which a device that failed must be found without a fault before it is used again"""
    ignored_xids: tuple[int, ...] = ()
    """Xid events of NVIDIA's driver that leave a device in use, beside those of programs"""
    fatal_xids: tuple[int, ...] = ()
    """Xid events that take a device out of use even though programs may cause them"""


@dataclass(frozen=True, slots=True)
class AscendSettings:
    """Nodes with Ascend chips."""

    runtime: Literal["auto", "always", "never"] = "auto"
    """whether Ascend Docker Runtime adds device nodes to containers, by ASCEND_VISIBLE_DEVICES; auto if it is installed"""
    annotations: bool = True
    """whether the agent writes the lists of chips in annotations of its node, for Huawei's tools"""
    device_info: bool = False
    """whether the agent writes the ConfigMap mindx-dl-deviceinfo-NODE too, for Huawei's scheduler plug-in and ClusterD"""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The node agent, `linkwise agent`."""

    node: str = ""
    """name of the node; NODE_NAME is read too, and the host name is the default"""
    host: str = "127.0.0.1"
    """address to serve metrics and probes on; the default in a pod is 0.0.0.0"""
    port: int = 39998
    """port to serve metrics and probes on; 0 picks a free port"""
    driver: str = "auto"
    """how devices are discovered: the name of a driver; auto tries those of NVIDIA, Huawei and AMD, in this order"""
    source: str = ""
    """folder of recorded tool outputs, machine profile to simulate, or path of the library or the tool"""
    interval: float = 10.0  # seconds
    """between discoveries: a device that fails is noticed within this time, or at once if its driver reports events"""
    bandwidth: str = ""
    """file with the output of p2pBandwidthLatencyTest or nvbandwidth on this node"""
    plugin: Literal["auto", "never"] = "auto"
    """auto serves the kubelet unless another device plugin serves the same devices; never only publishes them"""
    mode: Literal["auto", "whole", "share", "dra"] = "auto"
    """sharing mode of the node's devices; auto is share on nodes with the label gpushare=true, else whole. dra serves
    ResourceClaims instead of a resource"""
    memory_unit: Literal["GiB", "MiB"] = "GiB"
    """unit of aliyun.com/gpu-mem; set the same on all nodes, because pods request amounts of it"""
    kubelet: str = "/var/lib/kubelet"
    """root folder of the kubelet, with device-plugins and pod-resources below"""
    topology_policy: Literal["auto", "none", "best-effort", "restricted", "single-numa-node"] = "auto"
    """policy of the kubelet's Topology Manager; auto reads config.yaml in the kubelet's folder"""
    topology_scope: Literal["container", "pod"] = "container"
    """scope of the Topology Manager, if its policy is set here"""
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
    health: HealthSettings = field(default_factory=HealthSettings)
    stranded: StrandedSettings = field(default_factory=StrandedSettings)
    ascend: AscendSettings = field(default_factory=AscendSettings)
    usage: UsageSettings = field(default_factory=UsageSettings)


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """All settings, of `linkwise serve` and `linkwise agent`."""

    http: HttpSettings = field(default_factory=HttpSettings)
    log: LogSettings = field(default_factory=LogSettings)
    kube: KubeSettings = field(default_factory=KubeSettings)
    leader: LeaderSettings = field(default_factory=LeaderSettings)
    debug: DebugSettings = field(default_factory=DebugSettings)
    explain: ExplainSettings = field(default_factory=ExplainSettings)
    page: PageSettings = field(default_factory=PageSettings)
    placing: PlacingSettings = field(default_factory=PlacingSettings)
    agent: AgentSettings = field(default_factory=AgentSettings)
    webhook: WebhookSettings = field(default_factory=WebhookSettings)
    volcano: VolcanoRouteSettings = field(default_factory=VolcanoRouteSettings)
    tls: TlsSettings = field(default_factory=TlsSettings)
