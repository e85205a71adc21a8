from __future__ import annotations

import pytest

from linkwise import Link, Pcie, TopologyError


@pytest.mark.rule("000.links")
@pytest.mark.parametrize(
    ("text", "link"),
    [
        ("NV2", ("NV2", 2, Pcie.UNKNOWN)),
        ("NV18", ("NV18", 18, Pcie.UNKNOWN)),
        ("PIX", ("PIX", 0, Pcie.PIX)),
        ("SOC", ("SYS", 0, Pcie.SYS)),
        ("nv12+pxb", ("NV12+PXB", 12, Pcie.PXB)),
        (" SYS ", ("SYS", 0, Pcie.SYS)),
        ("HCCS", ("HCCS", 1, Pcie.UNKNOWN)),
        ("xgmi", ("XGMI", 1, Pcie.UNKNOWN)),
        ("?", ("?", 0, Pcie.UNKNOWN)),
    ],
)
def test_a_cell_is_read_as_the_tool_prints_it(text: str, link: tuple[str, int, Pcie]) -> None:
    found = Link.parse(text)
    assert (str(found), found.direct, found.pcie) == link


def test_a_link_is_its_text_and_can_not_be_changed() -> None:
    assert Link("NV2") == "NV2"
    assert hash(Link("NV2")) == hash("NV2")
    with pytest.raises(AttributeError):
        Link("NV2").direct = 3


def test_an_unknown_code_of_a_tool_is_kept_as_text_and_scores_nothing() -> None:
    strange = Link("NVX9")
    assert (str(strange), strange.direct, strange.pcie) == ("NVX9", 0, Pcie.UNKNOWN)
    assert strange < Link("SYS")


def test_links_of_one_text_and_two_meanings_differ() -> None:
    near, far = Link("PCIE", pcie=Pcie.PHB), Link("PCIE", pcie=Pcie.SYS)
    assert near == "PCIE" == far
    assert near != far
    assert near > far


@pytest.mark.rule("000.links")
def test_link_kinds_order_from_slow_to_fast() -> None:
    kinds = ["SYS", "NODE", "PHB", "PXB", "PIX", "NV1", "NV2", "NV4", "NV18"]
    assert sorted(map(Link.parse, reversed(kinds))) == list(map(Link.parse, kinds))


@pytest.mark.parametrize(
    "text", ["", "NV", "NVL2", "PHB+", "X", "1", "NV-1", "NV9999", "SYS+PIX", "NV2+NV3", "NV0", "PHB+NV2"]
)
def test_an_unknown_kind_is_refused_by_name(text: str) -> None:
    with pytest.raises(TopologyError, match="is unknown; use NV1"):
        Link.parse(text)


def test_a_link_is_written_as_it_is_read() -> None:
    for text in ("NV2", "NV2+PHB", "SYS", "?"):
        assert str(Link.parse(text)) == text


def test_only_nvlinks_can_hide_the_pcie_path() -> None:
    assert Link.parse("NV2").half_known
    assert not Link.parse("NV2+SYS").half_known
    assert not Link.parse("?").half_known
