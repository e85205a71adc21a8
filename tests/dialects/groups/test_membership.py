"""Which group a pod belongs to, in the words of every system, and what is said when the words are broken."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from linkwise.dialects.groups import (
    conventions,
    koordinator_gang,
    membership,
)
from linkwise.dialects.groups.membership import group_of, may_have_group
from linkwise.model.ask import Group, NetworkWish
from linkwise.model.views import Owner, PodView

SEED = "gputopology.scheduling.koordinator.sh/"
GANG = "gang.scheduling.koordinator.sh/"
LABELS = {f"{SEED}name": "train", f"{SEED}replica": "4"}
GANGED = {f"{GANG}name": "train", f"{GANG}min-available": "4"}
JOB = Owner("Job", "train", "job-1")
INDEX = "batch.kubernetes.io/job-completion-index"
KEYS = sorted(
    {
        value
        for module in (membership, conventions, koordinator_gang)
        for value in vars(module).values()
        if isinstance(value, str) and ("/" in value or "." in value) and " " not in value and value.isascii()
    }
    | {*membership.RANKS, *membership.JOB_RANKS, *conventions.VOLCANO, conventions.KAI}
    | {*conventions.KAI_NETWORK, *conventions.KUEUE_NETWORK, f"{GANG}unheard-of"}
)


def pod(
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    namespace: str = "team",
    owner: Owner | None = None,
    native: str = "",
) -> PodView:
    return PodView(
        namespace,
        "p",
        "uid",
        labels=labels or {},
        annotations=annotations or {},
        owner=owner,
        scheduling_group=native,
    )


def group(found: PodView) -> Group:
    declared, problems = group_of(found)
    assert problems == ()
    assert declared is not None
    return declared


def key(found: PodView) -> str:
    return group(found).key


@pytest.mark.rule("001.group")
def test_pods_with_equal_name_and_replica_in_one_namespace_are_a_group() -> None:
    assert group(pod(LABELS)) == Group("team/train/4", "koordinator", total=4)
    assert key(pod(LABELS | {"app": "a"}, owner=JOB)) == key(pod(LABELS | {"app": "b"}, owner=JOB))


@pytest.mark.rule("001.group")
@pytest.mark.parametrize(
    "other",
    [
        pod(LABELS | {f"{SEED}name": "infer"}),
        pod(LABELS | {f"{SEED}replica": "8"}),
        pod(LABELS, namespace="other"),
        pod(LABELS, owner=JOB),
    ],
    ids=["name", "replica", "namespace", "owner"],
)
def test_pods_that_differ_are_no_group(other: PodView) -> None:
    assert key(other) != key(pod(LABELS))


@pytest.mark.rule("001.group")
def test_a_new_job_of_an_old_name_is_another_group() -> None:
    assert key(pod(LABELS, owner=JOB)) != key(pod(LABELS, owner=Owner("Job", "train", "job-2")))


@pytest.mark.rule("001.group")
@pytest.mark.parametrize("replica", ["", "0", "-1", "four", "4.0", "4 ", "٤", "1" * 10, "xxxx"])
def test_a_replica_that_is_no_number_makes_no_group(replica: str) -> None:
    declared, problems = group_of(pod(LABELS | {f"{SEED}replica": replica}, GANGED))
    assert declared is None
    assert (problems[0].where, problems[0].key) == ("pod team/p", f"{SEED}replica")
    assert "write a whole number of 1 or more" in problems[0].sentence


@pytest.mark.rule("001.group")
@pytest.mark.parametrize("lost", ["name", "replica"])
def test_half_of_the_labels_makes_no_group(lost: str) -> None:
    declared, problems = group_of(pod({name: text for name, text in LABELS.items() if not name.endswith(lost)}))
    assert declared is None
    assert [problem.key for problem in problems] == [f"{SEED}{lost}"]


@pytest.mark.rule("001.group")
@pytest.mark.parametrize(
    ("found", "declared"),
    [
        (pod(native="pg"), Group("team/pg", "kubernetes", waiting_time=300)),
        (pod(annotations=GANGED), Group("team/train", "koordinator", total=4, minimum=4)),
        (pod({"pod-group.scheduling.sigs.k8s.io": "pg"}), Group("team/pg", "koordinator")),
        (
            pod({"pod-group.scheduling.sigs.k8s.io/name": "pg", "pod-group.scheduling.sigs.k8s.io/min-available": "3"}),
            Group("team/pg", "koordinator", total=3, minimum=3),
        ),
        (pod({"scheduling.x-k8s.io/pod-group": "pg"}), Group("team/pg", "scheduler-plugins", waiting_time=60)),
        (
            pod(annotations={"scheduling.k8s.io/group-name": "pg", "volcano.sh/task-spec": "worker"}),
            Group("team/pg", "volcano", role="worker"),
        ),
        (
            pod(
                annotations={
                    "scheduling.volcano.sh/group-name": "pg",
                    "scheduling.volcano.sh/group-min-member": "9",
                    "volcano.sh/network-topology-mode": "hard",
                    "volcano.sh/network-topology-highest-tier": "2",
                }
            ),
            Group("team/pg", "volcano", minimum=9, network=(NetworkWish("volcano.sh/tier-2", required=True),)),
        ),
        (
            pod(
                {"kai.scheduler/subgroup-name": "workers"},
                {"pod-group-name": "pg", "kai.scheduler/topology-preferred-placement": "rack"},
            ),
            Group("team/pg", "kai", role="workers", network=(NetworkWish("rack"),)),
        ),
        (
            pod(
                {"kueue.x-k8s.io/pod-group-name": "pg", "kueue.x-k8s.io/pod-group-pod-index": "1"},
                {
                    "kueue.x-k8s.io/pod-group-total-count": "2",
                    "kueue.x-k8s.io/podset-required-topology": "cloud.com/rack",
                },
            ),
            Group("team/pg", "kueue", 2, 2, rank=1, network=(NetworkWish("cloud.com/rack", required=True),)),
        ),
    ],
    ids=lambda found: found.source if isinstance(found, Group) else "",
)
def test_every_system_s_words_make_a_group(found: PodView, declared: Group) -> None:
    assert group(found) == declared


@pytest.mark.rule("001.group")
def test_a_system_that_is_spoken_is_believed_before_those_below_it() -> None:
    declared = pod({"kueue.x-k8s.io/pod-group-name": "e"}, {"kueue.x-k8s.io/pod-group-total-count": "1"})
    order = [key(declared)]
    for labels, notes, native in (
        ({}, {"pod-group-name": "d"}, ""),
        ({}, {"scheduling.k8s.io/group-name": "c"}, ""),
        ({"scheduling.x-k8s.io/pod-group": "b"}, {}, ""),
        ({}, GANGED, ""),
        ({}, {}, "a"),
        (LABELS, {}, "a"),
    ):
        declared = pod({**declared.labels, **labels}, {**declared.annotations, **notes}, native=native)
        order.append(key(declared))
    assert order == ["team/e", "team/d", "team/c", "team/b", "team/train", "team/a", "team/train/4"]


@pytest.mark.parametrize(
    ("found", "lacking"),
    [
        (pod(annotations={f"{GANG}name": "a"}), f"{GANG}min-available"),
        (pod(annotations={f"{GANG}min-available": "4"}), f"{GANG}name"),
        (pod(annotations=GANGED | {f"{GANG}name": "a/b"}), f"{GANG}name"),
        (pod(annotations=GANGED | {f"{GANG}min-available": "0"}), f"{GANG}min-available"),
        (pod({"kueue.x-k8s.io/pod-group-name": "a"}), "kueue.x-k8s.io/pod-group-total-count"),
        (pod({"scheduling.x-k8s.io/pod-group": ""}), "scheduling.x-k8s.io/pod-group"),
        (
            pod(annotations={"scheduling.k8s.io/group-name": "a", "scheduling.volcano.sh/group-name": "b"}),
            "scheduling.volcano.sh/group-name",
        ),
    ],
)
def test_without_a_name_or_a_needed_number_there_is_no_group(found: PodView, lacking: str) -> None:
    declared, problems = group_of(found)
    assert declared is None
    assert [problem.key for problem in problems] == [lacking]


@pytest.mark.parametrize(
    ("labels", "annotations", "rank"),
    [
        ({INDEX: "3"}, {}, 3),
        ({}, {INDEX: "3"}, 3),
        ({INDEX: "3"}, {INDEX: "3", f"{GANG}network-topology-index": "7"}, 3),
        ({}, {f"{GANG}network-topology-index": "7"}, 7),
        ({"apps.kubernetes.io/pod-index": "2", "leaderworkerset.sigs.k8s.io/worker-index": "0"}, {}, 0),
        ({"apps.kubernetes.io/pod-index": "2"}, {}, 2),
        ({}, {"volcano.sh/task-index": "5"}, 5),
        ({INDEX: "1", "jobset.sigs.k8s.io/job-global-index": "2"}, {}, 2_000_001),
        ({"jobset.sigs.k8s.io/job-index": "2"}, {}, 2_000_000),
        ({}, {}, None),
    ],
)
def test_a_pod_s_place_is_read_from_its_controller_s_index(
    labels: dict[str, str], annotations: dict[str, str], rank: int | None
) -> None:
    assert group(pod(LABELS | labels, annotations)).rank == rank


@pytest.mark.parametrize(("label", "note"), [("1", "2"), ("-1", "-1"), ("a", "a")])
def test_a_place_that_makes_no_sense_is_no_place(label: str, note: str) -> None:
    declared, problems = group_of(pod(LABELS | {INDEX: label}, {INDEX: note}))
    assert declared == Group("team/train/4", "koordinator", total=4)
    assert [problem.key for problem in problems] == [INDEX]


def test_a_pod_that_says_nothing_is_in_no_group() -> None:
    assert group_of(pod({"app": "a"}, {f"{GANG}network-topology-index": "1"}, owner=JOB)) == (None, ())


texts = st.text(max_size=20) | st.sampled_from(["4", "a", "1h", "Strict", "[]", "{}", '{"gatherStrategy":[{}]}'])
said_words = st.dictionaries(st.sampled_from(KEYS), texts, max_size=8)


@given(said_words, said_words, texts, st.none() | st.builds(Owner, texts, texts, texts))
def test_no_words_can_raise(
    labels: dict[str, str], annotations: dict[str, str], native: str, owner: Owner | None
) -> None:
    declared, problems = group_of(pod(labels, annotations, owner=owner, native=native))
    assert declared is None or declared.key.startswith("team/")
    assert all(problem.where == "pod team/p" and problem.sentence.isprintable() for problem in problems)


@given(said_words, said_words)
def test_who_says_anything_about_groups_is_read(labels: dict[str, str], annotations: dict[str, str]) -> None:
    found = pod(labels, annotations)
    assert may_have_group(found) or group_of(found) == (None, ())
