"""All sources at once: what is there, what is not, what comes later, and what may not be read."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from linkwise.broker.cluster.objects import READ
from linkwise.broker.watch_events import ClusterObject, NodeObject
from linkwise.dialects.kubernetes.claims.objects import KINDS as DRA_KINDS
from linkwise.errors import ClusterError
from linkwise.kube.watch.kinds import KOORDINATOR_DEVICE, NODES, PODS, SOURCES
from linkwise.kube.watch.watcher import Watching
from linkwise.wire.kubernetes.watch_stream import Head
from support.fakes.scripted_api import FakeTime, Reply, ScriptedApi, line, listed, play, until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkwise.broker.watch_events import WatchEvent
    from linkwise.kube.client.api import Connection
    from linkwise.kube.watch.kinds import WatchedKind

VOLCANO = "PodGroup.scheduling.volcano.sh"
GROUPS = "/apis/scheduling.volcano.sh"
SCHEMA = "/openapi/v3/apis/scheduling.koordinator.sh/v1alpha1"
FORBIDDEN = Reply(403, {"message": "no you"})
BASE = {"GET /api/v1/pods": (listed(),), "GET /api/v1/nodes": (listed(),)}


def source(name: str) -> WatchedKind:
    return next(found for found in SOURCES if found.name == name)


def served(group: str, resource: str, *versions: str) -> dict[str, tuple[Reply, ...]]:
    """A group whose last version has the resource."""
    named = [{"version": version} for version in versions]
    last = Reply(200, {"resources": [{"name": f"{resource}/status"}, {"name": resource}]})
    return {
        f"GET /apis/{group}": (Reply(200, {"versions": named, "preferredVersion": named[0]}),),
        **{f"GET /apis/{group}/{version}": (Reply(200, {"resources": []}),) for version in versions},
        f"GET /apis/{group}/{versions[-1]}": (last,),
    }


class Followed:
    """What was seen, and the watching that saw it."""

    def __init__(self, connection: Connection, sources: tuple[WatchedKind, ...]) -> None:
        self.sights: list[WatchEvent] = []
        self.time = FakeTime()
        self.watching = Watching(connection, self.sights.extend, timing=self.time.timing, sources=sources)


def watch(
    scripts: Mapping[str, tuple[Reply, ...]],
    *sources: WatchedKind,
    holds: Callable[[Followed, ScriptedApi], object] = lambda seen, _: seen.watching.synced,
) -> tuple[Followed, ScriptedApi]:
    """Follow pods, nodes and these until something holds."""

    async def scenario(api: ScriptedApi, connection: Connection) -> tuple[Followed, ScriptedApi]:
        for asked, replies in {**BASE, **scripts}.items():
            api.script(asked, *replies)
        seen = Followed(connection, (NODES, *sources, PODS))
        task = asyncio.create_task(seen.watching.run())
        try:
            await until(lambda: task.done() or holds(seen, api))
        finally:
            if not task.done():
                task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return seen, api

    return play(scenario)


def test_every_kind_that_the_broker_reads_is_watched() -> None:
    gone = [found.deleted(Head("x", "team", "u", "1")) for found in SOURCES if not found.prefixes[0]]
    assert sorted(sight.kind for sight in gone if isinstance(sight, ClusterObject)) == sorted((*READ, *DRA_KINDS))


def test_without_any_further_kind_pods_and_nodes_are_enough() -> None:
    seen, _ = watch({}, *[found for found in SOURCES if found.group])
    assert seen.watching.synced
    assert seen.watching.problems == ()


def test_nothing_is_synced_before_pods_and_nodes_are_listed() -> None:
    slow = {"GET /api/v1/pods": (Reply(ending="silence"),)}
    seen, _ = watch(
        slow, holds=lambda seen, api: seen.watching.stats["nodes"].synced and api.asked("GET", "/api/v1/pods")
    )
    assert not seen.watching.synced


def test_a_kind_is_found_in_whichever_version_has_it() -> None:
    scripts = served("scheduling.volcano.sh", "podgroups", "v1", "v1beta1")
    scripts[f"GET {GROUPS}/v1beta1/podgroups"] = (listed({"metadata": {"name": "g", "namespace": "team"}}),)
    seen, _ = watch(scripts, source("podgroups.scheduling.volcano.sh"))
    (found,) = [sight for sight in seen.sights if isinstance(sight, ClusterObject)]
    assert (found.kind, found.name) == (VOLCANO, "team/g")


@pytest.mark.parametrize("version", ["v1alpha2", "v1alpha3", "v1beta1"])
def test_native_pod_groups_are_read_in_the_version_that_is_served(version: str) -> None:
    scripts = served("scheduling.k8s.io", "podgroups", "v1", version)
    group = {"metadata": {"name": "g", "namespace": "team"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
    scripts[f"GET /apis/scheduling.k8s.io/{version}/podgroups"] = (listed(group),)
    seen, _ = watch(scripts, source("podgroups.scheduling.k8s.io"))
    (found,) = [sight for sight in seen.sights if isinstance(sight, ClusterObject)]
    assert (found.kind, found.name) == ("PodGroup.scheduling.k8s.io", "team/g")


def test_a_kind_that_is_installed_later_is_picked_up() -> None:
    scripts = served("scheduling.volcano.sh", "podgroups", "v1")
    scripts[f"GET {GROUPS}"] = (Reply(404, {}), Reply(404, {}), *scripts[f"GET {GROUPS}"])
    scripts[f"GET {GROUPS}/v1/podgroups"] = (listed({"metadata": {"name": "g", "namespace": "team"}}),)
    groups = source("podgroups.scheduling.volcano.sh")
    seen, _ = watch(scripts, groups, holds=lambda seen, _: seen.watching.stats[groups.name].synced)
    assert seen.time.slept == [270.0, 270.0]


def test_a_kind_that_is_taken_away_takes_its_objects_with_it() -> None:
    scripts = served("scheduling.volcano.sh", "podgroups", "v1")
    scripts[f"GET {GROUPS}/v1/podgroups"] = (listed({"metadata": {"name": "g", "namespace": "team"}}),)
    scripts[f"WATCH {GROUPS}/v1/podgroups"] = (Reply(404, {}),)
    lost = ClusterObject(VOLCANO, "team/g", None)
    seen, _ = watch(scripts, source("podgroups.scheduling.volcano.sh"), holds=lambda seen, _: lost in seen.sights)
    assert lost in seen.sights


def test_a_kind_that_may_not_be_read_is_said_and_the_rest_goes_on() -> None:
    scripts = served("scheduling.volcano.sh", "podgroups", "v1") | {f"GET {GROUPS}/v1/podgroups": (FORBIDDEN,)}
    seen, _ = watch(scripts, source("podgroups.scheduling.volcano.sh"))
    (problem,) = seen.watching.problems
    assert "may not list podgroups.scheduling.volcano.sh: no you; grant list and watch on it" in problem


def test_a_right_that_is_granted_later_is_used() -> None:
    scripts = served("scheduling.volcano.sh", "podgroups", "v1")
    scripts[f"GET {GROUPS}/v1/podgroups"] = (FORBIDDEN, listed())
    groups = source("podgroups.scheduling.volcano.sh")
    seen, _ = watch(scripts, groups, holds=lambda seen, _: seen.watching.stats[groups.name].synced)
    assert seen.watching.problems == ()


@pytest.mark.parametrize(
    ("version", "remedy"),
    [
        ("v1beta1", "it is of a later release, which reads it: install that"),
        ("v2alpha1", "it is of a later release"),
        ("v0alpha9", r"it is of an earlier release; `linkwise manifests crd \| kubectl apply --server-side -f -`"),
    ],
)
@pytest.mark.parametrize("resource", ["deviceinventories", "acceleratorpolicies"])
def test_a_definition_of_linkwise_that_serves_other_versions_only_ends_the_service(
    resource: str, version: str, remedy: str
) -> None:
    with pytest.raises(
        ClusterError, match=rf"{resource}.linkwise.dev serves {version}, but .* reads v1alpha1: {remedy}"
    ):
        watch(served("linkwise.dev", resource, version), source(f"{resource}.linkwise.dev"))


def test_a_definition_of_linkwise_is_read_in_its_version_even_if_another_is_preferred() -> None:
    both = Reply(200, {"resources": [{"name": "deviceinventories"}]})
    scripts = {
        **served("linkwise.dev", "deviceinventories", "v1", "v1alpha1"),
        "GET /apis/linkwise.dev/v1": (both,),
        "GET /apis/linkwise.dev/v1alpha1/deviceinventories": (listed(),),
    }
    seen, api = watch(scripts, source("deviceinventories.linkwise.dev"))
    assert seen.watching.stats["deviceinventories.linkwise.dev"].synced
    assert api.asked("GET", "/apis/linkwise.dev/v1/deviceinventories") == []


def test_pods_that_may_never_be_read_end_the_service_with_a_sentence() -> None:
    with pytest.raises(ClusterError, match="may not list pods: no you; grant list and watch"):
        watch({"GET /api/v1/pods": (FORBIDDEN,)}, holds=lambda _, __: False)


def test_a_server_whose_data_are_those_of_a_backup_ends_the_service_with_a_sentence() -> None:
    lists = {"GET /api/v1/nodes": (listed(version="100"), listed(version="90"))}
    gone = {"WATCH /api/v1/nodes": (Reply(410, {"message": "too old"}),)}
    with pytest.raises(ClusterError, match=r"resourceVersion of nodes went back from 100 to 90;.*restart the service"):
        watch({**lists, **gone}, holds=lambda _, __: False)


def test_a_server_that_knows_no_roles_yet_is_given_time() -> None:
    seen, _ = watch({"GET /api/v1/pods": (FORBIDDEN, FORBIDDEN, listed())})
    assert seen.watching.synced
    assert seen.watching.problems == ()


def test_a_further_kind_is_followed_again_soon_by_a_server_that_knows_no_roles_yet() -> None:
    scripts = served("scheduling.volcano.sh", "podgroups", "v1")
    scripts[f"GET {GROUPS}/v1/podgroups"] = (FORBIDDEN, FORBIDDEN, listed())
    groups = source("podgroups.scheduling.volcano.sh")
    seen, _ = watch(scripts, groups, holds=lambda seen, _: seen.watching.stats[groups.name].synced)
    assert seen.time.seconds < 1_005.0


def test_a_further_kind_that_only_fails_is_not_waited_for_without_end() -> None:
    scripts = served("scheduling.volcano.sh", "podgroups", "v1")
    scripts[f"GET {GROUPS}/v1/podgroups"] = (Reply(500, {"message": "conversion webhook failed"}),)
    seen, _ = watch(scripts, source("podgroups.scheduling.volcano.sh"))
    assert seen.time.seconds >= 1_030.0
    assert "conversion webhook failed" in seen.watching.problems[0]


def test_an_inventory_is_kept_as_json() -> None:
    inventory = {"metadata": {"name": "n1"}, "spec": {"mode": "whole"}}
    scripts = served("linkwise.dev", "deviceinventories", "v1alpha1")
    scripts["GET /apis/linkwise.dev/v1alpha1/deviceinventories"] = (listed(inventory),)
    seen, _ = watch(scripts, source("deviceinventories.linkwise.dev"))
    found = next(sight for sight in seen.sights if isinstance(sight, NodeObject))
    assert (found.node, found.kind) == ("n1", "DeviceInventory")
    assert isinstance(found.document, bytes)
    assert json.loads(found.document) == inventory


def test_of_config_maps_only_those_of_device_plugins_are_kept() -> None:
    names = ("kube-root-ca.crt", "mindx-dl-deviceinfo-n1", "unhealthy-gpu-n2", "mindx-dl-other")
    maps = "/api/v1/namespaces/kube-system/configmaps"
    gone = Reply(pieces=(line("DELETED", {"metadata": {"name": "unhealthy-gpu-n2", "namespace": "kube-system"}}),))
    items = [{"metadata": {"name": name, "namespace": "kube-system"}} for name in names]
    scripts = {f"GET {maps}": (listed(*items),), f"WATCH {maps}": (gone,)}
    lost = NodeObject("n2", "ConfigMap/unhealthy-gpu-n2", None)
    seen, _ = watch(scripts, source("configmaps"), holds=lambda seen, _: lost in seen.sights)
    kinds = [(sight.node, sight.kind) for sight in seen.sights if isinstance(sight, NodeObject) and sight.document]
    assert kinds == [("n1", "ConfigMap/mindx-dl-deviceinfo-n1"), ("n2", "ConfigMap/unhealthy-gpu-n2")]


def schema(spec: dict[str, Any]) -> Reply:
    kinds = [{"group": "scheduling.koordinator.sh", "kind": "Device", "version": "v1alpha1"}]
    device = {"properties": {"spec": spec}, "x-kubernetes-group-version-kind": kinds}
    return Reply(200, {"components": {"schemas": {"other": {"type": "object"}, "device": device}}})


def _looked_at(seen: Followed, api: ScriptedApi) -> bool:
    """The schema was asked for twice, and a kind that is not there was looked for since."""
    asked = [request.path for request in api.asked("GET")]
    return seen.watching.synced and asked.count(SCHEMA) == 2 and SCHEMA not in asked[-3:]


@pytest.mark.parametrize(
    ("spec", "problems"),
    [
        ({"properties": {"devices": {}}}, 1),
        ({"properties": {"devices": {}, "topologies": {}}}, 0),
        ({"x-kubernetes-preserve-unknown-fields": True}, 0),
    ],
)
def test_a_device_kind_that_drops_topologies_is_noticed(spec: dict[str, Any], problems: int) -> None:
    scripts = served("scheduling.koordinator.sh", "devices", "v1alpha1")
    scripts["GET /apis/scheduling.koordinator.sh/v1alpha1/devices"] = (listed(),)
    scripts[f"GET {SCHEMA}"] = (Reply(404, {}), schema(spec))  # the schema comes later than the kind
    seen, api = watch(scripts, KOORDINATOR_DEVICE, source("podgroups.scheduling.volcano.sh"), holds=_looked_at)
    assert (len(seen.watching.problems), len(api.asked("GET", SCHEMA))) == (problems, 2)


def test_what_was_said_of_a_kind_is_over_when_the_kind_is() -> None:
    scripts = served("scheduling.koordinator.sh", "devices", "v1alpha1")
    group = "GET /apis/scheduling.koordinator.sh"
    scripts[group] = (*scripts[group], Reply(404, {}))
    devices = "/apis/scheduling.koordinator.sh/v1alpha1/devices"
    scripts |= {f"GET {devices}": (listed(), Reply(404, {})), f"GET {SCHEMA}": (schema({}),)}
    bookmark = Reply(pieces=(line("BOOKMARK", {"metadata": {"resourceVersion": "5"}}),))
    scripts[f"WATCH {devices}"] = (*(bookmark,) * 5, Reply(404, {}))
    reported: list[str] = []

    def over(seen: Followed, _: ScriptedApi) -> bool:
        reported.extend(seen.watching.problems)
        return bool(reported) and not seen.watching.problems

    watch(scripts, KOORDINATOR_DEVICE, holds=over)
    assert "drops spec.topologies" in reported[0]


def test_a_missing_schema_is_not_a_problem() -> None:
    scripts = served("scheduling.koordinator.sh", "devices", "v1alpha1")
    scripts["GET /apis/scheduling.koordinator.sh/v1alpha1/devices"] = (listed(),)
    scripts[f"GET {SCHEMA}"] = (Reply(200, b"[]"),)
    seen, _ = watch(scripts, KOORDINATOR_DEVICE)
    assert seen.watching.problems == ()


def test_what_cannot_be_read_is_a_problem_with_its_name() -> None:
    broken = {"metadata": {"name": "p", "namespace": "team", "uid": "u"}, "spec": {"containers": 7}}
    seen, _ = watch({"GET /api/v1/pods": (listed(broken),)})
    assert seen.watching.problems[0].startswith("pods team/p can't be read: ")


def test_an_unreachable_server_is_reported_once_and_not_for_every_kind(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    down = dict.fromkeys((f"GET {GROUPS}", *BASE), (Reply(503, {"message": "starting"}),))
    watch(down, source("podgroups.scheduling.volcano.sh"), holds=lambda _, api: len(api.asked("GET", GROUPS)) > 2)
    assert {record.getMessage().split()[0] for record in caplog.records} == {"resource=nodes", "resource=pods"}


def test_a_kind_that_alone_fails_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    failing = {f"GET {GROUPS}": (Reply(200, {}), Reply(503, {"message": "no backend"}))}
    watch(failing, source("podgroups.scheduling.volcano.sh"), holds=lambda _, api: len(api.asked("GET", GROUPS)) > 2)
    assert "no backend" in caplog.text
