"""What is published about a pending pod, and when."""

from __future__ import annotations

from dataclasses import replace

from linkwise.broker.effects import Condition, Event
from linkwise.dialects.linkwise.group_plan import GATE
from linkwise.explain.pod import explain_pod
from linkwise.explain.published.lists import PodExplainer
from linkwise.explain.published.publishing import Finding, Published, finding_of, is_ours, placed, published
from linkwise.model.views import ContainerView, PodCondition, PodView
from linkwise.testing.cluster import FakeNode, broker_of, device_pod, in_gang, place

FULL = Finding("NoRoom", "4 devices requested, but only 2 are free", "NoRoom too few")
POD = device_pod("p", 4)


def test_the_sentence_says_what_is_requested_and_why_no_node_fits() -> None:
    broker = broker_of(FakeNode("a", count=4))
    place(broker, device_pod("q", 2), "a")
    broker.observe([POD], 1.0)
    report = explain_pod(broker, POD.uid, 1.0)
    assert report is not None
    finding = finding_of(report)
    assert finding is not None
    assert finding.code == "NoRoom"
    assert finding.sentence == (
        "pod default/p is pending: it requests 4 devices (nvidia.com/gpu); 0 of 1 nodes are feasible: "
        "node a: 4 devices requested, but only 2 of 4 are free"
    )


def test_the_sentence_of_a_member_says_what_its_group_lacks() -> None:
    broker = broker_of(FakeNode("a", count=4))
    members = in_gang(device_pod("m0", 4), device_pod("m1", 4), least=2)
    broker.observe(members, 1.0)
    report = PodExplainer(broker, 1.0).explain(members[0].uid)
    assert report is not None
    finding = finding_of(report)
    assert finding is not None
    assert "its group does not fit now; no devices are reserved for it; its group needs 2 nodes" in finding.sentence


def test_the_first_finding_is_a_condition_and_an_event() -> None:
    (condition, event), last = published(POD, FULL, None, 10.0, 5.0)
    assert condition == Condition(
        "default", "p", "uid-p", PodCondition(status=False, reason="NoRoom", message=FULL.sentence, since=10.0)
    )
    assert event == Event("Normal", "Pending", FULL.sentence, "default", "p", "uid-p")
    assert last == Published(FULL, 10.0)


def test_numbers_alone_make_no_event_and_update_the_condition_rarely() -> None:
    shown = replace(POD, condition=PodCondition(status=False, reason="NoRoom", message=FULL.sentence, since=10.0))
    fewer = replace(FULL, sentence="4 devices requested, but only 1 is free")
    assert published(shown, fewer, Published(FULL, 10.0), 20.0, 5.0)[0] == ()
    (condition,), _ = published(shown, fewer, Published(FULL, 10.0), 40.0, 5.0)
    assert isinstance(condition, Condition)
    assert condition.condition == PodCondition(status=False, reason="NoRoom", message=fewer.sentence, since=10.0)


def test_another_reason_is_another_event_and_keeps_the_time_of_the_transition() -> None:
    shown = replace(POD, condition=PodCondition(status=False, reason="NoRoom", message=FULL.sentence, since=10.0))
    cordoned = Finding("Excluded", "the node is cordoned", "Excluded cordoned")
    (condition, event), _ = published(shown, cordoned, Published(FULL, 10.0), 20.0, 5.0)
    assert isinstance(condition, Condition)
    assert condition.condition.since == 10.0
    assert isinstance(event, Event)
    assert event.kind == "Warning"


def test_after_a_restart_what_is_published_is_not_published_again() -> None:
    shown = replace(POD, condition=PodCondition(status=False, reason="NoRoom", message=FULL.sentence, since=10.0))
    assert published(shown, FULL, None, 100.0, 5.0)[0] == ()


def test_a_condition_that_was_not_written_is_written_again() -> None:
    (condition,), _ = published(POD, FULL, Published(FULL, 10.0), 40.0, 5.0)
    assert isinstance(condition, Condition)


def test_a_placed_pod_was_pending_or_gets_nothing() -> None:
    bound = replace(POD, node="a")
    waited = replace(bound, condition=PodCondition(status=False, reason="NoRoom", message="", since=10.0))
    ended = placed(waited, None, 50.0)
    assert ended is not None
    assert ended.condition == PodCondition(
        status=True, reason="Placed", message="the pod is bound to node a", since=50.0
    )
    assert placed(bound, None, 50.0) is None
    assert placed(replace(waited, condition=ended.condition), Published(FULL, 1.0), 60.0) is None


def test_ours_are_pods_of_our_schedulers_those_asked_about_and_gated_members() -> None:
    broker = broker_of(FakeNode("a"))
    plain = PodView("default", "web", "uid-web", (ContainerView("main"),), scheduler="default-scheduler")
    theirs, asked = (replace(device_pod(name, 1), scheduler="default-scheduler") for name in ("t", "k"))
    gated = replace(plain, uid="uid-gated", gates=(GATE,))
    broker.observe([plain, theirs, asked, gated], 0.0)
    broker.filter(asked, ["a"], 0.0)
    mine = replace(theirs, scheduler="linkwise-scheduler")
    ours = [is_ours(broker, pod, ("linkwise-scheduler",)) for pod in (plain, theirs, asked, gated, mine)]
    assert ours == [False, False, True, True, True]


def test_fifty_equal_pods_need_one_survey() -> None:
    broker = broker_of(FakeNode("a", count=4))
    main = device_pod("p", 8).containers
    pods = [
        replace(device_pod(f"p{n}", 8), containers=main, labels={"apps.kubernetes.io/pod-index": str(n)})
        for n in range(50)
    ]
    broker.observe([*pods, device_pod("other", 16)], 0.0)
    explainer = PodExplainer(broker, 1.0)
    reports = [explainer.explain(pod.uid) for pod in (*pods, device_pod("other", 16))]
    assert explainer.surveys == 2
    assert len({report.name for report in reports if report}) == 51
    assert reports[7] == explain_pod(broker, pods[7].uid, 1.0)
