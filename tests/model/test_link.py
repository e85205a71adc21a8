from __future__ import annotations

import pytest

from linkwise import Link, Pcie, TopologyError


@pytest.mark.rule("000.links")
@pytest.mark.parametrize(
    ("text", "link"),
    [
        ("NV2", Link(2)),
        ("NV18", Link(18)),
        ("PIX", Link(0, Pcie.PIX)),
        ("SOC", Link(0, Pcie.SYS)),
        ("nv12+pxb", Link(12, Pcie.PXB)),
        (" SYS ", Link(0, Pcie.SYS)),
        ("?", Link()),
    ],
)
def test_a_cell_is_read_as_the_tool_prints_it(text: str, link: Link) -> None:
    assert Link.parse(text) == link


@pytest.mark.rule("000.links")
def test_link_kinds_order_from_slow_to_fast() -> None:
    kinds = ["SYS", "NODE", "PHB", "PXB", "PIX", "NV1", "NV2", "NV4", "NV18"]
    assert sorted(map(Link.parse, reversed(kinds))) == list(map(Link.parse, kinds))


@pytest.mark.parametrize("text", ["", "NV", "NVL2", "PHB+", "X", "1", "NV-1", "NV9999"])
def test_an_unknown_kind_is_refused_by_name(text: str) -> None:
    with pytest.raises(TopologyError, match="not a kind we know"):
        Link.parse(text)


def test_a_link_is_written_as_it_is_read() -> None:
    for text in ("NV2", "NV2+PHB", "SYS", "?"):
        assert str(Link.parse(text)) == text


def test_only_nvlinks_can_hide_the_pcie_path() -> None:
    assert Link.parse("NV2").half_known
    assert not Link.parse("NV2+SYS").half_known
    assert not Link.parse("?").half_known
