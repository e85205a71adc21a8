"""Tables as the service sends them: what is read is what was written."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from linkwise.errors import InputError
from linkwise.views.table import KINDS, Cell, Row, Section, Selection, decode_section, encode_section, parse_query

TEXTS = st.text(max_size=6)


def sections() -> st.SearchStrategy[Section]:
    """Sections whose rows have the same columns."""

    def rows(columns: list[tuple[str, bool, bool]]) -> st.SearchStrategy[list[Row]]:
        cells = st.tuples(
            *(
                st.builds(Cell, TEXTS, TEXTS, st.just(wide), st.none() | TEXTS, st.just(volatile))
                for _, wide, volatile in columns
            )
        )
        names = [name for name, _, _ in columns]
        row = st.builds(
            lambda name, found, space: Row(name, dict(zip(names, found, strict=True)), lambda: {"name": name}, space),
            TEXTS,
            cells,
            TEXTS,
        )
        return st.lists(row, max_size=3)

    columns = st.lists(st.tuples(TEXTS, st.booleans(), st.booleans()), min_size=1, unique_by=lambda one: one[0])
    return columns.flatmap(
        lambda chosen: st.builds(
            lambda found, alone, notes: Section("Pod", tuple(found), alone, "no pods", tuple(notes)),
            rows(chosen),
            st.booleans(),
            st.lists(TEXTS),
        )
    )


@given(sections())
def test_a_section_is_read_as_it_was_written(section: Section) -> None:
    again = decode_section(encode_section(section, documents=True))
    assert [(row.name, row.cells, row.namespace, row.document()) for row in again.rows] == [
        (row.name, row.cells, row.namespace, row.document()) for row in section.rows
    ]
    assert (again.kind, again.alone, again.empty, again.notes) == (
        section.kind,
        section.alone,
        section.empty,
        section.notes,
    )


def test_columns_of_wide_output_and_documents_are_sent_only_if_they_are_wanted() -> None:
    row = Row("pod/p", {"name": Cell("p"), "uid": Cell("u", wide=True)}, lambda: {"uid": "u"})
    narrow = encode_section(Section("Pod", (row,)), wide=False)
    assert [column["name"] for column in narrow["columns"]] == ["name"]
    assert narrow["rows"] == [{"name": "pod/p", "cells": ["p"]}]


@given(
    st.builds(
        Selection,
        st.sampled_from(sorted(KINDS)),
        st.lists(st.text(min_size=1, max_size=5)).map(tuple),
        st.none() | st.text(min_size=1, max_size=5),
        st.sampled_from(["", "app=web", "app in (a,b),tier!=test"]),
        st.sampled_from(["", "memory", "utilization"]),
    )
)
def test_a_selection_is_read_as_it_was_written(selection: Selection) -> None:
    assert parse_query(selection.kind, selection.query()) == selection


@pytest.mark.parametrize(
    ("kind", "query", "message"),
    [
        ("secret", "", "unknown table 'secret'"),
        ("pod", "labelSelector=a%20in%20(", "in"),
        ("node-usage", "sortBy=name", "sortBy=name: use memory or utilization"),
    ],
)
def test_an_invalid_query_names_what_is_wrong(kind: str, query: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_query(kind, query)
