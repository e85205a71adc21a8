"""Configuration of Sphinx: the pages are plain Markdown, and the navigation is made of the lists in index pages.

`make site` builds it. The source directory is the repository, so that README.md, CONTRIBUTING.md and CHANGELOG.md are
pages of the site and links to them are checked as well.
"""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import TYPE_CHECKING, Final

import linkwise

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "Linkwise"
author = "the Linkwise authors"
release = version = linkwise.__version__
language = "en"

extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/*.md", "docs/**/*.md", "examples/plugin/README.md", "deploy/chart/README.md"]
exclude_patterns = [".*", "bench", "deploy/chart/README.template.md", "dist", "scripts", "src", "tests"]

nitpicky = True
smartquotes = False  # `--flag` in prose is not a dash
show_warning_types = True
suppress_warnings = ["misc.highlighting_failure"]  # excerpts and placeholders are not always valid in their language
myst_enable_extensions: list[str] = []  # what a Git host does not render is not used
myst_heading_anchors = 4

highlight_language = "text"
html_theme = "furo"
html_title = "Linkwise"
html_static_path = ["site"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_additional_pages = {"index": "redirect.html"}
templates_path = ["site"]
html_use_index = False

SECTION: Final = re.compile(r"^## (?P<title>.+)$", re.MULTILINE)
ITEM: Final = re.compile(r"^(?:- |\d+\. |  )\S.*$", re.MULTILINE)
LINK: Final = re.compile(r"\[[^\]]*\]\((?P<page>[^)#\s]+\.md)\)")


def add_navigation(_: Sphinx, name: str, text: list[str]) -> None:
    """Append a hidden table of contents per section of an index page; each list item is an entry.

    A directive in the page itself would be shown as code by a Git host, and would repeat the list.
    """
    if name.rpartition("/")[2] == "index":
        text[0] += "".join(_contents(name, text[0]))


def _contents(name: str, text: str) -> list[str]:
    introduction, *sections = SECTION.split(text)
    titled = list(zip(sections[::2], sections[1::2], strict=True)) or [("", introduction)]
    entries = {title: _entries(name, body) for title, body in titled}
    return [_directive(title, pages) for title, pages in entries.items() if pages]


def _entries(name: str, body: str) -> list[str]:
    links = [link for item in ITEM.findall(body) for link in LINK.findall(item)]
    pages = [normpath(join(dirname(name), link)).removesuffix(".md") for link in links]
    return list(dict.fromkeys(page for page in pages if (Path(__file__).parents[1] / f"{page}.md").is_file()))


def _directive(title: str, pages: list[str]) -> str:
    caption = [f":caption: {title}"] if title else []
    return "\n".join(["", "", "```{toctree}", ":hidden:", *caption, "", *(f"/{page}" for page in pages), "```"])


def setup(app: Sphinx) -> None:
    """Register the extension."""
    app.connect("source-read", add_navigation)
