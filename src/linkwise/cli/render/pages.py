"""Prints pages: paragraphs of sentences, tables and matrices, with a blank line between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from linkwise.cli.render.matrix import Marks, pair_table
from linkwise.cli.render.tables import Table, print_sentences, print_table
from linkwise.views.blocks import Grid, Sentences

if TYPE_CHECKING:
    from rich.console import Console

    from linkwise.views.blocks import Page, Pairs, Spans

__all__ = ["print_page", "text_of"]


def print_page(console: Console, page: Page) -> None:
    """Print all paragraphs."""
    for place, paragraph in enumerate(page):
        if place:
            console.print()
        for block in paragraph:
            _print_block(console, block)


def _print_block(console: Console, block: Sentences | Grid | Pairs) -> None:
    if isinstance(block, Sentences):
        print_sentences(console, block.lines, block.indent, block.style)
    elif isinstance(block, Grid):
        table = Table(block.columns)
        for row in block.rows:
            table.add(*map(text_of, row))
        print_table(console, table)
    else:
        console.print(pair_table(block.forms, block.worth, Marks(block.chosen, block.available), console.width))


def text_of(spans: Spans) -> Text:
    """Return the parts of a text in their colours."""
    if len(spans) == 1:
        return Text(*spans[0])
    return Text.assemble(*spans)
