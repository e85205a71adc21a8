"""Every route for tenants, in a cluster where other tenants use every feature that names pods."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.watch_events import NodeObject, PodDeleted
from linkwise.dialects.linkwise.inventory import KIND
from linkwise.dialects.linkwise.usage import usage_fields, with_usage
from linkwise.explain.pod import explain_pod, explanation_lines
from linkwise.model.settings import PlacingSettings, PreemptionSettings, ReservationSettings
from linkwise.model.usage import DeviceUsage, NodeUsage, PodUsage
from linkwise.model.views import Owner
from linkwise.net.timing import Timing
from linkwise.serve.explanations.access import Access
from linkwise.serve.explanations.tenants import tenant_routes
from linkwise.testing.cluster import MEMORY, FakeNode, broker_of, device_pod, in_gang, place
from linkwise.views.table import KINDS
from support.builders.access_objects import EVERYBODY, access_policy, team_pod
from support.fakes.http_service import Served
from support.fakes.review_api import ReviewApi

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.broker.broker import Broker

OWN, OTHER = "team-a", "team-b"
"""namespaces; all names of pods, groups and users of the other tenant begin with its name"""
TOKEN = {"X-Linkwise-Token": "s3cret"}
REQUESTS = (("", TOKEN), (f"?namespace={OWN}&documents=true&wide=true", {**TOKEN, "Accept": "application/json"}))
SETTINGS = PlacingSettings(
    preemption=PreemptionSettings(evict=True, hold=1000.0), reservation=ReservationSettings(after=30.0)
)


def cluster() -> Broker:
    """Pods of the caller wait for, share with and are evicted for those of another tenant."""
    nodes = [FakeNode(name, count=4) for name in ("n0", "n1", "n2")]
    broker = broker_of(*nodes, FakeNode("s", "share", count=1), settings=SETTINGS)
    broker.observe([access_policy("sharing", EVERYBODY, sharing={"with": "user"})], 0.0)
    place(broker, team_pod(f"{OTHER}-sharer", 4, MEMORY, namespace=OTHER, user=f"{OTHER}-bob"), "s")
    broker.observe([team_pod("joins", 4, MEMORY, namespace=OWN, user="ann")], 1.0)
    for number in range(2):
        place(broker, device_pod(f"victim-{number}", 2, namespace=OWN), "n0")
    rival = place(broker, device_pod(f"{OTHER}-rival", 4, namespace=OTHER, priority=9), "n2")
    for number in range(2):
        place(broker, device_pod(f"{OTHER}-small-{number}", 2, namespace=OTHER, priority=9), "n1")
    broker.observe([replace(rival, annotations={}, version=rival.version + 1)], 1.0)
    urgent = [device_pod(f"{OTHER}-urgent-{number}", 2, namespace=OTHER, priority=5) for number in range(2)]
    gang = in_gang(*urgent, least=2, name=f"{OTHER}-gang")
    broker.observe(gang, 1.0)
    for pod in gang:
        broker.filter(pod, ["n0", "n1", "n2"], 1.0)
    for now in (1.1, 3.0, 5.1):
        broker.step(now, 100)
    large = replace(device_pod(f"{OTHER}-large", 4, namespace=OTHER, priority=7), unschedulable_since=5.0)
    broker.observe([large], 6.0)
    broker.filter(large, ["n1", "n2"], 6.0)
    broker.step(40.0, 100)
    broker.observe([PodDeleted(f"uid-{OTHER}-small-0")], 40.0)
    wants = replace(device_pod("wants", 2, namespace=OWN), owner=Owner("Job", "train", "uid-train"))
    mine = [device_pod(f"member-{number}", 3, namespace=OWN) for number in range(2)]
    broker.observe([wants, *in_gang(*mine, least=2, name="mine")], 41.0)
    for name in ("wants", "joins", "member-0"):
        broker.filter(broker.pods[f"uid-{name}"], ["n0", "n1", "n2", "s"], 41.0)
    uses = (PodUsage(rival.uid, OTHER, rival.name, "n2-d0", 1 << 30, 40),)
    known = broker.state_at(41.0).cluster.objects.of("n2").get(KIND) or {}
    usage = usage_fields(NodeUsage((DeviceUsage("n2-d0", 1 << 34, 1 << 31, 80),), uses))
    broker.observe([NodeObject("n2", KIND, dict(with_usage(known, usage)))], 41.0)
    broker.step(42.0, 100)
    return broker


@contextmanager
def served() -> Iterator[Served]:
    with (
        ReviewApi({"s3cret": "alice"}, {"alice": {("get", OWN, ""), ("list", OWN, "")}}) as api,
        Served(cluster(), clock=lambda: 50.0, access=Access(api.reviewer(), Timing())) as service,
    ):
        yield service


def paths(service: Served) -> Iterator[tuple[str, str]]:
    """Every route for tenants, and its paths with the names of everything that the caller may ask about."""
    broker = service.service.broker
    pods = [pod.name for pod in broker.pods.values() if pod.namespace == OWN]
    for route in tenant_routes(service.service, None):
        kinds = sorted(KINDS) if "tables" in route.path else ["job"]
        names = [*pods, "mine", "train"] if "{namespace}" in route.path else list(broker.nodes)
        for kind in kinds:
            for name in names if "{name}" in route.path else [""]:
                yield route.path, route.path.format(namespace=OWN, kind=kind, name=name)


def explained(broker: Broker, uid: str) -> str:
    """The explanation of a pod for an administrator."""
    explanation = explain_pod(broker, uid, 50.0)
    assert explanation is not None
    return "".join(explanation_lines(explanation))


def test_the_cluster_has_what_names_others() -> None:
    broker = cluster()
    assert broker.counts().reservations == 1
    assert {drift.node for found in broker.drift.values() for drift in found} == {"n2"}
    page = "".join(explained(broker, uid) for uid in ("uid-victim-0", "uid-joins", "uid-wants"))
    for text in ("evicted for group team-b/team-b-gang", "user team-b-bob", "pod team-b/team-b-large"):
        assert text in page


def test_no_route_names_anything_of_another_tenant() -> None:
    answered: set[str] = set()
    with served() as service:
        for route, path in paths(service):
            for query, headers in REQUESTS:
                answer = service.get(path + query, headers)
                assert OTHER not in answer.text, f"{path}{query}"
                answered |= {route} if answer.status == 200 else set()
        assert answered == {route.path for route in tenant_routes(service.service, None)}
