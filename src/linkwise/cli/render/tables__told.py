"""Labelled sentences, one below the other, as a person reads the answer to a question."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from linkwise.wire.pick_batch import Refused, encode_answer

if TYPE_CHECKING:
    from rich.console import Console

    from linkwise.wire.pick_batch import Answer

__all__ = ["Told", "print_json", "tell_refusal"]


class Told:
    """Rows of a label and a sentence."""

    def __init__(self) -> None:
        self.rows = Table.grid(padding=(0, 1))
        self.rows.add_column(no_wrap=True, width=9)
        self.rows.add_column()

    def add(self, label: str, sentence: str, style: str = "") -> None:
        """One more; the style is the label's."""
        self.rows.add_row(Text(label, style), Text(sentence))


def print_json(answer: Answer) -> bool:
    """The answer as one line of JSON; whether something was chosen."""
    sys.stdout.write(encode_answer(answer).decode() + "\n")
    return not isinstance(answer, Refused)


def tell_refusal(console: Console, sentence: str) -> bool:
    """A refusal, and that nothing was chosen."""
    told = Told()
    told.add("refused", sentence, "bold red")
    console.print(told.rows)
    return False
