"""A broker restored from a snapshot answers as the one that the snapshot was taken of."""

from __future__ import annotations

from hypothesis import given, settings

from linkwise.broker.broker import Broker
from linkwise.broker.snapshot import BrokerState
from linkwise.wire.snapshot import decode_snapshot, encode_snapshot
from support.profile import examples
from support.properties.broker_calls import Call, Caller, calls

START = [Call("node", 0, number, 0) for number in range(6)]


def driven(before: list[Call]) -> Caller:
    caller = Caller(Broker())
    for call in (*START, *before):
        caller.make(call)
    return caller


@given(calls(), calls())
@settings(max_examples=examples(150), deadline=None)
def test_a_restored_broker_answers_as_the_first_one_would(before: list[Call], after: list[Call]) -> None:
    first = driven(before)
    taken = encode_snapshot(first.broker.snapshot(first.now))
    second = first.beside(Broker.restore(decode_snapshot(taken, BrokerState)))
    assert encode_snapshot(second.broker.snapshot(first.now)) == taken
    for call in after:
        assert repr(first.make(call)) == repr(second.make(call)), call
    found, expected = (caller.broker.snapshot(caller.now) for caller in (second, first))
    assert encode_snapshot(found) == encode_snapshot(expected)


@given(calls())
@settings(max_examples=examples(50), deadline=None)
def test_taking_a_snapshot_changes_nothing(before: list[Call]) -> None:
    first, second = driven(before), driven(before)
    first.broker.snapshot(first.now)
    assert encode_snapshot(first.broker.snapshot(first.now)) == encode_snapshot(second.broker.snapshot(second.now))
    assert repr(first.broker.step(first.now)) == repr(second.broker.step(second.now))


def test_a_group_whose_parts_only_some_nodes_serve_is_planned() -> None:
    before = [Call("pod", 12, 3, 4), Call("members", 0, 4, 5)]
    first, second = driven(before), driven(before)
    assert repr(first.broker.step(first.now)) == repr(second.broker.step(second.now))
