"""Facts about a cluster for `linkwise doctor`: objects, answers of the service, rights, certificates, addresses.

Only what the selected checks need is read, several sources at a time. A source that can't be read becomes a reason, which
the checks report; only a cluster that can't be reached at all is an error.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import json
import socket
import ssl
import time
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import yaml

from linkwise import __version__
from linkwise.config.loading import load_text
from linkwise.config.rbac import SERVICE_PORT
from linkwise.config.scheduler_file import CONFIGURATION, POLICY, read_scheduler_text
from linkwise.config.settings import ServeSettings
from linkwise.config.yaml_documents import content_of
from linkwise.doctor.checks.devices import nodes_without_policy
from linkwise.doctor.checks.foreign import known_plugin
from linkwise.doctor.examine import CHECKS, sources_of
from linkwise.doctor.facts import CertificateFacts, Connected, Facts, ServiceAnswer
from linkwise.doctor.objects import find, items_at, name, namespace, object_at, text_at
from linkwise.doctor.permissions import OWN, SOURCES, USERS, needed, of_users
from linkwise.errors import ClusterError, InputError
from linkwise.kube.client.survey import Survey, Surveyed, SurveyKind
from linkwise.net.certificates import describe, is_issued
from linkwise.net.http.client import Http, Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from linkwise.config.scheduler_file import ExtenderEntry, SchedulerDocument
    from linkwise.doctor.objects import Raw
    from linkwise.doctor.permissions import Permission, Source
    from linkwise.kube.client.api import Connection

__all__ = ["Examination", "gather"]

AT_ONCE: Final = 8
"""requests in flight"""
MAX_KUBELETS: Final = 20
"""kubelets that are asked for their configuration"""
CONNECT: Final = 3.0  # seconds
SERVICE: Final = "linkwise"
_ANY_USER: Final = "linkwise-doctor:any-user"
"""a user without rights of its own"""
EMBEDDED: Final = "+linkwise"
"""how the version of the embedded cluster ends"""
_SETTINGS_KEY: Final = "config.yaml"
_SCHEDULER_KEY: Final = "scheduler.yaml"
_UNREACHED: Final = frozenset({500, 502, 503, 504})
"""statuses of the API server for a Service whose endpoint does not answer"""


@dataclass(frozen=True, slots=True)
class Examination:
    """What is examined."""

    namespace: str = "linkwise-system"
    checks: Collection[str] = field(default_factory=lambda: frozenset(each.id for each in CHECKS))
    scheduler_config: Path | None = None
    """a file of this machine, whose addresses are tried too"""


async def gather(
    connection: Connection, wanted: Examination, progress: Callable[[str], None] = lambda _: None
) -> Facts:
    """Read what the checks need; ClusterError if the cluster can't be reached."""
    return await _Gathering(connection, wanted, progress).facts()


