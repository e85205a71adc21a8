"""Gang words, beside the labels of seed 001 and alone: what agrees, what differs, what is broken."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from linkwise import InputError
from linkwise.dialects.groups.koordinator_gang import duration
from linkwise.dialects.groups.membership import group_of
from linkwise.model.ask import Group, NetworkWish
from linkwise.model.views import PodView

if TYPE_CHECKING:
    from pathlib import Path

SEED = "gputopology.scheduling.koordinator.sh/"
GANG = "gang.scheduling.koordinator.sh/"
LABELS = {f"{SEED}name": "train", f"{SEED}replica": "4"}
GANGED = {f"{GANG}name": "train", f"{GANG}min-available": "4"}


def pod(labels: dict[str, str], annotations: dict[str, str]) -> PodView:
    return PodView("team", "p", "uid", labels=labels, annotations=annotations)


def group(found: PodView) -> Group:
    read, problems = group_of(found)
    assert problems == ()
    assert read is not None
    return read


@pytest.mark.rule("001.gang-words")
def test_gang_words_beside_the_labels_add_the_minimum() -> None:
    assert group(pod(LABELS, GANGED)) == Group("team/train/4", "koordinator", total=4, minimum=4)


@pytest.mark.rule("001.gang-words")
def test_names_that_differ_are_both_named() -> None:
    read, problems = group_of(pod(LABELS, GANGED | {f"{GANG}name": "gang"}))
    assert read == Group("team/train/4", "koordinator", total=4, minimum=4)
    assert [problem.key for problem in problems] == [f"{GANG}name"]
    assert "'gang'" in problems[0].sentence
    assert "'train'" in problems[0].sentence


@pytest.mark.rule("001.gang-words")
@pytest.mark.parametrize("minimum", [3, 8])
def test_numbers_that_differ_are_both_named_and_each_governs_its_own(minimum: int) -> None:
    read, problems = group_of(pod(LABELS, GANGED | {f"{GANG}min-available": str(minimum)}))
    assert read == Group("team/train/4", "koordinator", total=4, minimum=minimum)
    assert [problem.key for problem in problems] == [f"{GANG}min-available"]
    assert f"it is {minimum}, but {SEED}replica is 4" in problems[0].sentence


@pytest.mark.rule("001.gang-words")
def test_the_replica_governs_how_many_are_planned() -> None:
    read, problems = group_of(pod(LABELS, GANGED | {f"{GANG}total-number": "6"}))
    assert read is not None
    assert read.total == 4
    assert [problem.key for problem in problems] == [f"{GANG}total-number"]


@pytest.mark.rule("001.gang-words")
def test_the_keys_are_those_of_the_seed(shared: Path) -> None:
    text = next((shared / "seeds").glob("001_*")).read_text()
    samples = dict(re.findall(r'^    ((?:gputopology|gang)\S+/\S+): "(x+)"', text, re.MULTILINE))
    assert samples.keys() == {*LABELS, *GANGED}
    message = {
        name: "4" if name in {f"{SEED}replica", f"{GANG}min-available"} else text for name, text in samples.items()
    }
    labels = {name: text for name, text in message.items() if name in LABELS}
    assert group(pod(labels, {name: message[name] for name in GANGED})) == Group("team/xxxx/4", "koordinator", 4, 4)
    assert group_of(pod({name: samples[name] for name in LABELS}, {}))[0] is None


def test_all_gang_words_are_read() -> None:
    spec = {
        "gatherStrategy": [{"layer": "spine", "strategy": "MustGather"}, {"layer": "b", "strategy": "PreferGather"}]
    }
    message = GANGED | {
        f"{GANG}total-number": "6",
        f"{GANG}waiting-time": "1m30s",
        f"{GANG}mode": "NonStrict",
        f"{GANG}groups": '["team/train","team/eval","team/eval"]',
        f"{GANG}match-policy": "only-waiting",
        f"{GANG}network-topology-spec": json.dumps(spec),
        f"{GANG}network-topology-index": "w-10",
        f"{GANG}timeout": "true",
    }
    assert group(pod({}, message)) == Group(
        "team/train",
        "koordinator",
        total=6,
        minimum=4,
        rank=10,
        match_policy="only-waiting",
        strict=False,
        waiting_time=90.0,
        bundle=("team/eval", "team/train"),
        network=(NetworkWish("spine", required=True), NetworkWish("b")),
    )


@pytest.mark.parametrize(
    ("word", "text", "message"),
    [
        ("total-number", "3", "4 is taken for both"),
        ("total-number", "many", "is not a number"),
        ("total-number", "0", "'0' is out of range; write a whole number of 1 or more"),
        ("total-number", "-1", "'-1' is out of range; write a whole number of 1 or more"),
        ("total-number", "1" * 30, "is out of range"),
        ("waiting-time", "600", "is not a duration"),
        ("waiting-time", "0s", "is not a valid waiting time"),
        ("mode", "strict", "write one of Strict, NonStrict"),
        ("match-policy", "never", "write one of once-satisfied, only-waiting, waiting-and-running"),
        ("groups", "team/a", "it is not valid JSON"),
        ("groups", "null", "write a list such as"),
        ("groups", '["a"]', "write a list such as"),
        ("groups", '["team/a", 5]', "write a list such as"),
        ("network-topology-spec", "[]", "an object is expected"),
        ("network-topology-spec", '{"gatherStrategy":[{"layer":"a"}]}', "gatherStrategy[0].strategy is missing"),
        ("network-topology-spec", '{"gatherStrategy":[{"layer":"a","strategy":"Must"}]}', "write MustGather"),
        ("network-topology-index", "first", "is not a number"),
        ("unheard-of", "5", "it is not a known gang annotation"),
    ],
)
def test_a_broken_gang_word_is_named_and_the_rest_believed(word: str, text: str, message: str) -> None:
    read, problems = group_of(pod({}, GANGED | {f"{GANG}{word}": text}))
    assert read == Group("team/train", "koordinator", total=4, minimum=4)
    assert [problem.key for problem in problems] == [f"{GANG}{word}"]
    assert message in problems[0].sentence


def test_a_multiple_that_is_not_kept_is_said() -> None:
    rule = {"layer": "spine", "strategy": "MustGather", "podCountMultiple": 8}
    message = GANGED | {f"{GANG}network-topology-spec": json.dumps({"gatherStrategy": [rule]})}
    read, problems = group_of(pod({}, message))
    assert read is not None
    assert read.network == (NetworkWish("spine", required=True),)
    assert "podCountMultiple is not kept yet" in problems[0].sentence


def test_a_label_and_an_annotation_that_name_two_gangs_are_both_named() -> None:
    read, problems = group_of(pod({"pod-group.scheduling.sigs.k8s.io": "pg"}, GANGED))
    assert read is not None
    assert read.key == "team/pg"
    assert "it is 'train', but pod-group.scheduling.sigs.k8s.io is 'pg'" in problems[0].sentence


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("1h30m", 5400), ("1.5h", 5400), ("100ms", 0.1), ("2µs", 2e-6), (".5m", 30), ("+1s", 1), ("1.s", 1)],
)
def test_durations_are_read_as_go_reads_them(text: str, seconds: float) -> None:
    assert duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "90", "-1s", "1 s", "s", "1d", "1h30", ".s", "1S", "999999999999h", "0", "٣s"])
def test_what_is_no_time_to_wait_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="write 90s"):
        duration(text)
