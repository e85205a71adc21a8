"""`linkwise annotate`: sets and removes annotations of objects of any kind."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from linkwise.cli.options.cluster import cluster_flags, namespace_flag
from linkwise.cli.options.kinds import complete_served, targets_of
from linkwise.engine.selectors import label_requirements
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

EXIT_REFUSED: Final = 1
MAX_NAME: Final = 63
MAX_PREFIX: Final = 253

_EPILOG: Final = """\b
Examples:
  linkwise annotate node gpu-7 example.com/rack=r12
  linkwise annotate pod/train example.com/note="second try" --overwrite
  linkwise annotate node gpu-7 sim.linkwise.dev/dead=7    # in `linkwise up`
  linkwise annotate node gpu-7 sim.linkwise.dev/dead-     # repaired
  linkwise annotate nodes -l pool=training example.com/checked=yes

KEY=VALUE sets an annotation, KEY- removes it. An annotation with another value is changed only with --overwrite.

Exit codes: 0 all objects were annotated; 1 the cluster can't be reached, denies access, or an object was not found; 2
invalid arguments, or an annotation has another value.
"""


@click.command("annotate", epilog=_EPILOG)
@click.argument("what", nargs=-1, metavar="KIND NAME... KEY=VALUE... KEY-...", shell_complete=complete_served)
@namespace_flag
@click.option("-l", "--selector", default="", metavar="SELECTOR", help="Annotate the objects with these labels.")
@click.option("--all", "everything", is_flag=True, help="Annotate all objects of that kind in the namespace.")
@click.option("--overwrite", is_flag=True, help="Replace values of annotations that exist.")
@click.option("--dry-run", "dry", is_flag=True, help="Server-side dry run: check and change nothing.")
@cluster_flags
def command(  # noqa: PLR0913 - one per flag
    what: tuple[str, ...],
    namespace: str | None,
    selector: str,
    kubeconfig: Path | None,
    context: str | None,
    *,
    everything: bool,
    overwrite: bool,
    dry: bool,
) -> None:
    """Set or remove annotations of objects."""
    label_requirements(selector)
    words, changes = _split(what)
    targets = targets_of(words, selected=bool(selector) or everything)
    from linkwise.cli.reports.objects import annotate  # noqa: PLC0415 - imports the client

    success = annotate(
        *(targets, selector, changes, namespace),
        kubeconfig=kubeconfig,
        context=context,
        overwrite=overwrite,
        dry=dry,
    )
    if not success:
        sys.exit(EXIT_REFUSED)


def _split(arguments: Sequence[str]) -> tuple[list[str], dict[str, str | None]]:
    """Return the objects, and the annotations behind them: a value, or None to remove one."""
    first = next((place for place, word in enumerate(arguments) if place and _is_change(word)), len(arguments))
    changes: dict[str, str | None] = {}
    for word in arguments[first:]:
        key, equals, value = word.partition("=")
        if not _is_change(word):
            raise InputError(f"{word}: KEY=VALUE or KEY- required; objects come before annotations")
        key = key if equals else word.removesuffix("-")
        if key in changes:
            raise InputError(f"{key}: given twice")
        _check(key)
        changes[key] = value if equals else None
    if not changes:
        raise InputError("annotation required: KEY=VALUE, or KEY- to remove one")
    return list(arguments[:first]), changes


def _is_change(word: str) -> bool:
    return "=" in word or word.endswith("-")


def _check(key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    if not name or len(name) > MAX_NAME or len(prefix) > MAX_PREFIX or bool(slash) != bool(prefix) or "/" in prefix:
        raise InputError(f"{key!r} is not a valid key of an annotation: PREFIX/NAME or NAME, such as example.com/note")