class _Gathering:
    def __init__(self, connection: Connection, wanted: Examination, progress: Callable[[str], None]) -> None:
        self._connection, self._wanted, self._progress = connection, wanted, progress
        self._survey = Survey(connection)
        self._sources = sources_of(wanted.checks)
        self._limit = asyncio.Semaphore(AT_ONCE)
        self._lists: dict[str, tuple[Raw, ...]] = {}
        self._unread: dict[str, str] = {}
        self._cut: set[str] = set()
        self._read_at: dict[str, float] = {}
        self._settings = ServeSettings()

    async def facts(self) -> Facts:
        """Everything, in three rounds: what others depend on, the objects, what follows from them."""
        embedded = await self._is_embedded()
        started = time.time()
        await self._read("config-maps")
        offset = self._clock_offset((started + time.time()) / 2)
        place, problems = self._read_settings()
        if embedded and not place:
            self._settings = _alone(self._settings)
        schedulers = self._schedulers(embedded=embedded)
        objects = [each for each in SOURCES if each in self._sources and each != "config-maps"]
        await asyncio.gather(*(self._read(each) for each in objects))
        groups = await self._groups()
        metrics, service, allowed, kubelets, connections, _ = await asyncio.gather(
            self._metrics(),
            self._readyz(),
            self._allowed(groups),
            self._kubelets(),
            self._connections(schedulers),
            self._foreign_pods(),
        )
        certificates, trusted = self._certificates()
        now = time.time()
        return Facts(
            now=now,
            namespace=self._wanted.namespace,
            version=__version__,
            embedded=embedded,
            server_time=None if offset is None else now + offset,
            lists=self._lists,
            read_at=self._read_at,
            unread=self._unread,
            cut=frozenset(self._cut),
            settings=self._settings,
            settings_problems=problems,
            settings_place=place,
            schedulers=schedulers,
            service=service,
            metrics=metrics,
            allowed=allowed,
            groups=groups,
            kubelets=kubelets,
            certificates=certificates,
            trusted=trusted,
            connections=connections,
            schemas=_definitions(),
        )

    async def _is_embedded(self) -> bool:
        """Whether it is an embedded cluster; the first call, which shows whether it can be reached."""
        answer = await self._connection.call("GET", "/version")
        if answer.status == 401:
            raise ClusterError("not authenticated; log in again, as for kubectl")
        return EMBEDDED in answer.body.decode("utf-8", "replace")

    # objects

    async def _read(self, key: str) -> None:
        source = SOURCES[key]
        async with self._limit:
            self._progress(f"reading {source.resource}")
            surveyed = await self._surveyed(source)
        self._keep(key, surveyed)

    async def _surveyed(self, source: Source) -> Surveyed:
        place = self._wanted.namespace if source.place == OWN else source.place
        kind = SurveyKind(source.group, source.version, source.plural, place)
        if source.names:
            webhook, tls = self._settings.webhook, self._settings.tls
            words = {
                "secret": webhook.secret,
                "configuration": webhook.configuration,
                "tls_secret": tls.secret,
                "client_secret": tls.client_secret,
            }
            parts = [await self._survey.get(kind, each.format(**words)) for each in source.names]
        elif source.selections:
            parts = [await self._survey.list(kind, f"{source.query}{each}", source.pages) for each in source.selections]
        else:
            return await self._survey.list(kind, source.query, source.pages)
        error = next((each.error for each in parts if each.error), "")
        return Surveyed(tuple(item for each in parts for item in each.items), error, any(each.cut for each in parts))

    def _keep(self, key: str, surveyed: Surveyed) -> None:
        self._lists[key], self._read_at[key] = surveyed.items, time.time()
        if surveyed.error:
            self._unread[key] = surveyed.error
        if surveyed.cut:
            self._cut.add(key)

    def _clock_offset(self, asked: float) -> float | None:
        """Seconds by which the clock of the API server is ahead of ours; its header has whole seconds."""
        try:
            return parsedate_to_datetime(self._survey.date).timestamp() + 0.5 - asked
        except (ValueError, TypeError):
            self._unread["clock"] = "the API server states no time (header Date)"
            return None

    async def _groups(self) -> frozenset[str]:
        status, body, error = await self._survey.text("/apis", "the API groups", "the cluster role system:discovery")
        try:
            return frozenset(text_at(each, "name") for each in items_at(json.loads(body), "groups"))
        except ValueError:
            self._unread["groups"] = error or f"the API groups can't be read: {status}"
            return frozenset()

    async def _foreign_pods(self) -> None:
        """Pods of the DaemonSets that are device plugins of other systems."""
        if "foreign-pods" not in self._sources:
            return
        pods: list[Raw] = []
        for each in self._lists.get("daemon-sets", ()):
            if known_plugin(each) is None:
                continue
            equal = object_at(each, "spec", "selector", "matchLabels")
            selector = quote(",".join(f"{key}={value}" for key, value in equal.items()), safe="")
            read = await self._survey.list(SurveyKind("", "v1", "pods", namespace(each)), f"labelSelector={selector}")
            if read.error:
                self._unread["foreign-pods"] = read.error
            pods += read.items
        self._lists["foreign-pods"] = tuple(pods)

    # configurations

    def _config_map(self, wanted: str, key: str) -> str:
        return text_at(find(self._lists["config-maps"], wanted), "data", key)

    def _read_settings(self) -> tuple[str, tuple[str, ...]]:
        """Where the settings of the installation are, and their problems; the defaults if there are none."""
        if "config-maps" in self._unread:
            self._unread["settings"] = f"the settings are not known: {self._unread['config-maps']}"
            return "", ()
        text = self._config_map(SERVICE, _SETTINGS_KEY)
        place = f"configmap/{SERVICE}[{_SETTINGS_KEY}]"
        if not text:
            return "", ()
        try:
            self._settings, problems = load_text(text.encode(), place)
        except InputError as error:
            return place, (str(error),)
        return place, tuple(str(each) for each in problems)

    def _schedulers(self, *, embedded: bool) -> tuple[SchedulerDocument, ...]:
        """Configurations of schedulers in ConfigMaps of the namespace, and the file of this machine."""
        schedulers = [
            read_scheduler_text(text.encode(), f"configmap/{name(each)}[{key}]")
            for each in self._lists["config-maps"]
            for key, text in object_at(each, "data").items()
            if isinstance(text, str) and (key == _SCHEDULER_KEY or CONFIGURATION in text or f'"{POLICY}"' in text)
        ]
        path = self._wanted.scheduler_config
        if path is not None:
            document = read_scheduler_text(content_of(path), str(path), local=True)
            if document is None:
                raise InputError(f"{path}: neither a {CONFIGURATION} nor a scheduler policy file (kind {POLICY})")
            schedulers.append(document)
        documents = tuple(each for each in schedulers if each is not None)
        if not documents:
            self._unread["scheduler-files"] = self._no_scheduler(embedded=embedded)
        return documents

    def _no_scheduler(self, *, embedded: bool) -> str:
        if embedded:
            return "the scheduler of the embedded cluster has no configuration file"
        if error := self._unread.get("config-maps"):
            return f"no configuration of a scheduler was found: {error}; --scheduler-config FILE reads one from a file"
        return (
            f"no ConfigMap in namespace {self._wanted.namespace} holds a {CONFIGURATION}; --scheduler-config FILE reads one from a"
            " file"
        )

    # the service

    def _proxy(self, path: str) -> str:
        """The path of the service behind the API server's service proxy."""
        ports = items_at(find(self._lists.get("services", ()), SERVICE), "spec", "ports")
        secure = any(text_at(port, "name") == "https" for port in ports) or self._settings.tls.enabled
        target = f"{'https:' if secure else ''}{SERVICE}:{SERVICE_PORT}"
        return f"/api/v1/namespaces/{quote(self._wanted.namespace, safe='')}/services/{target}/proxy{path}"

    async def _ask_service(self, key: str, path: str) -> tuple[int, str]:
        if key not in self._sources:
            return 0, ""
        self._progress(f"reading {path} of the service")
        right = f"the verb get on services/proxy in namespace {self._wanted.namespace}"
        status, body, error = await self._survey.text(self._proxy(path), f"{path} of the service", right)
        if error:
            self._unread[key] = error
        return status, body

    async def _metrics(self) -> dict[str, float]:
        status, body = await self._ask_service("metrics", "/metrics")
        if status not in {0, 200}:
            self._unread.setdefault("metrics", f"/metrics of the service answered {status}")
        metrics: dict[str, float] = {}
        for line in body.splitlines():
            key, _, value = line.rpartition(" ")
            if key.startswith("linkwise_"):
                try:
                    metrics[key] = float(value)
                except ValueError:
                    continue
        return metrics

    async def _readyz(self) -> ServiceAnswer:
        status, body = await self._ask_service("readyz", "/readyz")
        if status in _UNREACHED and "no endpoints available" not in self._unread.get("readyz", ""):
            return ServiceAnswer(waits=(self._unread.pop("readyz", f"it answered {status}"),))
        lines = body.splitlines()
        waits = tuple(line.removeprefix("not ready: ") for line in lines if line.startswith("not ready: "))
        notes = tuple(line.removeprefix("note: ") for line in lines if line.startswith("note: "))
        return ServiceAnswer(status == 200, waits, notes)

    # rights

    async def _allowed(self, groups: frozenset[str]) -> dict[Permission, bool]:
        if "access" not in self._sources or "accounts" in self._unread:
            return {}
        there = {name(each) for each in self._lists.get("accounts", ())}
        needs = needed(self._settings, self._wanted.namespace, groups)
        wanted = dict.fromkeys(each for need in needs if need.account in there for each in need.permissions)
        wanted[of_users(self._settings, self._wanted.namespace)] = None
        answers = await asyncio.gather(*(self._may(each) for each in wanted))
        for answer in answers:
            if isinstance(answer, str):
                self._unread["access"] = answer
        return {each: answer for each, answer in zip(wanted, answers, strict=True) if isinstance(answer, bool)}

    async def _may(self, wanted: Permission) -> bool | str:
        resource, _, subresource = wanted.resource.partition("/")
        attributes = {
            "verb": wanted.verb,
            "group": wanted.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": wanted.namespace,
            "name": wanted.name,
        }
        account = f"system:serviceaccount:{self._wanted.namespace}:{wanted.account}"
        user = _ANY_USER if wanted.account == USERS else account
        async with self._limit:
            if "access" in self._unread:
                return self._unread["access"]
            self._progress("checking rights")
            answer = await self._survey.may(user, attributes)
            if isinstance(answer, str):
                self._unread["access"] = answer
            return answer

    # kubelets

    async def _kubelets(self) -> dict[str, Raw]:
        """Configurations of kubelets on nodes that share devices and whose agent does not publish them."""
        if "kubelets" not in self._sources:
            return {}
        known = {name(each): each for each in self._lists.get("inventories", ())}
        nodes = nodes_without_policy(known, self._lists.get("nodes", ()))
        if len(nodes) > MAX_KUBELETS:
            self._cut.add("kubelets")
        configurations: dict[str, Raw] = {}
        for node in nodes[:MAX_KUBELETS]:
            self._progress(f"reading the kubelet of {node}")
            path = f"/api/v1/nodes/{quote(node, safe='')}/proxy/configz"
            status, body, error = await self._survey.text(
                path, f"the configuration of kubelet {node}", "the verb get on nodes/proxy"
            )
            try:
                configurations[node] = object_at(json.loads(body), "kubeletconfig")
            except ValueError:
                self._unread["kubelets"] = error or f"kubelet {node} answered {status} to /configz"
                if status == 403:
                    break
        return configurations

    # certificates

    def _certificates(self) -> tuple[dict[str, tuple[CertificateFacts, ...]], bool | None]:
        bundles = [
            text_at(hook, "clientConfig", "caBundle")
            for key in ("mutating", "validating")
            for each in self._lists.get(key, ())
            for hook in items_at(each, "webhooks")
        ]
        bundle = "".join(dict.fromkeys(_decoded(each) for each in bundles))
        secret = next(iter(self._lists.get("webhook-secret", ())), {})
        serving = _decoded(text_at(secret, "data", "tls.crt"))
        certificates = {"bundle": _described(bundle), "serving": _described(serving)[:1]}
        for each in self._lists.get("tls-secrets", ()):
            certificates[f"secret/{name(each)}"] = _described(_decoded(text_at(each, "data", "tls.crt")))[:1]
        trusted = (
            all(is_issued(serving, _decoded(each)) for each in bundles) if certificates["serving"] and bundle else None
        )
        return certificates, trusted

    # addresses

    async def _connections(self, schedulers: Collection[SchedulerDocument]) -> dict[str, Connected]:
        if self._wanted.scheduler_config is None:
            self._unread["connections"] = (
                "addresses are tried only with --scheduler-config FILE, on the scheduler's host"
            )
            return {}
        extenders = [each.ours for each in schedulers if each.local and each.ours is not None]
        return {each.url: await _connected(each) for each in extenders}


