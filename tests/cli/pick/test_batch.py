from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from linkwise.cli.pick.batch import answer_lines
from linkwise.testing.machines import pairs_machine
from support.builders.seed_machines import M1

if TYPE_CHECKING:
    from collections.abc import Callable
    from subprocess import CompletedProcess

    Linkwise = Callable[..., CompletedProcess[str]]


def line(**fields: object) -> str:
    return json.dumps(fields) + "\n"


def test_answers_are_in_the_order_of_the_requests(linkwise: Linkwise) -> None:
    asked = (
        line(policy="link-affinity", scores=pairs_machine(4, 100), available=[0, 1, 2, 3], required=[3], size=2)
        + "\n"
        + line(policy="bandwidth", bandwidth=M1, size=4)
        + line(policy="bandwidth", bandwidth=M1, size=1)
        + line(policy="bandwidth", bandwidth=M1, size=9)
    )
    shown = linkwise("pick", "--batch", "-", stdin=asked)
    assert shown.returncode == 0
    assert list(map(json.loads, shown.stdout.splitlines())) == [
        {"devices": [2, 3], "score": 100, "total": 200, "partition": [[0, 1], [2, 3]]},
        {"devices": [0, 1, 2, 3], "bottleneck": 48.33, "suspects": [[0, 4], [1, 4]]},
        {"devices": [0], "bottleneck": None, "suspects": [[0, 4], [1, 4]]},
        {"reject": "9 devices requested, but only 8 are available"},
    ]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (
            line(policy="ring-affinity", profile="ascend-910", size=2, idle=[0, 1, 4], healthy=list(range(8))),
            {"devices": [0, 1], "group": "A", "score": 261},
        ),
        (
            line(policy="ring-affinity", profile="ascend-910", size=1, idle=[0, 1, 2, 3], healthy=[0, 1, 2, 3, 4, 5]),
            {"devices": [0], "group": "D", "score": 8 * (4 * 6 - 3) + 4},
        ),
        (
            line(policy="ring-affinity", size=3, idle=[0, 1, 2]),
            {"reject": "3 devices can't be allocated on ascend-910; request 1, 2, 4 or 8"},
        ),
        (
            line(policy="ring-affinity", profile="module-910b-8", size=3, idle=[0, 5, 7]),
            {"devices": [0, 5, 7], "group": "A", "score": 8 * (8 * 8) + 5},
        ),
        (line(policy="memory-share", room={"0": 12207, "1": 8138}, share=8138), {"devices": [1]}),
        (
            line(policy="memory-share", room={"0": 4069, "3": 4069}, share=8138),
            {"reject": "device 0 has 4069 free, device 3 has 4069 free; 8138 is needed on one device"},
        ),
        (line(policy="whole-device", available=[9, 2, 4], size=2), {"devices": [2, 4]}),
    ],
)
def test_every_policy_answers(asked: str, expected: object) -> None:
    out = io.BytesIO()
    assert answer_lines([asked.encode()], out)
    assert json.loads(out.getvalue()) == expected


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {"policy": "ring-affinity", "size": 1, "idle": [0], "profile": "x"},
            "line 1: hardware profile 'x' is unknown",
        ),
        (
            {"policy": "ring-affinity", "size": 1, "idle": [10**12], "profile": "ascend-310"},
            "line 1: idle names device",
        ),
        ({"policy": "ring-affinity", "size": 1, "idle": [0, 0]}, "line 1: idle names device 0 twice"),
        ({"policy": "whole-device", "size": 1, "available": [10**12]}, "line 1: available names device"),
        ({"policy": "memory-share", "share": 1, "room": {"a": 1}}, "line 1: room: expected a whole number"),
        ({"policy": "memory-share", "share": 1, "room": {"-1": 1}}, "line 1: room of device -1 is 1"),
        ({"policy": "memory-share", "share": 1.5, "room": {}}, "line 1: share: expected a whole number"),
    ],
)
def test_invalid_fields_of_the_other_policies_are_reported(fields: dict[str, object], text: str) -> None:
    out = io.BytesIO()
    assert not answer_lines([line(**fields).encode()], out)
    assert json.loads(out.getvalue())["error"].startswith(text)


