"""What the page on sharing must not leave open."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from linkwise.model.device import Device
from linkwise.model.verdict import Part
from linkwise.vendors.container_needs import NO_ISOLATION, Isolation, container_needs

if TYPE_CHECKING:
    from linkwise.vendors.container_needs import IsolationProvider

ROOT: Final = Path(__file__).resolve().parents[2]
PART: Final = Part("serve", ("GPU-aaaa",), share=4096)
DEVICE: Final = Device("GPU-aaaa", 0, minor=0)


class Fence:
    def limit(self, part: Part) -> Isolation:
        return Isolation((("FENCE_MEMORY", str(part.share)),))


def sentences() -> str:
    """The section on isolation, as one line."""
    page = (ROOT / "docs" / "explanation" / "sharing.md").read_text("utf-8")
    return " ".join(page.partition("\n## Sharing is not isolation\n")[2].partition("\n## ")[0].split())


@pytest.mark.rule("004.not-isolated")
@pytest.mark.parametrize(
    "sentence",
    [
        "Sharing is not isolation.",
        "It does not stop a program from using more memory or more compute than its pod requested",
        "There is no provider today",
    ],
)
def test_the_page_says_that_sharing_is_not_isolation(sentence: str) -> None:
    assert sentence in sentences()


@pytest.mark.rule("004.not-isolated")
def test_the_provider_that_is_used_adds_nothing() -> None:
    assert NO_ISOLATION.limit(PART) == Isolation()
    assert container_needs("nvidia", [DEVICE], PART) == container_needs("nvidia", [DEVICE])


@pytest.mark.rule("004.not-isolated")
def test_a_provider_can_be_hooked_in() -> None:
    provider: IsolationProvider = Fence()
    assert ("FENCE_MEMORY", "4096") in container_needs("nvidia", [DEVICE], PART, provider).environment
