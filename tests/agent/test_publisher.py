"""The publisher beside a real API server: it writes on changes only, and what others change comes back."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from linkwise.agent.publisher import Publisher, PublishSettings
from linkwise.broker.effects import Event
from linkwise.config.rbac import agent_rbac_yaml
from linkwise.embedded.apiserver.faults import Fault
from linkwise.kube.perform.events import Reporter
from linkwise.kube.perform.write_queue import Attempts
from linkwise.kube.settings import PerformSettings
from linkwise.model.inventory import Discovery
from linkwise.model.views import NodeView
from linkwise.net.timing import Timing
from linkwise.node.publishing import IDLE_ACCELERATORS, Condition, device_of, inventory_of
from linkwise.node.writes import Written
from support.builders.discoveries import SHARED, WHOLE, box, dgx1, state_of
from support.e2e.pod_objects import pod
from support.embedded.single_node_cluster import DEVICES, INVENTORIES, NODE, SingleNodeCluster, on_node
from support.fakes.scripted_api import FakeTime, until
from support.virtual_clock import run_idle

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkwise.model.views import Taint

COUNT = "linkwise.dev/accelerator-count"
MATRIX = "linkwise.dev/gpu-topology"
PATH = f"/apis/linkwise.dev/v1alpha1/deviceinventories/{NODE}"
NODE_PATH = f"/api/v1/nodes/{NODE}"


def labels(cluster: SingleNodeCluster) -> dict[str, str]:
    return dict(cluster.node()["metadata"].get("labels") or {})


def on_the_node(cluster: SingleNodeCluster) -> dict[str, str]:
    return dict(cluster.node()["metadata"].get("annotations") or {})


def conditions(cluster: SingleNodeCluster) -> dict[str, dict[str, str]]:
    return {one["type"]: one for one in cluster.inventory()["status"]["conditions"]}


@pytest.mark.rule("001.report", "002.inventory", "004.count")
def test_everything_about_a_node_is_written_with_one_request_for_each_object() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        cluster.start_agent()
        cluster.publisher.publish(state_of(dgx1(), SHARED))
        await cluster.settled()
        assert len(cluster.inventory()["spec"]["bandwidth"]) == 8
        assert labels(cluster)[COUNT] == cluster.node()["status"]["capacity"]["aliyun.com/gpu-count"] == "8"
        assert MATRIX in on_the_node(cluster)
        assert sorted(cluster.written()) == [
            f"PATCH {NODE_PATH}",
            f"PATCH {NODE_PATH}/status",
            f"PATCH {PATH}/status",
            f"POST {PATH.rpartition('/')[0]}",
        ]

    on_node(story)


def test_nothing_is_written_when_nothing_has_changed() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        cluster.start_agent()
        cluster.publisher.publish(state_of(dgx1(), SHARED))
        await cluster.settled()
        before = cluster.written()
        for _ in range(20):
            cluster.publisher.publish(state_of(dgx1(), SHARED))
        cluster.store.patch("nodes", NODE, {"metadata": {"labels": {"other": "1"}}})
        await cluster.settled()
        assert cluster.written() == before

    on_node(story)


def test_an_agent_that_starts_again_writes_nothing() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        cluster.start_agent()
        cluster.publisher.publish(state_of(dgx1(), SHARED))
        await cluster.settled()
        before = cluster.written()
        await cluster.kill_agent()
        cluster.ahead = 3600.0
        cluster.start_agent()
        cluster.publisher.publish(state_of(dgx1(), SHARED))
        await cluster.settled()
        assert cluster.written() == before

    on_node(story)


def test_a_label_that_somebody_else_removes_or_changes_comes_back() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        cluster.start_agent()
        cluster.publisher.publish(state_of(dgx1()))
        await cluster.settled()
        others = {COUNT: None, "linkwise.dev/accelerator-model": "toaster", "zone": "b"}
        cluster.store.patch("nodes", NODE, {"metadata": {"labels": others, "annotations": {MATRIX: None}}})
        await cluster.settled()
        assert (labels(cluster)[COUNT], labels(cluster)["linkwise.dev/accelerator-model"]) == (
            "8",
            "Tesla-V100-SXM2-16GB",
        )
        assert (labels(cluster)["zone"], MATRIX in on_the_node(cluster)) == ("b", True)

    on_node(story)


def test_a_label_that_no_longer_applies_is_removed() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        cluster.start_agent()
        cluster.publisher.publish(state_of(dgx1()))
        await cluster.settled()
        cluster.publisher.publish(state_of(Discovery("")))
        await cluster.settled()
        assert (labels(cluster), on_the_node(cluster)) == ({"zone": "a"}, {})

    on_node(story)


def test_a_machine_whose_devices_vanish_keeps_an_inventory_without_devices() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        cluster.start_agent()
        cluster.publisher.publish(state_of(dgx1()))
        await cluster.settled()
        cluster.publisher.publish(state_of(Discovery("", problems=("the driver is not loaded",))))
        await cluster.settled()
        assert (cluster.inventory()["spec"]["devices"], cluster.inventory()["spec"].get("links")) == ([], None)
        assert conditions(cluster)["DevicesDiscovered"]["message"] == "the driver is not loaded"

    on_node(story)


@pytest.mark.rule("004.count")
def test_a_count_that_the_kubelet_zeroes_after_a_reboot_is_written_again() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        cluster.start_agent()
        cluster.publisher.publish(state_of(box(2), SHARED))
        await cluster.settled()
        zero = {"aliyun.com/gpu-count": "0"}
        cluster.store.patch("nodes", NODE, {"status": {"capacity": zero, "allocatable": zero}}, subresource="status")
        await cluster.settled()
        assert cluster.node()["status"]["capacity"]["aliyun.com/gpu-count"] == "2"
        assert cluster.node()["status"]["allocatable"]["aliyun.com/gpu-count"] == "2"

    on_node(story)


def test_an_inventory_that_somebody_else_deletes_or_changes_is_written_again() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        cluster.start_agent()
        cluster.publisher.publish(state_of(box(2)))
        await cluster.settled()
        cluster.store.delete(INVENTORIES, NODE)
        await cluster.until(cluster.inventory, "it is created again")
        await cluster.settled()
        cluster.store.patch(INVENTORIES, NODE, {"spec": {"mode": "percent", "devices": []}})
        await cluster.settled()
        assert (cluster.inventory()["spec"]["mode"], len(cluster.inventory()["spec"]["devices"])) == ("whole", 2)

    on_node(story)


def test_a_new_allocation_changes_the_status_only() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        cluster.start_agent()
        state = state_of(box(2))
        cluster.publisher.publish(state)
        await cluster.settled()
        before = len(cluster.written())
        inventory: Any = inventory_of(NODE, box(2), WHOLE, {"u": ("GPU-1",)}, {"u": ("team", "p")})
        status = {**dict_of(state.inventory, "status"), "allocations": inventory["status"]["allocations"]}
        cluster.publisher.publish(replace(state, inventory={**state.inventory, "status": status}))
        await cluster.settled()
        assert cluster.written()[before:] == [f"PATCH {PATH}/status"]
        assert cluster.bodies("PATCH", f"{NODE}/status")[-1] == {"status": {"allocations": status["allocations"]}}

    on_node(story)


def test_the_time_of_a_condition_changes_with_its_status_only_and_survives_a_restart() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        cluster.start_agent()
        cluster.publisher.publish(state_of(box(2)))
        await cluster.settled()
        first = conditions(cluster)
        await cluster.kill_agent()
        cluster.ahead = 3600.0
        cluster.start_agent()
        found = box(3)
        cluster.publisher.publish(
            state_of(replace(found, devices=(*box(2).devices, replace(found.devices[2], healthy=False))))
        )
        await cluster.settled()
        now = conditions(cluster)
        assert now["DevicesDiscovered"]["message"] == "3 devices were found"
        assert now["DevicesDiscovered"]["lastTransitionTime"] == first["DevicesDiscovered"]["lastTransitionTime"]
        assert now["DevicesHealthy"]["lastTransitionTime"] > first["DevicesHealthy"]["lastTransitionTime"]

    on_node(story)


def test_an_agent_that_is_killed_in_the_middle_is_completed_by_the_next() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        cluster.api.faults.add(Fault("hang", on="PATCH", path="/status$", times=0))
        cluster.start_agent()
        cluster.publisher.publish(state_of(box(2), SHARED))
        await cluster.until(lambda: f"PATCH {PATH}/status" in cluster.written(), "the status is on its way")
        await cluster.kill_agent()
        assert "status" not in cluster.inventory()
        cluster.api.faults.clear()
        before = len(cluster.written())
        cluster.start_agent()
        cluster.publisher.publish(state_of(box(2), SHARED))
        await cluster.settled()
        assert sorted(cluster.written()[before:]) == [f"PATCH {NODE_PATH}/status", f"PATCH {PATH}/status"]

    on_node(story)


def test_without_the_crd_everything_else_is_written_and_the_inventory_later() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        await cluster.uninstall()
        cluster.start_agent()
        cluster.publisher.publish(state_of(box(2)))
        await cluster.until(lambda: cluster.publisher.problems and COUNT in labels(cluster), "the label is there")
        assert "DeviceInventory is not installed" in cluster.publisher.problems[0]
        attempts = cluster.publisher.writes["inventory", "refused"]
        cluster.install()
        await cluster.until(cluster.inventory, "the inventory is created")
        assert cluster.publisher.writes["inventory", "refused"] == attempts == 1
        await cluster.until(lambda: not cluster.publisher.problems, "all problems are resolved")

    on_node(story)


def test_a_server_that_is_away_gets_everything_once_it_is_back() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        cluster.start_agent()
        cluster.publisher.publish(state_of(box(2)))
        await cluster.settled()
        cluster.api.faults.add(Fault("reset", times=0))
        cluster.api.abort_connections()
        cluster.publisher.publish(state_of(box(3), SHARED))
        await cluster.until(lambda: len(cluster.publisher.problems) == 3, "three writes have failed")
        cluster.api.faults.clear()
        await cluster.settled()
        assert (labels(cluster)[COUNT], cluster.inventory()["spec"]["deviceCount"]) == ("3", 3)
        assert cluster.publisher.problems == ()

    on_node(story)


def test_a_write_whose_response_is_lost_is_not_done_twice() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        cluster.api.faults.add(Fault("reset", on="POST", landed=True))
        cluster.start_agent()
        cluster.publisher.publish(state_of(box(2)))
        await cluster.until(lambda: cluster.inventory().get("status"), "the status is written")
        await cluster.settled()
        assert cluster.inventory()["metadata"]["generation"] == 1

    on_node(story)


def test_a_node_that_comes_later_gets_its_labels() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        cluster.store.delete("nodes", NODE)
        cluster.start_agent()
        cluster.publisher.publish(state_of(box(2)))
        await cluster.until(cluster.inventory, "the inventory does not wait for the node")
        cluster.store.create("nodes", {"metadata": {"name": NODE}})
        await cluster.until(lambda: COUNT in labels(cluster), "the label is there")

    on_node(story)


@pytest.mark.rule("002.stranded")
def test_the_taint_comes_and_goes_with_the_state_and_others_stay() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        cluster.start_agent()
        cluster.publisher.publish(state_of(box(2), tainted=True))
        await cluster.settled()
        assert [taint["key"] for taint in cluster.node()["spec"]["taints"]] == ["other", IDLE_ACCELERATORS.key]
        cluster.publisher.publish(state_of(box(2), tainted=False))
        await cluster.settled()
        assert [taint["key"] for taint in cluster.node()["spec"]["taints"]] == ["other"]

    on_node(story, taints=[{"key": "other", "effect": "NoSchedule"}])


def test_koordinators_object_is_written_on_request_and_reported_in_a_condition() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        cluster.start_agent(koordinator=True)
        cluster.publisher.publish(replace(state_of(dgx1()), device=device_of(NODE, dgx1())))
        await cluster.until(
            lambda: "KoordinatorDevicePublished" in conditions_so_far(cluster), "the condition is there"
        )
        await cluster.settled()
        assert conditions(cluster)["KoordinatorDevicePublished"]["status"] == "True"
        assert len(cluster.store.get(DEVICES, NODE).read()["spec"]["devices"]) == 8

    on_node(story)


def test_the_object_of_a_koordlet_is_left_alone_and_reported_in_a_condition() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        cluster.store.create(DEVICES, {"metadata": {"name": NODE}, "spec": {"devices": []}})
        cluster.start_agent(koordinator=True)
        cluster.publisher.publish(replace(state_of(dgx1()), device=device_of(NODE, dgx1())))
        await cluster.until(
            lambda: "KoordinatorDevicePublished" in conditions_so_far(cluster), "the condition is there"
        )
        condition = conditions(cluster)["KoordinatorDevicePublished"]
        assert (condition["status"], condition["reason"]) == ("False", "OtherWriter")
        assert cluster.publisher.problems == (
            "the Device object of this node is written by an unknown writer; it is left alone",
        )
        assert cluster.store.get(DEVICES, NODE).read()["spec"] == {"devices": []}

    on_node(story)


def test_65_devices_fit_into_the_schema() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        cluster.start_agent()
        cluster.publisher.publish(state_of(box(65)))
        await cluster.settled()
        assert (len(cluster.inventory()["spec"]["devices"]), cluster.publisher.problems) == (64, ())

    on_node(story)


def test_what_the_schema_refuses_is_a_problem_and_is_tried_less_and_less_often() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        cluster.start_agent()
        bad = state_of(box(1))
        cluster.publisher.publish(replace(bad, inventory={**bad.inventory, "spec": {"mode": "both"}}))
        await cluster.until(lambda: cluster.publisher.writes["inventory", "refused"] > 2, "it is refused")
        assert "spec.mode" in cluster.publisher.problems[0]
        cluster.publisher.publish(bad)
        await cluster.settled()
        await cluster.until(lambda: not cluster.publisher.problems, "all problems are resolved")

    on_node(story)


def test_the_role_of_the_agent_allows_what_it_does_and_nothing_else() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        uid = cluster.store.create("pods", pod("default", "p")).uid
        cluster.start_agent(koordinator=True)
        state, device = state_of(dgx1(), SHARED, tainted=True), device_of(NODE, dgx1())
        cluster.publisher.publish(replace(state, device=device))
        await cluster.until(lambda: "KoordinatorDevicePublished" in conditions_so_far(cluster), "all is published")
        await cluster.settled()
        await cluster.kill_agent()
        empty = {"mode": "any", "enforced": True, "devices": []}
        await cluster.writer.write_inventory({**state.inventory, "spec": empty}, None)
        await cluster.writer.write_device({**device, "spec": empty}, None)
        await cluster.writer.annotate_pod("default", "p", uid, {"a": "1"})
        reporter = Reporter(Attempts(cluster.connection, PerformSettings(), cluster.timing), component="linkwise-agent")
        telling = asyncio.create_task(reporter.run())
        for _ in range(2):
            reporter.tell(Event("Normal", "Corrected", "it has other devices", node=NODE))
            await reporter.drained()
        telling.cancel()
        assert reporter.done == {"made": 1, "repeated": 1}
        assert cluster.store.list("events").items[0].read()["source"] == {"component": "linkwise-agent"}
        role = list(yaml.safe_load_all(agent_rbac_yaml(koordinator=True)))[1]
        assert cluster.used() == {
            (group, resource, verb)
            for rule in role["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }

    on_node(story)


class Labels:
    """A writer that knows labels alone; one that `forgets` accepts them, and something else undoes it."""

    def __init__(self, clock: Callable[[], float], *, forgets: bool = False) -> None:
        self.times: list[float] = []
        self.view = NodeView(NODE, version=1)
        self._clock, self._forgets = clock, forgets

    async def patch_node(self, labels: Mapping[str, object], annotations: Mapping[str, object]) -> Written:
        """Note the time."""
        del annotations
        self.times.append(self._clock())
        kept = {} if self._forgets else {key: str(value) for key, value in labels.items()}
        self.view = replace(self.view, version=self.view.version + 1, labels={**self.view.labels, **kept})
        return Written("done", view=self.view)

    async def write_inventory(self, document: Mapping[str, object], known: Mapping[str, object] | None) -> Written:
        """Never used."""
        raise NotImplementedError

    write_device = write_inventory
    write_device_info = write_inventory

    async def patch_node_status(
        self, capacity: Mapping[str, str | None], allocatable: Mapping[str, str | None]
    ) -> Written:
        """Never used."""
        raise NotImplementedError

    async def set_taint(self, taint: Taint, *, present: bool) -> Written:
        """Never used."""
        raise NotImplementedError


def published_beside(*, undoing: bool, rounds: int) -> tuple[Labels, Publisher]:
    """Publish labels that do not stay; with `undoing` the watch shows each time that another client removed them."""

    async def story() -> tuple[Labels, Publisher]:
        time = FakeTime()
        writer = Labels(time.timing.clock, forgets=True)
        publisher = Publisher(writer, PublishSettings(), time.timing)
        publisher.publish(replace(state_of(box(2)), capacity={}))
        publisher.observe_node(writer.view)
        task = asyncio.create_task(publisher.run())
        for _ in range(rounds):
            await asyncio.sleep(0.01)
            if undoing:
                writer.view = replace(writer.view, version=writer.view.version + 1)
                publisher.observe_node(writer.view)
        task.cancel()
        return writer, publisher

    return run_idle(story())


def test_a_server_that_drops_what_is_written_is_not_asked_again() -> None:
    writer, publisher = published_beside(undoing=False, rounds=50)
    assert len(writer.times) == 1
    assert publisher.problems == ("the API server did not store the node as written; check its CRD and webhooks",)


def test_somebody_who_undoes_every_write_is_opposed_less_and_less_often() -> None:
    writer, _ = published_beside(undoing=True, rounds=200)
    pauses = [after - before for before, after in itertools.pairwise(writer.times)]
    assert pauses[0] < 1.0
    assert max(pauses) == pytest.approx(30.0)


class Slow(Labels):
    """A writer of inventories whose first response comes after the news that the object is deleted."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self.known: list[Mapping[str, object] | None] = []
        self.publisher = Publisher(self, PublishSettings())

    async def write_inventory(self, document: Mapping[str, object], known: Mapping[str, object] | None) -> Written:
        """Say what was there when it was written."""
        self.known.append(known)
        if known:
            self.publisher.observe_inventory(None)
        return Written("done", document={**document, "metadata": {"resourceVersion": "10"}})