def _alone(settings: ServeSettings) -> ServeSettings:
    """The settings of the service beside an embedded cluster, which has no other replica."""
    return replace(settings, leader=replace(settings.leader, enabled=False))


def _definitions() -> tuple[dict[str, Any], ...]:
    """The CustomResourceDefinitions of this version."""
    folder = files("linkwise.config") / "crds"
    texts = [file.read_text("utf-8") for file in folder.iterdir() if file.name.endswith(".yaml")]
    return tuple(yaml.load(text, yaml.CSafeLoader) for text in texts)


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return ""


def _described(bundle: str) -> tuple[CertificateFacts, ...]:
    return tuple(
        CertificateFacts(each.begins.timestamp(), each.ends.timestamp(), each.names) for each in describe(bundle)
    )


async def _connected(extender: ExtenderEntry) -> Connected:
    """Try an address as kube-scheduler would call it."""
    if not extender.host or not extender.port:
        return Connected(f"{extender.url!r} is not an http or https address")
    try:
        tls = _context(extender.tls) if extender.scheme == "https" else None
    except (OSError, ssl.SSLError, ValueError) as error:
        return Connected(f"a file of tlsConfig can't be used: {error}")
    server_name = str(extender.tls.get("serverName") or "")
    http = Http(Origin(extender.host, extender.port, "", tls, server_name))
    try:
        await http.call("GET", "/livez", b"Accept: text/plain\r\n", wait=CONNECT)
    except ClusterError as error:
        return Connected(str(error), await _open_at(extender.port) if extender.loopback else ())
    finally:
        await http.close()
    return Connected()


def _context(config: Mapping[str, object]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(config["caFile"]) if config.get("caFile") else None)
    if config.get("caData"):
        context.load_verify_locations(cadata=_decoded(str(config["caData"])))
    if config.get("insecure"):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if config.get("certFile"):
        context.load_cert_chain(str(config["certFile"]), str(config.get("keyFile") or "") or None)
    return context


async def _open_at(port: int) -> tuple[str, ...]:
    """Other addresses of this machine at which a port is open."""
    answering = []
    for address in _own_addresses():
        try:
            async with asyncio.timeout(1.0):
                _, writer = await asyncio.open_connection(address, port)
        except (OSError, TimeoutError):
            continue
        writer.close()
        answering.append(f"{address}:{port}")
    return tuple(answering)


def _own_addresses() -> list[str]:
    """Addresses of this machine that are not on the loopback: that of its route, and those of its name."""
    addresses: list[str] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: it only selects the route
            addresses.append(str(probe.getsockname()[0]))
        except OSError:
            pass
    with contextlib.suppress(OSError):
        addresses += [str(entry[4][0]) for entry in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)]
    return [each for each in dict.fromkeys(addresses) if not each.startswith("127.")]
