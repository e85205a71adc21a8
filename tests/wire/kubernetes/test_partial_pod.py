"""What is left of a pod that can't be read as a whole, and lines out of pieces."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from linkwise.errors import InputError
from linkwise.wire.kubernetes.objects import decode_pod, salvaged_pod
from linkwise.wire.kubernetes.watch_stream import Lines, status_of

GRANT = {"linkwise.dev/grant": "{}"}


def pod(**parts: Any) -> bytes:  # noqa: ANN401 - JSON
    meta = {"name": "p", "namespace": "team", "uid": "u1", "annotations": GRANT} | parts.pop("metadata", {})
    spec = {"nodeName": "n1", "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 2}}}]}
    return json.dumps({"metadata": meta, "spec": spec | parts.pop("spec", {}), "status": parts}).encode()


@pytest.mark.parametrize(
    "broken",
    [
        pod(spec={"tolerations": 7}),
        pod(spec={"initContainers": "none"}),
        pod(metadata={"creationTimestamp": "yesterday"}),
        pod(metadata={"labels": {"a": 7}}),
        pod(phase=7),
    ],
)
def test_a_bound_pod_keeps_its_node_its_record_and_its_amounts(broken: bytes) -> None:
    with pytest.raises(InputError):
        decode_pod(broken)
    view = salvaged_pod(broken)
    assert view
    assert (view.uid, view.node, view.annotations) == ("u1", "n1", GRANT)
    assert view.containers[-1].limits == {"nvidia.com/gpu": "2"}


def test_an_amount_that_is_none_is_left_for_the_dialect_to_report() -> None:
    view = salvaged_pod(pod(spec={"containers": [{"resources": {"limits": {"nvidia.com/gpu": [1]}}}]}))
    assert view
    assert view.containers[0].limits == {"nvidia.com/gpu": "[1]"}


def test_it_does_not_count_as_being_deleted_and_counts_as_begun() -> None:
    view = salvaged_pod(pod(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}, phase=7))
    assert view
    assert (view.deleting, view.begun) == (False, True)


@pytest.mark.parametrize("broken", [b"{", b"7", pod(spec={"nodeName": ""}), pod(metadata={"uid": 7})])
def test_what_is_not_bound_or_has_no_uid_is_left_out(broken: bytes) -> None:
    assert salvaged_pod(broken) is None


@given(st.lists(st.binary(min_size=1).filter(lambda line: b"\n" not in line)), st.integers(1, 7))
def test_lines_are_the_same_however_they_are_cut(lines: list[bytes], size: int) -> None:
    whole, reader = b"".join(line + b"\n" for line in lines), Lines()
    pieces = [whole[start : start + size] for start in range(0, len(whole), size)]
    assert [line for piece in pieces for line in reader.feed(piece)] == lines


def test_an_answer_that_is_not_a_status_is_reported_by_its_beginning() -> None:
    assert status_of(b"<html>bad gateway</html>").message == "<html>bad gateway</html>"