def test_a_deletion_that_the_watch_shows_before_the_response_is_not_forgotten() -> None:
    async def story() -> Slow:
        time = FakeTime()
        writer = Slow(time.timing.clock)
        writer.publisher = Publisher(writer, PublishSettings(), time.timing)
        writer.publisher.publish(state_of(box(2)))
        writer.publisher.observe_inventory({"metadata": {"resourceVersion": "9"}})
        task = asyncio.create_task(writer.publisher.run())
        await until(lambda: len(writer.known) == 2)
        task.cancel()
        return writer

    assert run_idle(story()).known[1] is None


def test_a_bug_in_one_part_stops_no_other() -> None:
    async def story() -> tuple[Labels, tuple[str, ...]]:
        time = FakeTime()
        writer = Labels(time.timing.clock)
        publisher = Publisher(writer, PublishSettings(), time.timing)
        publisher.publish(state_of(box(2)))
        publisher.observe_inventory(None)
        publisher.observe_node(writer.view)
        task = asyncio.create_task(publisher.run())
        await until(lambda: writer.times and publisher.problems)
        task.cancel()
        return writer, publisher.problems

    writer, problems = run_idle(story())
    assert (len(writer.times), "(a bug in Linkwise): NotImplementedError()" in problems[0]) == (1, True)


