"""Links lead somewhere, every page can be found, and pages speak to readers only."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
FRONT: Final = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
PAGES: Final = [*FRONT, *sorted(page.relative_to(ROOT).as_posix() for page in ROOT.glob("docs/**/*.md"))]
FENCED: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
INLINE_CODE: Final = re.compile(r"`[^`\n]*`")
LINK: Final = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
UPWARD: Final = re.compile(r"(?<!\.)(?:\.\./)+[\w./-]*")
HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)

# What makes sense to the authors of a page and not to its readers.
OUT_OF_PLACE: Final = {
    "a path on somebody's computer": re.compile(r"(?<![\w.])/(?:home|root|tmp|work|Users)/"),
    "a note that is not in the repository": re.compile(r"\bcontracts/"),
    "how the work was organised": re.compile(r"\bsessions?\b|\bpart (?:1|one)\b", re.IGNORECASE),
}
RIGHTLY_CALLED_SO: Final = re.compile(r"003\.in-session|Volcano session")


def text_of(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


def targets(page: str) -> list[str]:
    """Where the page's links and pictures point, those inside the repository."""
    prose = FENCED.sub("", text_of(page))
    found = LINK.findall(INLINE_CODE.sub("code", prose))
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def file_of(page: str, target: str) -> Path:
    path = target.partition("#")[0]
    return ((ROOT / page).parent / path).resolve() if path else ROOT / page


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings get."""
    headings = HEADING.findall(FENCED.sub("", page.read_text("utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_and_pictures_lead_to_files(page: str) -> None:
    assert [target for target in targets(page) if not file_of(page, target).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_paths_stay_in_the_repository(page: str) -> None:
    upward = {path: file_of(page, path) for path in UPWARD.findall(text_of(page))}
    assert [path for path, file in upward.items() if not (file.exists() and file.is_relative_to(ROOT))] == []


@pytest.mark.parametrize("page", PAGES)
def test_links_into_a_page_lead_to_a_heading(page: str) -> None:
    inside = [(file_of(page, target), target.partition("#")[2]) for target in targets(page) if "#" in target]
    assert [(file.name, anchor) for file, anchor in inside if anchor not in anchors(file)] == []


def test_every_page_is_reachable_from_the_map() -> None:
    reached, waiting = set[Path](), [ROOT / "docs" / "index.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached and page.suffix == ".md" and page.exists():
            reached.add(page)
            name = page.relative_to(ROOT).as_posix()
            waiting += [file_of(name, target) for target in targets(name)]
    assert [page for page in PAGES if ROOT / page not in reached] == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_speaks_to_its_readers_only(page: str) -> None:
    text = RIGHTLY_CALLED_SO.sub("", text_of(page))
    found = {what: pattern.search(text) for what, pattern in OUT_OF_PLACE.items()}
    assert {what: match[0] for what, match in found.items() if match} == {}
