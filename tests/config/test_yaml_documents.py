"""YAML with comments reads back as what was written."""

from __future__ import annotations

import yaml
from hypothesis import given, strategies as st

from linkwise.config.yaml_documents import yaml_with_comments

text = st.text(max_size=12) | st.sampled_from(
    ["", "# no comment", "a: b", "- x", "yes", "1:30", "null", "line\nline", "\u2028"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(text, values, max_size=4))
def test_whatever_is_written_is_read_back(document: dict[str, object]) -> None:
    first = next(iter(document), "")
    notes = {str(first): "why", f"{first}[0]": "why so", f"{first}[0].a": "and why", f"{first}[0][0]": "again"}
    assert (yaml.safe_load(yaml_with_comments(document, notes, "head")) or {}) == document


def test_comments_stand_before_what_they_name() -> None:
    document = {"a": [{"name": "x", "args": {"b": 1}}, {"name": "y", "weight": 2}]}
    notes = {"a[0].name": "the first", "a[0].args.b": "a part", "a[1]": "the second"}
    assert yaml_with_comments(document, notes, "All of it.\nReally.") == (
        "# All of it.\n# Really.\na:\n"
        "  # the first\n  - name: x\n    args:\n      # a part\n      b: 1\n"
        "  # the second\n  - {name: y, weight: 2}\n"
    )


def test_long_comments_are_wrapped_within_their_indent() -> None:
    lines = yaml_with_comments({"a": {"b": 1}}, {"a.b": "word " * 60}).splitlines()
    comments = [line for line in lines if "#" in line]
    assert len(comments) > 2
    assert all(line.startswith("  # ") and len(line) <= 100 for line in comments)