def test_an_event_older_than_the_own_write_changes_nothing() -> None:
    async def story() -> tuple[int, bool]:
        time = FakeTime()
        publisher = Publisher(Labels(time.timing.clock), PublishSettings(), time.timing)
        state = replace(state_of(box(2)), capacity={})
        publisher.publish(state)
        publisher.observe_node(NodeView(NODE, labels=state.labels, version=9))
        publisher._node.written_at = time.seconds  # noqa: SLF001 - as after a write
        publisher.observe_node(NodeView(NODE, version=8))
        late = publisher.settled
        time.seconds += 60.0
        publisher.observe_node(NodeView(NODE, version=8))
        return int(late), publisher.settled

    assert run_idle(story()) == (1, False)


def test_changes_in_a_burst_are_written_together() -> None:
    async def story() -> tuple[Labels, str]:
        timing = Timing(clock=asyncio.get_running_loop().time)
        writer = Labels(timing.clock)
        publisher = Publisher(writer, PublishSettings(), timing)
        publisher.observe_node(writer.view)
        task = asyncio.create_task(publisher.run())
        for count in range(1, 65):
            publisher.publish(replace(state_of(box(count)), capacity={}))
            await asyncio.sleep(0.01)
        await until(lambda: publisher.settled)
        task.cancel()
        return writer, writer.view.labels[COUNT]

    writer, count = run_idle(story())
    assert (count, len(writer.times)) == ("64", 8)
    assert min(after - before for before, after in itertools.pairwise(writer.times)) >= 0.1


def conditions_so_far(cluster: SingleNodeCluster) -> dict[str, dict[str, str]]:
    return conditions(cluster) if cluster.inventory().get("status") else {}


def dict_of(document: Mapping[str, object], part: str) -> dict[str, object]:
    found = document[part]
    assert isinstance(found, dict)
    return found


def test_a_condition_has_no_time_before_it_is_published() -> None:
    document = inventory_of("n", box(1), WHOLE, conditions=[Condition("Ready", "True", "Because")])
    assert dict_of(document, "status")["conditions"] == [
        {"type": "Ready", "status": "True", "reason": "Because", "message": ""}
    ]
