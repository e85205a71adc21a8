"""Node names that are searched in the JSON, compared with the decoded ones."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from linkwise.errors import InputError
from linkwise.wire.extender import SHORT, NodeNames, decode_filter, is_searchable

FILLER = [f"filler-{number}" for number in range(SHORT // 8)]
SIGNS = st.text(st.sampled_from('ab,"\\ []{}:1'), max_size=4) | st.text(max_size=3)


@given(st.lists(SIGNS, max_size=6), st.lists(SIGNS, max_size=6), st.sampled_from([",", ", ", " ,\n"]))
def test_a_name_is_among_the_names_exactly_if_the_decoded_list_has_it(
    names: list[str], others: list[str], separator: str
) -> None:
    text = json.dumps(FILLER + names, separators=(separator, ":"), ensure_ascii=False).encode()
    if not is_searchable(text):
        return
    for name in (*names, *others, "filler-7", "filler-", ",", ", ", separator, 'a","b', 'filler-1","filler-2'):
        assert (name in NodeNames(text)) == (name in FILLER + names)
    assert list(NodeNames(text)) == FILLER + names


def test_names_of_kubernetes_are_searched_and_everything_unusual_is_decoded() -> None:
    assert is_searchable(json.dumps(FILLER, separators=(",", ":")).encode())
    for unusual in (
        ["n"],
        [*FILLER, "a\\b"],
        [*FILLER, {}],
        [*FILLER, []],
        [*FILLER, "ä"],
        [1, *FILLER],
        {"a": FILLER},
    ):
        assert not is_searchable(json.dumps(unusual, separators=(",", ":"), ensure_ascii=False).encode())


def test_elements_that_are_not_strings_name_no_node() -> None:
    names = NodeNames(json.dumps([*FILLER, 1, None, "last"], separators=(",", ":")).encode())
    assert "last" in names
    assert "1" not in names
    assert (len(names), names[-1], names[:1]) == (len(FILLER) + 1, "last", FILLER[:1])


def test_an_invalid_name_is_reported_with_its_place() -> None:
    with pytest.raises(InputError, match=r"NodeNames.*1"):
        decode_filter(b'{"Pod": {}, "NodeNames": ["a", 1]}').names()