def test_a_matrix_gives_the_same_answer_regardless_of_earlier_requests() -> None:
    floats, ints = ([[0, 1.0], [1.0, 0]], [[0, 1], [1, 0]])
    for matrices in ((floats, ints), (ints, floats)):
        out = io.BytesIO()
        lines = [line(policy="link-affinity", scores=scores, size=2).encode() for scores in matrices]
        assert answer_lines(lines, out)
        assert out.getvalue().splitlines() == [b'{"devices":[0,1],"score":1,"total":1,"partition":[[0,1]]}'] * 2


def test_a_byte_order_mark_and_any_diagonal_are_ignored() -> None:
    out = io.BytesIO()
    asked = b"\xef\xbb\xbf" + line(policy="link-affinity", scores=[["X", 1], [1, None]], size=2).encode()
    assert answer_lines([asked], out)


def test_an_invalid_line_is_reported_and_the_rest_are_answered(linkwise: Linkwise) -> None:
    asked = (
        line(policy="bandwidth", bandwidth=[[0]], size=1) * 2
        + "oops\n"
        + line(policy="bandwidth", bandwidth=[[0]], size=1)
    )
    shown = linkwise("pick", "--batch", "-", stdin=asked)
    answers = list(map(json.loads, shown.stdout.splitlines()))
    assert shown.returncode == 1
    assert len(answers) == 4
    assert answers[2]["error"].startswith("line 3: JSON is malformed")
    assert answers[3]["devices"] == [0]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"scores": [[0, 1], [1]]}, "line 1: scores row 1 has 1 values, expected 2"),
        ({"scores": [[0, -1], [1, 0]]}, "line 1: scores row 0 column 1 is -1"),
        ({"scores": [[0] * 65] * 65}, "line 1: scores has 65 rows: a machine has at most 64 devices"),
        ({"scores": [[0]], "available": [1]}, "line 1: available names device 1"),
        ({"scores": [[0]], "required": [0, 0]}, "line 1: required names device 0 twice"),
        ({"scores": [[0, 1e400], [1, 0]]}, "line 1: "),
        ({"scores": [[0, 10**400], [1, 0]]}, "line 1: "),
        ({"scores": [[0, True], [1, 0]]}, "line 1: scores"),
        ({"scores": [[0, None], [1, 0]]}, "line 1: scores row 0 column 1 is None, expected a number"),
    ],
)
def test_an_invalid_field_is_reported(fields: dict[str, object], text: str) -> None:
    out = io.BytesIO()
    asked = line(policy="link-affinity", size=1, **fields).encode()
    assert not answer_lines([asked], out)
    assert json.loads(out.getvalue())["error"].startswith(text)


def test_a_closed_pipe_ends_the_batch_without_a_traceback() -> None:
    asked = line(policy="bandwidth", bandwidth=[[0]], size=1).encode() * 20_000
    with subprocess.Popen(
        [sys.executable, "-m", "linkwise", "pick", "--batch", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as run:
        assert run.stdin
        assert run.stdout
        assert run.stderr
        run.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            run.stdin.write(asked)
            run.stdin.close()
        assert run.stderr.read() == b""


def test_each_answer_is_written_before_the_next_request_is_read() -> None:
    asked = line(policy="bandwidth", bandwidth=[[0]], size=1).encode()
    command = [sys.executable, "-m", "linkwise", "pick", "--batch", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as run:
        assert run.stdin
        assert run.stdout
        for _ in range(2):
            run.stdin.write(asked)
            run.stdin.flush()
            assert json.loads(run.stdout.readline())["devices"] == [0]
        run.stdin.close()
    assert run.returncode == 0
