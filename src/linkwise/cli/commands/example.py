"""`linkwise example`: small manifests to try, one for each way to ask for devices."""

from __future__ import annotations

import click

_EPILOG = """\b
Examples:
  linkwise example                                      # what there is
  linkwise example link-pair                            # one of them
  linkwise example link-pair | linkwise apply -f -      # to $KUBECONFIG
  linkwise example group | kubectl apply -f -

They work as they are on the cluster of `linkwise up`.
"""


@click.command("example", epilog=_EPILOG)
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """Print the example NAME, or list the examples.

    The manifests are ordinary ones: each asks for devices in the words of one of the systems that Linkwise reads.
    """
    from linkwise.cli.examples import example, examples  # noqa: PLC0415 - as all commands do

    if name:
        click.echo(example(name), nl=False)
        return
    from rich.console import Console  # noqa: PLC0415 - slow to import
    from rich.table import Table  # noqa: PLC0415 - same

    rows = Table.grid(padding=(0, 2))
    rows.add_column(no_wrap=True)
    rows.add_column()
    for one, summary in examples().items():
        rows.add_row(one, summary)
    Console(highlight=False, markup=False).print(rows)
