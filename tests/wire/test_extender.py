"""What kube-scheduler's extender calls carry."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from linkwise.errors import InputError
from linkwise.speed.uniform_mapping import UniformMapping
from linkwise.wire.decoding import MOST_VALUES
from linkwise.wire.extender import (
    MOST_OBJECT,
    MOST_VICTIMS,
    ExtenderBindingResult,
    FilterResult,
    HostPriority,
    PreemptResult,
    decode_bind,
    decode_filter,
    decode_preempt,
    encode,
    filter_result,
)
from linkwise.wire.kubernetes.objects import view_of

POD = {"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "spec": {"containers": [{"name": "main"}]}}


def body(**fields: object) -> bytes:
    return json.dumps({"Pod": POD, **fields}).encode()


def test_names_are_read_in_their_order() -> None:
    args = decode_filter(body(Nodes=None, NodeNames=["b", "a"]))
    assert (args.names(), view_of(args.pod).uid) == (["b", "a"], "u")


def test_whole_nodes_are_read_by_name() -> None:
    args = decode_filter(body(Nodes={"items": [{"metadata": {"name": "b"}, "status": {}}]}, NodeNames=None))
    assert args.names() == ["b"]


def test_a_call_without_nodes_is_refused_and_one_without_any_of_them_is_not() -> None:
    with pytest.raises(InputError, match="neither NodeNames nor Nodes"):
        decode_filter(body()).names()
    assert decode_filter(body(NodeNames=[])).names() == []


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"NodeNames": []}', b'{"Pod": 3}', b"\xff", b"[" * 100_000])
def test_a_broken_call_is_refused_with_words(raw: bytes) -> None:
    with pytest.raises(InputError):
        decode_filter(raw)


@pytest.mark.parametrize("kind", ["NodeNameToMetaVictims", "NodeNameToVictims"])
@pytest.mark.parametrize("victims", ['"n%d":{}', '"n":{"Pods":[%s]}'], ids=["nodes", "pods"])
def test_a_call_with_more_victims_than_any_cluster_has_pods_is_not_decoded(kind: str, victims: str) -> None:
    count = MOST_VICTIMS + 2
    many = (
        victims % ",".join(["{}"] * count) if "%s" in victims else ",".join(victims % number for number in range(count))
    )
    with pytest.raises(InputError, match="more than 500000 values"):
        decode_preempt(f'{{"Pod":{{}},"{kind}":{{{many}}},"NotRead":3'.encode())  # not even valid JSON


def test_a_call_with_more_values_than_whole_nodes_have_is_not_decoded() -> None:
    with pytest.raises(InputError, match="more than 3000000 values"):
        decode_filter(b'{"Pod":{},"Nodes":{"items":[' + b"{}," * (MOST_VALUES + 1) + b"3")


@pytest.mark.parametrize("where", ["Pod", "Nodes"])
def test_a_pod_or_node_that_no_api_server_would_accept_is_not_decoded(where: str) -> None:
    large = {"metadata": {"name": "n", "annotations": {"a": "x" * MOST_OBJECT}}, "status": 3}
    call = {"Pod": large, "Nodes": {"items": []}} if where == "Pod" else {"Pod": {}, "Nodes": {"items": [large]}}
    with pytest.raises(InputError, match=f"{where}.*: an object of 4194\\d+ bytes; the limit is 4194304"):
        decode_filter(json.dumps(call).encode()).names()


def test_a_field_of_a_pod_is_named_with_its_place_in_the_call() -> None:
    with pytest.raises(InputError, match=r"Pod\.metadata\.name: expected text, got a whole number"):
        decode_filter(b'{"Pod":{"metadata":{"name":3}},"NodeNames":["a"]}')


def test_a_reply_always_has_names_so_that_none_is_not_an_error() -> None:
    assert json.loads(encode(filter_result([], {}, {}))) == {"NodeNames": []}


@given(st.lists(st.text(max_size=5), unique=True), st.text(max_size=8))
def test_one_text_for_all_is_written_like_any_mapping(names: list[str], text: str) -> None:
    alike = json.loads(encode(filter_result([], UniformMapping(names, text), UniformMapping(names, text))))
    plain = json.loads(encode(filter_result([], dict.fromkeys(names, text), dict.fromkeys(names, text))))
    assert alike == plain


@given(st.lists(st.from_regex(r"[A-Za-z0-9._-]+", fullmatch=True), unique=True), st.text(max_size=8))
def test_one_text_for_names_of_nodes_is_written_like_any_mapping(names: list[str], text: str) -> None:
    alike = encode(filter_result([], UniformMapping(names, text, plain=True), {}))
    assert json.loads(alike) == json.loads(encode(filter_result([], dict.fromkeys(names, text), {})))


def test_scores_are_whole_numbers_under_the_names_that_go_reads() -> None:
    assert encode([HostPriority("a", 7)]) == b'[{"Host":"a","Score":7}]'


def test_a_bind_names_the_pod_by_uid() -> None:
    args = decode_bind(b'{"PodName":"p","PodNamespace":"default","PodUID":"u","Node":"a"}')
    assert (args.pod_uid, args.node, encode(ExtenderBindingResult())) == ("u", "a", b"{}")


def test_victims_are_read_by_uid_or_as_whole_pods() -> None:
    meta = decode_preempt(body(NodeNameToMetaVictims={"a": {"Pods": [{"UID": "v"}], "NumPDBViolations": 1}}))
    whole = decode_preempt(body(NodeNameToVictims={"a": {"Pods": [{"metadata": {"uid": "v"}}], "NumPDBViolations": 1}}))
    written = encode(PreemptResult(meta.victims()))
    assert written == encode(PreemptResult(whole.victims()))
    assert json.loads(written)["NodeNameToMetaVictims"]["a"] == {"Pods": [{"UID": "v"}], "NumPDBViolations": 1}


@given(st.text(alphabet="a0 %d{}é", max_size=20))
def test_no_text_of_an_answer_has_a_percent_sign_which_kube_scheduler_takes_for_a_format(text: str) -> None:
    names = ["n1", "n2"]
    answers = (
        filter_result([], dict.fromkeys(names, text), UniformMapping(names, text, plain=True)),
        FilterResult([], error=text),
        ExtenderBindingResult(text),
        filter_result([], UniformMapping(names, text), {}),
    )
    assert not any(b"%" in encode(answer) for answer in answers)
    assert "%" in text or json.loads(encode(answers[0])).get("FailedNodes") == dict.fromkeys(names, text)


def test_a_percentage_is_written_out() -> None:
    assert (
        ExtenderBindingResult("60% of compute, 50 % of memory").error == "60 percent of compute, 50 percent of memory"
    )
