"""Every example of the documentation is run, and prints what the page says."""

from __future__ import annotations

from doctest import DocTestParser, DocTestRunner
from pathlib import Path
from typing import Final

import pytest

from support.doc_examples import Shell, blocks, examples, pages

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = {page.relative_to(ROOT).as_posix(): page.read_text("utf-8") for page in pages(ROOT)}


def _pages_with(language: str) -> list[str]:
    return [page for page, text in PAGES.items() if any(block.language == language for block in blocks(text))]


@pytest.mark.parametrize("page", _pages_with("console"))
def test_commands_print_what_the_page_says(page: str, tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    for block in blocks(PAGES[page]):
        shell.place(block)
        if block.language == "console":
            for example in examples(block.text):
                assert shell.run(example.command) == example.output, f"$ {example.command}"


@pytest.mark.parametrize("page", _pages_with("console"))
def test_a_console_block_begins_with_a_command(page: str) -> None:
    texts = [block.text for block in blocks(PAGES[page]) if block.language == "console"]
    assert [text for text in texts if not text.startswith("$ ")] == []


@pytest.mark.parametrize("page", _pages_with("python"))
def test_python_on_the_page_runs_and_answers_as_shown(page: str, tmp_path: Path) -> None:
    shell, parser, said = Shell(tmp_path), DocTestParser(), list[str]()
    for number, block in enumerate(found for found in blocks(PAGES[page]) if found.language == "python"):
        if block.file.startswith("tests/"):  # runs where the plug-in is installed: support/plugin_page.py
            continue
        if ">>> " in block.text:
            example = parser.get_doctest(block.text, {}, f"{page} block {number}", page, 0)
            DocTestRunner(verbose=False).run(example, out=said.append)
        else:
            printed = shell.run_python(block.text)
            assert shell.code == 0, printed
    assert "".join(said) == ""
